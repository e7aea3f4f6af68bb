"""Predictions of labels by particles that have not learned them: scores without a test set, and wrong labels."""

# K particles, n labels, C classes

import math
import textwrap
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from refprior.information import finite, log_likelihood, uniform
from refprior.posterior._ensemble import accuracy, expected_calibration_error, negative_log_likelihood, predictive
from refprior.posterior._new_labels import Evidence

Interval = tuple[float, float]
_Z = 1.959963984540054  # 97.5 % quantile of the normal distribution
_RESAMPLES = 1000
_NUMBERS = 1 << 22  # drawn at a time
_BINS = 15  # of confidence
_SHOWN, _NAME = 5, 40  # labels in a text, and characters of a name
_LOG_T = torch.linspace(-2, 2, 41).tolist()  # logs of temperatures
_SPREAD = 0.25  # standard deviation of the ensemble's log T before any label
_RAREST = -60.0  # log-probability below which it says nothing of the confidence in general


def out_of_fold_mixture(log_p: Tensor, held_out: Tensor, log_prior: Tensor) -> Tensor:
    """Mix the predictions of the particles that held out each label: (K, n, C), (K, n), (K,) -> (n, C)."""
    log_weights = log_prior.to(log_p).unsqueeze(1).where(held_out, -torch.inf).log_softmax(0)
    return (log_p + log_weights.unsqueeze(-1)).logsumexp(0)


def conformal_sets(log_p: Tensor, label_log_p: Tensor, held_out: Tensor, log_prior: Tensor, coverage: float) -> Tensor:
    """Return which classes are in the CV+ set of each input: (K, m, C), (n,), (K, n), (K,) -> (m, C) bool.

    With scores s_i = 1 - p_{-i}(y_i | x_i), where p_{-i} is the mixture of the particles that held out label i, class y
    is in the set of x if #{i : s_i < 1 - p_{-i}(y | x)} < (n + 1) · coverage (Romano, Sesia and Candès, 2020).
    """
    patterns, index = held_out.unique(dim=1, return_inverse=True)
    smaller = torch.zeros(log_p.shape[1:], dtype=torch.int64, device=log_p.device)
    for place in range(patterns.shape[1]):
        mixed = out_of_fold_mixture(log_p, patterns[:, place : place + 1].expand(-1, log_p.shape[1]), log_prior)
        known = label_log_p[index == place].to(mixed).sort().values
        smaller += len(known) - torch.searchsorted(known, mixed.contiguous(), right=True)
    return smaller < coverage * (len(label_log_p) + 1)


@dataclass(frozen=True)
class OutOfFoldScores:
    """Scores of labels under the particles that have not learned them, with 95 % intervals.

    The interval of the accuracy is Wilson's; the others are percentiles of 1,000 bootstrap resamples of the labels.
    The calibration error of few labels is too large on average, even for a perfectly calibrated model.

    Parameters
    ----------
    labels : int
        Number of labels n.
    accuracy : float
        Share of labels that the particles predict.
    accuracy_interval : tuple of float
        Its interval.
    negative_log_likelihood : float
        Nats per label.
    negative_log_likelihood_interval : tuple of float
        Its interval.
    calibration_error : float
        Expected calibration error.
    calibration_error_interval : tuple of float
        Its interval.
    """

    labels: int
    accuracy: float
    accuracy_interval: Interval
    negative_log_likelihood: float
    negative_log_likelihood_interval: Interval
    calibration_error: float
    calibration_error_interval: Interval

    def __str__(self) -> str:
        low, high = self.accuracy_interval
        nll = _text(self.negative_log_likelihood, self.negative_log_likelihood_interval)
        error = _text(self.calibration_error, self.calibration_error_interval)
        right = f"{100 * self.accuracy:.0f} % ({100 * low:.0f}–{100 * high:.0f})"
        return f"out of fold, {self.labels} labels: {right}, NLL {nll}, ECE {error}"


def _text(value: float, interval: Interval) -> str:
    return f"{value:.2f} ({interval[0]:.2f}–{interval[1]:.2f})"


def wilson_interval(share: float, count: int) -> Interval:
    """Return Wilson's 95 % interval of a share of `count` trials."""
    z = _Z**2 / count
    center = (share + z / 2) / (1 + z)
    half = math.sqrt(share * (1 - share) * z + z**2 / 4) / (1 + z)
    return max(0.0, center - half), min(1.0, center + half)


