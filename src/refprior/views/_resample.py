"""Zooming in by one of Pillow's six filters, a different one for every image: crops resized to the whole size.

A resize is a matrix on the columns and one on the rows. Pillow has its weights in fixed point of 22 bits and rounds to
whole levels between the two; so does this, and gives the same bytes.
"""

# n images, c channels, h height, w width

import math

import torch
from torch import Tensor

_ONE = 1 << 22
FILTERS = ("lanczos", "bicubic", "bilinear", "box", "hamming", "nearest")
_REACH = (3.0, 2.0, 1.0, 0.5, 1.0, 0.0)  # how far each filter looks, in pixels of the crop


def zoom(images: Tensor, margin: Tensor, kind: Tensor) -> Tensor:
    """Without a share `margin` (n,) of its width and height on each side, resized by FILTERS[kind]: -> same shape."""
    height, width = images.shape[2:]
    columns = _matrix(margin, kind, width)
    rows = columns if height == width else _matrix(margin, kind, height)
    wide = _levels(images.double() @ columns.transpose(1, 2)[:, None])
    return _levels(rows[:, None] @ wide).to(torch.uint8)


def _matrix(margin: Tensor, kind: Tensor, length: int) -> Tensor:
    """How much of each pixel of a line goes into each of the resized line, in fixed point: -> (n, length, length)."""
    start = (margin * length).round()[:, None, None]
    end = ((1 - margin) * length).round()[:, None, None]
    pixel = torch.arange(length, device=margin.device, dtype=torch.float64)
    scale = (end - start) / length
    center = start + (pixel[:, None] + 0.5) * scale  # (n, length, 1)
    weights = _weights(pixel + 0.5 - center, kind[:, None, None])
    reach = torch.tensor(_REACH, dtype=torch.float64, device=margin.device)[kind][:, None, None]
    first, last = (center - reach + 0.5).floor(), (center + reach + 0.5).floor()
    weights = weights * ((pixel >= first.maximum(start)) & (pixel < last.minimum(end)))
    # Pillow adds up the step from pixel to pixel here, which decides where a center falls between two pixels.
    stepped = torch.cat([scale / 2, scale.expand(-1, length - 1, 1)], 1).cumsum(1)
    nearest = (pixel == start + stepped.floor()).double()
    weights = torch.where(kind[:, None, None] == FILTERS.index("nearest"), nearest, weights)
    fixed = weights / weights.sum(2, keepdim=True) * _ONE
    return (fixed.abs() + 0.5).floor().copysign(fixed)


def _weights(distance: Tensor, kind: Tensor) -> Tensor:
    """The filters at these distances: (n, h, w), (n, 1, 1) -> (n, h, w)."""
    x = distance.abs()
    cubic = torch.where(x < 1, (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2)
    hamming = torch.sinc(x) * (0.54 + 0.46 * torch.cos(math.pi * x))
    box = ((distance > -0.5) & (distance <= 0.5)).double()
    shapes = [torch.sinc(x) * torch.sinc(x / 3), cubic, 1 - x, box, hamming]
    chosen = torch.zeros_like(x)
    for index, shape in enumerate(shapes):
        chosen = torch.where(kind == index, shape, chosen)
    return chosen


def _levels(values: Tensor) -> Tensor:
    """From fixed point to whole levels; doubles hold these sums exactly."""
    return ((values + _ONE // 2) / _ONE).floor().clamp(0, 255)
