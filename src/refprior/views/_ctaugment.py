"""CTAugment: a bank of magnitudes learns from labeled probes which of them leave the class recognizable.

Two of 19 operations are drawn for an image, then a magnitude for each from the bins whose rate is high; a gray square
is always cut out, but not of probes. After each step the rates of the bins that a probe used move toward how well it
was recognized.
"""

# n images, D depth, P parameters of an operation (at most 2), V bins (at most 17)

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from refprior._checks import one_of
from refprior.views import _operations as operations
from refprior.views._affine import cutout
from refprior.views._apply import DRAWS, Motion, Table, apply
from refprior.views._checks import check_bytes, check_hole, check_view, check_whole, check_within
from refprior.views._motions import rotate, shear_x, shear_y, translate_x, translate_y
from refprior.views._randaugment import GRAY
from refprior.views._resample import FILTERS, zoom
from refprior.views._weak import FlipCrop

PARAMETERS, BINS = 2, 17
Unit = Literal["pixels", "shares"]


def _enhance(draws: Tensor) -> Tensor:
    """Of brightness, color, contrast and sharpness: 0.1 … 2."""
    return 0.1 + 1.9 * draws[:, 0]


def _either_way(draws: Tensor, largest: float) -> Tensor:
    return (2 * draws[:, 0] - 1) * largest


def _cutout(images: Tensor, draws: Tensor) -> Tensor:
    height, width = images.shape[2:]
    size = 1 + (draws[:, 0] * min(height, width) * 0.499).long()
    return operations.erase(images, size - size % 2, (draws[:, 2] * height).long(), (draws[:, 3] * width).long(), GRAY)


CTAUGMENT = Table(
    unchanged=("identity",),
    pixels={
        "autocontrast": lambda x, d: operations.blend(x, operations.autocontrast(x), d[:, 0]),
        "blur": lambda x, d: operations.blend(x, operations.blur(x), d[:, 0]),
        "brightness": lambda x, d: operations.brightness(x, _enhance(d)),
        "color": lambda x, d: operations.color(x, _enhance(d)),
        "contrast": lambda x, d: operations.contrast(x, _enhance(d)),
        "cutout": _cutout,
        "equalize": lambda x, d: operations.blend(x, operations.equalize(x), d[:, 0]),
        "invert": lambda x, d: operations.blend(x, operations.invert(x), d[:, 0]),
        "posterize": lambda x, d: operations.posterize(x, 1 + (d[:, 0] * 7.999).floor()),
        "rescale": lambda x, d: zoom(x, d[:, 0] / 4, (d[:, 1] * len(FILTERS)).long()),
        "sharpness": lambda x, d: operations.sharpness(x, _enhance(d)),
        "smooth": lambda x, d: operations.blend(x, operations.smooth(x), d[:, 0]),
        "solarize": lambda x, d: operations.solarize(x, (d[:, 0] * 255.999).floor()),
    },
    motions={
        "rotate": lambda d, h, w: rotate(_either_way(d, 45).round(), h, w),
        "shear_x": lambda d, h, w: shear_x(_either_way(d, 0.3)),
        "shear_y": lambda d, h, w: shear_y(_either_way(d, 0.3)),
        "translate_x": lambda d, h, w: translate_x(_either_way(d, 0.3)),
        "translate_y": lambda d, h, w: translate_y(_either_way(d, 0.3)),
    },
)
_BY_SHARES: dict[str, Motion] = {
    "translate_x": lambda d, h, w: translate_x((_either_way(d, 0.3) * w).trunc()),
    "translate_y": lambda d, h, w: translate_y((_either_way(d, 0.3) * h).trunc()),
}
TABLES = {"pixels": CTAUGMENT, "shares": replace(CTAUGMENT, motions=CTAUGMENT.motions | _BY_SHARES)}
# How many bins each parameter has; 17 for one parameter unless said here.
_FEWER = {"identity": (0, 0), "posterize": (8, 0), "rescale": (17, 6)}
SIZES = torch.tensor([_FEWER.get(name, (17, 0)) for name in CTAUGMENT.names])  # (operations, P)


def full_bank() -> Tensor:
    """Rates of 1 for all bins that there are, 0 for the others: (operations, P, V)."""
    return (torch.arange(BINS) < SIZES[..., None]).double()


@dataclass(frozen=True)
class Policy:
    """What was drawn for a batch: which operations, which bins."""

    chosen: Tensor  # (n, D) operation
    bins: Tensor  # (n, D, P) bin of each parameter
    draws: Tensor  # (n, D, DRAWS) the numbers within those bins