def score_out_of_fold(log_p: Tensor, y: Tensor) -> OutOfFoldScores:
    """Score the log-probabilities of labels by particles that have not learned them: (n, C), (n,)."""
    log_p, y = log_p.double().cpu(), y.cpu()
    right, surprise = accuracy(log_p, y), negative_log_likelihood(log_p, y)
    share, confidence = right.mean().item(), log_p.exp().amax(-1)
    index = (confidence * _BINS).ceil().long().clamp(1, _BINS) - 1
    gaps = torch.zeros(len(y), _BINS, dtype=torch.float64).scatter(1, index.unsqueeze(1), (right - confidence)[:, None])
    drawn = np.random.default_rng(0)
    block = max(1, _NUMBERS // len(y))
    nll, error = [], []
    for first in range(0, _RESAMPLES, block):
        rows = min(block, _RESAMPLES - first)
        counts = torch.from_numpy(drawn.multinomial(len(y), np.full(len(y), 1 / len(y)), rows)).double() / len(y)
        nll.append(counts @ surprise)
        error.append((counts @ gaps).abs().sum(1))
    return OutOfFoldScores(
        labels=len(y),
        accuracy=share,
        accuracy_interval=wilson_interval(share, len(y)),
        negative_log_likelihood=surprise.mean().item(),
        negative_log_likelihood_interval=_percentiles(torch.cat(nll)),
        calibration_error=expected_calibration_error(log_p, y, _BINS).item(),
        calibration_error_interval=_percentiles(torch.cat(error)),
    )


def _percentiles(values: Tensor) -> Interval:
    low, high = torch.quantile(values, torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    return low, high


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of labeled inputs by the particles that have not learned their labels.

    Parameters
    ----------
    log_probabilities : ndarray
        Log-probabilities of the classes for each labeled input, (n, C): the mixture of the particles that held it out.
    labels : ndarray
        Class indices of the labels, (n,).
    scores : OutOfFoldScores
        Accuracy, negative log-likelihood and calibration error with 95 % intervals.
    temperature : float, default: 1.0
        The temperature that these predictions suggest for the whole ensemble (`ensemble_temperature`).
    """

    log_probabilities: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    scores: OutOfFoldScores
    temperature: float = 1.0

    def __repr__(self) -> str:
        return str(self.scores)


@dataclass(frozen=True, eq=False)
class LabelQuality:
    """The probability that each label is right.

    A label is wrong with probability ε, and then any other class is equally probable. The particles that have not
    learned the label predict the true class. ε and the temperature of these predictions are estimated from all labels.

    Parameters
    ----------
    right : ndarray
        Probability that each label is right, (n,).
    given : ndarray
        The labels, (n,).
    suggested : ndarray
        The most probable classes according to the particles that have not learned the labels, (n,).
    index : ndarray
        Position of each labeled input, (n,): in the labeled part of the task, or rows of X.
    error_rate : float
        The estimate of ε. Mistakes of confident particles count as wrong labels.
    names : tuple of str
        Names of the labeled inputs, such as files or rows of a table, if they have any.
    """

    right: np.ndarray = field(repr=False)
    given: np.ndarray = field(repr=False)
    suggested: np.ndarray = field(repr=False)
    index: np.ndarray = field(repr=False)
    error_rate: float
    names: tuple[str, ...] = field(default=(), repr=False)

    @property
    def order(self) -> np.ndarray:
        """Positions in these arrays by probability, the labels to check first at the beginning: (n,)."""
        return np.argsort(self.right, kind="stable")

    @property
    def informative(self) -> bool:
        """Whether the particles predict labels that they have not learned better than chance.

        The lower end of Wilson's 95 % interval of the agreement is compared with the agreement of random predictions
        with the same class shares, as in Cohen's kappa. If it is below, `right` and `error_rate` say nothing.
        """
        classes, n = np.unique([self.given, self.suggested]), len(self.given)
        chance = sum((self.given == c).mean() * (self.suggested == c).mean() for c in classes)
        return wilson_interval((self.given == self.suggested).mean(), n)[0] > float(chance)

    def __repr__(self) -> str:
        if not self.informative:
            return f"{len(self.right)} labels, predicted no better than chance: wrong ones cannot be found"
        first = [i for i in self.order[:_SHOWN] if self.right[i] < 0.5]
        names = [textwrap.shorten(name, _NAME, placeholder=" …") for name in self.names] or self.index
        found = (f"{names[i]} ({self.given[i]}, not {self.suggested[i]}?)" for i in first)
        check = f"; check first: {', '.join(found)}" if first else ""
        return f"{len(self.right)} labels, about {100 * self.error_rate:.0f} % wrong{check}"


def label_posterior(log_p: Tensor, y: Tensor) -> tuple[Tensor, float]:
    """Return the probability that each label is right, and the error rate ε: (n, C), (n,) -> (n,), ().

    The label is right with probability 1 - ε, and otherwise uniform over the other classes. By Bayes' rule
    r = (1 - ε) p(y) / [(1 - ε) p(y) + ε (1 - p(y)) / (C - 1)], with predictions p of temperature T: particles that are
    too confident would take their own mistakes for wrong labels. ε and T maximize the likelihood of the labels with a
    standard normal prior on log T, searched on a grid.
    """
    found = [(log_t, *_at_temperature(log_p.double(), y, log_t)) for log_t in _LOG_T]
    _, _, right, rate = max(found, key=lambda candidate: candidate[1] - candidate[0] ** 2 / 2)
    return right, rate


def log_slope(log_p: Tensor) -> float:
    """Return log of the slope of the true log-odds on those of the mixture, relative to a particle: (K, n, C) -> ().

    The log-odds of a particle are the common signal of all particles plus independent noise, so that the truth is less
    certain than the particle. ρ, the slope of one particle on another, is the share of the signal. The mean of K
    log-odds has a larger share, 1 / [1 + (1/ρ - 1) / K] (Spearman–Brown), and its slope is (1 + (K - 1) ρ) / K times
    smaller in T. The mixture has smaller log-odds than the mean by the factor κ, its own slope on the mean.
    """
    log_p = finite(log_p).clamp_min(_RAREST)
    centered = log_p - log_p.mean(-1, keepdim=True)
    count, mean = len(log_p), centered.mean(0)
    own, common = centered.square().mean(), mean.square().mean()
    if count == 1 or not common > 0:
        return 0.0
    between = (count * common - own) / (count - 1)  # of two particles, averaged over all pairs
    rho = (between / own).clamp(0, 1)
    mixed = predictive(log_p, uniform(count, log_p))
    kappa = ((mixed - mixed.mean(-1, keepdim=True)) * mean).mean() / common
    return math.log((1 + (count - 1) * rho) / count * kappa)


def ensemble_temperature(log_p: Tensor, y: Tensor, log_ratio: float = 0.0) -> float:
    """Return the temperature of the ensemble by labels that some particles hold out: (n, C), (n,) -> ().

    The temperature of the mixture of the particles that hold a label out maximizes the likelihood of the labels, of
    which a share ε is wrong, together with ε as in `label_posterior`. That of the ensemble is exp(log_ratio) times it.
    The prior of the ensemble's log T is normal around 0 with a standard deviation of 1/4: a few labels say little. The
    result is at least 1, because mistakes that are taken for wrong labels would make the ensemble too confident.
    """
    found = [(log_t, _at_temperature(log_p.double(), y, log_t)[0]) for log_t in _LOG_T]
    log_t, _ = max(found, key=lambda candidate: candidate[1] - ((candidate[0] + log_ratio) / _SPREAD) ** 2 / 2)
    return math.exp(max(0.0, log_t + log_ratio))


def log_temperature_ratio(held_out: Tensor, log_p: Tensor) -> float:
    """Return log of the temperature of the ensemble over that of the particles of a fold: (K, n), (K, m, C) -> ().

    Labels show how confident a fold's particles may be, but the mixture of all particles is less confident and more
    often right. The ratio is that of their slopes (`log_slope`) on unlabeled inputs, which all particles hold out.
    """
    _, fold = held_out.unique(dim=0, return_inverse=True)
    log_p = log_p.double()
    folds = [log_slope(log_p[fold == f]) for f in fold.unique().tolist()]
    return log_slope(log_p) - sum(folds) / len(folds)


def held_out_weights(log_p: Tensor, y: Tensor, held_out: Tensor, log_prior: Tensor) -> Tensor:
    """Return log-weights of the particles by labels that they have not learned: (K, n, C), (n,), (K, n), (K,) -> (K,).

    Bayes' law within each fold, whose particles predict the same labels: `Evidence` with the estimated error rate.
    Particles of different folds have no label in common that would compare them, so each fold keeps its prior weight.
    With as many folds as particles, the weights are those of the prior.
    """
    classes, log_prior = log_p.shape[-1], log_prior.double().cpu()
    _, rate = label_posterior(out_of_fold_mixture(log_p, held_out, log_prior), y)
    weights, (_, fold) = log_prior.clone(), held_out.cpu().unique(dim=0, return_inverse=True)
    for f in fold.unique().tolist():
        mine = fold == f
        left_out = held_out[mine][0]
        total = log_prior[mine].logsumexp(0)
        evidence = Evidence(log_prior[mine] - total, noise=min(1.0, rate * classes / (classes - 1)))
        weights[mine] = total + evidence.update(log_p[mine][:, left_out], y[left_out]).log_weights
    return weights


def _at_temperature(log_p: Tensor, y: Tensor, log_t: float) -> tuple[float, Tensor, float]:
    """Return the log-likelihood at the best ε of a temperature, with the prior of ε, r, and ε.

    ε is the fixed point of expectation maximization, ε = (Σ (1 - r) + 1/2) / (n + 1): the mean of 1 - r with half a
    wrong and half a right label added, so that it stays above 0 for few labels. The likelihood is concave in ε, so that
    bisection of its slope finds that point.
    """
    log_p = (log_p / math.exp(log_t)).log_softmax(-1)
    right = log_likelihood(log_p, y).exp()  # (n,)
    others = log_p.scatter(-1, y.unsqueeze(-1), -torch.inf).logsumexp(-1).exp() / (log_p.shape[-1] - 1)
    low, high = 0.0, 1.0
    while low < (rate := (low + high) / 2) < high:
        slope = ((others - right) / ((1 - rate) * right + rate * others)).sum() + 0.5 / rate - 0.5 / (1 - rate)
        low, high = (rate, high) if slope > 0 else (low, rate)
    evidence = (1 - rate) * right + rate * others
    prior = (math.log(rate) + math.log(1 - rate)) / 2
    return evidence.log().sum().item() + prior, (1 - rate) * right / evidence, rate
