"""Which views suit inputs of a kind and shape."""

from collections.abc import Callable

import torch
from torch import Tensor

from refprior._checks import one_of
from refprior._kinds import KINDS, Kind
from refprior.views._affine import Distort, Shift
from refprior.views._randaugment import RandAugment
from refprior.views._vectors import Corrupt, DropTokens, Noise
from refprior.views._weak import FlipCrop

View = Callable[[Tensor, torch.Generator], Tensor]
_SMALL = 16  # pixels; a smaller digit turned by ten degrees is moved by less than one


def default_views(kind: Kind | None, shape: tuple[int, ...]) -> tuple[View, View]:
    """(weak, strong) for inputs of a kind and shape; all lengths are shares of the image's shorter side.

    digits: digits, letters and other signs. They are moved and distorted, and never mirrored. photos: mirrored and
    moved, and changed by RandAugment with a cutout of half the side, as in FixMatch. objects: single things on a plain
    ground, such as clothes; the same with smaller moves and holes. vectors: noise, and numbers left out. tokens: ids
    replaced by id 0. None, the kind of unknown data, is refused: a view that mirrors would spoil digits.

    >>> import refprior as rp
    >>> rp.views.default_views("digits", (1, 8, 8))
    (Shift(pixels=1), Distort(degrees=15.0, scale=0.15, pixels=1, noise=16.0, cutout=2))
    """
    one_of("kind", kind, KINDS)
    if kind in ("vectors", "tokens"):
        return (Noise(0.75), Corrupt()) if kind == "vectors" else (DropTokens(0.05), DropTokens(0.2))
    if len(shape) != 3:
        raise ValueError(f"{kind} are images (channels, height, width), got {shape}: say kind='vectors'")
    side = min(shape[-2:])
    little = max(1, round(side / 14))
    if kind == "digits":
        gentle = Distort(degrees=10, scale=0.1, pixels=little, noise=0, cutout=0)
        return Shift(little) if side < _SMALL else gentle, Distort(pixels=little, cutout=round(2 * side / 7))
    weak = FlipCrop(pad=max(1, side // 8) if kind == "photos" else little)
    return weak, RandAugment(weak=weak, cutout=side // 2 if kind == "photos" else round(5 * side / 14))
