"""The plain Blahut–Arimoto algorithm on a grid, kept as reference and as teaching tool.

Monotone and simple; but its gap falls like one over the number of iterations, it smears each atom over
several grid points, and it cannot do better than its grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._channels import Array, Channel


@dataclass(frozen=True, eq=False)
class BlahutArimoto:
    """Weights on the grid, and the information and the gap over the grid after each iteration."""

    grid: Array  # (G,) or (G, d)
    weights: Array  # (G,)
    information: Array  # (iterations,)
    gap: Array  # (iterations,)


def blahut_arimoto(
    channel: Channel, grid: int | ArrayLike = 1001, iterations: int = 1000, tol: float = 0.0
) -> BlahutArimoto:
    """π^{t+1}(w) ∝ π^t(w) exp KL(p(z | w), p(z)), section s:blahut_arimoto, from even weights.

    `grid` is a number of evenly spaced parameters (models of one parameter) or the parameters themselves.
    Stops after `iterations` or when the gap over the grid is at most `tol`.
    """
    w = _grid(channel, grid)
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {iterations}")
    log_p = channel.log_likelihood(channel.inside(w))
    p = np.exp(log_p)
    entropy = np.sum(p * np.where(p > 0, log_p, 0.0), axis=1)  # Σ_z p log p
    weights = np.full(len(w), 1 / len(w))
    information, gap = [], []
    for _ in range(iterations):
        divergence = entropy - p @ np.log(np.maximum(weights @ p, 1e-300))  # unseen outcomes have p = 0
        value = float(weights @ divergence)
        information.append(value)
        gap.append(float(divergence.max()) - value)
        if gap[-1] <= tol:
            break
        weights = weights * np.exp(divergence - divergence.max())
        weights /= weights.sum()
    points = w[:, 0] if w.shape[1] == 1 else w
    return BlahutArimoto(points, weights, np.array(information), np.array(gap))


def _grid(channel: Channel, grid: int | ArrayLike) -> Array:
    if not isinstance(grid, (int, np.integer)):
        points = np.asarray(grid, dtype=float)
        return points.reshape(-1, channel.dimension)
    if channel.dimension != 1 or grid < 2:
        raise ValueError(f"give the grid's points for {channel.dimension} parameters, or a number of at least 2")
    ends = channel.parameter(channel.bounds.T)[:, 0]
    return np.linspace(ends[0], ends[1], int(grid))[:, None]
