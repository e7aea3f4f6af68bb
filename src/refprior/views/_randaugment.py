"""RandAugment as in FixMatch: two of 14 operations, each with probability 1/2, then a gray square."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from refprior._checks import one_of
from refprior.views import _operations as operations
from refprior.views._affine import cutout
from refprior.views._apply import DRAWS, Table, apply
from refprior.views._checks import check_bytes, check_hole, check_view, check_whole, check_within
from refprior.views._motions import rotate, shear_x, shear_y, translate_x, translate_y
from refprior.views._weak import FlipCrop

GRAY = 127
Hole = Literal["square", "rectangle"]


def _signed(draws: Tensor, largest: float) -> Tensor:
    """The magnitude of up to `largest`, to either side with probability 1/2: (n, DRAWS) -> (n,)."""
    return torch.where(draws[:, 1] < 0.5, -1.0, 1.0) * draws[:, 0] * largest


def _factor(draws: Tensor) -> Tensor:
    """Of brightness, color, contrast and sharpness: 0.05 … 0.95."""
    return 0.05 + 0.9 * draws[:, 0]


RANDAUGMENT = Table(
    unchanged=("identity",),
    pixels={
        "autocontrast": lambda x, d: operations.autocontrast(x),
        "brightness": lambda x, d: operations.brightness(x, _factor(d)),
        "color": lambda x, d: operations.color(x, _factor(d)),
        "contrast": lambda x, d: operations.contrast(x, _factor(d)),
        "equalize": lambda x, d: operations.equalize(x),
        "posterize": lambda x, d: operations.posterize(x, 4 + (4 * d[:, 0]).floor()),
        "sharpness": lambda x, d: operations.sharpness(x, _factor(d)),
        "solarize": lambda x, d: operations.solarize(x, 256 - (256 * d[:, 0]).floor()),
    },
    motions={
        "rotate": lambda d, h, w: rotate(_signed(d, 30).round(), h, w),
        "shear_x": lambda d, h, w: shear_x(_signed(d, 0.3)),
        "shear_y": lambda d, h, w: shear_y(_signed(d, 0.3)),
        "translate_x": lambda d, h, w: translate_x((_signed(d, 0.3) * w).trunc()),
        "translate_y": lambda d, h, w: translate_y((_signed(d, 0.3) * h).trunc()),
    },
)


@dataclass(frozen=True)
class RandAugment:
    """Strong view of FixMatch: the weak view, `count` operations drawn with replacement, a cutout.

    Each operation is applied with probability `probability`, at a level of 1 … `levels` - 1 tenths when `levels` is
    10: a level of one tenth is the weakest, nine tenths the strongest.

    hole: a `square` of `cutout` pixels around its center, cut at all four borders; or the `rectangle` that the authors
    draw with Pillow, one pixel longer, and whole at the upper and left border. For 16 of 32 pixels a fifth of an image
    is then gray, or a quarter.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> tuple(rp.views.RandAugment(cutout=4)(images, generator).shape)
    (2, 1, 8, 8)
    """

    weak: Callable[[Tensor, torch.Generator], Tensor] = field(default_factory=FlipCrop)
    count: int = 2
    probability: float = 0.5
    levels: int = 10
    cutout: int = 16  # pixels, 0: none
    fill: int = GRAY
    hole: Hole = "square"  # its shape at the border

    def __post_init__(self) -> None:
        check_view("weak", self.weak)
        one_of("hole", self.hole, ("square", "rectangle"))
        check_whole(0, count=self.count, cutout=self.cutout)
        check_within(0, 1, probability=self.probability)
        check_whole(2, levels=self.levels)
        check_whole(0, 255, fill=self.fill)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes(images)
        check_hole(self.cutout, images)
        images = self.weak(images, generator)
        for _ in range(self.count):
            images = apply(images, RANDAUGMENT, *self.draw(len(images), generator))
        return self._cut(images, generator) if self.cutout else images

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """An operation of RANDAUGMENT.names and its draws for each image: (n,), (n, DRAWS)."""
        device = generator.device
        draws = torch.rand(n, DRAWS, generator=generator, device=device, dtype=torch.float64)
        draws[:, 0] = torch.randint(1, self.levels, (n,), generator=generator, device=device).double() / self.levels
        chosen = torch.randint(0, len(RANDAUGMENT.names), (n,), generator=generator, device=device)
        applied = torch.rand(n, generator=generator, device=device) < self.probability
        return torch.where(applied, chosen, RANDAUGMENT.names.index("identity")), draws

    def _cut(self, images: Tensor, generator: torch.Generator) -> Tensor:
        if self.hole == "square":
            return cutout(images, self.cutout, generator, self.fill)
        n, _, height, width = images.shape
        center = torch.rand(2, n, generator=generator, device=images.device, dtype=torch.float64)
        return operations.rectangle(images, self.cutout, center[0] * height, center[1] * width, self.fill)
