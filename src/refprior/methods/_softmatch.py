"""SoftMatch: every pseudo-label counts, the less confident ones less."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import finite, uniform
from refprior.methods._fixmatch import pseudo_label_loss
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import moved, with_pseudo_labels

_RARE = 1e-6  # added to the mean probability of every class


@dataclass(frozen=True)
class SoftMatch:
    """SoftMatch (Chen et al. 2023), any number of particles, each with moving averages of its own in the checkpoint.

    >>> import refprior as rp
    >>> rp.methods.SoftMatch()
    SoftMatch(momentum=None, widths=2.0, weight=1.0)
    """

    momentum: float | None = None  # of the averages; None: that of the moving average of weights, both 0.999 originally
    widths: float = 2.0  # σ of the weights is that of the confidences divided by this
    weight: float = 1.0  # of the unlabeled inputs
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        if self.momentum is not None:
            number("momentum", self.momentum, at_least=0, below=1)
        number("widths", self.widths, above=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views, log_prior = step.batch.views, step.log_prior.detach()
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        weights = self.weights(step, weak)
        return softmatch(labeled, step.batch.labels, weak, strong, weights, log_prior, self)

    def weights(self, step: Step, weak: Tensor) -> Tensor:
        """How much each input counts, and the averages moved: (K, n, C) -> (K, n)."""
        momentum, memory = step.ema if self.momentum is None else self.momentum, step.memory
        mean = weak.detach().exp().mean(1)
        marginal = moved(memory["marginal"], mean, momentum) if memory else mean
        confidence = aligned(weak.detach(), marginal).amax(-1).exp()  # (K, n)
        before = (memory["center"], memory["variance"]) if memory else first_moments(weak)
        center = moved(before[0], confidence.mean(1), momentum)
        variance = moved(before[1], confidence.var(1, correction=min(1, confidence.shape[1] - 1)), momentum)
        memory.update(marginal=marginal, center=center, variance=variance)
        return truncated_gaussian(confidence, center, variance, self.widths)


def first_moments(weak: Tensor) -> tuple[Tensor, Tensor]:
    """μ = 1/C and σ² = 1, before the first batch: (K,), (K,)."""
    ones = torch.ones(len(weak), dtype=weak.dtype, device=weak.device)
    return ones / weak.shape[-1], ones


def aligned(log_p: Tensor, marginal: Tensor) -> Tensor:
    """log of p(y) / p̄(y), normalized: uniform alignment, SoftMatch eq. 10: (K, n, C), (K, C) -> (K, n, C).

    p̄ is a little above 0 as in the original, so that a class that nothing has does not take over.
    """
    return (finite(log_p) - (marginal.unsqueeze(1) + _RARE).log()).log_softmax(-1)


def truncated_gaussian(confidence: Tensor, center: Tensor, variance: Tensor, widths: float) -> Tensor:
    """exp(-(min(p - μ, 0))² / (2 σ² / widths²)), SoftMatch eq. 7, a step if σ = 0: (K, n), (K,), (K,) -> (K, n)."""
    below = confidence - center.unsqueeze(1)
    return torch.where(below < 0, torch.exp(-below.square() * widths**2 / (2 * variance.unsqueeze(1))), 1)


_DEFAULT = SoftMatch()


def softmatch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    weights: Tensor,
    log_prior: Tensor | None = None,
    settings: SoftMatch = _DEFAULT,
) -> Loss:
    """CE(x) + weight · mean of λ(u) · CE(argmax p(weak), p(strong)):
    (K, b, C), (b,), (K, n, C), (K, n, C), (K, n), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.softmatch(labeled, torch.arange(5), weak, strong, torch.ones(4, 8)).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    items = pseudo_label_loss(weak, strong)
    return with_pseudo_labels(labeled, y, items, weights.detach(), log_prior, settings.weight)
