"""Zooming in by one of Pillow's six filters, a different one for every image: crops resized to the whole size.

A resize is a matrix on the rows and one on the columns. Between the two, values are rounded to whole levels, as in
Pillow; its weights are in fixed point, so that single pixels may differ by 1.
"""

# n images, c channels, h height, w width

import math

import torch
from torch import Tensor

FILTERS = ("lanczos", "bicubic", "bilinear", "box", "hamming", "nearest")
_REACH = (3.0, 2.0, 1.0, 0.5, 1.0, 0.0)  # how far each filter looks, in pixels of the crop


def zoom(images: Tensor, margin: Tensor, kind: Tensor) -> Tensor:
    """Without a share `margin` (n,) of its width and height on each side, resized by FILTERS[kind]: -> same shape."""
    height, width = images.shape[2:]
    rows, columns = (_matrix(margin, kind, length) for length in (height, width))
    wide = images.float() @ columns.transpose(1, 2)[:, None]
    tall = rows[:, None] @ _levels(wide)
    return _levels(tall).to(torch.uint8)


def _matrix(margin: Tensor, kind: Tensor, length: int) -> Tensor:
    """Which pixels of the line make up each pixel of the resized line: (n,), (n,) -> (n, length, length)."""
    start = (margin * length).round()[:, None, None]
    end = ((1 - margin) * length).round()[:, None, None]
    pixel = torch.arange(length, device=margin.device, dtype=torch.float64)
    centre = start + (pixel[:, None] + 0.5) * (end - start) / length  # (n, length, 1)
    weights = _weights(pixel + 0.5 - centre, kind[:, None, None])
    reach = torch.tensor(_REACH, dtype=torch.float64, device=margin.device)[kind][:, None, None]
    first, last = (centre - reach + 0.5).floor(), (centre + reach + 0.5).floor()
    weights = weights * ((pixel >= first.maximum(start)) & (pixel < last.minimum(end)))
    nearest = (pixel == centre.floor()).double()
    weights = torch.where(kind[:, None, None] == FILTERS.index("nearest"), nearest, weights)
    return (weights / weights.sum(2, keepdim=True)).float()


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
    return (values + 0.5).floor().clamp(0, 255)
