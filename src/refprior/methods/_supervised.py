"""Supervised learning on the labeled images alone: the baseline of every table."""

# K particles, b labeled images, C classes

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from refprior.information import average, log_likelihood, uniform
from refprior.methods._step import Loss, Needs, Step


def cross_entropy(log_p: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """-E_{w ~ π} log p(y | x, w), last term of eq:ref_mi_ce, ℓ_x of the box: (K, b, C), (b,), (K,) -> (b,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]]).log()  # two particles, one image
    >>> rp.losses.cross_entropy(log_p, torch.tensor([0]), torch.tensor([0.5, 0.5]).log()).round(decimals=3)
    tensor([1.0400])
    """
    return -average(log_likelihood(log_p, y), log_prior)


def supervised(labeled: Tensor, y: Tensor, log_prior: Tensor | None = None) -> Loss:
    """The mean cross-entropy of labeled images: (K, b, C), (b,), (K,). Equal prior weights unless given.

    >>> import torch
    >>> import refprior as rp
    >>> rp.losses.supervised(torch.full((4, 6, 2), 0.5).log(), torch.tensor([0, 1, 0, 1, 0, 1])).total
    tensor(0.6931)
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    loss = cross_entropy(labeled, y, log_prior).mean()
    return Loss.of(loss, cross_entropy=loss)


@dataclass(frozen=True)
class Supervised:
    """Cross-entropy of the labeled images. With K particles: a deep ensemble.

    >>> import refprior as rp
    >>> rp.Supervised().needs.views
    ()
    """

    needs: ClassVar[Needs] = Needs()

    def __call__(self, step: Step) -> Loss:
        (labeled,) = step.predict(step.batch.labeled)
        return supervised(labeled, step.batch.labels, step.log_prior.detach())
