"""FixMatch: confident pseudo-labels from the weak view teach the strong view."""

# K particles, B tuples of one image, C classes

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from refprior.information import average, log_likelihood
from refprior.methods._reference_prior import confident
from refprior.methods._step import Loss, Step
from refprior.methods._supervised import cross_entropy


def pseudo_label_loss(weak: Tensor, strong: Tensor, threshold: float) -> Tensor:
    """1[max p(weak) ≥ threshold] · CE(argmax p(weak), p(strong)): (K, n, C), (K, n, C) -> (K, n)."""
    label = weak.detach().argmax(-1)  # (K, n): each particle teaches itself
    return -log_likelihood(strong, label) * confident(weak, threshold)


@dataclass(frozen=True)
class FixMatch:
    """FixMatch (Sohn et al. 2020) for any number of particles, each by itself: K = 1 is the original."""

    threshold: float = 0.95
    weight: float = 1.0  # of the unlabelled images
    order: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1 or not 0 <= self.weight < math.inf:
            raise ValueError(f"need 0 < threshold <= 1 and weight >= 0, got {self.threshold} and {self.weight}")

    def __call__(self, step: Step) -> Loss:
        batch, log_prior = step.batch, step.log_prior.detach()
        labelled, strong, weak = step.predict(batch.x, batch.strong, frozen=[batch.weak])
        likelihood = cross_entropy(labelled, batch.y, log_prior).mean()
        unlabelled = average(
            pseudo_label_loss(weak.flatten(1, 2), strong.flatten(1, 2), self.threshold), log_prior
        ).mean()
        mask = confident(weak, self.threshold).mean()
        terms = {"cross_entropy": likelihood, "pseudo_label": unlabelled, "confident": mask}
        return Loss(likelihood + self.weight * unlabelled, {name: term.detach() for name, term in terms.items()})
