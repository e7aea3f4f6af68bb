"""CTAugment: a bank of magnitudes learns from labeled probes which of them leave the class recognizable.

Two of 19 operations are drawn for an image, then a magnitude for each from the bins whose rate is high; a gray square
is always cut out, but not of probes. After each step the rates of the bins that a probe used move toward how well it
was recognized.
"""

# n images, D depth, P parameters of an operation (at most 2), V bins (at most 17)

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from refprior._checks import number, one_of, whole_number
from refprior.views import _operations as operations
from refprior.views._images import FlipCrop, check_bytes, check_hole, check_weak, cutout, erase
from refprior.views._randaugment import DRAWS, GRAY, Motion, Operations, apply

PARAMETERS, BINS = 2, 17
Unit = Literal["pixels", "shares"]


def _enhance(draws: Tensor) -> Tensor:
    """Return the factor of brightness, color, contrast and sharpness: 0.1 … 2."""
    return 0.1 + 1.9 * draws[:, 0]


def _either_way(draws: Tensor, largest: float) -> Tensor:
    return (2 * draws[:, 0] - 1) * largest


def _cutout(images: Tensor, draws: Tensor) -> Tensor:
    height, width = images.shape[2:]
    size = 1 + (draws[:, 0] * min(height, width) * 0.499).long()
    return erase(images, size - size % 2, (draws[:, 2] * height).long(), (draws[:, 3] * width).long(), GRAY)


CTAUGMENT = Operations(
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
        "rescale": lambda x, d: operations.zoom(x, d[:, 0] / 4, (d[:, 1] * len(operations.FILTERS)).long()),
        "sharpness": lambda x, d: operations.sharpness(x, _enhance(d)),
        "smooth": lambda x, d: operations.blend(x, operations.smooth(x), d[:, 0]),
        "solarize": lambda x, d: operations.solarize(x, (d[:, 0] * 255.999).floor()),
    },
    motions={
        "rotate": lambda d, h, w: operations.rotate(_either_way(d, 45).round(), h, w),
        "shear_x": lambda d, h, w: operations.shear_x(_either_way(d, 0.3)),
        "shear_y": lambda d, h, w: operations.shear_y(_either_way(d, 0.3)),
        "translate_x": lambda d, h, w: operations.translate_x(_either_way(d, 0.3)),
        "translate_y": lambda d, h, w: operations.translate_y(_either_way(d, 0.3)),
    },
)
_BY_SHARES: dict[str, Motion] = {
    "translate_x": lambda d, h, w: operations.translate_x((_either_way(d, 0.3) * w).trunc()),
    "translate_y": lambda d, h, w: operations.translate_y((_either_way(d, 0.3) * h).trunc()),
}
TABLES = {"pixels": CTAUGMENT, "shares": replace(CTAUGMENT, motions=CTAUGMENT.motions | _BY_SHARES)}
# Number of bins of each parameter: 17 for one parameter, with these exceptions.
_FEWER = {"identity": (0, 0), "posterize": (8, 0), "rescale": (17, 6)}
SIZES = torch.tensor([_FEWER.get(name, (17, 0)) for name in CTAUGMENT.names])  # (operations, P)


@lru_cache(maxsize=8)
def _sizes(device: torch.device) -> Tensor:
    return SIZES.to(device)


def full_bank(device: torch.device = SIZES.device) -> Tensor:
    """Return rates of 1 for all bins that exist, 0 for the others: (operations, P, V)."""
    return (torch.arange(BINS, device=device) < _sizes(device)[..., None]).double()


@dataclass(frozen=True)
class Policy:
    """What was drawn for a batch: which operations, which bins."""

    chosen: Tensor  # (n, D) operation
    bins: Tensor  # (n, D, P) bin of each parameter
    draws: Tensor  # (n, D, DRAWS) the numbers within those bins


