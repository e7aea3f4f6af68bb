"""Moving pixels: one nearest-neighbor gather for every affine motion, black beyond the border.

A motion is a row (a, b, c, d, e, f): the pixel at (x, y) comes from (a·x + b·y + c, d·x + e·y + f). Pillow computes
these in fixed point of 16 bits, from the pixels' centers; doing the same makes the results equal to the last bit.
"""

# n images, c channels, h height, w width

import torch
from torch import Tensor
from torch.nn import functional as F

_ONE = 1 << 16


def shear_x(amount: Tensor) -> Tensor:
    """Rows shifted in proportion to their height: (n,) -> (n, 6)."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return torch.stack([one, amount, zero, zero, one, zero], 1)


def shear_y(amount: Tensor) -> Tensor:
    """Columns shifted in proportion to their place: (n,) -> (n, 6)."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return torch.stack([one, zero, zero, amount, one, zero], 1)


def translate_x(pixels: Tensor) -> Tensor:
    """Moved to the left by `pixels`: (n,) -> (n, 6)."""
    one, zero = torch.ones_like(pixels), torch.zeros_like(pixels)
    return torch.stack([one, zero, pixels, zero, one, zero], 1)


def translate_y(pixels: Tensor) -> Tensor:
    """Moved up by `pixels`: (n,) -> (n, 6)."""
    one, zero = torch.ones_like(pixels), torch.zeros_like(pixels)
    return torch.stack([one, zero, zero, zero, one, pixels], 1)


def rotate(degrees: Tensor, height: int, width: int) -> Tensor:
    """Turned counter-clockwise around the middle: (n,) -> (n, 6)."""
    angle = torch.deg2rad(degrees.double())
    cosine, sine = angle.cos(), -angle.sin()
    x, y = width / 2, height / 2
    right = x - cosine * x - sine * y
    down = y + sine * x - cosine * y
    return torch.stack([cosine, sine, right, -sine, cosine, down], 1)


def warp(images: Tensor, motion: Tensor) -> Tensor:
    """The images moved: (n, c, h, w), (n, 6) float64 -> (n, c, h, w)."""
    n, c, height, width = images.shape
    a, b, _, d, e, _ = _fixed(motion).unbind(1)
    start = _fixed(motion[:, [2, 5]] + (motion[:, [0, 3]] + motion[:, [1, 4]]) / 2)
    right = torch.arange(width, dtype=torch.int32, device=images.device)
    down = torch.arange(height, dtype=torch.int32, device=images.device)
    x = _source(start[:, 0], a, b, right, down).clamp_(-1, width) + 1
    y = _source(start[:, 1], d, e, right, down).clamp_(-1, height) + 1
    # A black frame of one pixel around the image is all that lies outside: no masks are needed.
    framed = F.pad(images, (1, 1, 1, 1)).flatten(2)
    source = (y * (width + 2) + x).flatten(1).long()
    return framed.gather(2, source[:, None].expand(n, c, -1)).reshape(images.shape)


def _source(start: Tensor, right: Tensor, down: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    """Coordinates that each pixel comes from: (n,) each -> (n, h, w) whole numbers."""
    along = start[:, None] + right[:, None] * columns  # (n, w)
    return (along[:, None, :] + (down[:, None] * rows)[:, :, None]) >> 16


def _fixed(values: Tensor) -> Tensor:
    return (values.double() * _ONE + 0.5).floor().to(torch.int32)
