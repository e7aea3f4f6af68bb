"""From particles to predictions: the posterior predictive, how good it is, and what it does not know."""

# K particles, n examples, C classes

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from refprior.information import average, entropy, finite, log_likelihood, mixture

Average = Literal["probabilities", "logits"]


def likelihood_weights(log_p: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """log p(w_k | x^n, y^n) ∝ log π(w_k) + Σ_i log p(y_i | x_i, w_k), Bayes' law: (K, n, C), (n,), (K,) -> (K,)."""
    return (log_prior.to(log_p) + finite(log_likelihood(log_p, y)).sum(-1)).log_softmax(0)


def predictive(log_p: Tensor, log_weights: Tensor, average_of: Average = "probabilities") -> Tensor:
    """log p(y | x, x^n, y^n), eq:bayes_posterior_predictive_distribution: (K, n, C), (K,) -> (n, C).

    log_weights is the posterior over particles (`likelihood_weights`), or the prior for an unweighted ensemble. The
    authors' code averages logits instead of probabilities, which is the normalised geometric mean.
    """
    if average_of == "logits":
        return average(finite(log_p), log_weights).log_softmax(-1)
    return mixture(log_p, log_weights)


class Uncertainty(NamedTuple):
    """The split of predictive uncertainty, in nats an example: total = within + between."""

    total: Tensor  # (n,) entropy of the predictive distribution
    within: Tensor  # (n,) mean entropy of the particles: noise in the labels
    between: Tensor  # (n,) mutual information of label and particle: what the particles disagree about


def uncertainty(log_p: Tensor, log_weights: Tensor) -> Uncertainty:
    """H(y | x) = E_w H(y | x, w) + I(w; y | x): (K, n, C), (K,) -> three times (n,)."""
    total = entropy(mixture(log_p, log_weights))
    within = average(entropy(log_p), log_weights)
    return Uncertainty(total, within, total - within)


def accuracy(log_p: Tensor, y: Tensor) -> Tensor:
    """1 where the most probable class is right: (..., n, C), (n,) -> (..., n)."""
    return (log_p.argmax(-1) == y).to(log_p.dtype)


def negative_log_likelihood(log_p: Tensor, y: Tensor) -> Tensor:
    """-log p(y): (n, C), (n,) -> (n,)."""
    return -log_likelihood(log_p, y)


def brier_score(log_p: Tensor, y: Tensor) -> Tensor:
    """Σ_c (p_c - 1[c = y])²: (n, C), (n,) -> (n,)."""
    truth = torch.nn.functional.one_hot(y, log_p.shape[-1]).to(log_p.dtype)
    return (log_p.exp() - truth).square().sum(-1)


class Reliability(NamedTuple):
    """Confidence and accuracy in equal bins of confidence."""

    counts: Tensor  # (bins,)
    confidence: Tensor  # (bins,) mean; 0 in an empty bin
    accuracy: Tensor  # (bins,) mean; 0 in an empty bin


def reliability(log_p: Tensor, y: Tensor, bins: int = 15) -> Reliability:
    """Reliability diagram: (n, C), (n,) -> three times (bins,)."""
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
    """Σ_bins (count / n) |accuracy - confidence|: (n, C), (n,) -> ()."""
    counts, confidence, correct = reliability(log_p, y, bins)
    return (counts / counts.sum() * (correct - confidence).abs()).sum()


class Scores(NamedTuple):
    """What the tables say of one set of weights on one part of the data."""

    accuracy: float  # of the ensemble
    particles: list[float]  # accuracy of every particle
    negative_log_likelihood: float
    brier: float
    calibration_error: float
    information: float  # mean I(w; y | x), nats
    reliability: dict[str, list[float]]  # the reliability diagram


def scores(log_p: Tensor, y: Tensor, log_weights: Tensor, average_of: Average = "probabilities") -> Scores:
    """All metrics of an ensemble: (K, n, C), (n,), (K,)."""
    ensemble = predictive(log_p, log_weights, average_of)
    return Scores(
        accuracy=accuracy(ensemble, y).mean().item(),
        particles=accuracy(log_p, y).mean(-1).tolist(),
        negative_log_likelihood=negative_log_likelihood(ensemble, y).mean().item(),
        brier=brier_score(ensemble, y).mean().item(),
        calibration_error=expected_calibration_error(ensemble, y).item(),
        information=uncertainty(log_p, log_weights).between.mean().item(),
        reliability={name: bins.tolist() for name, bins in reliability(ensemble, y)._asdict().items()},
    )
