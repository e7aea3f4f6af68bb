"""Principal components of images: inputs in which no few directions say everything.

Gradient descent learns along the directions of largest variance first, and its step size is bounded by the largest. In
photographs of clothes the first two components hold half of the variance, in digits a sixth: networks of one learning
rate do not learn alike from both. Components of a fixed first standard deviation, the others brought a little nearer
to it, do.
"""

# n images of D pixels, J components

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

_BLOCK = 1000  # images at a time
_NOTHING = 1e-9  # share of the first component's variance


def principal_axes(parts: Sequence[Tensor], count: int, whitening: float) -> tuple[Tensor, Tensor]:
    """The mean image, and the axes of the first components: (n, *shape) -> (*shape), (D, J).

    Along axis j the images have the standard deviation (λ_j / λ_1)^((1 - whitening) / 2), λ_j the variance of
    component j. One D × D matrix is kept, in double precision.
    """
    pixels = math.prod(parts[0].shape[1:])
    if not 1 <= count <= pixels:
        raise ValueError(
            f"components must be 0 for all pixels, or 1 to {pixels} for images of {pixels} pixels, got {count}"
        )
    if not 0 <= whitening <= 1:
        raise ValueError(f"whitening must be between 0 and 1, got {whitening}")
    number = sum(len(part) for part in parts)
    total = torch.zeros(pixels, dtype=torch.float64, device=parts[0].device)
    second = torch.zeros(pixels, pixels, dtype=torch.float64, device=parts[0].device)
    for block in _blocks(parts):
        total += block.sum(0)
    mean = total / number
    for block in _blocks(parts):
        second += (block - mean).T @ (block - mean)
    variances, axes = (value.flip(-1)[..., :count] for value in torch.linalg.eigh(second / number))
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # the same on every machine: a run may move
    relative = variances / variances[0] if variances[0] > 0 else torch.zeros_like(variances)
    # To standard deviations of relative^((1 - whitening) / 2). A component that does not vary is rounding, which no
    # division may blow up.
    factor = torch.where(relative > _NOTHING, relative ** (-whitening / 2) / variances[0].sqrt(), 0)
    dtype = torch.float64 if parts[0].dtype == torch.float64 else torch.float32
    return mean.reshape(parts[0].shape[1:]).to(dtype), (axes * factor).to(dtype)


def _blocks(parts: Iterable[Tensor]) -> Iterable[Tensor]:
    return (block.flatten(1).double() for part in parts if len(part) for block in part.split(_BLOCK))
