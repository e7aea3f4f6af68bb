"""Supervised learning on the labelled examples alone: the baseline of every table."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from refprior.information import average, log_likelihood
from refprior.methods._step import Loss, Step


def cross_entropy(log_p: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """-E_{w ~ π} log p(y | x, w), last term of eq:ref_mi_ce, ℓ_x of the box: (K, b, C), (b,), (K,) -> (b,)."""
    return -average(log_likelihood(log_p, y), log_prior)


@dataclass(frozen=True)
class Supervised:
    """Cross-entropy of the labelled examples. With K particles: a deep ensemble."""

    order: ClassVar[int] = 0

    def __call__(self, step: Step) -> Loss:
        (log_p,) = step.predict(step.batch.x)
        loss = cross_entropy(log_p, step.batch.y, step.log_prior.detach()).mean()
        return Loss(loss, {"cross_entropy": loss.detach()})
