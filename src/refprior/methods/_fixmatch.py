"""FixMatch and UDA: confident predictions of the weak view teach the strong view."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from refprior._checks import number, one_of
from refprior.information import average, entropy, finite, log_likelihood, uniform
from refprior.methods._reference_prior import confident, cross_entropy
from refprior.methods._step import Loss, Needs, Step

Annealing = Literal["none", "linear", "log", "exp"]


@dataclass(frozen=True)
class FixMatch:
    """FixMatch (Sohn et al. 2020): confident pseudo-labels from the weak view teach the strong view.

    Minimizes CE(y, p(x)) + weight · mean of 1[max p(weak) ≥ threshold] · CE(argmax p(weak), p(strong)). Each of the K
    particles teaches itself; K = 1 is the original.

    Parameters
    ----------
    threshold : float, default: 0.95
        Smallest confidence of a pseudo-label that is used.
    weight : float, default: 1
        Weight of the unlabeled inputs.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.FixMatch(threshold=0.9)
    FixMatch(threshold=0.9, weight=1.0)
    """

    threshold: float = 0.95
    weight: float = 1.0
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"), shardable=True)

    def __post_init__(self) -> None:
        number("threshold", self.threshold, above=0, at_most=1)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views = step.batch.views
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        return fixmatch(labeled, step.batch.labels, weak, strong, step.log_prior.detach(), self)


@dataclass(frozen=True)
class UDA:
    """Unsupervised data augmentation (Xie et al. 2020): FixMatch with soft targets.

    Minimizes CE(y, p(x)) + weight · mean of 1[max p(weak) ≥ threshold] · KL(sharpened p(weak) ‖ p(strong)).

    Parameters
    ----------
    threshold : float, default: 0.8
        Smallest confidence of a target that is used.
    temperature : float, default: 0.4
        T of the sharpened target p^(1/T) / Σ p^(1/T).
    weight : float, default: 1
        Weight of the unlabeled inputs.
    annealing : {"none", "linear", "log", "exp"}, default: "none"
        Training signal annealing: labeled inputs whose label is more probable than a rising limit are left out.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.UDA(annealing="linear").limit(progress=0.5, classes=10)
    0.55
    """

    threshold: float = 0.8
    temperature: float = 0.4
    weight: float = 1.0
    annealing: Annealing = "none"
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        number("threshold", self.threshold, above=0, at_most=1)
        number("temperature", self.temperature, above=0)
        number("weight", self.weight, at_least=0)
        one_of("annealing", self.annealing, ("none", "linear", "log", "exp"))

    def __call__(self, step: Step) -> Loss:
        views = step.batch.views
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        log_prior = step.log_prior.detach()
        return uda(labeled, step.batch.labels, weak, strong, log_prior, self, progress=step.progress)

    def limit(self, progress: float, classes: int) -> float:
        """Return the largest probability at which a label still teaches, η_t = (1 - 1/C) a(t) + 1/C.

        Parameters
        ----------
        progress : float
            Completed share of training, from 0 to 1.
        classes : int
            C, the number of classes.

        Returns
        -------
        float
            η_t, from 1/C to 1.
        """
        risen = {
            "none": 1.0,
            "linear": progress,
            "log": 1 - math.exp(-5 * progress),
            "exp": math.exp(5 * (progress - 1)),
        }[self.annealing]
        return risen * (1 - 1 / classes) + 1 / classes


_FIXMATCH, _UDA = FixMatch(), UDA()


def fixmatch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor | None = None,
    settings: FixMatch = _FIXMATCH,
) -> Loss:
    """Compute the objective of FixMatch.

    CE(y, p(x)) + weight · mean of 1[max p(weak) ≥ threshold] · CE(argmax p(weak), p(strong)).

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : FixMatch, default: FixMatch()
        The hyperparameters.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label` and `confident`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.fixmatch(labeled, torch.arange(5), weak, strong).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    used = confident(weak, settings.threshold)
    return with_pseudo_labels(labeled, y, pseudo_label_loss(weak, strong), used, log_prior, settings.weight)


def uda(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor | None = None,
    settings: UDA = _UDA,
    *,
    progress: float = 1.0,
) -> Loss:
    """Compute the objective of UDA.

    CE(y, p(x)) + weight · mean of 1[max p(weak) ≥ threshold] · KL(sharpened p(weak) ‖ p(strong)).

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : UDA, default: UDA()
        The hyperparameters.
    progress : float, default: 1
        Completed share of training, from 0 to 1, for `annealing`.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label` and `confident`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.uda(labeled, torch.arange(5), weak, strong).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    log_y = log_likelihood(labeled, y)
    teaches = log_y.detach() <= math.log(settings.limit(progress, labeled.shape[-1]))
    likelihood = average(-torch.where(teaches, log_y, 0).sum(1) / teaches.sum(1).clamp_min(1), log_prior)
    used = confident(weak, settings.threshold)
    targets = sharpen(weak.detach(), settings.temperature).exp()
    unlabeled = average(soft_divergence(targets, strong) * used, log_prior).mean()
    total = likelihood + settings.weight * unlabeled
    return Loss.of(total, cross_entropy=likelihood, pseudo_label=unlabeled, confident=used.mean())


def with_pseudo_labels(
    labeled: Tensor, y: Tensor, items: Tensor, used: Tensor, log_prior: Tensor, weight: float
) -> Loss:
    """Return CE(y, p(x)) + weight · mean of `used` · `items`: (K, b, C), (b,), (K, n), (K, n), (K,)."""
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    unlabeled = average(items * used, log_prior).mean()
    return Loss.of(
        likelihood + weight * unlabeled, cross_entropy=likelihood, pseudo_label=unlabeled, confident=used.mean()
    )


def pseudo_label_loss(weak: Tensor, strong: Tensor) -> Tensor:
    """Return CE(argmax p(weak), p(strong)), each particle its own teacher: (K, n, C), (K, n, C) -> (K, n)."""
    return -log_likelihood(finite(strong), weak.detach().argmax(-1))


def soft_cross_entropy(target: Tensor, log_p: Tensor) -> Tensor:
    """Return -Σ_y q(y) log p(y) of probabilities q, with 0 log 0 = 0: (..., C), (..., C) -> (...)."""
    return -(target * finite(log_p)).sum(-1)


def soft_divergence(target: Tensor, log_p: Tensor) -> Tensor:
    """Return KL(q ‖ p) of probabilities q without gradient: (..., C), (..., C) -> (...)."""
    return soft_cross_entropy(target, log_p) - entropy(target.log())


def sharpen(log_p: Tensor, temperature: float) -> Tensor:
    """Return log of p^(1/T) / Σ p^(1/T), MixMatch eq. 7: (..., C) -> (..., C)."""
    return (finite(log_p) / temperature).log_softmax(-1)
