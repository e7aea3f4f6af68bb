"""From particles to predictions: the posterior predictive, its scores and its uncertainty."""

# K particles, n examples, C classes

import json
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import one_of
from refprior._files import Json
from refprior._mesh import plain
from refprior.information import average as prior_average
from refprior.information import entropy, finite, log_likelihood, mixture

Average = Literal["probabilities", "logits"]


def likelihood_weights(log_p: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """Weight the particles by the likelihood of labeled examples.

    log p(w_k | x^n, y^n) ∝ log π(w_k) + Σ_i log p(y_i | x_i, w_k), Bayes' law.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    y : Tensor
        True classes, (n,).
    log_prior : Tensor
        log π(w_k), (K,).

    Returns
    -------
    Tensor
        Normalized log-weights, (K,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]).log()  # two particles, one image
    >>> prior = torch.tensor([0.5, 0.5]).log()
    >>> rp.posterior.likelihood_weights(log_p, torch.tensor([0]), prior).exp()
    tensor([0.7500, 0.2500])
    """
    return (log_prior.to(log_p) + finite(log_likelihood(log_p, y)).sum(-1)).log_softmax(0)


def predictive(log_p: Tensor, log_posterior: Tensor, average: Average = "probabilities") -> Tensor:
    """Average the particles to the posterior predictive distribution.

    log p(y | x, x^n, y^n), eq:bayes_posterior_predictive_distribution.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    log_posterior : Tensor
        Log-weights of the particles, (K,): from `likelihood_weights`, or the prior for an unweighted ensemble.
    average : {"probabilities", "logits"}, default: "probabilities"
        Average probabilities (Bayes), or logits as the authors' code does: the normalized geometric mean.

    Returns
    -------
    Tensor
        Log-probabilities of the ensemble, (n, C).

    Examples
    --------
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


def tempered(log_p: Tensor, temperature: float, log_ratio: Tensor | None = None) -> Tensor:
    """Return log p / T + log ratio, normalized, (n, C); T = 1 without a ratio leaves every bit as it is."""
    if temperature == 1 and log_ratio is None:
        return log_p
    return (log_p / temperature + (0.0 if log_ratio is None else log_ratio.to(log_p))).log_softmax(-1)


def change_class_prior(log_p: Tensor, trained: Tensor, target: Tensor) -> Tensor:
    """Correct predictions for other class shares than those of the training data.

    log p'(y | x) ∝ log p(y | x) + log q'(y) - log q(y), Bayes' law. It assumes that the inputs of each class stay the
    same.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (n, C).
    trained : Tensor
        Class shares or counts q of the training data, all above 0, (C,).
    target : Tensor
        Class shares or counts q' where the predictions are used, all above 0, (C,).

    Returns
    -------
    Tensor
        Corrected log-probabilities, (n, C).

    Raises
    ------
    ValueError
        If the shares are not C numbers above 0.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1]]).log()
    >>> rp.posterior.change_class_prior(log_p, torch.tensor([9.0, 1.0]), torch.tensor([1.0, 1.0])).exp()
    tensor([[0.5000, 0.5000]])
    """
    for name, shares in {"trained": trained, "target": target}.items():
        if shares.shape != log_p.shape[-1:] or not bool((shares > 0).all()):
            raise ValueError(f"{name} must be {log_p.shape[-1]} shares above 0, one per class, got {shares.tolist()}")
    log_p = finite(log_p)
    return (log_p + target.to(log_p).log() - trained.to(log_p).log()).log_softmax(-1)


class Uncertainty(NamedTuple):
    """The decomposition of predictive uncertainty, in nats per example: total = within + between.

    Parameters
    ----------
    total : Tensor
        Entropy of the predictive distribution, (n,).
    within : Tensor
        Mean entropy of the particles, the aleatoric part: noise in the labels, (n,).
    between : Tensor
        Mutual information of label and particle, the epistemic part: disagreement of the particles, (n,).
    """

    total: Tensor
    within: Tensor
    between: Tensor


def uncertainty(log_p: Tensor, log_posterior: Tensor) -> Uncertainty:
    """Decompose predictive uncertainty into noise and disagreement.

    H(y | x) = E_w H(y | x, w) + I(w; y | x).

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    log_posterior : Tensor
        Log-weights of the particles, (K,): from `likelihood_weights`, or the prior for an unweighted ensemble.

    Returns
    -------
    Uncertainty
        `total`, `within` (aleatoric) and `between` (epistemic), in nats, (n,) each.

    Examples
    --------
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
    """Mark the examples whose most probable class is right.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (..., n, C).
    y : Tensor
        True classes, (n,).

    Returns
    -------
    Tensor
        1 where the prediction is right and 0 elsewhere, (..., n).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.accuracy(log_p, y)
    tensor([1., 0.])
    """
    return (log_p.argmax(-1) == y).to(log_p.dtype)


