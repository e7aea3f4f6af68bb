"""Views of images: shifts, distortions, and flips with crops, a different one drawn for every image of a batch.

All images of a batch change at once: `Distort` takes 0.5 ms for 64 images of 28×28, and 41 ms if called for each.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from refprior._checks import number, one_of, whole_number


@dataclass(frozen=True)
class Unchanged:
    """The view that changes nothing.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> rp.views.Unchanged()(images, torch.Generator()) is images
    True
    """

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return inputs


@dataclass(frozen=True)
class FlipCrop:
    """Weak view of FixMatch: mirror with probability 1/2 and move by a few pixels, the border reflected.

    Parameters
    ----------
    pad : int, default: 4
        Largest move along each axis, in pixels.
    flip : bool, default: True
        Whether to mirror at all.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.FlipCrop(pad=2)(images, generator).shape)
    (2, 1, 8, 8)
    """

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        whole_number("pad", self.pad, at_least=0)
        one_of("flip", self.flip, (True, False))

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        n, c, height, width = images.shape
        if self.pad >= min(height, width):
            raise ValueError(f"cannot reflect {self.pad} pixels of images of {height}×{width}")
        shift = torch.randint(-self.pad, self.pad + 1, (2, n, 1), generator=generator, device=images.device)
        rows, columns = _reflected(shift[0], height), _reflected(shift[1], width)
        if self.flip:
            mirrored = torch.rand(n, 1, generator=generator, device=images.device) < 0.5
            columns = torch.where(mirrored, width - 1 - columns, columns)
        # One selection of pixels for the whole batch. Its places are read from memory, so small ones are faster.
        small = torch.int32 if images.numel() < 2**31 else torch.int64
        channels = torch.arange(n * c, dtype=small, device=images.device).reshape(n, c, 1, 1) * (height * width)
        source = channels + rows.to(small)[:, None, :, None] * width + columns.to(small)[:, None, None, :]
        return images.flatten().index_select(0, source.flatten()).reshape(images.shape)


@dataclass(frozen=True)
class Shift:
    """Weak view of digits: move by a few pixels, black beyond the border.

    Parameters
    ----------
    pixels : int, default: 1
        Largest move along each axis.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.Shift(2)(images, generator).shape)
    (2, 1, 8, 8)
    """

    pixels: int = 1

    def __post_init__(self) -> None:
        whole_number("pixels", self.pixels, at_least=0)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        n, _, height, width = images.shape
        if self.pixels >= max(height, width):
            raise ValueError(f"cannot move images of {height}×{width} by {self.pixels} pixels: lower pixels")
        padded = F.pad(images, (self.pixels,) * 4)
        offset = torch.randint(0, 2 * self.pixels + 1, (2, n, 1), generator=generator, device=images.device)
        rows = (offset[0] + torch.arange(height, device=images.device))[:, None, :, None]
        columns = (offset[1] + torch.arange(width, device=images.device))[:, None, None, :]
        example = torch.arange(n, device=images.device)[:, None, None, None]
        channel = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
        return padded[example, channel, rows, columns]


@dataclass(frozen=True)
class Distort:
    """Strong view of digits: rotate, scale, move, add noise and cut out a square.

    Parameters
    ----------
    degrees : float, default: 15
        Largest rotation to either side.
    scale : float, default: 0.15
        Largest change of the size, as a share of it.
    pixels : float, default: 1
        Largest move along each axis.
    noise : float, default: 16
        Standard deviation of the noise, in gray levels of 0 … 255.
    cutout : int, default: 2
        Side of the black square, in pixels; 0: none.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.Distort(degrees=10)(images, generator).shape)
    (2, 1, 8, 8)
    """

    degrees: float = 15.0
    scale: float = 0.15
    pixels: float = 1.0
    noise: float = 16.0
    cutout: int = 2

    def __post_init__(self) -> None:
        for name in ("degrees", "pixels", "noise"):
            number(name, getattr(self, name), at_least=0)
        number("scale", self.scale, at_least=0, below=1)
        whole_number("cutout", self.cutout, at_least=0)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes(images)
        check_hole(self.cutout, images)
        moved = _affine(images, self.degrees, self.scale, self.pixels, generator)
        return cutout(add_noise(moved, self.noise, generator), self.cutout, generator)


def _affine(images: Tensor, degrees: float, scale: float, pixels: float, generator: torch.Generator) -> Tensor:
    """Rotate, scale and move each image, uniformly within ±degrees, 1±scale and ±pixels: uint8 -> uint8."""
    n, _, height, width = images.shape
    draw = 2 * torch.rand(4, n, generator=generator, device=images.device) - 1  # (4, n) in [-1, 1]
    angle, size = torch.deg2rad(draw[0] * degrees), 1 + draw[1] * scale
    cosine, sine = angle.cos() / size, angle.sin() / size
    # Coordinates run from -1 to 1: one pixel is 2 / width.
    right, down = draw[2] * pixels * 2 / width, draw[3] * pixels * 2 / height
    # They are stretched by the image's sides, so that turning them needs the ratio of these.
    across, along = sine * height / width, -sine * width / height
    x, y = _centers(width, draw)[None, None], _centers(height, draw)[None, :, None]
    # F.affine_grid is a product of n small matrices, and many times slower than these sums.
    grid = draw.new_empty(n, height, width, 2)
    torch.add(cosine[:, None, None] * x, across[:, None, None] * y + right[:, None, None], out=grid[..., 0])
    torch.add(along[:, None, None] * x, cosine[:, None, None] * y + down[:, None, None], out=grid[..., 1])
    return _to_uint8(F.grid_sample(images.to(grid.dtype), grid, align_corners=False))


def add_noise(images: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Add Gaussian noise with standard deviation `std`, in gray levels of 0 … 255: uint8 -> uint8."""
    if not std:
        return images
    drawn = torch.randn(images.shape, generator=generator, device=images.device)
    return _to_uint8(drawn.mul_(std).add_(images))


