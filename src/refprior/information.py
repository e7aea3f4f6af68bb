"""Entropy and mutual information of a mixture of particles, as pure functions of log-probabilities.

A prior on K particles with weights exp(log_prior) turns a tuple of N inputs into a distribution over its C^N
labelings. Everything here is exact, in log-space, and returns one value a tuple: the caller reduces.

Half-precision inputs are computed in float32. Predictions may be saturated: a probability of 0 (log-probability
-inf, or a logit gap of 1600) contributes exactly 0 to every value and to every gradient.
"""

# K particles, B tuples, N order, C classes

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MEMORY_BUDGET = 2**30  # bytes that the enumeration of C^N labelings may hold at once
_COPIES = 8  # tensors of shape (K, b, C^N) alive at the peak of a backward pass (measured: 5.9, in chunks 7.3)


def entropy(log_p: Tensor) -> Tensor:
    """H(p) = -Σ p log p in nats: (..., C) -> (...)."""
    log_p = _finite(log_p)
    return -(log_p.exp() * log_p).sum(-1)


def mixture(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """log p_π = log Σ_k π_k p_k, the marginal of eq:ref_ssl: (K, ...), (K,) -> (...)."""
    log_p = _finite(log_p)
    weights = _finite(log_prior).to(log_p).reshape(-1, *[1] * (log_p.dim() - 1))
    return (log_p + weights).logsumexp(0)


def joint(log_p: Tensor) -> Tensor:
    """log p(y^n | x^n, w) = Σ_j log p(y_j | x_j, w) for all labelings: (..., N, C) -> (..., C^N).

    The labeling y_1 … y_N stands at the index with these digits in base C.
    """
    first, *rest = _finite(log_p).unbind(-2)
    for item in rest:
        first = (first.unsqueeze(-1) + item.unsqueeze(-2)).flatten(-2)
    return first


def marginal_entropy(log_p: Tensor, log_prior: Tensor, memory: int = MEMORY_BUDGET) -> Tensor:
    """H(y^n | x^n) of the mixture, the first term of eq:ref_ssl: (K, B, N, C), (K,) -> (B,).

    The C^N labelings are enumerated in chunks of tuples that hold at most `memory` bytes, in the backward pass too
    (it computes each chunk anew).
    """
    size = _tuples_at_once(log_p, memory)
    if size >= log_p.shape[1]:
        return _marginal_entropy(log_p, log_prior)
    chunks = log_p.split(size, dim=1)
    return torch.cat([checkpoint(_marginal_entropy, c, log_prior, use_reentrant=False) for c in chunks])


def conditional_entropy(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """Σ_k π_k H(y^n | x^n, w_k), the second term of eq:ref_ssl: (K, B, N, C), (K,) -> (B,).

    Given the weights, the items of a tuple are independent: their entropies add up.
    """
    return average(entropy(log_p).sum(-1), log_prior)


def mutual_information(log_p: Tensor, log_prior: Tensor, memory: int = MEMORY_BUDGET) -> Tensor:
    """I_π(w; y^n | x^n), eq:ref_ssl: (K, B, N, C), (K,) -> (B,)."""
    return marginal_entropy(log_p, log_prior, memory) - conditional_entropy(log_p, log_prior)


def average(values: Tensor, log_prior: Tensor) -> Tensor:
    """E_{w ~ π} of one value a particle: (K, ...), (K,) -> (...)."""
    return torch.einsum("k,k...->...", log_prior.exp().to(values), values)


def sampled_marginal_entropy(
    log_p: Tensor, log_prior: Tensor, samples: int, generator: torch.Generator | None = None
) -> Tensor:
    """Unbiased Monte Carlo estimate of `marginal_entropy`, in value and gradient: (K, B, N, C), (K,) -> (B,).

    For orders at which C^N cannot be enumerated. Each of K·samples labelings is drawn from its own particle (so the
    draw is stratified over the prior) and scored by the mixture. The gradient is
    Σ ∇log p_π(y) (-log p_π(y) - b), where b, the estimate from the other samples, only lowers the variance. It is
    right for log-probabilities that stay normalised, such as those of a log-softmax.
    """
    if samples < 2:
        raise ValueError(f"need at least 2 samples for the variance-reducing baseline, got {samples}")
    log_p = _finite(log_p)
    weights = log_prior.detach().exp().to(log_p)
    labels = _draw(log_p.detach(), samples, generator)  # (K, S, B, N)
    surprise = torch.stack([-_mixture_of(labels[:, s], log_p, log_prior) for s in range(samples)])  # (S, K, B)
    values = torch.einsum("k,skb->sb", weights, surprise.detach())
    baseline = (values.sum(0) - values) / (samples - 1)  # (S, B)
    score = -(surprise - surprise.detach()) * (surprise.detach() - baseline.unsqueeze(1))  # zero, with gradient
    return (values + torch.einsum("k,skb->sb", weights, score)).mean(0)


def _marginal_entropy(log_p: Tensor, log_prior: Tensor) -> Tensor:
    return entropy(mixture(joint(log_p), log_prior))


def _tuples_at_once(log_p: Tensor, memory: int) -> int:
    """How many tuples of (K, B, N, C) can be enumerated within `memory` bytes."""
    particles, _, order, classes = log_p.shape
    itemsize = max(log_p.element_size(), 4)
    needed = _COPIES * particles * classes**order * itemsize
    if needed > memory:
        raise ValueError(
            f"order {order} of {classes} classes has {classes**order:.3g} labelings: with {particles} particles one "
            f"tuple takes {needed / 2**30:.3g} GiB, the budget is {memory / 2**30:.3g} GiB. Lower the order or the "
            "number of particles, raise the budget, or estimate: sampled_marginal_entropy (of a method: samples)"
        )
    return int(memory // needed)


def _draw(log_p: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """Labels of every item by every particle: (K, B, N, C) -> (K, S, B, N)."""
    flat = log_p.exp().flatten(0, 2)
    drawn = torch.multinomial(flat, samples, replacement=True, generator=generator)  # (K·B·N, S)
    return drawn.reshape(*log_p.shape[:3], samples).movedim(-1, 1)


def _mixture_of(labels: Tensor, log_p: Tensor, log_prior: Tensor) -> Tensor:
    """log p_π of K labelings a tuple: (K, B, N), (K, B, N, C), (K,) -> (K, B)."""
    every = labels.movedim(0, -1).expand(len(log_p), *labels.shape[1:], len(labels))  # (K, B, N, labelings)
    return mixture(log_p.gather(-1, every).sum(-2), log_prior).movedim(-1, 0)


def _finite(log_p: Tensor) -> Tensor:
    """At least float32, and -inf replaced by a number whose exponential is 0 and whose sums do not overflow."""
    log_p = log_p.float() if log_p.dtype in (torch.float16, torch.bfloat16) else log_p
    return log_p.clamp_min(torch.finfo(log_p.dtype).min / 2**20)


def uniform(particles: int, like: Tensor) -> Tensor:
    """log π of equal weights, in the dtype and on the device of `like`: (K,)."""
    return torch.full((particles,), -math.log(particles), dtype=like.dtype, device=like.device)
