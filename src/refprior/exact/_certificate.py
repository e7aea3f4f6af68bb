"""How far a prior can be from the optimum, judged without knowing how the prior was found.

Where J is concave in π, J* − J ≤ max_w G(w) − J, the maximum over all w and not over a grid. Here it is
taken on a grid even in Fisher length, finer than the solver's. Around every peak of the grid and around
every atom a polynomial through more values looks for what the grid overlooked, then parabolas polish: values
of G alone, no derivative, no step of the solver is used again.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.ndimage import label, maximum_filter, minimum_filter

from refprior.exact._ascent import evaluate, looseness
from refprior.exact._channels import Array, Categorical, Channel, Index
from refprior.exact._objective import Objective, Table, safe_log
from refprior.exact._own import FunctionChannel

SPACING = 0.11  # standard deviations between grid points, one parameter
SPACING_PLANE = 0.22  # two parameters
LEAST_POINTS = 201
LEAST_POINTS_PLANE = 41
OWN_POINTS = 4099  # more, evenly, on the axis of a user's model, whose structure is not known beforehand
OWN_POINTS_PLANE = 83  # on each of two axes
SHIFT = 0.618  # of a spacing, so that the even points are not those on which Fisher lengths were measured
NODES = 9  # Chebyshev nodes on an axis within one cell: a polynomial of degree 8 errs by 1e-16 at 0.11
FINE = 16  # places within a cell at which that polynomial is looked at
HELD = 1e3  # stands for the bend along an axis on which a bound holds the atom
BEND_MARGIN = 4.0  # times the error of the gain: how much its second derivative may err, in standard deviations
INDEPENDENT = 1e-10  # smallest curvature in the weights at which rows of a table count as independent
CHUNK = 4_000_000  # entries of one table
MOST_ATOMS = 150  # beyond, spacings are so narrow that doubles never tell the number
ROUNDING = 4 * np.finfo(float).eps  # relative error of one evaluation of the gain


@dataclass(frozen=True, eq=False)
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
    grid = Grid.of(objective.channel)
    values = _gain(objective, grid.points, logs)
    if not np.all(np.isfinite(values)):  # some w allows an outcome that the prior excludes
        return Certificate(information, math.inf, grid.points[int(np.argmax(values))], False, len(values))
    top, height, count = _summits(objective, grid, values, u, at_atoms, logs)
    largest = int(np.argmax(height))
    gap = max(0.0, float(height[largest]) - information)
    if not objective.resolved:  # no grid was fine enough: what is left is capacity ≤ log of the outcomes
        gap = max(gap, math.log(len(objective.channel.outcomes)) - information)
    certified = _atoms_certified(objective, u, weights, grid, values, information, gap)
    return Certificate(information, gap, top[largest], certified, len(values) + count + len(u))


class Grid(NamedTuple):
    """All points (G, d), the lines of the axes, and the number of points on each."""

    points: Array
    axes: list[Array]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, channel: Channel) -> Grid:
        if isinstance(channel, Categorical):
            axes = [np.arange(channel.bounds[0, 1] + 1)]
        else:
            axes = [_axis(channel, axis, length) for axis, length in enumerate(channel.axis_lengths())]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return cls(points, axes, tuple(len(axis) for axis in axes))


def _axis(channel: Channel, axis: int, length: float) -> Array:
    """Points of one axis, even in Fisher length; for a user's model also evenly between, where nothing is known."""
    plane = channel.dimension > 1
    spacing, least = (SPACING_PLANE, LEAST_POINTS_PLANE) if plane else (SPACING, LEAST_POINTS)
    points = channel.axis_points(axis, max(least, math.ceil(length / spacing) + 2))
    if not isinstance(channel, FunctionChannel):
        return points
    low, high = channel.bounds[axis]
    count = OWN_POINTS_PLANE if plane else OWN_POINTS
    return np.unique(np.concatenate([points, low + (high - low) * (np.arange(count) + SHIFT) / count]))


