"""Pillow's operations, batched: (n, c, h, w) uint8 with a magnitude for every image -> the same shape.

Each is equal to Pillow's to the last bit, so that published augmentations are reproduced, and RandAugment is 8 times as
fast as with Pillow (benchmarks/views.py). The arithmetic follows Pillow's: `blend` works in single precision and cuts
off fractions.

A motion is a row (a, b, c, d, e, f): the pixel at (x, y) comes from (a·x + b·y + c, d·x + e·y + f), in fixed point of
16 bits from the pixels' centers. All motions of a batch are one nearest-neighbor gather. A zoom is a matrix on the
columns and one on the rows in fixed point of 22 bits, rounded to whole levels between the two.
"""

# n images, c channels (1 or 3), h height, w width

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_MOTION_ONE = 1 << 16
_FILTER_ONE = 1 << 22
FILTERS = ("lanczos", "bicubic", "bilinear", "box", "hamming", "nearest")
_REACH = (3.0, 2.0, 1.0, 0.5, 1.0, 0.0)  # how far each filter looks, in pixels of the crop
_RED, _GREEN, _BLUE = 19595, 38470, 7471  # Pillow's weights of luminance, in 1/65536


def blend(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """first + share·(second - first), share (n,); beyond 0 … 1 it extrapolates and clips."""
    start = first.float()
    mixed = start + share.to(torch.float32)[:, None, None, None] * (second.float() - start)
    return _bytes(mixed.clamp_(0, 255))


def gray(images: Tensor) -> Tensor:
    """Luminance: (n, c, h, w) -> (n, 1, h, w)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.int().unbind(1)
    return ((_RED * red + _GREEN * green + _BLUE * blue + 0x8000) >> 16).to(torch.uint8)[:, None]


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Toward black (0); 1 changes nothing."""
    return blend(torch.zeros_like(images), images, factor)


def color(images: Tensor, factor: Tensor) -> Tensor:
    """Toward gray (0); 1 changes nothing."""
    return blend(gray(images).expand_as(images), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Toward the image's mean luminance (0); 1 changes nothing."""
    mean = gray(images).flatten(1).sum(1, dtype=torch.int64).double() / images[0, 0].numel()
    level = (mean + 0.5).to(torch.uint8)[:, None, None, None]
    return blend(level.expand_as(images), images, factor)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Toward the smoothed image (0); 1 changes nothing."""
    return blend(smooth(images), images, factor)


def smooth(images: Tensor) -> Tensor:
    """Weights 1 around and 5 in the middle of 3×3, over 13; the border stays as it is."""
    wide = images.to(torch.int32)
    return _inside(images, _rounded(_box(wide, 3) + 4 * wide[:, :, 1:-1, 1:-1], 13), 1)


def blur(images: Tensor) -> Tensor:
    """The mean of the 16 pixels on the rim of 5×5; the border stays as it is."""
    wide = images.to(torch.int32)
    return _inside(images, _rounded(_box(wide, 5) - _box(wide, 3)[:, :, 1:-1, 1:-1], 16), 2)


def autocontrast(images: Tensor) -> Tensor:
    """Each channel stretched so that its darkest pixel is 0 and its brightest 255."""
    flat = images.flatten(2)
    low, high = (t.double()[..., None, None] for t in (flat.amin(2), flat.amax(2)))
    full = torch.full_like(high, 255)  # 255 / tensor would multiply by the reciprocal, and round twice
    scale = torch.where(high > low, full / (high - low).clamp(min=1), 1.0)
    offset = torch.where(high > low, low * scale, 0.0)
    return _bytes((images.double() * scale).sub_(offset))


def equalize(images: Tensor) -> Tensor:
    """Each channel mapped so that its values spread evenly over 0 … 255."""
    n, c = images.shape[:2]
    values = images.reshape(n * c, -1).long()
    counts = torch.zeros(n * c, 256, dtype=torch.int64, device=images.device)
    counts.scatter_add_(1, values, torch.ones_like(values))
    last = counts.gather(1, values.amax(1, keepdim=True))  # how many have the greatest value
    step = (values.shape[1] - last) // 255
    below = counts.cumsum(1) - counts
    table = ((below + step // 2) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return table.to(torch.uint8).gather(1, values).reshape(images.shape)


def invert(images: Tensor) -> Tensor:
    """255 minus the value."""
    return 255 - images


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Only the highest `bits` bits of each value, (n,) of 1 … 8."""
    mask = (0xFF00 >> bits.long()) & 0xFF
    return images & mask.to(torch.uint8)[:, None, None, None]


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Values of at least `threshold`, (n,) of 0 … 256, inverted."""
    reached = images.to(torch.int16) >= threshold.to(torch.int16)[:, None, None, None]
    return images ^ (255 * reached.to(torch.uint8))  # the complement of a byte is 255 minus it


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
    start = _fixed(motion[:, 2::3] + (motion[:, 0::3] + motion[:, 1::3]) / 2)
    right = torch.arange(width, dtype=torch.int32, device=images.device)
    down = torch.arange(height, dtype=torch.int32, device=images.device)
    x = _source(start[:, 0], a, b, right, down).clamp_(-1, width) + 1
    y = _source(start[:, 1], d, e, right, down).clamp_(-1, height) + 1
    # A black frame of one pixel around the image is all that lies outside: no masks are needed.
    framed = F.pad(images, (1, 1, 1, 1)).flatten(2)
    source = (y * (width + 2) + x).flatten(1).long()
    return framed.gather(2, source[:, None].expand(n, c, -1)).reshape(images.shape)


def zoom(images: Tensor, margin: Tensor, kind: Tensor) -> Tensor:
    """Without a share `margin` (n,) of its width and height on each side, resized by FILTERS[kind]: -> same shape."""
    height, width = images.shape[2:]
    columns = _resizing(margin, kind, width)
    rows = columns if height == width else _resizing(margin, kind, height)
    wide = _levels(images.double() @ columns.transpose(1, 2)[:, None])
    return _levels(rows[:, None] @ wide).to(torch.uint8)


def _box(wide: Tensor, size: int) -> Tensor:
    """Sums over all squares of `size` pixels that fit into the image."""
    rows = wide.unfold(2, size, 1).sum(-1, dtype=wide.dtype)
    return rows.unfold(3, size, 1).sum(-1, dtype=wide.dtype)


def _bytes(values: Tensor) -> Tensor:
    """Fractions cut off. By way of int32, which is twice as fast as straight to bytes."""
    return values.to(torch.int32).to(torch.uint8)


def _rounded(total: Tensor, count: int) -> Tensor:
    return ((2 * total + count) // (2 * count)).to(torch.uint8)


def _inside(images: Tensor, middle: Tensor, border: int) -> Tensor:
    changed = images.clone()
    changed[:, :, border:-border, border:-border] = middle
    return changed


def _source(start: Tensor, right: Tensor, down: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    """Coordinates that each pixel comes from: (n,) each -> (n, h, w) whole numbers."""
    along = start[:, None] + right[:, None] * columns  # (n, w)
    return (along[:, None, :] + (down[:, None] * rows)[:, :, None]) >> 16


def _fixed(values: Tensor) -> Tensor:
    return (values.double() * _MOTION_ONE + 0.5).floor().to(torch.int32)


def _resizing(margin: Tensor, kind: Tensor, length: int) -> Tensor:
    """How much of each pixel of a line goes into each of the resized line, in fixed point: -> (n, length, length)."""
    start = (margin * length).round()[:, None, None]
    end = ((1 - margin) * length).round()[:, None, None]
    pixel = torch.arange(length, device=margin.device, dtype=torch.float64)
    scale = (end - start) / length
    center = start + (pixel[:, None] + 0.5) * scale  # (n, length, 1)
    weights = _filter_weights(pixel + 0.5 - center, kind[:, None, None])
    reaches = [(kind == number) * reach for number, reach in enumerate(_REACH)]
    reach = torch.stack(reaches).sum(0)[:, None, None]
    first, last = (center - reach + 0.5).floor(), (center + reach + 0.5).floor()
    weights = weights * ((pixel >= first.maximum(start)) & (pixel < last.minimum(end)))
    # Pillow adds up the step from pixel to pixel here, which decides where a center falls between two pixels.
    stepped = torch.cat([scale / 2, scale.expand(-1, length - 1, 1)], 1).cumsum(1)
    nearest = (pixel == start + stepped.floor()).double()
    weights = torch.where(kind[:, None, None] == FILTERS.index("nearest"), nearest, weights)
    fixed = weights / weights.sum(2, keepdim=True) * _FILTER_ONE
    return (fixed.abs() + 0.5).floor().copysign(fixed)


def _filter_weights(distance: Tensor, kind: Tensor) -> Tensor:
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
    return ((values + _FILTER_ONE // 2) / _FILTER_ONE).floor().clamp(0, 255)
