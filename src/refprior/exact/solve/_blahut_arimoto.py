"""The plain Blahut–Arimoto algorithm on a grid, for comparison and for teaching.

It is monotone and simple. But its gap falls only like one over the number of iterations, it spreads each atom over
several grid points, and its precision is that of the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import number, whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, as_numbers
from refprior.exact._cost import LOG, MULTIPLICATIONS, say_time
from refprior.exact.channels import Channel, check_channel, to_coordinates

FEWER = "take a coarser grid or fewer samples"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlahutArimotoResult:
    """Weights on the grid, with the information and the gap after each iteration."""

    grid: Array  # (G,) or (G, d) parameters
    weights: Array  # (G,) after the last iteration
    information: Array  # (iterations,) in nats
    gap: Array  # (iterations,) over the grid, in nats


def blahut_arimoto(
    channel: Channel,
    grid: int | ArrayLike = 1001,
    *,
    iterations: int = 1000,
    tolerance: float = 0.0,
    cost: Callable[[Array], ArrayLike] | None = None,
) -> BlahutArimotoResult:
    """Run the plain Blahut–Arimoto algorithm on a grid.

    π^{t+1}(w) ∝ π^t(w) exp(KL(p(z | w), p(z)) − c(w)), from uniform weights (section s:blahut_arimoto). With a cost c
    it maximizes I(w; z) − E c(w) (Blahut, 1972). With c = λ e for a price λ ≥ 0, the prior tells most of all whose mean
    E e(w) is no larger: every price gives one point of the capacity under a constraint of the average cost.

    Parameters
    ----------
    channel : Channel
        The model p(z | w).
    grid : int or array_like of shape (G,) or (G, d), default: 1001
        The number of evenly spaced parameters (models of one parameter), or the parameters.
    iterations : int, default: 1000
        Largest number of iterations.
    tolerance : float, default: 0.0
        Stop when the gap over the grid is at most this, in nats.
    cost : callable, optional
        The cost c(w) of parameters, in nats: (G,) or (G, d) -> (G,).

    Returns
    -------
    BlahutArimotoResult
        The `grid`, its `weights` after the last iteration, and `information` and `gap` (over the grid, not over all w)
        after each iteration. With a cost, the gap is that of I(w; z) − E c(w).

    Examples
    --------
    >>> import numpy as np
    >>> from refprior.exact import Categorical, Coin, blahut_arimoto
    >>> result = blahut_arimoto(Coin(1), [0.0, 1.0], iterations=1)
    >>> result.weights.tolist(), result.information.round(6).tolist()
    ([0.5, 0.5], [0.693147])
    >>> result = blahut_arimoto(Coin(10), 101, iterations=100)
    >>> bool(result.gap[-1] < result.gap[0]), round(float(result.information[-1]), 3)
    (True, 1.231)
    >>> noiseless = Categorical([[1.0, 0.0], [0.0, 1.0]])  # symbols 0 and 1; a 1 costs log 3
    >>> blahut_arimoto(noiseless, [0, 1], cost=lambda w: np.log(3) * w).weights.round(6).tolist()
    [0.75, 0.25]
    """
    w = _grid(check_channel(channel), grid)
    whole_number("iterations", iterations, at_least=1)
    number("tolerance", tolerance, at_least=0)
    entries = len(w) * channel.outcome_count
    check_memory(48.0 * entries, f"a table of {len(w):,} parameters and {channel.outcome_count:,} outcomes", FEWER)
    if tolerance == 0:
        say_time(iterations * (entries / MULTIPLICATIONS + 2e-5))
    log_p = channel.log_likelihood(to_coordinates(channel, w))
    p = np.exp(log_p)
    negentropy = np.sum(p * np.where(p > 0, log_p, 0.0), axis=1)  # Σ_z p log p
    points = w[:, 0] if w.shape[1] == 1 else w
    price = np.zeros(len(w)) if cost is None else as_numbers("the cost", cost(points))
    if price.shape != (len(w),) or not np.all(np.isfinite(price)):
        raise ValueError(f"cost must return {len(w)} finite numbers, one for each parameter; got shape {price.shape}")
    weights = np.full(len(w), 1 / len(w))
    information: list[float] = []
    gap: list[float] = []
    for iteration in range(iterations):
        if iteration % 100 == 0 and iteration:
            LOG.info("iteration %d of at most %d, gap %.1e", iteration, iterations, gap[-1])
        divergence = negentropy - p @ np.log(np.maximum(weights @ p, 1e-300))  # where p(z) = 0 all p(z | w) are
        information.append(float(weights @ divergence))
        gain = divergence - price
        gap.append(float(gain.max() - weights @ gain))
        if gap[-1] <= tolerance:
            break
        weights = weights * np.exp(gain - gain.max())
        weights /= weights.sum()
    return BlahutArimotoResult(grid=points, weights=weights, information=np.array(information), gap=np.array(gap))


def _grid(channel: Channel, grid: int | ArrayLike) -> Array:
    """Return the parameters of the grid: (G, d)."""
    if not isinstance(grid, (int, np.integer)):
        points = as_numbers("the grid", grid)
        if not points.size or points.size % channel.dimension:
            raise ValueError(f"the grid must have shape (G, {channel.dimension}) with G > 0, got shape {points.shape}")
        return points.reshape(-1, channel.dimension)
    if channel.dimension != 1 or grid < 2:
        raise ValueError(f"give the grid's points for {channel.dimension} parameters, or a number of at least 2")
    check_memory(48.0 * int(grid) * channel.outcome_count, f"a grid of {grid} parameters", FEWER)
    ends = channel.parameter(channel.bounds.T)[:, 0]
    return np.linspace(ends[0], ends[1], int(grid))[:, None]
