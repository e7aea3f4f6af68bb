"""A reference prior with a selection and class shares that adapt over training."""

# K particles, b labeled inputs, n unlabeled inputs in tuples of N (the order), C classes

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from refprior._checks import number, whole_number
from refprior.information import average, finite, marginal_entropy, mixture, tuples, uniform
from refprior.methods._adaptive import moving_average
from refprior.methods._reference_prior import checked_shares, cross_entropy, log_shares, mixture_of_views
from refprior.methods._step import Loss, Needs, Step

_RARE = 1e-4  # added to the share of every class


class PoolAverages(NamedTuple):
    """What the particles have predicted for the pool."""

    confidence: Tensor  # () moving average of the probability of the targets
    pool: Tensor  # (C,) moving average of the mixture's predictions


@dataclass(frozen=True)
class AdaptiveReferencePrior:
    """Reference prior with adaptive thresholds and class shares, for particles that check each other.

    Minimizes CE(y, p(x)) + weight · mean of 1[q(ŷ) ≥ threshold of ŷ] · CE(ŷ, p(strong)) + balance · KL(π̂ ‖ p̄) - α h_y.
    The target ŷ is the most probable class of q, the particle's prediction of the weak view, corrected to the estimated
    class shares π̂ of the pool; p̄ is the mean of the particle's predictions of the strong views. Thresholds follow the
    confidence, as in FreeMatch. The entropy h_y of eq:ref_mi_ce keeps the particles apart; α falls to `final_alpha`, so
    that they agree at the end. Particles do not teach each other: with folds, what a particle predicts for the labels
    that it leaves out does not depend on them. Use it with `folds` and `doubt_labels` of the recipe if labels may be
    wrong. The moving averages are stored in the checkpoint.

    Parameters
    ----------
    order : int, default: 2
        N, items in a tuple of h_y.
    alpha, final_alpha : float, default: 0.1 and 0
        Weight of h_y at the first and the last step, linear in between.
    tau : float, default: 1/3
        Weight of the weak view in the mixture of views of h_y.
    weight : float, default: 1
        Weight of the unlabeled inputs.
    balance : float, default: 1
        Weight of the divergence of each particle's predictions from the estimated class shares.
    class_prior : tuple of float, optional
        Expected class shares or counts of the pool. Equal by default. Labels do not change them: few labels, some of
        them wrong, say little about shares.
    count : float, default: 0.1
        Share of training whose predictions of the pool weigh as much as `class_prior` in the estimate of the shares.
    momentum : float, optional
        Decay of the moving averages. Defaults to that of the recipe's EMA.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.AdaptiveReferencePrior(alpha=0.2).needs.views
    ('weak', 'strong')
    """

    order: int = 2
    alpha: float = 0.1
    final_alpha: float = 0.0
    tau: float = 1 / 3
    weight: float = 1.0
    balance: float = 1.0
    class_prior: tuple[float, ...] | None = None
    count: float = 0.1
    momentum: float | None = None

    def __post_init__(self) -> None:
        whole_number("order", self.order, at_least=1)
        for name in ("alpha", "final_alpha", "weight", "balance"):
            number(name, getattr(self, name), at_least=0)
        number("tau", self.tau, at_least=0, at_most=1)
        if self.class_prior is not None:
            object.__setattr__(self, "class_prior", checked_shares(self.class_prior))
        number("count", self.count, above=0)
        if self.momentum is not None:
            number("momentum", self.momentum, at_least=0, below=1)

    @cached_property
    def needs(self) -> Needs:
        classes = 0 if self.class_prior is None else len(self.class_prior)
        return Needs(views=("weak", "strong"), tuple_size=self.order, enumerates=self.order, classes=classes)

    def __call__(self, step: Step) -> Loss:
        views, y, log_prior = step.batch.views, step.batch.labels, step.log_prior.detach()
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        weak = finite(weak.detach())
        mixed = mixture(weak, log_prior)
        classes, momentum = mixed.shape[-1], step.ema if self.momentum is None else self.momentum
        equal = mixed.new_full((classes,), 1 / classes)
        known = PoolAverages(**step.memory) if step.memory else PoolAverages(equal[0], equal)
        pool = moving_average(known.pool, mixed.exp().mean(0), momentum)
        seen = corrected(weak, pool, self, step.progress).amax(-1).exp().mean()
        averages = PoolAverages(moving_average(known.confidence, seen, momentum), pool)
        step.memory.update(averages._asdict())
        return adaptive_reference_prior(labeled, y, weak, strong, averages, log_prior, self, progress=step.progress)


