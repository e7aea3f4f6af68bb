"""The weak view of color images: mirrored or not, and cut out of the image with its border reflected."""

from dataclasses import dataclass

import torch
from torch import Tensor

from refprior._checks import one_of
from refprior.views._checks import check_whole


def flip_crop(images: Tensor, pad: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `pad` pixels along each axis, its border reflected, and mirrored with probability
    1/2 if `flip`: (n, c, h, w) -> (n, c, h, w)."""
    n, c, height, width = images.shape
    if pad >= min(height, width):
        raise ValueError(f"cannot reflect {pad} pixels of images of {height}×{width}")
    shift = torch.randint(-pad, pad + 1, (2, n, 1), generator=generator, device=images.device)
    rows, columns = _reflected(shift[0], height), _reflected(shift[1], width)
    if flip:
        mirrored = torch.rand(n, 1, generator=generator, device=images.device) < 0.5
        columns = torch.where(mirrored, width - 1 - columns, columns)
    # One selection of pixels for the whole batch. Its places are read from memory, so small ones are faster.
    small = torch.int32 if images.numel() < 2**31 else torch.int64
    channels = torch.arange(n * c, dtype=small, device=images.device).reshape(n, c, 1, 1) * (height * width)
    source = channels + rows.to(small)[:, None, :, None] * width + columns.to(small)[:, None, None, :]
    return images.flatten().index_select(0, source.flatten()).reshape(images.shape)


def _reflected(shift: Tensor, length: int) -> Tensor:
    """Positions 0 … length - 1 shifted, beyond the ends mirrored at the outermost pixel: (n, 1) -> (n, length)."""
    last = length - 1
    return last - (last - (shift + torch.arange(length, device=shift.device)).abs()).abs()


@dataclass(frozen=True)
class FlipCrop:
    """Weak view of FixMatch: mirrored with probability 1/2, moved by up to `pad` pixels, border reflected.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.FlipCrop(pad=2)(images, generator).shape)
    (2, 1, 8, 8)
    """

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_whole(0, pad=self.pad)
        one_of("flip", self.flip, (True, False))

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return flip_crop(images, self.pad, self.flip, generator)


@dataclass(frozen=True)
class Unchanged:
    """The view that changes nothing.

    >>> import torch
    >>> import refprior as rp
    >>> images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> rp.views.Unchanged()(images, torch.Generator()) is images
    True
    """

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return images
