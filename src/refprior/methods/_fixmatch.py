"""FixMatch: confident pseudo-labels from the weak view teach the strong view."""

# K particles, b labeled images, n unlabeled images, C classes

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from refprior._checks import number
from refprior.information import finite, log_likelihood, uniform
from refprior.methods._reference_prior import confident
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import with_pseudo_labels


@dataclass(frozen=True)
class FixMatch:
    """FixMatch (Sohn et al. 2020) for any number of particles, each by itself: K = 1 is the original.

    >>> import refprior as rp
    >>> rp.FixMatch(threshold=0.9)
    FixMatch(threshold=0.9, weight=1.0)
    """

    threshold: float = 0.95
    weight: float = 1.0  # of the unlabeled images
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"), shardable=True)

    def __post_init__(self) -> None:
        number("threshold", self.threshold, above=0, at_most=1)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views = step.batch.views
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        return fixmatch(labeled, step.batch.labels, weak, strong, step.log_prior.detach(), self)


def pseudo_label_loss(weak: Tensor, strong: Tensor) -> Tensor:
    """CE(argmax p(weak), p(strong)), each particle its own teacher: (K, n, C), (K, n, C) -> (K, n)."""
    return -log_likelihood(finite(strong), weak.detach().argmax(-1))


_DEFAULT = FixMatch()


def fixmatch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor | None = None,
    settings: FixMatch = _DEFAULT,
) -> Loss:
    """CE(x) + weight · mean of 1[max p(weak) ≥ threshold] · CE(argmax p(weak), p(strong)):
    (K, b, C), (b,), (K, n, C), (K, n, C), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.fixmatch(labeled, torch.arange(5), weak, strong).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    used = confident(weak, settings.threshold)
    return with_pseudo_labels(labeled, y, pseudo_label_loss(weak, strong), used, log_prior, settings.weight)