_ADAPTIVE_REFERENCE_PRIOR = AdaptiveReferencePrior()


def adaptive_reference_prior(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    averages: tuple[Tensor, Tensor],
    log_prior: Tensor | None = None,
    settings: AdaptiveReferencePrior = _ADAPTIVE_REFERENCE_PRIOR,
    *,
    progress: float = 0.0,
) -> Loss:
    """Compute the objective of the adaptive reference prior.

    CE(y, p(x)) + weight · mean of 1[q(ŷ) ≥ threshold of ŷ] · CE(ŷ, p(strong)) + balance · KL(π̂ ‖ p̄) - α h_y.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    averages : tuple of Tensor
        Moving averages of the confidence, (), and of the mixture's predictions of the pool, (C,).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : AdaptiveReferencePrior, default: AdaptiveReferencePrior()
        The hyperparameters.
    progress : float, default: 0
        Completed share of training, from 0 to 1.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label`, `confident`, `marginal_entropy`, and `skew` with
        `balance`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> averages = torch.tensor(0.1), torch.full((10,), 0.1)
    >>> sorted(rp.losses.adaptive_reference_prior(labeled, torch.arange(5), weak, strong, averages).terms)
    ['confident', 'cross_entropy', 'marginal_entropy', 'pseudo_label', 'skew']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    weak, strong, known = finite(weak.detach()), finite(strong), PoolAverages(*averages)
    confidence, target = corrected(weak, known.pool, settings, progress).exp().max(-1)  # (K, n)
    thresholds = known.confidence * known.pool / known.pool.max()  # FreeMatch eq. 7
    used = (confidence >= thresholds[target]).to(weak.dtype)
    taught = -strong.gather(-1, target.unsqueeze(-1)).squeeze(-1)  # (K, n)
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    unlabeled = average(taught * used, log_prior).mean()
    seen = mixture_of_views(weak, strong, settings.tau)
    h_y = marginal_entropy(tuples(seen, settings.order), log_prior).mean()
    alpha = (1 - progress) * settings.alpha + progress * settings.final_alpha
    total = likelihood + settings.weight * unlabeled - alpha * h_y
    terms = {"pseudo_label": unlabeled, "confident": used.mean()}
    if settings.balance:
        terms["skew"] = average(divergence(estimated_shares(known.pool, settings, progress), strong), log_prior)
        total = total + settings.balance * terms["skew"]
    return Loss.of(total, cross_entropy=likelihood, marginal_entropy=h_y, **terms)


def estimated_shares(pool: Tensor, settings: AdaptiveReferencePrior, progress: float) -> Tensor:
    """Return the posterior mean π̂ = (1 - λ) m + λ s of the class shares of the pool: (C,) -> (C,).

    m are the shares that the mixture has predicted, s those of `class_prior`, which are the mean of a Dirichlet prior.
    λ = 1 / (1 + progress / count) is 1 at first.
    """
    share = 1 / (1 + progress / settings.count)
    return (1 - share) * pool + share * log_shares(settings.class_prior, pool).exp()


def corrected(log_p: Tensor, pool: Tensor, settings: AdaptiveReferencePrior, progress: float) -> Tensor:
    """Return log of p(y) π̂(y) / m(y), normalized: (..., C), (C,) -> (..., C)."""
    ratio = estimated_shares(pool, settings, progress) / (pool + _RARE)
    return (log_p + ratio.log()).log_softmax(-1)


def divergence(shares: Tensor, log_p: Tensor) -> Tensor:
    """Return KL(π̂ ‖ p̄) of each particle's mean prediction p̄: (C,), (K, n, C) -> (K,)."""
    mean = log_p.logsumexp(1) - math.log(log_p.shape[1])
    return (shares * (shares.clamp_min(_RARE).log() - mean)).sum(-1)
