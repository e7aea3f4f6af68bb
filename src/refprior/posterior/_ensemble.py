"""From particles to predictions: the posterior predictive, how good it is, and what it does not know."""

# K particles, n examples, C classes

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from refprior._checks import one_of
from refprior._mesh import plain
from refprior.information import average as prior_average
from refprior.information import entropy, finite, log_likelihood, mixture

Average = Literal["probabilities", "logits"]


def likelihood_weights(log_p: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """log p(w_k | x^n, y^n) ∝ log π(w_k) + Σ_i log p(y_i | x_i, w_k), Bayes' law: (K, n, C), (n,), (K,) -> (K,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]).log()  # two particles, one image
    >>> prior = torch.tensor([0.5, 0.5]).log()
    >>> rp.posterior.likelihood_weights(log_p, torch.tensor([0]), prior).exp()
    tensor([0.7500, 0.2500])
    """
    return (log_prior.to(log_p) + finite(log_likelihood(log_p, y)).sum(-1)).log_softmax(0)


def predictive(log_p: Tensor, log_posterior: Tensor, average: Average = "probabilities") -> Tensor:
    """log p(y | x, x^n, y^n), eq:bayes_posterior_predictive_distribution: (K, n, C), (K,) -> (n, C).

    log_posterior is over particles (`likelihood_weights`), or the prior for an unweighted ensemble. The authors' code
    averages logits instead of probabilities, which is the normalized geometric mean.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]).log()  # two particles, one image
    >>> rp.posterior.predictive(log_p, torch.tensor([0.5, 0.5]).log()).exp()
    tensor([[0.6000, 0.4000]])
    """
    one_of("average", average, ("probabilities", "logits"))
    if average == "logits":
        return prior_average(finite(log_p), log_posterior).log_softmax(-1)
    return mixture(log_p, log_posterior)


def change_class_prior(log_p: Tensor, trained: Tensor, target: Tensor) -> Tensor:
    """log p'(y | x) ∝ log p(y | x) + log q'(y) - log q(y), Bayes' law: (n, C), (C,), (C,) -> (n, C).

    For predictions that learned from classes of shares q = `trained`, where they will be q' = `target`; what each class
    looks like stays the same. Shares are without zeros and in any unit: counts do too.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1]]).log()
    >>> rp.posterior.change_class_prior(log_p, torch.tensor([9.0, 1.0]), torch.tensor([1.0, 1.0])).exp()
    tensor([[0.5000, 0.5000]])
    """
    for name, shares in {"trained": trained, "target": target}.items():
        if shares.shape != log_p.shape[-1:] or not bool((shares > 0).all()):
            raise ValueError(
                f"{name} must be {log_p.shape[-1]} shares above 0, one for each class, got {shares.tolist()}"
            )
    log_p = finite(log_p)
    return (log_p + target.to(log_p).log() - trained.to(log_p).log()).log_softmax(-1)


class Uncertainty(NamedTuple):
    """The split of predictive uncertainty, in nats per example: total = within + between.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(2).log().unsqueeze(1)  # two particles, one image, certain of different classes
    >>> found = rp.posterior.uncertainty(log_p, torch.tensor([0.5, 0.5]).log())
    >>> found.within.item(), round(found.between.item(), 4)
    (0.0, 0.6931)
    """

    total: Tensor  # (n,) entropy of the predictive distribution
    within: Tensor  # (n,) mean entropy of the particles: noise in the labels
    between: Tensor  # (n,) mutual information of label and particle: what the particles disagree about


def uncertainty(log_p: Tensor, log_posterior: Tensor) -> Uncertainty:
    """H(y | x) = E_w H(y | x, w) + I(w; y | x): (K, n, C), (K,) -> three times (n,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.full((2, 1, 2), 0.5).log()  # two particles, one image: unsure, and of one opinion
    >>> found = rp.posterior.uncertainty(log_p, torch.tensor([0.5, 0.5]).log())
    >>> round(found.within.item(), 4), abs(round(found.between.item(), 4))
    (0.6931, 0.0)
    """
    total = entropy(mixture(log_p, log_posterior))
    within = prior_average(entropy(log_p), log_posterior)
    return Uncertainty(total, within, total - within)


def accuracy(log_p: Tensor, y: Tensor) -> Tensor:
    """1 where the most probable class is right: (..., n, C), (n,) -> (..., n).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.accuracy(log_p, y)
    tensor([1., 0.])
    """
    return (log_p.argmax(-1) == y).to(log_p.dtype)


def negative_log_likelihood(log_p: Tensor, y: Tensor) -> Tensor:
    """-log p(y): (n, C), (n,) -> (n,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.negative_log_likelihood(log_p, y)
    tensor([0.1054, 1.2040])
    """
    return -log_likelihood(log_p, y)


def brier_score(log_p: Tensor, y: Tensor) -> Tensor:
    """Σ_c (p_c - 1[c = y])²: (n, C), (n,) -> (n,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.brier_score(log_p, y)
    tensor([0.0200, 0.9800])
    """
    truth = torch.nn.functional.one_hot(y, log_p.shape[-1]).to(log_p.dtype)
    return (log_p.exp() - truth).square().sum(-1)


class Reliability(NamedTuple):
    """Confidence and accuracy in equal bins of confidence.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.reliability(log_p, y, bins=5).counts
    tensor([0., 0., 0., 1., 1.])
    """

    counts: Tensor  # (bins,)
    confidence: Tensor  # (bins,) mean; 0 in an empty bin
    accuracy: Tensor  # (bins,) mean; 0 in an empty bin


def reliability(log_p: Tensor, y: Tensor, bins: int = 15) -> Reliability:
    """Reliability diagram: (n, C), (n,) -> three times (bins,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.reliability(log_p, y, bins=5).accuracy
    tensor([0., 0., 0., 0., 1.])
    """
    confidence = log_p.exp().amax(-1)
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1  # bins are (0, 1/bins], …, as is usual
    empty = torch.zeros(bins, dtype=log_p.dtype, device=log_p.device)
    counts = empty.index_add(0, index, torch.ones_like(confidence))
    total = counts.clamp_min(1)
    return Reliability(
        counts,
        empty.index_add(0, index, confidence) / total,
        empty.index_add(0, index, accuracy(log_p, y)) / total,
    )


def expected_calibration_error(log_p: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    """Σ_bins (count / n) |accuracy - confidence|: (n, C), (n,) -> ().

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.expected_calibration_error(log_p, y)  # the mean of 0.1 and 0.7
    tensor(0.4000)
    """
    counts, confidence, correct = reliability(log_p, y, bins)
    return (counts / counts.sum() * (correct - confidence).abs()).sum()


@dataclass(frozen=True)
class Bins:
    """A reliability diagram as plain numbers, one per bin of confidence.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log()  # one particle, two images, certain
    >>> rp.posterior.scores(log_p, torch.tensor([0, 0]), torch.zeros(1)).reliability.accuracy[-1]
    0.5
    """

    counts: tuple[float, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]


@dataclass(frozen=True)
class Scores:
    """How good an ensemble is on one part of the data.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]]).log()  # one particle, two images
    >>> found = rp.posterior.scores(log_p, torch.tensor([0, 0]), torch.zeros(1))
    >>> found.accuracy, found.to_dict()["particle_accuracies"]
    (0.5, [0.5])
    """

    accuracy: float  # of the ensemble
    particle_accuracies: tuple[float, ...]  # of every particle
    negative_log_likelihood: float  # nats per example
    brier: float
    calibration_error: float
    information: float  # mean I(w; y | x), nats
    reliability: Bins

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


def scores(log_p: Tensor, y: Tensor, log_posterior: Tensor, average: Average = "probabilities") -> Scores:
    """All metrics of an ensemble: (K, n, C), (n,), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]], [[0.7, 0.3]]]).log()  # two particles, one image
    >>> round(rp.posterior.scores(log_p, torch.tensor([0]), torch.tensor([0.5, 0.5]).log()).brier, 3)
    0.08
    """
    ensemble = plain(predictive(log_p, log_posterior, average))
    bins = reliability(ensemble, y)
    return Scores(
        accuracy=accuracy(ensemble, y).mean().item(),
        particle_accuracies=tuple(plain(accuracy(log_p, y).mean(-1)).tolist()),
        negative_log_likelihood=negative_log_likelihood(ensemble, y).mean().item(),
        brier=brier_score(ensemble, y).mean().item(),
        calibration_error=expected_calibration_error(ensemble, y).item(),
        information=plain(uncertainty(log_p, log_posterior).between.mean()).item(),
        reliability=Bins(*(tuple(values.tolist()) for values in bins)),
    )
