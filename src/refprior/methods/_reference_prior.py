"""The semi-supervised reference prior, and its two terms alone: labels and information."""

# K particles, b labeled inputs, n unlabeled inputs in B tuples of N (the order), C classes

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from refprior._checks import number, one_of, whole_number
from refprior.information import (
    average,
    class_surprise,
    conditional_entropy,
    divergence,
    entropy,
    finite,
    log_likelihood,
    marginal_entropy,
    mixture,
    probabilities,
    sampled_marginal_entropy,
    tuples,
    uniform,
)
from refprior.methods._step import Loss, Needs, Step


def cross_entropy(log_p: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """Return -E_{w ~ π} log p(y | x, w), last term of eq:ref_mi_ce, ℓ_x of the box: (K, b, C), (b,), (K,) -> (b,)."""
    return -average(log_likelihood(log_p, y), log_prior)


@dataclass(frozen=True)
class Supervised:
    """Supervised learning on the labeled inputs only; with K particles, a deep ensemble.

    Minimizes the mean of -E_{w ~ π} log p(y | x, w), the last term of eq:ref_mi_ce.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.Supervised().needs.views
    ()
    """

    needs: ClassVar[Needs] = Needs()

    def __call__(self, step: Step) -> Loss:
        (labeled,) = step.predict(step.batch.labeled)
        return supervised(labeled, step.batch.labels, step.log_prior.detach())


def supervised(labeled: Tensor, y: Tensor, log_prior: Tensor | None = None) -> Loss:
    """Compute the mean cross-entropy of labeled inputs.

    The mean of -E_{w ~ π} log p(y | x, w), the last term of eq:ref_mi_ce.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.

    Returns
    -------
    Loss
        The total and its term `cross_entropy`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.losses.supervised(torch.full((4, 6, 2), 0.5).log(), torch.tensor([0, 1, 0, 1, 0, 1])).total
    tensor(0.6931)
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    loss = cross_entropy(labeled, y, log_prior).mean()
    return Loss.of(loss, cross_entropy=loss)


@dataclass(frozen=True)
class InformationOnly:
    """The reference prior itself: particles spread as far as N labels can distinguish, without any label.

    Maximizes I_π(w; y^n | x^n), eq:ref_ssl, over the particles: fig:manifold_boundary. Order 1 is degenerate: the C
    constant classifiers reach its maximum log C.

    Parameters
    ----------
    order : int, default: 2
        N, items in a tuple.
    trainable_prior : bool, default: False
        Whether to learn the weights π(w_k).

    Examples
    --------
    >>> from refprior.methods import InformationOnly
    >>> InformationOnly(order=3).needs.labels
    False
    """

    order: int = 2
    trainable_prior: bool = False

    def __post_init__(self) -> None:
        whole_number("order", self.order, at_least=1)

    @cached_property
    def needs(self) -> Needs:
        return Needs(labels=False, views=("weak",), tuple_size=self.order, enumerates=self.order, shardable=True)

    def __call__(self, step: Step) -> Loss:
        (log_p,) = step.predict(step.batch.views["weak"])
        return information(log_p, step.log_prior if self.trainable_prior else step.log_prior.detach(), self)


_INFORMATION_ONLY = InformationOnly()


def information(log_p: Tensor, log_prior: Tensor | None = None, settings: InformationOnly = _INFORMATION_ONLY) -> Loss:
    """Compute the negative mutual information of weights and labels.

    -I_π(w; y^n | x^n), eq:ref_ssl, averaged over tuples of consecutive inputs.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of the unlabeled inputs, (K, n, C).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : InformationOnly, default: InformationOnly()
        The hyperparameters.

    Returns
    -------
    Loss
        The total and the terms `marginal_entropy`, `conditional_entropy` and `information`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> constant = torch.eye(2)[:, None].expand(2, 6, 2).log()  # two particles, each certain of its own class
    >>> rp.losses.information(constant).terms["information"]
    tensor(0.6931)
    """
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior
    grouped = tuples(log_p, settings.order)
    h_y = marginal_entropy(grouped, log_prior).mean()
    h_yw = conditional_entropy(grouped, log_prior).mean()
    return Loss.of(h_yw - h_y, marginal_entropy=h_y, conditional_entropy=h_yw, information=h_y - h_yw)


@dataclass(frozen=True)
class ReferencePrior:
    """Semi-supervised reference prior, the method of the paper.

    Minimizes the cross-entropy of the labels - γ (α h_y - h_yw), eq:ref_mi_ce with eq:ref_ssl and eq:tau. The defaults
    follow the paper's pseudo-code; `authors_code` follows the released CIFAR-10 run. docs/differences.md lists where
    the two disagree.

    Parameters
    ----------
    order : int, default: 2
        N, items in a tuple.
    alpha : float, default: 0.1
        Weight α of the marginal entropy h_y; 1 in the definition of the mutual information.
    final_alpha : float, optional
        α moves linearly to this value over training. By default it stays at `alpha`.
    tau : float, default: 1/3
        Weight τ of the weak view in the mixture of views f.
    gamma : float, optional
        Weight γ of the information. Defaults to 1 / (1 - τ²).
    jensen : bool, default: True
        Bound h_yw by eq:tau. With False, h_yw is the entropy of f.
    stop_gradient : bool, default: True
        No gradient through the weak view ("stop gradient to p_g1").
    threshold : float, optional
        h_yw counts only predictions at least this confident. By default all.
    marginal_views : {"mixture", "weak"}, default: "mixture"
        The views from which h_y is computed: the mixture f, or the weak view alone.
    marginal_gradient : bool, default: False
        Let h_y backpropagate through the weak view even with `stop_gradient`.
    per_item : bool, default: False
        Divide both entropies by N.
    trainable_prior : bool, default: False
        Whether to learn the weights π(w_k).
    samples : int, optional
        Labelings per particle to estimate h_y from. By default h_y is exact.
    class_prior : tuple of float, optional
        Class shares or counts q of the pool. h_y becomes N log C - KL(p(y^n) ‖ q^n), which is largest at q. By default
        the shares are equal, and h_y is the entropy.
    balance : float, default: 0
        Weight of KL(mean prediction of the batch ‖ q), added to the loss independently of γ.
    particle_balance : float, default: 0
        Weight of E_{w ~ π} KL(mean prediction of the batch under w ‖ q), for tasks in which every plausible rule has
        the class shares q.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.ReferencePrior(alpha=0.05).needs.tuple_size
    2
    """

    order: int = 2
    alpha: float = 0.1
    final_alpha: float | None = None
    tau: float = 1 / 3
    gamma: float | None = None
    jensen: bool = True
    stop_gradient: bool = True
    threshold: float | None = None
    marginal_views: Literal["mixture", "weak"] = "mixture"
    marginal_gradient: bool = False
    per_item: bool = False
    trainable_prior: bool = False
    samples: int | None = None
    class_prior: tuple[float, ...] | None = None
    balance: float = 0.0
    particle_balance: float = 0.0

    def __post_init__(self) -> None:
        whole_number("order", self.order, at_least=1)
        number("alpha", self.alpha, at_least=0)
        number("tau", self.tau, at_least=0, at_most=1)
        if self.final_alpha is not None:
            number("final_alpha", self.final_alpha, at_least=0)
        if self.gamma is not None:
            number("gamma", self.gamma, at_least=0)
        elif self.tau == 1:
            raise ValueError("tau = 1 makes the default gamma = 1 / (1 - tau²) infinite: set gamma")
        if self.threshold is not None:
            number("threshold", self.threshold, above=0, at_most=1)
        if self.samples is not None:
            whole_number("samples", self.samples, at_least=2, at_most=1_000_000)
        if self.class_prior is not None:
            object.__setattr__(self, "class_prior", checked_shares(self.class_prior))
        number("balance", self.balance, at_least=0)
        number("particle_balance", self.particle_balance, at_least=0)
        one_of("marginal_views", self.marginal_views, ("mixture", "weak"))
        if self.marginal_views == "weak" and not self.marginal_gradient and self.stop_gradient:
            raise ValueError("marginal_views='weak' needs marginal_gradient=True, or h_y would have no gradient")

    @classmethod
    def paper(cls) -> Self:
        """Return the settings of the paper's pseudo-code box, read literally.

        Returns
        -------
        ReferencePrior
            The defaults.
        """
        return cls()

    @classmethod
    def authors_code(cls) -> Self:
        """Return the settings of the authors' released CIFAR-10 run.

        Returns
        -------
        ReferencePrior
            α = 0.05, τ = 0.333, threshold 0.95, h_y from the weak views with gradient, entropies per item.
        """
        return cls(
            alpha=0.05,
            tau=0.333,
            threshold=0.95,
            marginal_views="weak",
            marginal_gradient=True,
            per_item=True,
        )

    @classmethod
    def underspecified(cls, *, balanced: bool = False) -> Self:
        """Return settings that find every rule that the labels admit; use them with at least 16 particles.

        α = 1 makes agreement on the pool neutral, so that particles with different rules stay apart; below 1 agreement
        attracts. An order of 3 separates a full set of rules from two opposite ones, which order 1 cannot. α then
        falls to 0.3, so that particles agree again where the labels determine the task.

        Parameters
        ----------
        balanced : bool, default: False
            Whether every plausible rule has the class shares of `class_prior`, equal by default. Each particle is then
            balanced, which excludes rules such as "both cues" and helps with few labels or few inputs that contradict
            a shortcut.

        Returns
        -------
        ReferencePrior
            α from 1 to 0.3 and order 3; balanced, order 2 and a particle balance of 5.
        """
        if balanced:
            return cls(order=2, alpha=1.0, final_alpha=0.3, particle_balance=5.0)
        return cls(order=3, alpha=1.0, final_alpha=0.3)

    @property
    def information_weight(self) -> float:
        """γ; by default 1 / (1 - τ²), which normalizes the terms that the stop-gradient leaves (appendix Setup)."""
        return 1 / (1 - self.tau**2) if self.gamma is None else self.gamma

    @cached_property
    def needs(self) -> Needs:
        return Needs(
            views=("weak", "strong"),
            tuple_size=self.order,
            enumerates=self.order if self.samples is None else 0,
            classes=0 if self.class_prior is None else len(self.class_prior),
            shardable=self.samples is None,
        )

    def __call__(self, step: Step) -> Loss:
        labeled, strong, weak = predict_views(step, self, step.batch.labeled)
        log_prior = step.log_prior if self.trainable_prior else step.log_prior.detach()
        return reference_prior(
            labeled, step.batch.labels, weak, strong, log_prior, self, progress=step.progress, generator=step.generator
        )


_REFERENCE_PRIOR = ReferencePrior()


def reference_prior(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor | None = None,
    settings: ReferencePrior = _REFERENCE_PRIOR,
    *,
    progress: float = 0.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """Compute the semi-supervised objective of the paper.

    Cross-entropy of the labels - γ (α h_y - h_yw), eq:ref_mi_ce with eq:ref_ssl and eq:tau. Consecutive unlabeled
    inputs form the tuples.

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
    settings : ReferencePrior, default: ReferencePrior()
        The hyperparameters.
    progress : float, default: 0
        Completed share of training, from 0 to 1, for `final_alpha`.
    generator : torch.Generator, optional
        Source of randomness for `samples`.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `marginal_entropy`, `conditional_entropy`, `skew` with `balance`, and
        `particle_skew` with `particle_balance`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))  # K = 4
    >>> loss = rp.losses.reference_prior(labeled, torch.arange(5), weak, strong)
    >>> sorted(loss.terms)
    ['conditional_entropy', 'cross_entropy', 'marginal_entropy']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    unlabeled = information_of_views(weak, strong, log_prior, settings, progress=progress, generator=generator)
    return Loss.of(likelihood + unlabeled.total, cross_entropy=likelihood, **unlabeled.terms)


