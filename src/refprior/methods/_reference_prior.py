"""The semi-supervised reference prior: particles that are confident and disagree, and fit the labels."""

# K particles, b labeled images, n unlabeled images in B tuples of N (the order), C classes

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import torch
from torch import Tensor

from refprior._checks import number, one_of, whole_number
from refprior.information import (
    average,
    class_surprise,
    divergence,
    entropy,
    finite,
    marginal_entropy,
    mixture,
    probabilities,
    sampled_marginal_entropy,
    tuples,
    uniform,
)
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._supervised import cross_entropy


def mixture_of_views(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """log f = log(τ p_g1 + (1-τ) p_g2), the pseudo-code's f: (..., C), (..., C) -> (..., C)."""
    weak, strong = finite(weak), finite(strong)
    first, second = finite(torch.tensor([tau, 1 - tau], dtype=weak.dtype, device=weak.device).log())
    return torch.logaddexp(weak + first, strong + second)


def view_entropy(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """H(f), the entropy of the mixture of views, without Jensen's bound: (..., C), (..., C) -> (...)."""
    return entropy(mixture_of_views(weak, strong, tau))


def jensen_entropy(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """-Σ_y f [τ log p_g1 + (1-τ) log p_g2] ≥ H(f), eq:tau: (..., C), (..., C) -> (...).

    Its terms -p_g1 log p_g2 make the two views agree, as FixMatch's loss does.
    """
    weak, strong = finite(weak), finite(strong)
    f = tau * probabilities(weak) + (1 - tau) * probabilities(strong)
    return -(f * (tau * weak + (1 - tau) * strong)).sum(-1)


def confident(weak: Tensor, threshold: float) -> Tensor:
    """1[max_y p(y | g_1(x), w) ≥ threshold], trick (4) of the paper: (..., C) -> (...)."""
    return (weak.detach().amax(-1) >= math.log(threshold)).to(weak.dtype)


@dataclass(frozen=True)
class ReferencePrior:
    """Semi-supervised reference prior, eq:ref_mi_ce with eq:ref_ssl and eq:tau.

    loss = cross-entropy of the labels - γ (α h_y - h_yw). The defaults are the paper's pseudo-code; `authors_code` is
    what the released CIFAR-10 run computed. docs/differences.md lists where the two disagree.

    h_y is largest where all classes are equally frequent. With a `class_prior` q it becomes N log C - KL(p(y^n) ‖ q^n),
    which is largest at q, and is the entropy for equal shares. `balance` adds its own term to the loss, whatever γ is.

    >>> import refprior as rp
    >>> rp.ReferencePrior(alpha=0.05).needs.tuple_size
    2
    """

    order: int = 2  # N, items in a tuple
    alpha: float = 0.1  # weight of the marginal entropy h_y; 1 in the definition of I
    final_alpha: float | None = None  # α moves there in a straight line over training; None: it stays
    tau: float = 1 / 3  # weight of the weak view in the mixture f
    gamma: float | None = None  # weight of the information; None: 1 / (1 - τ²)
    jensen: bool = True  # bound h_yw by eq:tau
    stop_gradient: bool = True  # none through the weak view ("stop gradient to p_g1")
    threshold: float | None = None  # h_yw counts only predictions at least this confident; None: all
    marginal_views: Literal["mixture", "weak"] = "mixture"  # the views that h_y sees
    marginal_gradient: bool = False  # h_y does back-propagate through the weak view
    per_item: bool = False  # divide both entropies by N
    trainable_prior: bool = False  # learn the weights π(w_k)
    samples: int | None = None  # labelings per particle to estimate h_y with; None: exact
    class_prior: tuple[float, ...] | None = None  # shares or counts q of the classes in the pool; None: all equal
    balance: float = 0.0  # weight of KL(mean prediction of the batch ‖ q)

    def __post_init__(self) -> None:
        whole_number("order", self.order, at_least=1)
        number("alpha", self.alpha, at_least=0)
        number("tau", self.tau, at_least=0, at_most=1)
        if self.final_alpha is not None:
            number("final_alpha", self.final_alpha, at_least=0)
        if self.gamma is not None:
            number("gamma", self.gamma, at_least=0)
        elif self.tau == 1:
            raise ValueError("tau = 1 makes 1 / (1 - tau²) infinite: give gamma")
        if self.threshold is not None:
            number("threshold", self.threshold, above=0, at_most=1)
        if self.samples is not None:
            whole_number("samples", self.samples, at_least=2)
        if self.class_prior is not None:
            object.__setattr__(self, "class_prior", _checked_shares(self.class_prior))
        number("balance", self.balance, at_least=0)
        one_of("marginal_views", self.marginal_views, ("mixture", "weak"))
        if self.marginal_views == "weak" and not self.marginal_gradient and self.stop_gradient:
            raise ValueError("marginal_views='weak' needs marginal_gradient=True: h_y would have no gradient at all")

    @classmethod
    def paper(cls) -> Self:
        """The pseudo-code box, read literally."""
        return cls()

    @classmethod
    def authors_code(cls) -> Self:
        """What the released CIFAR-10 run computed."""
        return cls(
            alpha=0.05,
            tau=0.333,
            threshold=0.95,
            marginal_views="weak",
            marginal_gradient=True,
            per_item=True,
        )

    @property
    def information_weight(self) -> float:
        """γ; by default 1 / (1 - τ²), which normalizes the terms that the stop-gradient leaves (appendix Setup)."""
        return 1 / (1 - self.tau**2) if self.gamma is None else self.gamma

    @cached_property
    def needs(self) -> Needs:
        enumerates = self.order if self.samples is None else 0
        classes = 0 if self.class_prior is None else len(self.class_prior)
        return Needs(
            views=("weak", "strong"),
            tuple_size=self.order,
            enumerates=enumerates,
            classes=classes,
            shardable=self.samples is None,
        )

    def __call__(self, step: Step) -> Loss:
        labeled, strong, weak = self.predict(step, step.batch.labeled)
        log_prior = self.log_prior(step)
        return reference_prior(
            labeled, step.batch.labels, weak, strong, log_prior, self, progress=step.progress, generator=step.generator
        )

    def predict(self, step: Step, *inputs: Tensor) -> list[Tensor]:
        """Log-probabilities of `inputs`, then of the strong and the weak view."""
        views = step.batch.views
        if self.stop_gradient and not self.marginal_gradient:
            return step.predict(*inputs, views["strong"], frozen=[views["weak"]])
        return step.predict(*inputs, views["strong"], views["weak"])

    def log_prior(self, step: Step) -> Tensor:
        """log π(w_k), with gradient if it is to be learned: (K,)."""
        return step.log_prior if self.trainable_prior else step.log_prior.detach()

    def alpha_at(self, progress: float) -> float:
        """α at a point of training between 0 and 1."""
        return self.alpha if self.final_alpha is None else (1 - progress) * self.alpha + progress * self.final_alpha

    def conditional(self, weak: Tensor, strong: Tensor, log_prior: Tensor) -> Tensor:
        """h_yw = E_{w ~ π} H(y^n | x^n, w), or its bound: (K, B, N, C), (K, B, N, C), (K,) -> (B,)."""
        weak = weak.detach() if self.stop_gradient else weak
        items = (jensen_entropy if self.jensen else view_entropy)(weak, strong, self.tau)  # (K, B, N)
        if self.threshold is not None:
            items = items * confident(weak, self.threshold)
        return self._per_item(average(items.sum(-1), log_prior))

    def marginal_view(self, weak: Tensor, strong: Tensor) -> Tensor:
        """The log-probabilities that h_y and the balance see: (..., C), (..., C) -> (..., C)."""
        weak = weak.detach() if self.stop_gradient and not self.marginal_gradient else weak
        return weak if self.marginal_views == "weak" else mixture_of_views(weak, strong, self.tau)

    def marginal(self, log_p: Tensor, log_prior: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """h_y = H(y^n | x^n) of the mixture, or N log C - KL(p(y^n | x^n) ‖ q^n): (K, B, N, C), (K,) -> (B,)."""
        if self.samples is None:
            h_y = marginal_entropy(log_p, log_prior)
        else:
            h_y = sampled_marginal_entropy(log_p, log_prior, self.samples, generator)
        if self.class_prior is not None:
            h_y = (
                h_y + self.order * math.log(log_p.shape[-1]) - class_surprise(log_p, log_prior, self.log_shares(log_p))
            )
        return self._per_item(h_y)

    def skew(self, log_p: Tensor, log_prior: Tensor) -> Tensor:
        """KL(mean prediction of all items by all particles ‖ q), at least 0: (K, B, N, C), (K,) -> ()."""
        items = mixture(log_p, log_prior).flatten(0, 1)
        return divergence(mixture(items, uniform(len(items), items)), self.log_shares(items))

    def log_shares(self, log_p: Tensor) -> Tensor:
        """log q of the classes: (..., C) -> (C,)."""
        classes = log_p.shape[-1]
        shares = (1.0,) * classes if self.class_prior is None else self.class_prior
        if len(shares) != classes:
            raise ValueError(
                f"class_prior has {len(shares)} numbers, the predictions {classes} classes: give one for each"
            )
        return torch.tensor(shares, dtype=torch.float64).log().log_softmax(0).to(finite(log_p))

    def _per_item(self, entropy_of_tuple: Tensor) -> Tensor:
        return entropy_of_tuple / self.order if self.per_item else entropy_of_tuple


def _checked_shares(shares: object) -> tuple[float, ...]:
    if isinstance(shares, str) or not isinstance(shares, Iterable):
        raise ValueError(f"class_prior must be numbers, one for each class, got {shares!r}")
    return tuple(number("each share of class_prior", share, above=0) for share in shares)


_DEFAULT = ReferencePrior()


def information_loss(
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor,
    settings: ReferencePrior = _DEFAULT,
    *,
    progress: float = 0.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """-γ (α h_y - h_yw), the first two terms of eq:ref_mi_ce, and the balance if any: (K, n, C), (K, n, C), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> weak, strong = (torch.randn(4, 8, 10).log_softmax(-1) for _ in range(2))
    >>> log_prior = torch.full((4,), 1 / 4).log()
    >>> sorted(rp.losses.information_loss(weak, strong, log_prior).terms)
    ['conditional_entropy', 'marginal_entropy']
    """
    weak, strong = tuples(weak, settings.order), tuples(strong, settings.order)
    seen = settings.marginal_view(weak, strong)
    h_y = settings.marginal(seen, log_prior, generator).mean()
    h_yw = settings.conditional(weak, strong, log_prior).mean()
    total = -settings.information_weight * (settings.alpha_at(progress) * h_y - h_yw)
    if not settings.balance:
        return Loss.of(total, marginal_entropy=h_y, conditional_entropy=h_yw)
    skew = settings.skew(seen, log_prior)
    return Loss.of(total + settings.balance * skew, marginal_entropy=h_y, conditional_entropy=h_yw, skew=skew)


def reference_prior(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor | None = None,
    settings: ReferencePrior = _DEFAULT,
    *,
    progress: float = 0.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """The semi-supervised objective eq:ref_mi_ce from log-probabilities: (K, b, C), (b,), (K, n, C), (K, n, C), (K,).

    weak and strong are predictions of two views of the same n unlabeled images; consecutive images form the tuples.
    Equal prior weights unless given. progress: of training, from 0 to 1, for an α that moves.

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))  # K = 4
    >>> loss = rp.losses.reference_prior(labeled, torch.arange(5), weak, strong)
    >>> sorted(loss.terms)
    ['conditional_entropy', 'cross_entropy', 'marginal_entropy']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    unlabeled = information_loss(weak, strong, log_prior, settings, progress=progress, generator=generator)
    return Loss.of(likelihood + unlabeled.total, cross_entropy=likelihood, **unlabeled.terms)