def _gain(objective: Objective, u: Array, logs: list[Array]) -> Array:
    """G, a slice at a time: (G, d) -> (G,)."""
    size = max(64, CHUNK // max(len(log) for log in logs))
    return np.concatenate([objective.gain(u[i : i + size], logs) for i in range(0, len(u), size)])


def _summits(
    objective: Objective, grid: Grid, values: Array, u: Array, at_atoms: Array, logs: list[Array]
) -> tuple[Array, Array, int]:
    """Highest points of G around the grid's peaks and around the atoms: (M, d), (M,), evaluations."""
    centre, height, width = np.vstack([grid.points, u]), np.concatenate([values, at_atoms]), _cells(grid, u)
    if isinstance(objective.channel, Categorical):
        return centre, height, 0
    table = values.reshape(grid.shape)
    peak = (table >= maximum_filter(table, size=3, mode="nearest")).ravel()
    fall = (table - minimum_filter(table, size=5, mode="nearest")).ravel()
    high = peak & (values + fall >= height.max())  # a rise between grid points is less than the fall around it
    chosen = np.flatnonzero(np.concatenate([high, np.ones(len(u), dtype=bool)]))
    summit, top, count = _best_of_cells(objective, centre[chosen], width[chosen], logs)
    polished, best, more = _polish(objective, summit, top, width[chosen] / FINE, logs)
    return np.vstack([polished, centre]), np.concatenate([best, height]), count + more


def _cells(grid: Grid, u: Array) -> Array:
    """Distance to the next grid point on each axis, the largest nearby, for grid and atoms: (G + K, d)."""
    places, columns = np.vstack([grid.points, u]), []
    for axis, line in enumerate(grid.axes):
        steps = np.diff(line) if len(line) > 1 else np.ones(1)
        wide = np.maximum(np.append(steps, steps[-1]), np.insert(steps, 0, steps[0]))
        columns.append(wide[_nearest(line, places[:, axis])])
    return np.stack(columns, axis=-1)


def _nearest(line: Array, x: Array) -> Index:
    """Index of the point of a sorted line nearest to each x: (G,), (M,) -> (M,)."""
    right = np.clip(np.searchsorted(line, x), 1, max(len(line) - 1, 1))
    right = np.minimum(right, len(line) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(x - line[left] < line[right] - x, left, right)


def _best_of_cells(objective: Objective, centre: Array, width: Array, logs: list[Array]) -> tuple[Array, Array, int]:
    """Within one cell of each centre: the top of a polynomial through NODES^d values, if it is the best point seen.

    Two humps within one cell, as where an atom is about to split, look like one peak to the grid.
    """
    dimension = centre.shape[1]
    bounds = objective.channel.bounds
    half = np.minimum(width, (bounds[:, 1] - bounds[:, 0]) / 2)
    middle = np.clip(centre, bounds[:, 0] + half, bounds[:, 1] - half)
    nodes = -np.cos(np.pi * np.arange(NODES) / (NODES - 1))
    seen = middle[:, None] + half[:, None] * np.array(list(itertools.product(nodes, repeat=dimension)))
    values = _gain(objective, seen.reshape(-1, dimension), logs).reshape(len(centre), -1)
    fine = np.linspace(-1, 1, 2 * FINE + 1)
    between = chebvander(fine, NODES - 1) @ np.linalg.inv(chebvander(nodes, NODES - 1))
    matrix = between if dimension == 1 else np.kron(between, between)
    promised = np.argmax(values @ matrix.T, axis=1)
    tops = middle + half * np.array(list(itertools.product(fine, repeat=dimension)))[promised]
    points = np.concatenate([seen, tops[:, None]], axis=1)
    heights = np.concatenate([values, _gain(objective, tops, logs)[:, None]], axis=1)
    rows, best = np.arange(len(centre)), np.argmax(heights, axis=1)
    return points[rows, best], heights[rows, best], heights.size


def _polish(
    objective: Objective, best: Array, height: Array, width: Array, logs: list[Array], rounds: int = 6
) -> tuple[Array, Array, int]:
    """Maxima of G near the given points, by parabolas on shrinking stencils: (M, d), (M,), evaluations."""
    bounds = objective.channel.bounds
    best, height, centre, width = best.copy(), height.copy(), best.copy(), width.copy()
    count, active = 0, np.arange(len(best))
    for _ in range(rounds):
        half = np.minimum(width[active], (bounds[:, 1] - bounds[:, 0]) / 2)
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
    objective: Objective, u: Array, weights: Array, grid: Grid, values: Array, information: float, gap: float
) -> bool:
    """Whether the optimum has exactly these atoms, as far as doubles can tell.

    These atoms fulfil the conditions of the optimum up to a residual. Solving the linearised conditions for
    it moves the marginal, and with it the gain, by at most the residual times a factor that grows where the
    gain is flat. The optimum's atoms lie where our gain is within that of J. If that set, or a larger one
    of the same form, falls into as many islands as there are atoms, one in each, and the gain bends down so
    much that no island holds two maxima, the number is certified.
    """
    residual = gap + ROUNDING * (1 + abs(information))
    if isinstance(objective.channel, Categorical):
        return _rows_certified(objective, u, weights, values, information, residual)
    if len(u) > MOST_ATOMS or not objective.resolved:
        return False
    channel = objective.channel
    unit = (channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axis_lengths(), 1e-3)
    # Σ_z p(z|w)²/p(z) is at most 1/π at an atom
    tolerance = residual * looseness(objective.table, u, weights, channel.bounds, unit) / math.sqrt(weights.min())
    if not weights.min() > tolerance or not _bent_down(objective, u, weights, unit, tolerance):
        return False
    return any(
        _one_atom_an_island(objective, u, grid, values, information - level)
        for level in np.geomspace(tolerance, 1.0, 25)
    )


def _rows_certified(
    objective: Objective, u: Array, weights: Array, values: Array, information: float, residual: float
) -> bool:
    """A table: the rows in use are independent, so that no other weights do as well, and all others lie below J."""
    smallest = float(np.linalg.eigvalsh(Table.of_values(objective, u).curvature(weights))[0])
    if smallest < INDEPENDENT:
        return False
    tolerance = residual * math.sqrt(len(u) / smallest / weights.min())
    unused = np.delete(values, np.round(u[:, 0]).astype(int))
    return bool(weights.min() > tolerance and np.all(unused < information - tolerance))


def _bent_down(objective: Objective, u: Array, weights: Array, unit: Array, tolerance: float) -> bool:
    """Whether the gain is concave around every atom, wherever it is within the tolerance of J, and by a margin.

    There the place is open by √(2 tolerance/|G''|). Where the optimum's gain differs by the tolerance, its bend
    in standard deviations differs by a little more. Along an axis on which a bound holds the atom nothing is asked.
    """
    bounds = objective.channel.bounds
    point = evaluate(objective.table, u, weights)
    held = HELD * (~point.free(bounds))[:, :, None] * np.eye(len(unit))
    logs = [safe_log(mixture) for mixture in point.table.mixtures(weights)]

    def highest(places: Array) -> Array:
        """Largest eigenvalue of G'' in standard deviations: (K, d) -> (K,)."""
        bends = objective.table(np.clip(places, bounds[:, 0], bounds[:, 1])).bends(logs)
        return np.asarray(np.linalg.eigvalsh(bends * unit * unit[:, None] - held)[:, -1])

    margin = -BEND_MARGIN * tolerance
    bend = highest(u)
    if not np.all(bend < margin):
        return False
    open_by = 2 * np.sqrt(2 * tolerance / -bend)[:, None] * unit  # twice, for the bend grows less outward
    moves = [sign * axis * open_by for axis in np.eye(len(unit)) for sign in (-1.0, 1.0)]
    return all(bool(np.all(highest(u + move) < margin)) for move in moves)


def _one_atom_an_island(objective: Objective, u: Array, grid: Grid, values: Array, level: float) -> bool:
    own = np.all(grid.points == objective.channel.canonical(grid.points), axis=1)
    above = ((values >= level) & own).reshape(grid.shape)
    nearest = tuple(_nearest(line, u[:, axis]) for axis, line in enumerate(grid.axes))
    above[nearest] = True  # an atom reaches J itself, however narrow its peak
    islands, count = label(above, structure=np.ones([3] * len(grid.shape)))
    return bool(count == len(u) == len(np.unique(islands[nearest])))
