"""Entropy and mutual information of a mixture of particles, as pure functions of log-probabilities.

A prior on K particles with weights exp(log_prior) turns a tuple of N inputs into a distribution over its C^N
labelings. The functions are exact, take log-probabilities, and return one value per tuple: the caller reduces.

Half-precision inputs are computed in float32. Predictions may be saturated: a probability of 0 (log-probability
-inf, or a logit gap of 1600) contributes exactly 0 to every value and to every gradient. The same holds for
probabilities too small for the dtype, below 1e-37 in float32 and 1e-307 in float64.
"""

# K particles, B tuples, N order, C classes

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F

from refprior._recomputing import recomputed

__all__ = [
    "average",
    "conditional_entropy",
    "divergence",
    "entropy",
    "log_likelihood",
    "marginal_entropy",
    "mixture",
    "mutual_information",
    "sampled_marginal_entropy",
    "tuples",
    "uniform",
]

MEMORY_BUDGET = 2**28  # bytes that the enumeration of C^N labelings may hold at once
MOST_LABELINGS = 10**8  # largest enumeration, whatever the chunks: more would take hours
_COPIES = 10  # of a chunk's probabilities, alive at the peak of its backward pass, as a test measures


def entropy(log_p: Tensor) -> Tensor:
    """Compute the entropy of distributions.

    H(p) = -Σ p log p in nats.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (..., C).

    Returns
    -------
    Tensor
        Entropies, (...).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.information.entropy(torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    log_p = finite(log_p)
    return -(probabilities(log_p) * log_p).sum(-1)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Compute the Kullback–Leibler divergence of distributions from another.

    KL(p ‖ q) = Σ p (log p - log q) in nats.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (..., C).
    log_q : Tensor
        Log-probabilities without zeros, (C,).

    Returns
    -------
    Tensor
        Divergences, (...).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.information.divergence(torch.tensor([1.0, 0.0]).log(), torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    log_p = finite(log_p)
    return (probabilities(log_p) * (log_p - log_q)).sum(-1)


def mixture(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """Mix the particles' distributions by their prior weights.

    log p_π = log Σ_k π_k p_k, the marginal of eq:ref_ssl.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, ...).
    log_prior : Tensor
        log π(w_k), (K,).

    Returns
    -------
    Tensor
        Log-probabilities of the mixture, (...).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()  # two particles
    >>> rp.information.mixture(log_p, torch.tensor([0.5, 0.5]).log()).exp()
    tensor([0.6000, 0.4000])
    """
    log_p = finite(log_p)
    terms = log_p + _each(finite(log_prior), log_p)
    # Spelled out: ranks that divide the particles then exchange only the largest and the sum.
    largest = terms.detach().amax(0)
    return probabilities(terms - largest).sum(0).log() + largest


def joint(log_p: Tensor) -> Tensor:
    """Return log p(y^n | x^n, w) = Σ_j log p(y_j | x_j, w) of all labelings: (..., N, C) -> (..., C^N).

    The labeling y_1 … y_N has the index with these digits in base C.
    """
    return _labelings(finite(log_p), torch.add)


def tuples(log_p: Tensor, order: int) -> Tensor:
    """Group consecutive items into tuples.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (K, n, C).
    order : int
        N, items in a tuple.

    Returns
    -------
    Tensor
        Log-probabilities, (K, n / N, N, C).

    Raises
    ------
    ValueError
        If n is not a multiple of N.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> tuple(rp.information.tuples(torch.zeros(4, 6, 10), order=2).shape)
    (4, 3, 2, 10)
    """
    if log_p.shape[1] % order:
        raise ValueError(f"{log_p.shape[1]} items do not make tuples of {order}")
    return log_p.unflatten(1, (-1, order)) if log_p.shape[1] else log_p.unsqueeze(2)


def marginal_entropy(log_p: Tensor, log_prior: Tensor, memory: int = MEMORY_BUDGET) -> Tensor:
    """Compute the entropy of the mixture's labels of every tuple.

    H(y^n | x^n) of p_π, the first term of eq:ref_ssl. The C^N labelings are enumerated in chunks, and the backward pass
    computes each chunk again. A chunk is several tuples, or the labelings of one tuple that begin with the same labels.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of the items of B tuples, (K, B, N, C).
    log_prior : Tensor
        log π(w_k), (K,).
    memory : int, default: 2**28
        Largest number of bytes that the enumeration may hold at once.

    Returns
    -------
    Tensor
        Nats per tuple, (B,).

    Raises
    ------
    ValueError
        If C^N is too large to enumerate: use `sampled_marginal_entropy`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.full((3, 1, 2, 2), 0.5).log()  # three particles, one pair of items, two classes
    >>> rp.information.marginal_entropy(log_p, rp.information.uniform(3, log_p))  # log 4
    tensor([1.3863])
    """
    check_labelings(*log_p.shape[2:])
    nothing = torch.zeros_like(_at_least_single(log_p[:, :, 0, 0]))
    if _tuples_at_once(log_p, memory) >= log_p.shape[1]:
        return _entropy_of_labelings(log_p, nothing, log_prior)
    return _enumerate(log_p, nothing, log_prior, memory)


def log_likelihood(log_p: Tensor, y: Tensor) -> Tensor:
    """Look up the log-probability of labels.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (..., n, C).
    y : Tensor
        Labels that the leading dimensions share, (n,), or have each, (..., n).

    Returns
    -------
    Tensor
        log p(y), (..., n).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]]).log()  # one particle, two images
    >>> rp.information.log_likelihood(log_p, torch.tensor([0, 0])).exp()
    tensor([[0.9000, 0.2000]])
    """
    return log_p.gather(-1, y.expand(log_p.shape[:-1]).unsqueeze(-1)).squeeze(-1)


def conditional_entropy(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """Compute the mean entropy of the particles' labels of every tuple.

    Σ_k π_k H(y^n | x^n, w_k), the second term of eq:ref_ssl. Given the weights the items of a tuple are independent, so
    their entropies add up.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of the items of B tuples, (K, B, N, C).
    log_prior : Tensor
        log π(w_k), (K,).

    Returns
    -------
    Tensor
        Nats per tuple, (B,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.full((3, 1, 2, 2), 0.5).log()  # three particles, one pair of items, two classes
    >>> rp.information.conditional_entropy(log_p, rp.information.uniform(3, log_p))  # log 4
    tensor([1.3863])
    """
    return average(entropy(log_p).sum(-1), log_prior)


def class_surprise(log_p: Tensor, log_prior: Tensor, log_q: Tensor) -> Tensor:
    """Return -E log q(y^n) of labels from the mixture, for q without zeros: (K, B, N, C), (K,), (C,) -> (B,).

    Minus `marginal_entropy` it is KL(p_π(y^n | x^n) ‖ q^n), the divergence of the mixture from class shares q.
    """
    return average(-(probabilities(log_p) * log_q).sum((-2, -1)), log_prior)


def mutual_information(log_p: Tensor, log_prior: Tensor, memory: int = MEMORY_BUDGET) -> Tensor:
    """Compute the mutual information of weights and labels of every tuple.

    I_π(w; y^n | x^n), eq:ref_ssl, which equals H(w) - H(w | y^n), eq:ref_defn.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of the items of B tuples, (K, B, N, C).
    log_prior : Tensor
        log π(w_k), (K,).
    memory : int, default: 2**28
        Largest number of bytes that the enumeration may hold at once.

    Returns
    -------
    Tensor
        Nats per tuple, (B,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(2).log().reshape(2, 1, 1, 2)  # two particles, each certain of its own class
    >>> rp.information.mutual_information(log_p, rp.information.uniform(2, log_p))  # log 2
    tensor([0.6931])
    """
    return marginal_entropy(log_p, log_prior, memory) - conditional_entropy(log_p, log_prior)


def average(values: Tensor, log_prior: Tensor) -> Tensor:
    """Average one value per particle over the prior.

    E_{w ~ π}. A value with weight 0 counts 0, even if it is infinite.

    Parameters
    ----------
    values : Tensor
        One value per particle, (K, ...).
    log_prior : Tensor
        log π(w_k), (K,).

    Returns
    -------
    Tensor
        Averages, (...).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.information.average(torch.tensor([1.0, 2.0]), torch.tensor([0.25, 0.75]).log())
    tensor(1.7500)
    """
    # A product and a sum: autocast would compute an einsum in half precision.
    weights = _each(log_prior.exp(), values)
    return (weights * values.where(weights > 0, 0.0)).sum(0)


def sampled_marginal_entropy(
    log_p: Tensor,
    log_prior: Tensor,
    samples: int,
    generator: torch.Generator | None = None,
    memory: int = MEMORY_BUDGET,
) -> Tensor:
    """Estimate the entropy of the mixture's labels by sampling.

    Unbiased in value and gradient, for orders at which C^N cannot be enumerated. Each of K·samples labelings is drawn
    from its own particle (stratified over the prior) and scored by the mixture. The gradient is Σ ∇log p_π(y) (-log
    p_π(y) - b); the baseline b, the estimate from the other samples, only lowers the variance. It is correct for
    log-probabilities that stay normalized, such as those of a log-softmax.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of the items of B tuples, (K, B, N, C).
    log_prior : Tensor
        log π(w_k), (K,).
    samples : int
        Labelings per particle, at least 2.
    generator : torch.Generator, optional
        Source of randomness.
    memory : int, default: 2**28
        Largest number of bytes that the enumeration may hold at once.

    Returns
    -------
    Tensor
        Nats per tuple, (B,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.full((3, 1, 30, 2), 0.5).log()  # 2^30 labelings, all equally probable
    >>> rp.information.sampled_marginal_entropy(log_p, rp.information.uniform(3, log_p), samples=4)  # 30 log 2
    tensor([20.7944])
    """
    if samples < 2:
        raise ValueError(f"samples must be at least 2 for the variance-reducing baseline, got {samples}")
    log_p = finite(log_p)
    labels = _draw(log_p.detach(), samples, generator)  # (K, S, B, N)
    surprise = torch.stack(
        [-_score(labels[:, s], log_p, log_prior, memory) for s in range(samples)], dim=1
    )  # (K, S, B)
    values = average(surprise.detach(), log_prior.detach())  # (S, B)
    baseline = (values.sum(0) - values) / (samples - 1)  # (S, B)
    score = -(surprise - surprise.detach()) * (surprise.detach() - baseline)  # zero, with gradient
    return (values + average(score, log_prior.detach())).mean(0)


def _in_full(device: str) -> AbstractContextManager[object]:
    """Disable autocast, on devices that have it."""
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def _entropy_of_labelings(log_p: Tensor, before: Tensor, log_prior: Tensor) -> Tensor:
    """Sum -p_π log p_π over labelings whose first items have log-probability `before`: (K, b, N, C), (K, b) -> (b,).

    Σ_k π_k p_k(first half of the items) p_k(second half) is a matrix product, and K times smaller than its terms.
    """
    if log_p.shape[2] == 1:
        return entropy(mixture(joint(log_p) + before.unsqueeze(-1), log_prior))
    p = probabilities(log_p)
    weights = probabilities(before + _each(log_prior, before)).unsqueeze(-1)
    half = p.shape[2] // 2
    first, second = _labelings(p[:, :, :half], torch.mul) * weights, _labelings(p[:, :, half:], torch.mul)
    # (b, C^half, K) and (b, K, C^(N - half)), in this order in memory: else each tuple would be a product of its own
    rows, columns = first.permute(1, 2, 0).contiguous(), second.transpose(0, 1).contiguous()
    with _in_full(p.device.type):
        p_mixture = rows @ columns
    # Where it underflows, x log x is 0 and its slope that of the smallest normal number.
    return -(p_mixture * p_mixture.clamp_min(torch.finfo(p.dtype).tiny).log()).sum((1, 2))


def _labelings(items: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Combine one value per item for all labelings, in the order of `joint`: (..., N, C) -> (..., C^N)."""
    first, *rest = items.unbind(-2)
    for item in rest:
        first = combine(first.unsqueeze(-1), item.unsqueeze(-2)).flatten(-2)
    return first


def _enumerate(log_p: Tensor, before: Tensor, log_prior: Tensor, memory: int) -> Tensor:
    """Compute `_entropy_of_labelings` in chunks of tuples, or of labels of the first item if one tuple is too large."""
    size = _tuples_at_once(log_p, memory)
    if size >= 1:
        chunks = zip(log_p.split(size, dim=1), before.split(size, dim=1), strict=True)
        return torch.cat([recomputed(_entropy_of_labelings, p, b, log_prior) for p, b in chunks])
    if log_p.shape[2] == 1:
        raise ValueError(f"one label of {log_p.shape[0]} particles exceeds memory={memory} bytes: increase memory")
    first = finite(log_p[:, :, 0])
    rest = log_p[:, :, 1:]
    return torch.stack(
        [_enumerate(rest, before + first[..., y], log_prior, memory) for y in range(first.shape[-1])]
    ).sum(0)


def check_labelings(order: int, classes: int) -> None:
    """Raise a ValueError for orders at which a tuple has too many labelings to enumerate."""
    if order * math.log(classes) > math.log(MOST_LABELINGS) + 1e-9:
        raise ValueError(
            f"order {order} of {classes} classes has {_large(order * math.log10(classes))} labelings, at most "
            f"{_large(math.log10(MOST_LABELINGS))} are enumerated: lower the order, or estimate with "
            "sampled_marginal_entropy (in a method: samples)"
        )


def _large(power: float) -> str:
    """Format 10^power as 3.5e9; it may exceed the largest float."""
    whole = math.floor(power + 1e-9)
    return f"{10 ** (power - whole):.1f}e{whole}"


def _tuples_at_once(log_p: Tensor, memory: int) -> int:
    """Return how many tuples of (K, B, N, C) can be enumerated within `memory` bytes."""
    particles, _, order, classes = log_p.shape
    halves = classes ** (order // 2) + classes ** (order - order // 2)
    return int(memory // (_COPIES * (classes**order + particles * halves) * max(log_p.element_size(), 4)))


def _draw(log_p: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """Draw labels of every item by every particle: (K, B, N, C) -> (K, S, B, N)."""
    flat = log_p.exp().flatten(0, 2)
    drawn = torch.multinomial(flat, samples, replacement=True, generator=generator)  # (K·B·N, S)
    return drawn.reshape(*log_p.shape[:3], samples).movedim(-1, 1)


def _score(labels: Tensor, log_p: Tensor, log_prior: Tensor, memory: int) -> Tensor:
    """Compute `_mixture_of` in chunks of tuples within `memory` bytes: (K, B, N), (K, B, N, C), (K,) -> (K, B)."""
    particles, _, order, _ = log_p.shape
    needed = _COPIES * particles**2 * order * log_p.element_size()
    if needed > memory:
        raise ValueError(f"{particles} particles need {needed} bytes per tuple, memory is {memory}: increase memory")
    size = memory // needed
    chunks = zip(labels.split(size, dim=1), log_p.split(size, dim=1), strict=True)
    return torch.cat([recomputed(_mixture_of, y, p, log_prior) for y, p in chunks], dim=1)


def _mixture_of(labels: Tensor, log_p: Tensor, log_prior: Tensor) -> Tensor:
    """Return log p_π of K labelings per tuple: (K, B, N), (K, B, N, C), (K,) -> (K, B)."""
    every = labels.movedim(0, -1).expand(len(log_p), *labels.shape[1:], len(labels))  # (K, B, N, labelings)
    return mixture(log_p.gather(-1, every).sum(-2), log_prior).movedim(-1, 0)


def finite(log_p: Tensor) -> Tensor:
    """Convert to at least float32, and -inf to a number whose exponential is 0 and whose sums do not overflow."""
    log_p = _at_least_single(log_p)
    return log_p.clamp_min(torch.finfo(log_p.dtype).min / 2**20)


def probabilities(log_p: Tensor) -> Tensor:
    """Return p from log p in at least float32; results too small for the dtype are 0, and so is their gradient.

    Elsewhere it equals `exp`, which takes CPUs up to ten times as long for subnormal results.
    """
    log_p = _at_least_single(log_p)
    smallest = torch.finfo(log_p.dtype).tiny
    return F.threshold(log_p.clamp_min(math.log(3 * smallest)).exp(), 4 * smallest, 0.0)


def _at_least_single(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def _each(weights: Tensor, values: Tensor) -> Tensor:
    """Shape one weight per particle to multiply or add to values: (K,), (K, ...) -> (K, 1, …)."""
    return weights.to(values).reshape(-1, *[1] * (values.dim() - 1))


def uniform(count: int, like: Tensor) -> Tensor:
    """Return equal log-weights of particles.

    Parameters
    ----------
    count : int
        K, the number of particles.
    like : Tensor
        Tensor whose dtype and device the result takes.

    Returns
    -------
    Tensor
        -log K, (K,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.information.uniform(4, torch.zeros(1)).exp()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return torch.full((count,), -math.log(count), dtype=like.dtype, device=like.device)