def cutout(images: Tensor, size: int, generator: torch.Generator, fill: int = 0) -> Tensor:
    """Paint over a square of `size` pixels around a uniform center, cut at the border: (n, c, h, w) -> same."""
    if not size:
        return images
    n, _, height, width = images.shape
    row = torch.randint(0, height, (n,), generator=generator, device=images.device)
    column = torch.randint(0, width, (n,), generator=generator, device=images.device)
    return erase(images, torch.full_like(row, size), row, column, fill)


def erase(images: Tensor, size: Tensor, row: Tensor, column: Tensor, fill: int) -> Tensor:
    """A square of `size` pixels around (row, column) painted over, cut at the border; all (n,) integers."""
    corners = [at - size // 2 for at in (row, column)]
    return _painted(images, corners, size, fill)


def rectangle(images: Tensor, size: int, row: Tensor, column: Tensor, fill: int = 127) -> Tensor:
    """Pillow's rectangle from `size`/2 above and left of (row, column) to `size` below and right of there, (n,) floats.

    Both ends are painted, so that it has `size` + 1 pixels. A corner beyond the upper or left border is moved onto it
    before the other corner is found: only at the lower and right border is something cut off.
    """
    corners = [(at - size / 2).clamp(min=0).long() for at in (row, column)]
    return _painted(images, corners, torch.full_like(corners[0], size + 1), fill)


def check_weak(view: object) -> None:
    """Reject a weak view that is not a view."""
    if not callable(view) or isinstance(view, type):
        raise ValueError(f"weak must be a view such as FlipCrop(), got {view!r}")


def check_hole(size: int, images: Tensor) -> None:
    """Reject a cutout that is larger than the images: it could paint over a whole image."""
    height, width = images.shape[-2:]
    if size > min(height, width):
        raise ValueError(f"a cutout of {size} pixels does not fit into images of {height}×{width}: lower cutout")


def check_bytes(images: Tensor) -> None:
    """Reject floats: a gray level of 127 would be painted into images of 0 … 1."""
    if images.dtype != torch.uint8:
        raise ValueError(f"this view takes uint8 images of 0 … 255, got {images.dtype}")


def _painted(images: Tensor, corners: list[Tensor], size: Tensor, fill: int) -> Tensor:
    """Paint over the squares of `size` pixels whose first rows and columns are given, (n,) each."""
    outside = []
    for start, length in zip(corners, images.shape[2:], strict=True):
        position = torch.arange(length, device=start.device)
        outside.append((position < start[:, None]) | (position >= (start + size)[:, None]))  # (n, length)
    kept = (outside[0][:, None, :, None] | outside[1][:, None, None, :]).to(images.dtype)
    return images * kept + fill * (1 - kept)  # products of bytes: four times as fast as torch.where


def _reflected(shift: Tensor, length: int) -> Tensor:
    """Shift positions 0 … length - 1, mirrored at the outermost pixels: (n, 1) -> (n, length)."""
    last = length - 1
    return last - (last - (shift + torch.arange(length, device=shift.device)).abs()).abs()


def _centers(pixels: int, like: Tensor) -> Tensor:
    """Return the centers of pixels on an axis from -1 to 1: (pixels,)."""
    return (2 * torch.arange(pixels, dtype=like.dtype, device=like.device) + 1) / pixels - 1


def _to_uint8(images: Tensor) -> Tensor:
    return images.round().clamp_(0, 255).to(torch.uint8)
