"""RandAugment as in FixMatch: two of 14 operations, each with probability 1/2, then a gray square."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from refprior._checks import number, one_of, whole_number
from refprior.views import _operations as operations
from refprior.views._images import FlipCrop, check_bytes, check_hole, check_weak, cutout, rectangle

GRAY = 127
Hole = Literal["square", "rectangle"]
# Numbers in [0, 1) that are drawn for every image and operation: the magnitude, a second parameter, two free ones.
DRAWS = 4

Pixels = Callable[[Tensor, Tensor], Tensor]  # (n, c, h, w) images, (n, DRAWS) -> images
Motion = Callable[[Tensor, int, int], Tensor]  # (n, DRAWS), height, width -> (n, 6), see motions


@dataclass(frozen=True)
class Operations:
    """The operations to choose from, by name: those that leave the image, change its pixels, or move them."""

    unchanged: tuple[str, ...]
    pixels: dict[str, Pixels]
    motions: dict[str, Motion]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.unchanged, *self.pixels, *self.motions)


def apply(images: Tensor, table: Operations, chosen: Tensor, draws: Tensor) -> Tensor:
    """Apply operation number `chosen` (n,) with its draws (n, DRAWS) to each image.

    Images are sorted by operation, and each group changes at once; all motions are one gather.
    """
    if images.device.type != "cpu":
        return apply_unsorted(images, table, chosen, draws)
    order = chosen.argsort()
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    counts = torch.bincount(chosen, minlength=len(table.names)).tolist()
    groups = images.index_select(0, order).split(counts)  # copies whole images, unlike images[order]
    numbers = draws[order].split(counts)
    still, changing = len(table.unchanged), len(table.unchanged) + len(table.pixels)
    changed = list(groups[:still])
    for operation, group, drawn in zip(
        table.pixels.values(), groups[still:changing], numbers[still:changing], strict=True
    ):
        changed.append(operation(group, drawn) if len(group) else group)
    moving = torch.cat(groups[changing:])
    if len(moving):
        motions = zip(table.motions.values(), numbers[changing:], strict=True)
        rows = torch.cat([motion(drawn, *images.shape[2:]) for motion, drawn in motions])
        moving = operations.warp(moving, rows)
    changed.append(moving)
    return torch.cat(changed).index_select(0, back)


def apply_unsorted(images: Tensor, table: Operations, chosen: Tensor, draws: Tensor) -> Tensor:
    """Apply all operations to all images and keep the chosen ones: the host need not know how many each has."""
    first = len(table.unchanged)
    changed = images
    for place, operation in enumerate(table.pixels.values(), first):
        changed = torch.where((chosen == place)[:, None, None, None], operation(images, draws), changed)
    motions = torch.stack([move(draws, *images.shape[2:]).double() for move in table.motions.values()])
    motion = chosen - first - len(table.pixels)  # negative for images that do not move
    rows = motions[motion.clamp(min=0), torch.arange(len(images), device=images.device)]
    return torch.where((motion >= 0)[:, None, None, None], operations.warp(images, rows), changed)


def _signed(draws: Tensor, largest: float) -> Tensor:
    """Return a magnitude of up to `largest`, to either side with probability 1/2: (n, DRAWS) -> (n,)."""
    return torch.where(draws[:, 1] < 0.5, -1.0, 1.0) * draws[:, 0] * largest


def _factor(draws: Tensor) -> Tensor:
    """Return the factor of brightness, color, contrast and sharpness: 0.05 … 0.95."""
    return 0.05 + 0.9 * draws[:, 0]


RANDAUGMENT = Operations(
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
        "rotate": lambda d, h, w: operations.rotate(_signed(d, 30).round(), h, w),
        "shear_x": lambda d, h, w: operations.shear_x(_signed(d, 0.3)),
        "shear_y": lambda d, h, w: operations.shear_y(_signed(d, 0.3)),
        "translate_x": lambda d, h, w: operations.translate_x((_signed(d, 0.3) * w).trunc()),
        "translate_y": lambda d, h, w: operations.translate_y((_signed(d, 0.3) * h).trunc()),
    },
)


@dataclass(frozen=True)
class RandAugment:
    """Strong view of FixMatch: the weak view, random operations, and a gray cutout.

    Operations are drawn with replacement. Each is applied with probability ``probability`` at one of the levels
    1 / levels, …, (levels - 1) / levels of its largest magnitude.

    Parameters
    ----------
    weak : callable, optional
        The view that comes first. Defaults to ``FlipCrop()``.
    count : int, default: 2
        Number of operations.
    probability : float, default: 0.5
        Probability that an operation is applied.
    levels : int, default: 10
        Number of levels of magnitude.
    cutout : int, default: 16
        Side of the cutout, in pixels; 0: none.
    fill : int, default: 127
        Gray level of the cutout.
    hole : {"square", "rectangle"}, default: "square"
        Shape at the border. A square is cut at all four borders. The rectangle that the authors draw with Pillow is one
        pixel longer, and whole at the upper and left border. For 16 of 32 pixels, 20 % or 25 % of an image is gray.

    Examples
    --------
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
    cutout: int = 16
    fill: int = GRAY
    hole: Hole = "square"

    def __post_init__(self) -> None:
        check_weak(self.weak)
        one_of("hole", self.hole, ("square", "rectangle"))
        whole_number("count", self.count, at_least=0)
        whole_number("cutout", self.cutout, at_least=0)
        number("probability", self.probability, at_least=0, at_most=1)
        whole_number("levels", self.levels, at_least=2)
        whole_number("fill", self.fill, at_least=0, at_most=255)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes(images)
        check_hole(self.cutout, images)
        images = self.weak(images, generator)
        for _ in range(self.count):
            images = apply(images, RANDAUGMENT, *self._draw(len(images), generator))
        if not self.cutout or self.hole == "square":
            return cutout(images, self.cutout, generator, self.fill)
        n, _, height, width = images.shape
        center = torch.rand(2, n, generator=generator, device=images.device, dtype=torch.float64)
        return rectangle(images, self.cutout, center[0] * height, center[1] * width, self.fill)

    def _draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw an operation of RANDAUGMENT.names and its numbers for each image: (n,), (n, DRAWS)."""
        device = generator.device
        draws = torch.rand(n, DRAWS, generator=generator, device=device, dtype=torch.float64)
        draws[:, 0] = torch.randint(1, self.levels, (n,), generator=generator, device=device).double() / self.levels
        chosen = torch.randint(0, len(RANDAUGMENT.names), (n,), generator=generator, device=device)
        applied = torch.rand(n, generator=generator, device=device) < self.probability
        return torch.where(applied, chosen, RANDAUGMENT.names.index("identity")), draws