def predict_views(step: Step, settings: ReferencePrior, *inputs: Tensor) -> list[Tensor]:
    """Predict `inputs`, then the strong and the weak view, which is frozen where nothing backpropagates through it."""
    views = step.batch.views
    if settings.stop_gradient and not settings.marginal_gradient:
        return step.predict(*inputs, views["strong"], frozen=[views["weak"]])
    return step.predict(*inputs, views["strong"], views["weak"])


def information_of_views(
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor,
    settings: ReferencePrior,
    *,
    progress: float = 0.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """Return -γ (α h_y - h_yw), the first two terms of eq:ref_mi_ce, with the balance: (K, n, C), (K, n, C), (K,)."""
    weak, strong = tuples(weak, settings.order), tuples(strong, settings.order)
    seen = marginal_view(weak, strong, settings)
    h_y = marginal_term(seen, log_prior, settings, generator).mean()
    h_yw = conditional_term(weak, strong, log_prior, settings).mean()
    start, end = settings.alpha, settings.final_alpha
    alpha = start if end is None else (1 - progress) * start + progress * end
    total = -settings.information_weight * (alpha * h_y - h_yw)
    terms = {"marginal_entropy": h_y, "conditional_entropy": h_yw}
    if settings.balance:
        terms["skew"] = class_skew(mixture(seen, log_prior).flatten(0, 1), settings.class_prior)
        total = total + settings.balance * terms["skew"]
    if settings.particle_balance:
        items = seen.flatten(1, 2).transpose(0, 1)  # (B N, K, C)
        terms["particle_skew"] = average(class_skew(items, settings.class_prior), log_prior)
        total = total + settings.particle_balance * terms["particle_skew"]
    return Loss.of(total, **terms)


def class_skew(log_p: Tensor, class_prior: tuple[float, ...] | None) -> Tensor:
    """Return KL(mean prediction of n inputs ‖ q): (n, ..., C) -> (...)."""
    return divergence(mixture(log_p, uniform(len(log_p), log_p)), log_shares(class_prior, log_p))


def marginal_view(weak: Tensor, strong: Tensor, settings: ReferencePrior) -> Tensor:
    """Return the log-probabilities that h_y and the balance are computed from: (..., C), (..., C) -> (..., C)."""
    weak = weak.detach() if settings.stop_gradient and not settings.marginal_gradient else weak
    return weak if settings.marginal_views == "weak" else mixture_of_views(weak, strong, settings.tau)


def marginal_term(
    log_p: Tensor, log_prior: Tensor, settings: ReferencePrior, generator: torch.Generator | None = None
) -> Tensor:
    """Return h_y = H(y^n | x^n) of the mixture, or N log C - KL(p(y^n | x^n) ‖ q^n): (K, B, N, C), (K,) -> (B,)."""
    if settings.samples is None:
        h_y = marginal_entropy(log_p, log_prior)
    else:
        h_y = sampled_marginal_entropy(log_p, log_prior, settings.samples, generator)
    if settings.class_prior is not None:
        surprise = class_surprise(log_p, log_prior, log_shares(settings.class_prior, log_p))
        h_y = h_y + settings.order * math.log(log_p.shape[-1]) - surprise
    return h_y / settings.order if settings.per_item else h_y


def conditional_term(weak: Tensor, strong: Tensor, log_prior: Tensor, settings: ReferencePrior) -> Tensor:
    """Return h_yw = E_{w ~ π} H(y^n | x^n, w), or its bound: (K, B, N, C), (K, B, N, C), (K,) -> (B,)."""
    weak = weak.detach() if settings.stop_gradient else weak
    items = (jensen_entropy if settings.jensen else view_entropy)(weak, strong, settings.tau)  # (K, B, N)
    if settings.threshold is not None:
        items = items * confident(weak, settings.threshold)
    h_yw = average(items.sum(-1), log_prior)
    return h_yw / settings.order if settings.per_item else h_yw


def mixture_of_views(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """Return log f = log(τ p_g1 + (1-τ) p_g2), the pseudo-code's f: (..., C), (..., C) -> (..., C)."""
    weak, strong = finite(weak), finite(strong)
    first, second = (finite(weak.new_full((1,), share).log()) for share in (tau, 1 - tau))  # made on the device
    return torch.logaddexp(weak + first, strong + second)


def view_entropy(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """Return H(f), the entropy of the mixture of views, without Jensen's bound: (..., C), (..., C) -> (...)."""
    return entropy(mixture_of_views(weak, strong, tau))


def jensen_entropy(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """Return -Σ_y f [τ log p_g1 + (1-τ) log p_g2] ≥ H(f), eq:tau: (..., C), (..., C) -> (...).

    Its terms -p_g1 log p_g2 make the two views agree, as FixMatch's loss does.
    """
    weak, strong = finite(weak), finite(strong)
    f = tau * probabilities(weak) + (1 - tau) * probabilities(strong)
    return -(f * (tau * weak + (1 - tau) * strong)).sum(-1)


def confident(weak: Tensor, threshold: float) -> Tensor:
    """Return 1[max_y p(y | g_1(x), w) ≥ threshold], trick (4) of the paper: (..., C) -> (...)."""
    return (weak.detach().amax(-1) >= math.log(threshold)).to(weak.dtype)


def checked_shares(shares: object) -> tuple[float, ...]:
    """Validate a `class_prior` given by the user."""
    if isinstance(shares, str) or not isinstance(shares, Iterable):
        raise ValueError(f"class_prior must be numbers, one for each class, got {shares!r}")
    return tuple(number("each share of class_prior", share, above=0) for share in shares)


def log_shares(class_prior: tuple[float, ...] | None, log_p: Tensor) -> Tensor:
    """Return log q of the classes, equal unless given: (..., C) -> (C,)."""
    classes = log_p.shape[-1]
    shares = (1.0,) * classes if class_prior is None else class_prior
    if len(shares) != classes:
        raise ValueError(f"expected {classes} class shares in class_prior, got {len(shares)}")
    like = finite(log_p)
    return _log_shares(shares, like.device, like.dtype)


@lru_cache(maxsize=16)
def _log_shares(shares: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Copy log q to the device once per run, not once per step: (C,)."""
    return torch.tensor(shares, dtype=torch.float64).log().log_softmax(0).to(device, dtype)