def group_accuracy(log_p: Tensor, y: Tensor, groups: Tensor) -> Tensor:
    """Compute the accuracy in each group of examples.

    The worst group, ``group_accuracy(log_p, y, groups).amin(-1)``, shows whether a prediction follows a shortcut: it is
    the accuracy where the shortcut is wrong.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (..., n, C).
    y : Tensor
        True classes, (n,).
    groups : Tensor
        Group of each example, any integers, such as a number for each combination of cues, (n,).

    Returns
    -------
    Tensor
        Accuracy in each group, in the order of their numbers, (..., G).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]]).log()
    >>> y, background = torch.tensor([0, 1, 1, 0]), torch.tensor([5, 5, 7, 7])
    >>> rp.posterior.group_accuracy(log_p, y, background)
    tensor([1.0000, 0.5000])
    """
    if groups.shape != y.shape:
        raise ValueError(f"expected a group for each of {len(y)} examples, got {tuple(groups.shape)}")
    found, home = groups.to(log_p.device).unique(return_inverse=True)
    wide = torch.promote_types(log_p.dtype, torch.float32)  # counts overflow half precision
    members = torch.eye(len(found), dtype=wide, device=home.device)[home]  # (n, G)
    return (accuracy(log_p, y).to(wide) @ members / members.sum(0)).to(log_p.dtype)


def negative_log_likelihood(log_p: Tensor, y: Tensor) -> Tensor:
    """Compute -log p(y) of every example.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (n, C).
    y : Tensor
        True classes, (n,).

    Returns
    -------
    Tensor
        Nats per example, (n,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.negative_log_likelihood(log_p, y)
    tensor([0.1054, 1.2040])
    """
    return -log_likelihood(log_p, y)


def brier_score(log_p: Tensor, y: Tensor) -> Tensor:
    """Compute the Brier score of every example.

    Σ_c (p_c - 1[c = y])².

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (n, C).
    y : Tensor
        True classes, (n,).

    Returns
    -------
    Tensor
        Values from 0 to 2, (n,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.brier_score(log_p, y)
    tensor([0.0200, 0.9800])
    """
    truth = one_hot(y, log_p.shape[-1]).to(log_p.dtype)
    return (log_p.exp() - truth).square().sum(-1)


class Reliability(NamedTuple):
    """Confidence and accuracy in equal bins of confidence.

    Parameters
    ----------
    counts : Tensor
        Examples in each bin, (bins,).
    confidence : Tensor
        Mean confidence, 0 in an empty bin, (bins,).
    accuracy : Tensor
        Mean accuracy, 0 in an empty bin, (bins,).
    """

    counts: Tensor
    confidence: Tensor
    accuracy: Tensor


def reliability(log_p: Tensor, y: Tensor, bins: int = 15) -> Reliability:
    """Compute a reliability diagram.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (n, C).
    y : Tensor
        True classes, (n,).
    bins : int, default: 15
        Number of equal bins (0, 1/bins], … of confidence.

    Returns
    -------
    Reliability
        `counts`, mean `confidence` and mean `accuracy`, (bins,) each.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two images
    >>> y = torch.tensor([0, 0])
    >>> rp.posterior.reliability(log_p, y, bins=5).accuracy
    tensor([0., 0., 0., 0., 1.])
    """
    confidence = log_p.exp().amax(-1)
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1  # bins are (0, 1/bins], …
    empty = torch.zeros(bins, dtype=log_p.dtype, device=log_p.device)
    counts = empty.index_add(0, index, torch.ones_like(confidence))
    total = counts.clamp_min(1)
    return Reliability(
        counts,
        empty.index_add(0, index, confidence) / total,
        empty.index_add(0, index, accuracy(log_p, y)) / total,
    )


