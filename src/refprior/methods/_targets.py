"""What several methods share: soft targets, sharpening, ramps, mixing, moving averages of what was seen."""

# K particles, n inputs, C classes

import torch
from torch import Tensor

from refprior.information import average, entropy, finite
from refprior.methods._step import Loss
from refprior.methods._supervised import cross_entropy


def soft_cross_entropy(target: Tensor, log_p: Tensor) -> Tensor:
    """-Σ_y q(y) log p(y) of probabilities q, in which 0 times log 0 is 0: (..., C), (..., C) -> (...)."""
    return -(target * finite(log_p)).sum(-1)


def soft_divergence(target: Tensor, log_p: Tensor) -> Tensor:
    """KL(q ‖ p) of probabilities q without gradient: (..., C), (..., C) -> (...)."""
    return soft_cross_entropy(target, log_p) - entropy(target.log())


def sharpen(log_p: Tensor, temperature: float) -> Tensor:
    """log of p^(1/T) / Σ p^(1/T), MixMatch eq. 7: (..., C) -> (..., C)."""
    return (finite(log_p) / temperature).log_softmax(-1)


def ramp(progress: float, length: float) -> float:
    """A weight that rises in a straight line to 1 over the first `length` of training."""
    return 1.0 if length == 0 else min(1.0, progress / length)


def moved(before: Tensor, seen: Tensor, decay: float) -> Tensor:
    """decay · before + (1 - decay) · seen: the moving average of what batches show."""
    return decay * before + (1 - decay) * seen


def shares_of_mixing(count: int, beta: float, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """max(λ, 1 - λ) of λ ~ Beta(β, β), one per input, MixMatch eq. 8 and 9: (n,)."""
    # torch.distributions takes no generator.
    concentration = torch.full((count, 2), beta, dtype=like.dtype, device=like.device)
    return torch._sample_dirichlet(concentration, generator=generator).amax(-1)


def mix(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """λ x + (1 - λ) x' of one share per input, MixMatch eq. 10: (n, ...), (n, ...), (n,) -> (n, ...)."""
    weights = share.reshape(-1, *[1] * (first.dim() - 1))
    return weights * first + (1 - weights) * second


def check_mixable(inputs: Tensor, name: str) -> None:
    """Refuse token ids: what is between two of them is not an input."""
    if not inputs.is_floating_point():
        raise ValueError(f"{name} mixes inputs, and token ids cannot be mixed: take FixMatch or ReferencePrior")


def with_pseudo_labels(
    labeled: Tensor, y: Tensor, items: Tensor, used: Tensor, log_prior: Tensor, weight: float
) -> Loss:
    """Cross-entropy of the labels + weight · mean of the terms of unlabeled inputs, each by how far it is used:
    (K, b, C), (b,), (K, n), (K, n), (K,)."""
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    unlabeled = average(items * used, log_prior).mean()
    return Loss.of(
        likelihood + weight * unlabeled, cross_entropy=likelihood, pseudo_label=unlabeled, confident=used.mean()
    )
