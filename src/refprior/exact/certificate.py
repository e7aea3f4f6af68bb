"""How far a prior can be from the optimum, judged without knowing how the prior was found.

Where J is concave in π, J* − J ≤ max_w G(w) − J, the maximum over all w and not over a grid. Here it is
taken on a grid even in Fisher length, finer than the solver's, and every peak of
the grid is polished with parabolas through values of G alone: no derivative, no step of the solver is
used again.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import label, maximum_filter

from .ascent import looseness
from .channels import Array, Categorical
from .objective import Objective

SPACING = 0.11  # standard deviations between grid points, one parameter
SPACING_PLANE = 0.22  # two parameters
LEAST_POINTS = 201
LEAST_POINTS_PLANE = 41
CHUNK = 4_000_000  # entries of one table
MOST_ATOMS = 150  # beyond, spacings are so narrow that doubles never tell the number
ROUNDING = 4 * np.finfo(float).eps  # relative error of one evaluation of the gain


@dataclass(frozen=True)
class Certificate:
    """The judgement: J, the gap, where the gain is largest, and whether the number of atoms is proven."""

    information: float
    gap: float
    worst: Array  # (d,) coordinates of the largest gain
    atoms_certified: bool
    evaluations: int


def judge(objective: Objective, u: Array, weights: Array) -> Certificate:
    """Certificate of a prior given by coordinates (K, d) and weights (K,)."""
    logs = objective.log_marginals(u, weights)
    at_atoms = objective.gain(u, logs)
    information = float(weights @ at_atoms)
    grid, shape = _grid(objective)
    values = _gain(objective, grid, logs)
    if not np.all(np.isfinite(values)):  # some w allows an outcome that the prior excludes
        return Certificate(information, math.inf, grid[int(np.argmax(values))], False, len(grid))
    top, height, count = _polish(objective, grid, shape, values, logs)
    everywhere, heights = np.vstack([top, u]), np.concatenate([height, at_atoms])
    largest = int(np.argmax(heights))
    gap = max(0.0, float(heights[largest]) - information)
    certified = _atoms_certified(objective, u, weights, values, shape, information, gap)
    return Certificate(information, gap, everywhere[largest], certified, len(grid) + count + len(u))


def _grid(objective: Objective) -> tuple[Array, tuple[int, ...]]:
    channel = objective.channel
    if isinstance(channel, Categorical):
        u = np.arange(channel.bounds[0, 1] + 1)[:, None]
        return u, (len(u),)
    spacing, least = (SPACING, LEAST_POINTS) if channel.dimension == 1 else (SPACING_PLANE, LEAST_POINTS_PLANE)
    counts = [max(least, math.ceil(length / spacing) + 2) for length in channel.axis_lengths()]
    axes = [channel.axis_points(axis, count) for axis, count in enumerate(counts)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)), tuple(counts)


def _gain(objective: Objective, u: Array, logs: list[Array]) -> Array:
    """G, a slice at a time: (G, d) -> (G,)."""
    size = max(64, CHUNK // max(len(log) for log in logs))
    return np.concatenate([objective.gain(u[i : i + size], logs) for i in range(0, len(u), size)])


def _polish(
    objective: Objective,
    grid: Array,
    shape: tuple[int, ...],
    values: Array,
    logs: list[Array],
    rounds: int = 7,
) -> tuple[Array, Array, int]:
    """Maxima of G near the grid's peaks, by parabolas on shrinking stencils: (M, d), (M,), evaluations."""
    table = values.reshape(shape)
    peaks = np.flatnonzero((table >= maximum_filter(table, size=3, mode="nearest")).ravel())
    centre, best, height = grid[peaks], grid[peaks], values[peaks]
    if isinstance(objective.channel, Categorical):
        return best, height, 0
    bounds = objective.channel.bounds
    width = _neighbour_distance(grid, shape)[peaks]
    count, active = 0, np.arange(len(peaks))
    for _ in range(rounds):
        half = width[active]
        middle = np.clip(centre[active], bounds[:, 0] + half, bounds[:, 1] - half)
        summit, seen, seen_value, promised = _parabola(objective, middle, half, logs)
        count += len(active) * 3 ** len(bounds)
        better = seen_value > height[active]
        best[active[better]], height[active[better]] = seen[better], seen_value[better]
        centre[active], width[active] = summit, half / 4
        rise = promised - height[active]
        rounding = ROUNDING * (1 + abs(height.max())) / 4
        # a parabola that promises no rise, or too little to reach the largest gain, need not be followed
        active = active[(rise > rounding) & (height[active] + 2 * rise > height.max())]
        if not len(active):
            break
    return best, height, count


