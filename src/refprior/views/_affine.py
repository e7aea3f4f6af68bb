"""Views of small gray images: shifts, small rotations and scalings, noise and cutout, drawn for every image."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from refprior._checks import number
from refprior.views._checks import check_bytes, check_hole, check_whole, check_within
from refprior.views._operations import erase


def shift(images: Tensor, pixels: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `pixels` along each axis, black beyond the border: (n, c, h, w) -> (n, c, h, w).

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> images[:, :, 4, 4] = 9
    >>> rp.views.shift(images, 2, generator).sum((1, 2, 3))
    tensor([9, 9])
    """
    n, _, height, width = images.shape
    padded = F.pad(images, (pixels,) * 4)
    offset = torch.randint(0, 2 * pixels + 1, (2, n, 1), generator=generator, device=images.device)
    rows = (offset[0] + torch.arange(height, device=images.device))[:, None, :, None]
    columns = (offset[1] + torch.arange(width, device=images.device))[:, None, None, :]
    example = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return padded[example, channel, rows, columns]


def affine(images: Tensor, degrees: float, scale: float, pixels: float, generator: torch.Generator) -> Tensor:
    """Each image rotated, scaled and moved, all uniform within ±degrees, 1±scale and ±pixels: uint8 -> uint8.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.affine(images, degrees=15, scale=0.1, pixels=1, generator=generator).shape)
    (2, 1, 8, 8)
    """
    n, _, height, width = images.shape
    draw = _uniform(n, 4, images, generator)  # (4, n) in [-1, 1]
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


def noise(images: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Gaussian noise with standard deviation `std`, in gray levels of 0 … 255: uint8 -> uint8.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> rp.views.noise(images, std=16, generator=generator).dtype
    torch.uint8
    """
    if not std:
        return images
    drawn = torch.randn(images.shape, generator=generator, device=images.device)
    return _to_uint8(drawn.mul_(std).add_(images))


def cutout(images: Tensor, size: int, generator: torch.Generator, fill: int = 0) -> Tensor:
    """A square of `size` pixels around a uniform center painted over, cut at the border: (n, c, h, w) -> same.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> rp.views.cutout(images, size=1, generator=generator, fill=255).sum((1, 2, 3))
    tensor([255, 255])
    """
    if not size:
        return images
    n, _, height, width = images.shape
    row = torch.randint(0, height, (n,), generator=generator, device=images.device)
    column = torch.randint(0, width, (n,), generator=generator, device=images.device)
    return erase(images, torch.full_like(row, size), row, column, fill)


@dataclass(frozen=True)
class Shift:
    """Weak view of digits: moved by up to `pixels`.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.Shift(2)(images, generator).shape)
    (2, 1, 8, 8)
    """

    pixels: int = 1

    def __post_init__(self) -> None:
        check_whole(0, pixels=self.pixels)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return shift(images, self.pixels, generator)


@dataclass(frozen=True)
class Distort:
    """Strong view of digits: rotated, scaled, moved, noisy, with a square cut out.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.Distort(degrees=10)(images, generator).shape)
    (2, 1, 8, 8)
    """

    degrees: float = 15.0
    scale: float = 0.15
    pixels: float = 1.0
    noise: float = 16.0  # gray levels
    cutout: int = 2  # pixels

    def __post_init__(self) -> None:
        check_within(0, degrees=self.degrees, pixels=self.pixels, noise=self.noise)
        number("scale", self.scale, at_least=0, below=1)
        check_whole(0, cutout=self.cutout)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes(images)
        check_hole(self.cutout, images)
        moved = affine(images, self.degrees, self.scale, self.pixels, generator)
        return cutout(noise(moved, self.noise, generator), self.cutout, generator)


def _centers(pixels: int, like: Tensor) -> Tensor:
    """Where pixels lie on an axis from -1 to 1: (pixels,)."""
    return (2 * torch.arange(pixels, dtype=like.dtype, device=like.device) + 1) / pixels - 1


def _uniform(n: int, rows: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """(rows, n) numbers in [-1, 1]."""
    return 2 * torch.rand(rows, n, generator=generator, device=like.device) - 1


def _to_uint8(images: Tensor) -> Tensor:
    return images.round().clamp_(0, 255).to(torch.uint8)