@dataclass(frozen=True)
class CTAugment:
    """Strong view whose magnitudes are learned from labeled probes.

    A training step probes labeled images, predicts them, updates the rates with the proximity 1 - ½‖p - onehot‖₁, and
    calls the view for the unlabeled images. ``rates`` is the only state, and `update` changes it in place.

    The defaults are those of FixMatch's code. There an image is translated by up to 0.3 of a pixel, which moves none of
    its pixels; ``translation="shares"`` translates by up to 0.3 of the image's side, as RandAugment does.

    Parameters
    ----------
    weak : callable, optional
        The view that comes first. Defaults to ``FlipCrop()``.
    depth : int, default: 2
        Number of operations.
    threshold : float, default: 0.80
        Bins whose rate is below this share of the best rate are not drawn.
    decay : float, default: 0.99
        Decay of the rates.
    cutout : int, default: 16
        Side of the cutout, in pixels; 0: none.
    probe_cutout : bool, default: False
        Whether probes have a cutout too.
    translation : {"pixels", "shares"}, default: "pixels"
        Translate by up to 0.3 of a pixel or of the image's side.
    rates : Tensor, (operations, 2, 17), optional
        How well each bin of magnitudes leaves the class recognizable. Defaults to 1.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> images, generator = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator().manual_seed(0)
    >>> view = rp.views.CTAugment(cutout=4)
    >>> views, policy = view.probe(images, generator)
    >>> view.update(policy, torch.tensor([0.2, 0.9]))  # probabilities of the true classes
    >>> bool((view.rates < 1).any())
    True
    """

    weak: Callable[[Tensor, torch.Generator], Tensor] = field(default_factory=FlipCrop)
    depth: int = 2
    threshold: float = 0.80
    decay: float = 0.99
    cutout: int = 16
    probe_cutout: bool = False
    translation: Unit = "pixels"
    rates: Tensor = field(default_factory=full_bank, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_weak(self.weak)
        whole_number("depth", self.depth, at_least=1)
        number("threshold", self.threshold, at_least=0, at_most=1)
        number("decay", self.decay, at_least=0, at_most=1)
        whole_number("cutout", self.cutout, at_least=0)
        one_of("probe_cutout", self.probe_cutout, (True, False))
        one_of("translation", self.translation, ("pixels", "shares"))

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        check_hole(self.cutout, images)
        self._move(generator.device)
        changed = self._apply(images, self._draw(len(images), self._weights(), generator), generator)
        return cutout(changed, self.cutout, generator, GRAY)

    def probe(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Policy]:
        """View labeled images with uniform bins.

        Parameters
        ----------
        images : Tensor, (n, c, h, w)
            Labeled images, uint8.
        generator : torch.Generator
            Source of all random draws.

        Returns
        -------
        views : Tensor, (n, c, h, w)
            The views.
        policy : Policy
            What was drawn for them, for `update`.
        """
        policy = self._draw(len(images), full_bank(generator.device), generator)
        changed = self._apply(images, policy, generator)
        return cutout(changed, self.cutout, generator, GRAY) if self.probe_cutout else changed, policy

    def update(self, policy: Policy, proximity: Tensor) -> None:
        """Move the rate of every bin that a probe used toward how well the probe was recognized.

        rate ← decay·rate + (1 - decay)·proximity, image after image: of m images that used one bin, the i-th counts
        (1 - decay)·decay^(m - i).

        Parameters
        ----------
        policy : Policy
            What `probe` drew.
        proximity : Tensor, (n,)
            1 - ½‖p - onehot‖₁, which is the probability of the true class.
        """
        chosen, bins, device = policy.chosen, policy.bins, policy.chosen.device
        self._move(device)
        parameter, nowhere = torch.arange(PARAMETERS, device=device), self.rates.numel()
        flat = (chosen[..., None] * PARAMETERS + parameter) * BINS + bins  # (n, D, P) places in the bank
        places = torch.where(bins < _sizes(device)[chosen], flat, nowhere).flatten()
        values = proximity.detach().double()[:, None, None].expand(flat.shape).flatten()
        later = (places[:, None] == places).triu(1).sum(1)
        uses = torch.zeros(nowhere + 1, dtype=torch.float64, device=device)
        uses.index_add_(0, places, torch.ones_like(values))
        moved = torch.cat([self.rates.flatten(), uses.new_zeros(1)]) * self.decay**uses
        moved.index_add_(0, places, (1 - self.decay) * self.decay ** later.double() * values)
        self.rates.copy_(moved[:nowhere].reshape(self.rates.shape))

    def _move(self, device: torch.device) -> None:
        """Move the rates to the device of the images, where a step learns them without waiting for it."""
        if self.rates.device != device:
            object.__setattr__(self, "rates", self.rates.to(device))

    def _weights(self) -> Tensor:
        """Return how often each bin is drawn, relative to its row's best; bins below the threshold never."""
        raised = (self.rates + (1 - self.decay)) * full_bank(self.rates.device)
        relative = raised / raised.amax(-1, keepdim=True).clamp(min=1e-12)
        return torch.where(relative >= self.threshold, relative, 0.0)

    def _draw(self, n: int, weights: Tensor, generator: torch.Generator) -> Policy:
        """Draw operations uniformly, bins by weight, and numbers uniformly within the bins."""
        device = generator.device
        chosen = torch.randint(0, len(CTAUGMENT.names), (n, self.depth), generator=generator, device=device)
        draws = torch.rand(n, self.depth, DRAWS, generator=generator, device=device, dtype=torch.float64)
        sizes = _sizes(device)[chosen]  # (n, D, P)
        rows = weights[chosen]  # (n, D, P, V)
        rows[..., 0] += sizes == 0  # a parameter that does not exist: bin 0, which is not read
        # As torch.multinomial does, which also waits for the device to check the weights.
        bins = (rows / torch.empty_like(rows).exponential_(generator=generator)).argmax(-1)
        draws[..., :PARAMETERS] = (bins + draws[..., :PARAMETERS]) / sizes.clamp(min=1)
        return Policy(chosen, bins, draws)

    def state_dict(self) -> dict[str, Tensor]:
        """Copy the learned rates for a checkpoint.

        Returns
        -------
        dict of str to Tensor
            The rates.
        """
        return {"rates": self.rates.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore saved rates.

        Parameters
        ----------
        state : dict of str to Tensor
            What `state_dict` returned.
        """
        if state["rates"].shape != self.rates.shape:
            raise ValueError(f"expected rates of shape {tuple(self.rates.shape)}, got {tuple(state['rates'].shape)}")
        self.rates.copy_(state["rates"])

    def _apply(self, images: Tensor, policy: Policy, generator: torch.Generator) -> Tensor:
        check_bytes(images)
        images, table = self.weak(images, generator), TABLES[self.translation]
        for level in range(self.depth):
            images = apply(images, table, policy.chosen[:, level], policy.draws[:, level])
        return images
