"""The semi-supervised reference prior: particles that are confident and disagree, and fit the labels."""

# K particles, B tuples, N order, C classes

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from refprior.information import average, entropy, finite, marginal_entropy, mixture, sampled_marginal_entropy
from refprior.methods._step import Loss, Step
from refprior.methods._supervised import cross_entropy


def mixture_of_views(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """log f = log(τ p_g1 + (1-τ) p_g2), the pseudo-code's f: (..., C), (..., C) -> (..., C)."""
    weights = torch.tensor([tau, 1 - tau], dtype=weak.dtype, device=weak.device).log()
    return mixture(torch.stack([weak, strong]), weights)


def view_entropy(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """H(f), the entropy of the mixture of views, without Jensen's bound: (..., C), (..., C) -> (...)."""
    return entropy(mixture_of_views(weak, strong, tau))


def jensen_entropy(weak: Tensor, strong: Tensor, tau: float) -> Tensor:
    """-Σ_y f [τ log p_g1 + (1-τ) log p_g2] ≥ H(f), eq:tau: (..., C), (..., C) -> (...).

    Its terms -p_g1 log p_g2 make the two views agree, as FixMatch's loss does.
    """
    f = mixture_of_views(weak, strong, tau).exp()
    return -(f * (tau * finite(weak) + (1 - tau) * finite(strong))).sum(-1)


def confident(weak: Tensor, threshold: float) -> Tensor:
    """1[max_y p(y | g_1(x), w) ≥ threshold], trick (4) of the paper: (..., C) -> (...)."""
    return (weak.detach().amax(-1) >= math.log(threshold)).to(weak.dtype)


@dataclass(frozen=True)
class ReferencePrior:
    """Semi-supervised reference prior, eq:ref_mi_ce with eq:ref_ssl and eq:tau.

    loss = cross-entropy of the labels - γ (α h_y - h_yw). The defaults are the paper's pseudo-code; `authors_code` is
    what the released CIFAR-10 run computed. docs/differences.md lists where the two disagree.
    """

    order: int = 2  # N, items in a tuple
    alpha: float = 0.1  # weight of the marginal entropy h_y; 1 in the definition of I
    final_alpha: float | None = None  # α moves there in a straight line over training; None: it stays
    tau: float = 1 / 3  # weight of the weak view in the mixture f
    gamma: float | None = None  # weight of the information; None: 1 / (1 - τ²)
    jensen: bool = True  # bound h_yw by eq:tau
    stop_gradient: bool = True  # none through the weak view ("stop gradient to p_g1")
    threshold: float | None = None  # h_yw counts only predictions at least so confident; None: all
    marginal_views: Literal["mixture", "weak"] = "mixture"  # the views that h_y sees
    marginal_gradient: bool = False  # h_y does back-propagate through the weak view
    per_item: bool = False  # divide both entropies by N
    trainable_prior: bool = False  # learn the weights π(w_k)
    samples: int | None = None  # labelings a particle to estimate h_y with; None: exact

    def __post_init__(self) -> None:
        whole = isinstance(self.order, int) and self.order >= 1
        _require(whole, f"order must be a whole number of at least 1, got {self.order}")
        _require(0 <= self.alpha < math.inf, f"alpha must be at least 0, got {self.alpha}")
        later = self.final_alpha is None or 0 <= self.final_alpha < math.inf
        _require(later, f"final_alpha must be at least 0, got {self.final_alpha}")
        _require(0 <= self.tau <= 1, f"tau must lie in [0, 1], got {self.tau}")
        _require(self.tau < 1 or self.gamma is not None, "tau = 1 makes 1 / (1 - tau²) infinite: give gamma")
        _require(self.gamma is None or 0 <= self.gamma < math.inf, f"gamma must be at least 0, got {self.gamma}")
        inside = self.threshold is None or 0 < self.threshold <= 1
        _require(inside, f"threshold must lie in (0, 1], got {self.threshold}")
        known = self.marginal_views in ("mixture", "weak")
        _require(known, f"marginal_views must be 'mixture' or 'weak', got {self.marginal_views!r}")
        learns = self.marginal_views == "mixture" or self.marginal_gradient or not self.stop_gradient
        _require(learns, "marginal_views='weak' needs marginal_gradient=True: h_y would have no gradient at all")
        _require(self.samples is None or self.samples >= 2, f"samples must be at least 2, got {self.samples}")

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
        """γ; by default 1 / (1 - τ²), which normalises the terms that the stop-gradient leaves (appendix Setup)."""
        return 1 / (1 - self.tau**2) if self.gamma is None else self.gamma

    def __call__(self, step: Step) -> Loss:
        labelled, strong, weak = self.predict(step, step.batch.x)
        log_prior = self.log_prior(step)
        likelihood = cross_entropy(labelled, step.batch.y, log_prior).mean()
        unlabelled = self.information_loss(weak, strong, log_prior, step)
        terms = {"cross_entropy": likelihood.detach(), **unlabelled.terms}
        return Loss(likelihood + unlabelled.total, terms)

    def predict(self, step: Step, *inputs: Tensor) -> list[Tensor]:
        """Log-probabilities of `inputs`, then of the strong and the weak view of the tuples."""
        batch = step.batch
        if self.stop_gradient and not self.marginal_gradient:
            return step.predict(*inputs, batch.strong, frozen=[batch.weak])
        return step.predict(*inputs, batch.strong, batch.weak)

    def log_prior(self, step: Step) -> Tensor:
        """log π(w_k), with gradient if it is to be learnt: (K,)."""
        return step.log_prior if self.trainable_prior else step.log_prior.detach()

    def information_loss(self, weak: Tensor, strong: Tensor, log_prior: Tensor, step: Step) -> Loss:
        """-γ (α h_y - h_yw), the first two terms of eq:ref_mi_ce: (K, B, N, C), (K, B, N, C), (K,)."""
        h_y = self.marginal(weak, strong, log_prior, step.generator).mean()
        h_yw = self.conditional(weak, strong, log_prior).mean()
        terms = {"marginal_entropy": h_y.detach(), "conditional_entropy": h_yw.detach()}
        return Loss(-self.information_weight * (self.alpha_at(step.progress) * h_y - h_yw), terms)

    def alpha_at(self, progress: float) -> float:
        """α at a point of training between 0 and 1."""
        return self.alpha if self.final_alpha is None else (1 - progress) * self.alpha + progress * self.final_alpha

    def conditional(self, weak: Tensor, strong: Tensor, log_prior: Tensor) -> Tensor:
        """h_yw = E_{w ~ π} H(y^n | x^n, w), or its bound: (K, B, N, C), (K, B, N, C), (K,) -> (B,)."""
        weak = weak.detach() if self.stop_gradient else weak
        items = (jensen_entropy if self.jensen else view_entropy)(weak, strong, self.tau)  # (K, B, N)
        if self.threshold is not None:
            items = items * confident(weak, self.threshold)
        return self._scale(average(items.sum(-1), log_prior), weak)

    def marginal(
        self, weak: Tensor, strong: Tensor, log_prior: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """h_y = H(y^n | x^n) of the mixture over particles: (K, B, N, C), (K, B, N, C), (K,) -> (B,)."""
        weak = weak.detach() if self.stop_gradient and not self.marginal_gradient else weak
        log_p = weak if self.marginal_views == "weak" else mixture_of_views(weak, strong, self.tau)
        if self.samples is None:
            return self._scale(marginal_entropy(log_p, log_prior), weak)
        return self._scale(sampled_marginal_entropy(log_p, log_prior, self.samples, generator), weak)

    def _scale(self, entropy_of_tuple: Tensor, log_p: Tensor) -> Tensor:
        return entropy_of_tuple / log_p.shape[-2] if self.per_item else entropy_of_tuple


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