def _neighbour_distance(grid: Array, shape: tuple[int, ...]) -> Array:
    """Distance to the next grid point on each axis: (G, d)."""
    table = grid.reshape(*shape, len(shape))
    steps = [np.gradient(table[..., axis], axis=axis) for axis in range(len(shape))]
    return np.stack(steps, axis=-1).reshape(-1, len(shape))


def _parabola(objective: Objective, middle: Array, half: Array, logs: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Summit of the parabola through 3^d values, the best point seen, its gain, the summit's height."""
    count, dimension = middle.shape
    offsets = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=dimension)))
    points = middle[:, None, :] + offsets * half[:, None, :]
    values = _gain(objective, points.reshape(-1, dimension), logs).reshape(count, *([3] * dimension))
    slope, bend = _differences(values)
    eigenvalues, vectors = np.linalg.eigh(bend)
    downward = np.minimum(eigenvalues, -1e-300)
    move = np.clip(-np.einsum("kia,ka,kja,kj->ki", vectors, 1 / downward, vectors, slope), -1.0, 1.0)
    flat = values.reshape(count, -1)
    first = np.argmax(flat, axis=1)
    rows = np.arange(count)
    summit = np.sum(slope * move, axis=1) + np.einsum("ki,kij,kj->k", move, bend, move) / 2
    return middle + move * half, points[rows, first], flat[rows, first], flat[:, flat.shape[1] // 2] + summit


def _differences(values: Array) -> tuple[Array, Array]:
    """Central differences on a 3^d stencil, in units of its half width: (k, 3[, 3]) -> (k, d), (k, d, d)."""
    if values.ndim == 2:
        slope = (values[:, 2] - values[:, 0]) / 2
        bend = values[:, 2] - 2 * values[:, 1] + values[:, 0]
        return slope[:, None], bend[:, None, None]
    across = np.stack([values[:, 2, 1] - values[:, 0, 1], values[:, 1, 2] - values[:, 1, 0]], axis=1) / 2
    own_0 = values[:, 2, 1] - 2 * values[:, 1, 1] + values[:, 0, 1]
    own_1 = values[:, 1, 2] - 2 * values[:, 1, 1] + values[:, 1, 0]
    mixed = (values[:, 2, 2] - values[:, 2, 0] - values[:, 0, 2] + values[:, 0, 0]) / 4
    return across, np.stack([own_0, mixed, mixed, own_1], axis=1).reshape(-1, 2, 2)


def _atoms_certified(
    objective: Objective,
    u: Array,
    weights: Array,
    values: Array,
    shape: tuple[int, ...],
    information: float,
    gap: float,
) -> bool:
    """Whether the optimum has exactly these atoms, as far as doubles can tell.

    These atoms fulfil the conditions of the optimum up to a residual. Solving the linearised conditions for
    it moves the marginal, and with it the gain, by at most the residual times a factor that grows where the
    gain is flat. The optimum's atoms lie where our gain is within that of J. If that set, or a larger one
    of the same form, falls into as many islands as there are atoms, one in each, the number is certified.
    """
    if isinstance(objective.channel, Categorical):
        return True  # the inputs are given, not found
    if len(u) > MOST_ATOMS:
        return False
    residual = gap + ROUNDING * (1 + abs(information))
    tolerance = residual * _looseness(objective, u, weights)
    if not weights.min() > tolerance:
        return False
    return any(
        _one_atom_an_island(objective, u, values, shape, information - level)
        for level in np.geomspace(tolerance, 1.0, 25)
    )


def _looseness(objective: Objective, u: Array, weights: Array) -> float:
    """Largest change of the gain for a residual of one: Σ_z p(z|w)²/p(z) is at most 1/π at an atom."""
    channel = objective.channel
    unit = (channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axis_lengths(), 1e-3)
    return looseness(objective.table, u, weights, channel.bounds, unit) / math.sqrt(weights.min())


def _one_atom_an_island(objective: Objective, u: Array, values: Array, shape: tuple[int, ...], level: float) -> bool:
    grid, _ = _grid(objective)
    own = np.all(grid == objective.channel.canonical(grid), axis=1)
    above = ((values >= level) & own).reshape(shape)
    table = grid.reshape(*shape, -1)
    nearest = []
    for axis in range(len(shape)):
        line = table[tuple(slice(None) if i == axis else 0 for i in range(len(shape)))][:, axis]
        nearest.append(np.abs(line[None, :] - u[:, [axis]]).argmin(axis=1))
    above[tuple(nearest)] = True  # an atom reaches J itself, however narrow its peak
    islands, count = label(above, structure=np.ones([3] * len(shape)))
    homes = islands[tuple(nearest)]
    return bool(count == len(u) == len(np.unique(homes)))
