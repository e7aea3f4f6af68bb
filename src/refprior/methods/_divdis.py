"""DivDis: particles that fit the labels and are statistically independent on the unlabeled inputs."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import average, finite, probabilities, uniform
from refprior.methods._reference_prior import checked_shares, class_skew, cross_entropy
from refprior.methods._step import Loss, Needs, Step


@dataclass(frozen=True)
class DivDis:
    """Diversify by independent predictions on the pool (Lee, Yao and Finn 2023).

    The loss is the cross-entropy of the labels, plus the mutual information of the predicted labels of every two
    particles, plus the divergence of each particle's class shares on the batch from those of the task. Means over
    particles and pairs replace the sums of the publication, so that the weights do not depend on the number of
    particles.

    Parameters
    ----------
    independence : float, default: 10
        Weight λ₁ of the mean pairwise mutual information.
    balance : float, default: 10
        Weight λ₂ of the mean divergence from the class shares.
    class_prior : sequence of float, optional
        Shares or counts of the classes in the pool. Defaults to equal shares.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.DivDis(independence=1).needs.views
    ('weak',)
    """

    independence: float = 10.0
    balance: float = 10.0
    class_prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        number("independence", self.independence, at_least=0)
        number("balance", self.balance, at_least=0)
        if self.class_prior is not None:
            object.__setattr__(self, "class_prior", checked_shares(self.class_prior))

    @cached_property
    def needs(self) -> Needs:
        """Labels and one weak view of each unlabeled input."""
        return Needs(views=("weak",), classes=0 if self.class_prior is None else len(self.class_prior))

    def __call__(self, step: Step) -> Loss:
        labeled, unlabeled = step.predict(step.batch.labeled, step.batch.views["weak"])
        return divdis(labeled, step.batch.labels, unlabeled, step.log_prior.detach(), self)


def pairwise_information(log_p: Tensor) -> Tensor:
    """Return I(ŷ_i; ŷ_j) of every two particles' labels of a random input: (K, n, C) -> (K (K - 1) / 2,)."""
    p = probabilities(finite(log_p))
    i, j = torch.triu_indices(len(p), len(p), 1, device=p.device)
    joint = torch.einsum("knc,lnd->klcd", p, p)[i, j] / p.shape[1]
    shares = p.mean(1)
    independent = shares[i, :, None] * shares[j, None, :]
    smallest = torch.finfo(p.dtype).tiny
    return (joint * (joint.clamp_min(smallest).log() - independent.clamp_min(smallest).log())).sum((1, 2))


_DIVDIS = DivDis()


def divdis(
    labeled: Tensor, y: Tensor, unlabeled: Tensor, log_prior: Tensor | None = None, settings: DivDis = _DIVDIS
) -> Loss:
    """Compute the loss of DivDis.

    CE(x) + λ₁ · mean over i < j of I(ŷ_i; ŷ_j) + λ₂ · mean over k of KL(mean prediction of k ‖ q).

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
    settings : DivDis
        Hyper-parameters.

    Returns
    -------
    Loss
        The total and its terms ``cross_entropy``, ``pairwise_information`` and ``skew``.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, unlabeled = (torch.randn(4, n, 2).log_softmax(-1) for n in (5, 8))
    >>> sorted(rp.losses.divdis(labeled, torch.tensor([0, 1, 0, 1, 0]), unlabeled).terms)
    ['cross_entropy', 'pairwise_information', 'skew']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    fit = cross_entropy(labeled, y, log_prior).mean()
    pairs = pairwise_information(unlabeled)
    information = pairs.mean() if len(pairs) else pairs.sum()
    skew = average(class_skew(unlabeled.transpose(0, 1), settings.class_prior), log_prior)
    total = fit + settings.independence * information + settings.balance * skew
    return Loss.of(total, cross_entropy=fit, pairwise_information=information, skew=skew)