def expected_calibration_error(log_p: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    """Compute the expected calibration error.

    ``Σ_bins (count / n) |accuracy - confidence|``.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (n, C).
    y : Tensor
        True classes, (n,).
    bins : int, default: 15
        Number of equal bins of confidence.

    Returns
    -------
    Tensor
        A scalar from 0 to 1.

    Examples
    --------
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

    Parameters
    ----------
    counts : tuple of float
        Examples in each bin.
    confidence, accuracy : tuple of float
        Means, 0 in an empty bin.
    """

    counts: tuple[float, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]


@dataclass(frozen=True)
class Scores:
    """The scores of an ensemble on one part of the data.

    Parameters
    ----------
    accuracy : float
        Accuracy of the ensemble.
    particle_accuracies : tuple of float
        Accuracy of every particle.
    negative_log_likelihood : float
        Nats per example.
    brier : float
        Mean Brier score.
    calibration_error : float
        Expected calibration error.
    information : float
        Mean I(w; y | x) in nats.
    reliability : Bins
        The reliability diagram.
    """

    accuracy: float
    particle_accuracies: tuple[float, ...]
    negative_log_likelihood: float
    brier: float
    calibration_error: float
    information: float
    reliability: Bins

    def to_dict(self) -> Json:
        """Return plain numbers, lists and dictionaries."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


def score(
    log_p: Tensor,
    y: Tensor,
    log_posterior: Tensor,
    average: Average = "probabilities",
    *,
    temperature: float = 1.0,
) -> Scores:
    """Compute all scores of an ensemble.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    y : Tensor
        True classes, (n,).
    log_posterior : Tensor
        Log-weights of the particles, (K,): from `likelihood_weights`, or the prior for an unweighted ensemble.
    average : {"probabilities", "logits"}, default: "probabilities"
        Average probabilities (Bayes), or logits as the authors' code does: the normalized geometric mean.
    temperature : float, default: 1.0
        Divides the log-probabilities of the ensemble.

    Returns
    -------
    Scores
        Accuracy, negative log-likelihood, Brier score, calibration error and information.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]], [[0.7, 0.3]]]).log()  # two particles, one image
    >>> round(rp.posterior.score(log_p, torch.tensor([0]), torch.tensor([0.5, 0.5]).log()).brier, 3)
    0.08
    """
    ensemble = tempered(plain(predictive(log_p, log_posterior, average)), temperature)
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


def transferability(log_p: Tensor, y: Tensor, classes: int, log_prior: Tensor) -> Tensor:
    """Estimate how well a source suits a target, before training on the target.

    The meaning of an output z of the source is read from the joint frequencies of z and y among the labeled target
    examples: log Σ_z p(y_i | z) p_k(z | x_i), the log expected empirical prediction of Nguyen et al. (2020), averaged
    over examples and particles. 0 is perfect. Constant outputs get minus the entropy of the labels. Noise gets slightly
    more with more outputs: compare sources with equally many.

    Parameters
    ----------
    log_p : Tensor
        The source particles' log-probabilities of target examples, (K, n, C).
    y : Tensor
        Target classes of these examples, (n,).
    classes : int
        C', the number of target classes.
    log_prior : Tensor
        log π(w_k), (K,).

    Returns
    -------
    Tensor
        Mean log-probability of the target labels, at most 0, a scalar.

    Raises
    ------
    ValueError
        If there is no labeled example.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(3)[[1, 2, 1, 2]].log().unsqueeze(0)  # one particle, four images, three source classes
    >>> prior = torch.zeros(1)
    >>> rp.posterior.transferability(log_p, torch.tensor([0, 1, 0, 1]), classes=2, log_prior=prior)
    tensor(0.)
    """
    if not len(y):
        raise ValueError("transferability needs at least one labeled target example")
    p = log_p.exp()
    joint = torch.einsum("knz,nc->kzc", p, one_hot(y, classes).to(p)) / len(y)  # (K, C, C')
    meaning = joint / joint.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    likelihood = torch.einsum("knz,kzn->kn", p, meaning[..., y])
    return prior_average(likelihood.log().mean(-1), log_prior)


def confusion_matrix(log_p: Tensor, y: Tensor) -> Tensor:
    """Count how many examples of each class are predicted as each class.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (n, C).
    y : Tensor
        True classes, (n,).

    Returns
    -------
    Tensor
        Counts, true classes by row and predicted classes by column, (C, C) int64.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]]).log()  # three inputs
    >>> rp.posterior.confusion_matrix(log_p, torch.tensor([0, 0, 1]))
    tensor([[1, 1],
            [0, 1]])
    """
    classes = log_p.shape[-1]
    return torch.bincount(y * classes + log_p.argmax(-1), minlength=classes**2).reshape(classes, classes)


@dataclass(frozen=True, eq=False)
class PerClass:
    """The scores of every class; NaN where there is nothing to count.

    Parameters
    ----------
    precision : Tensor
        Share of the examples predicted as the class that belong to it, (C,).
    recall : Tensor
        Share of the examples of the class that are predicted as it, (C,).
    f1 : Tensor
        Harmonic mean of the two, (C,).
    count : Tensor
        Examples of the class, (C,).
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor
    count: Tensor


def per_class(counts: Tensor) -> PerClass:
    """Compute precision, recall and F1 of every class from a confusion matrix.

    Parameters
    ----------
    counts : Tensor
        Confusion matrix of `confusion_matrix`, (C, C).

    Returns
    -------
    PerClass
        `precision`, `recall`, `f1` and `count`, (C,) each; NaN where there is nothing to count.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.posterior.per_class(torch.tensor([[1, 1], [0, 1]])).precision
    tensor([1.0000, 0.5000])
    """
    right, taken, count = counts.diagonal(), counts.sum(0), counts.sum(1)
    return PerClass(right / taken, right / count, 2 * right / (taken + count), count)
