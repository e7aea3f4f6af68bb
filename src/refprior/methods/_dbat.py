"""D-BAT: each particle fits the labels and disagrees with the earlier ones on the unlabeled inputs."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import average, finite, uniform
from refprior.methods._reference_prior import cross_entropy
from refprior.methods._step import Loss, Needs, Step


@dataclass(frozen=True)
class DBAT:
    """Diversity by disagreement with earlier particles (Pagliardini et al. 2023).

    Particle k minimizes the cross-entropy of the labels plus its agreement with the particles before it on the pool.
    The publication trains the particles one after another. Here they learn side by side, with the earlier particles
    held fixed in the agreement, which costs a K-th of the time; disagreement starts after ``warmup``.

    Parameters
    ----------
    weight : float, default: 1
        Weight α of the agreement.
    warmup : float, default: 0.1
        Share of training in which the particles only fit the labels.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.DBAT(weight=0.1)
    DBAT(weight=0.1, warmup=0.1)
    """

    weight: float = 1.0
    warmup: float = 0.1
    needs: ClassVar[Needs] = Needs(views=("weak",))

    def __post_init__(self) -> None:
        number("weight", self.weight, at_least=0)
        number("warmup", self.warmup, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        labeled, unlabeled = step.predict(step.batch.labeled, step.batch.views["weak"])
        return dbat(labeled, step.batch.labels, unlabeled, step.log_prior.detach(), self, progress=step.progress)


def agreement(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return -log[p(ŷ) (1 - q(ŷ)) + (1 - p(ŷ)) q(ŷ)] with ŷ = argmax p: (..., C), (..., C) -> (...).

    For two classes this is -log of the probability that two independent labels differ.
    """
    log_p, log_q = finite(log_p), finite(log_q)
    label = log_p.argmax(-1, keepdim=True)
    p, q = log_p.gather(-1, label).squeeze(-1), log_q.gather(-1, label).squeeze(-1)
    lowest = torch.finfo(log_p.dtype).min / 4
    not_p, not_q = (found.scatter(-1, label, lowest).logsumexp(-1) for found in (log_p, log_q))
    return -torch.logaddexp(p + not_q, not_p + q)


_DBAT = DBAT()


def dbat(
    labeled: Tensor,
    y: Tensor,
    unlabeled: Tensor,
    log_prior: Tensor | None = None,
    settings: DBAT = _DBAT,
    *,
    progress: float = 1.0,
) -> Loss:
    """Compute the loss of D-BAT.

    CE(x) + α · mean over k of the mean over i < k of the agreement of particle k with particle i, which is held fixed.

    Parameters
    ----------
    labeled : Tensor, shape (K, b, C)
        Log-probabilities of the labeled inputs.
    y : Tensor, shape (b,)
        Their classes.
    unlabeled : Tensor, shape (K, n, C)
        Log-probabilities of the unlabeled inputs.
    log_prior : Tensor, shape (K,), optional
        Log-weights of the particles. Defaults to equal weights.
    settings : DBAT
        Hyper-parameters.
    progress : float, default: 1
        Share of training that is done; before ``settings.warmup`` the agreement does not count.

    Returns
    -------
    Loss
        The total and its terms ``cross_entropy`` and ``agreement``.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, unlabeled = (torch.randn(4, n, 2).log_softmax(-1) for n in (5, 8))
    >>> sorted(rp.losses.dbat(labeled, torch.tensor([0, 1, 0, 1, 0]), unlabeled).terms)
    ['agreement', 'cross_entropy']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    fit = cross_entropy(labeled, y, log_prior).mean()
    later = [
        agreement(unlabeled[:k].detach(), unlabeled[k].expand_as(unlabeled[:k])).mean()
        for k in range(1, len(unlabeled))
    ]
    agreed = average(torch.stack([unlabeled.new_zeros(()), *later]), log_prior)
    weight = settings.weight if progress >= settings.warmup else 0.0
    return Loss.of(fit + weight * agreed, cross_entropy=fit, agreement=agreed)