@dataclass(frozen=True)
class CTAugment:
    """Strong view whose magnitudes are learned. `rates` is its only state; `update` changes it in place.

    A step: `probe` labeled images, predict them, `update` with the policy and the proximity 1 - ½‖p - onehot‖₁,
    and call the view for the unlabeled images. `state_dict` belongs in the checkpoint.

    The defaults are those of FixMatch's code. There an image is translated by up to 0.3 of a pixel, which moves none of
    them, where RandAugment has 0.3 of the image's side: translation="shares" moves it as far. Probes are not cut out.

    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> view = rp.views.CTAugment(cutout=4)
    >>> views, policy = view.probe(images, generator)
    >>> view.update(policy, torch.tensor([0.2, 0.9]))  # how probable the true classes then were
    >>> bool((view.rates < 1).any())
    True
    """

    weak: Callable[[Tensor, torch.Generator], Tensor] = field(default_factory=FlipCrop)
    depth: int = 2
    threshold: float = 0.80
    decay: float = 0.99
    cutout: int = 16  # pixels, 0: none
    probe_cutout: bool = False  # probes are cut out too
    translation: Unit = "pixels"  # by up to 0.3 of one, or of the image's side
    rates: Tensor = field(default_factory=full_bank, compare=False, repr=False)  # (operations, P, V)

    def __post_init__(self) -> None:
        check_view("weak", self.weak)
        check_whole(1, depth=self.depth)
        check_within(0, 1, threshold=self.threshold, decay=self.decay)
        check_whole(0, cutout=self.cutout)
        one_of("probe_cutout", self.probe_cutout, (True, False))
        one_of("translation", self.translation, ("pixels", "shares"))

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        check_hole(self.cutout, images)
        changed = self._apply(images, self.draw(len(images), self.weights(), generator), generator)
        return self._cut(changed, generator)

    def probe(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Policy]:
        """Views with uniform bins, and what was drawn for them."""
        policy = self.draw(len(images), full_bank(), generator)
        changed = self._apply(images, policy, generator)
        return self._cut(changed, generator) if self.probe_cutout else changed, policy

    def update(self, policy: Policy, proximity: Tensor) -> None:
        """rate ← decay·rate + (1 - decay)·proximity for every bin that a probe used, image after image.

        proximity: (n,) 1 - ½‖p - onehot‖₁, which is the probability given to the true class. Several images that
        used one bin act one after the other: the i-th of m counts (1 - decay)·decay^(m - i).
        """
        chosen, bins = policy.chosen.cpu(), policy.bins.cpu()
        n, depth = chosen.shape
        parameter = torch.arange(PARAMETERS)
        flat = (chosen[..., None] * PARAMETERS + parameter) * BINS + bins  # (n, D, P) places in the bank
        there = bins < SIZES[chosen]
        places = flat[there]
        values = proximity.detach().cpu().double()[:, None, None].expand(n, depth, PARAMETERS)[there]
        same = places[:, None] == places
        later = same.triu(1).sum(1)
        uses = torch.bincount(places, minlength=self.rates.numel())
        moved = self.rates.flatten() * self.decay ** uses.double()
        moved.index_add_(0, places, (1 - self.decay) * self.decay ** later.double() * values)
        self.rates.copy_(moved.reshape(self.rates.shape))

    def weights(self) -> Tensor:
        """How often each bin is drawn, relative to its row's best; bins below the threshold never."""
        there = torch.arange(BINS) < SIZES[..., None]
        raised = (self.rates + (1 - self.decay)) * there
        relative = raised / raised.amax(-1, keepdim=True).clamp(min=1e-12)
        return torch.where(relative >= self.threshold, relative, 0.0)

    def draw(self, n: int, weights: Tensor, generator: torch.Generator) -> Policy:
        """Operations uniformly, bins by weight, numbers uniformly within the bins."""
        device = generator.device
        chosen = torch.randint(0, len(CTAUGMENT.names), (n, self.depth), generator=generator, device=device)
        draws = torch.rand(n, self.depth, DRAWS, generator=generator, device=device, dtype=torch.float64)
        sizes = SIZES.to(device)[chosen]  # (n, D, P)
        rows = weights.to(device)[chosen]  # (n, D, P, V)
        rows[..., 0] += sizes == 0  # a parameter that is not there: bin 0, which nobody reads
        bins = torch.multinomial(rows.reshape(-1, BINS), 1, generator=generator).reshape(sizes.shape)
        draws[..., :PARAMETERS] = (bins + draws[..., :PARAMETERS]) / sizes.clamp(min=1)
        return Policy(chosen, bins, draws)

    def state_dict(self) -> dict[str, Tensor]:
        """The bank, for a checkpoint."""
        return {"rates": self.rates.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved bank."""
        if state["rates"].shape != self.rates.shape:
            raise ValueError(f"a bank of shape {tuple(state['rates'].shape)}, expected {tuple(self.rates.shape)}")
        self.rates.copy_(state["rates"])

    def _apply(self, images: Tensor, policy: Policy, generator: torch.Generator) -> Tensor:
        check_bytes(images)
        images, table = self.weak(images, generator), TABLES[self.translation]
        for level in range(self.depth):
            images = apply(images, table, policy.chosen[:, level], policy.draws[:, level])
        return images

    def _cut(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return cutout(images, self.cutout, generator, GRAY) if self.cutout else images
