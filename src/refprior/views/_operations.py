"""Operations on pixel values, batched: (n, c, h, w) uint8 with a magnitude for every image -> the same shape.

Each is Pillow's operation of the same name, to the last bit. Pillow blends in single precision and cuts off fractions;
so does `blend`.
"""

# n images, c channels (1 or 3), h height, w width

import torch
from torch import Tensor

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


def erase(images: Tensor, size: Tensor, row: Tensor, column: Tensor, fill: int = 127) -> Tensor:
    """A square of `size` pixels around (row, column) painted over, cut at the border; all (n,) integers."""
    corners = [at - size // 2 for at in (row, column)]
    rows, columns = (_beyond(at, size, length) for at, length in zip(corners, images.shape[2:], strict=True))
    return _painted(images, rows, columns, fill)


def rectangle(images: Tensor, size: int, row: Tensor, column: Tensor, fill: int = 127) -> Tensor:
    """Pillow's rectangle from `size`/2 above and left of (row, column) to `size` below and right of there, (n,) floats.

    Both ends are painted, so that it has `size` + 1 pixels. A corner beyond the upper or left border is moved onto it
    before the other corner is found: only at the lower and right border is something cut off.
    """
    corners = [(at - size / 2).clamp(min=0).long() for at in (row, column)]
    sides = torch.full_like(corners[0], size + 1)
    rows, columns = (_beyond(at, sides, length) for at, length in zip(corners, images.shape[2:], strict=True))
    return _painted(images, rows, columns, fill)


def _painted(images: Tensor, rows: Tensor, columns: Tensor, fill: int) -> Tensor:
    """What is neither in the rows nor in the columns outside is painted over: (n, c, h, w), (n, h), (n, w)."""
    kept = (rows[:, None, :, None] | columns[:, None, None, :]).to(images.dtype)
    return images * kept + fill * (1 - kept)  # products of bytes: four times as fast as torch.where


def _beyond(start: Tensor, size: Tensor, length: int) -> Tensor:
    """Which of `length` positions lie outside intervals: (n,), (n,) -> (n, length)."""
    position = torch.arange(length, device=start.device)
    return (position < start[:, None]) | (position >= (start + size)[:, None])


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
