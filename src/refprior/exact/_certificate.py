"""How far a prior can be from the optimum, judged without knowing how the prior was found.

Where J is concave in π, J* − J ≤ max_w G(w) − J, with the maximum over all w and not over a grid. It is taken
on a grid even in Fisher length that is finer than the solver's. Around every peak of the grid and around every
atom, a polynomial through more values looks for what the grid missed, and parabolas refine the result. Only
values of G are used: no derivative, and no step of the solver.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.ndimage import label, maximum_filter, minimum_filter

from refprior.exact._arrays import Array, Index
from refprior.exact._channels import Channel
from refprior.exact._objective import Objective, Table
from refprior.exact._optimality import Point, evaluate, sensitivity

SPACING = 0.11  # standard deviations between grid points, one parameter
SPACING_2D = 0.22  # two parameters
LEAST_POINTS = 201
LEAST_POINTS_2D = 41
NODES = 9  # Chebyshev nodes per axis within one cell: a polynomial of degree 8 errs by 1e-16 at 0.11
SUBDIVISIONS = 16  # of a cell, at which that polynomial is evaluated
CURVATURE_MARGIN = 4.0  # times the error of the gain: how much its second derivative may err, in standard deviations
INDEPENDENT = 1e-10  # smallest curvature in the weights at which rows of a table count as independent
MOST_ATOMS = 150  # with more, spacings are so narrow that doubles cannot tell the number
ROUNDING = 4 * np.finfo(float).eps  # relative error of one evaluation of the gain


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """J, the gap, where the gain is largest, whether the number of atoms is certain, and how well each is known."""

    information: float
    gap: float
    spread: float  # about how far atoms and weights are from those of the optimum
    worst: Array  # (d,) coordinates of the largest gain
    atoms_certified: bool
    evaluations: int


def judge(objective: Objective, u: Array, weights: Array) -> Certificate:
    """Certificate of a prior given by coordinates (K, d) and weights (K,)."""
    case = _Case.of(objective, u, weights)
    if np.all(np.isfinite(case.values)):
        top, height, count = _maxima(case)
        gap = _gap(case, height)
        certified, spread = _judge_atoms(case, gap)
    else:  # some w allows an outcome that the prior excludes
        top, height, count, gap = case.grid.points, case.values, 0, math.inf
        certified, spread = False, math.inf
    return Certificate(
        information=case.information,
        gap=gap,
        spread=spread,
        worst=top[int(np.argmax(height))],
        atoms_certified=certified,
        evaluations=len(case.values) + len(u) + count,
    )


def _gap(case: _Case, height: Array) -> float:
    """max G − J, or the distance to log of the number of outcomes if no grid is fine enough."""
    gap = max(0.0, float(height.max()) - case.information)
    if case.objective.resolved:
        return gap
    return max(gap, math.log(len(case.objective.channel.outcomes)) - case.information)


class Grid(NamedTuple):
    """All points (G, d), the lines of the axes, and the number of points on each."""

    points: Array
    axes: list[Array]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, channel: Channel) -> Grid:
        """The grid of a channel, even in Fisher length."""
        spacing, least = (SPACING, LEAST_POINTS) if channel.dimension == 1 else (SPACING_2D, LEAST_POINTS_2D)
        counts = [max(least, math.ceil(length / spacing) + 2) for length in channel.axis_lengths()]
        axes = [channel.certificate_axis(axis, count) for axis, count in enumerate(counts)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return cls(points, axes, tuple(len(axis) for axis in axes))


class _Case(NamedTuple):
    """A prior under judgement, and its gain at the atoms and on the grid."""

    objective: Objective
    u: Array  # (K, d)
    weights: Array  # (K,)
    logs: list[Array]  # log p_c(z), [(Z_c,)]
    at_atoms: Array  # (K,)
    grid: Grid
    values: Array  # (G,) on the grid

    @classmethod
    def of(cls, objective: Objective, u: Array, weights: Array) -> _Case:
        """Evaluate the gain of a prior."""
        logs = objective.log_marginals(u, weights)
        grid = Grid.of(objective.channel)
        return cls(
            objective=objective,
            u=u,
            weights=weights,
            logs=logs,
            at_atoms=objective.gain(u, logs),
            grid=grid,
            values=objective.gain(grid.points, logs),
        )

    @property
    def information(self) -> float:
        """J, the mean gain of the atoms."""
        return float(self.weights @ self.at_atoms)


def _maxima(case: _Case) -> tuple[Array, Array, int]:
    """Highest points of G around the grid's peaks and around the atoms: (M, d), (M,), evaluations."""
    grid, values = case.grid, case.values
    centre, height = np.vstack([grid.points, case.u]), np.concatenate([values, case.at_atoms])
    if not case.objective.channel.continuous:
        return centre, height, 0
    table = values.reshape(grid.shape)
    peak = (table >= maximum_filter(table, size=3, mode="nearest")).ravel()
    fall = (table - minimum_filter(table, size=5, mode="nearest")).ravel()
    high = peak & (values + fall >= height.max())  # a rise between grid points is less than the fall around it
    chosen = np.flatnonzero(np.concatenate([high, np.ones(len(case.u), dtype=bool)]))
    width = _cells(grid, case.u)[chosen]
    summit, top, count = _best_in_cells(case.objective, centre[chosen], width, case.logs)
    refined, best, more = _refine(case.objective, summit, top, width / SUBDIVISIONS, case.logs)
    return np.vstack([refined, centre]), np.concatenate([best, height]), count + more


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


def _best_in_cells(objective: Objective, centre: Array, width: Array, logs: list[Array]) -> tuple[Array, Array, int]:
    """Within one cell of each centre: the top of a polynomial through NODES^d values, if it is the best point seen.

    Two maxima within one cell, as near where an atom splits, look like one peak on the grid.
    """
    dimension = centre.shape[1]
    bounds = objective.channel.bounds
    half = np.minimum(width, (bounds[:, 1] - bounds[:, 0]) / 2)
    middle = np.clip(centre, bounds[:, 0] + half, bounds[:, 1] - half)
    nodes = -np.cos(np.pi * np.arange(NODES) / (NODES - 1))
    seen = middle[:, None] + half[:, None] * np.array(list(itertools.product(nodes, repeat=dimension)))
    values = objective.gain(seen.reshape(-1, dimension), logs).reshape(len(centre), -1)
    fine = np.linspace(-1, 1, 2 * SUBDIVISIONS + 1)
    between = chebvander(fine, NODES - 1) @ np.linalg.inv(chebvander(nodes, NODES - 1))
    matrix = between if dimension == 1 else np.kron(between, between)
    predicted = np.argmax(values @ matrix.T, axis=1)
    tops = middle + half * np.array(list(itertools.product(fine, repeat=dimension)))[predicted]
    points = np.concatenate([seen, tops[:, None]], axis=1)
    heights = np.concatenate([values, objective.gain(tops, logs)[:, None]], axis=1)
    rows, best = np.arange(len(centre)), np.argmax(heights, axis=1)
    return points[rows, best], heights[rows, best], heights.size


def _refine(
    objective: Objective, best: Array, height: Array, width: Array, logs: list[Array], rounds: int = 6
) -> tuple[Array, Array, int]:
    """Maxima of G near the given points, by parabolas on shrinking stencils: (M, d), (M,), evaluations."""
    bounds = objective.channel.bounds
    best, height, centre, width = best.copy(), height.copy(), best.copy(), width.copy()
    count, active = 0, np.arange(len(best))
    for _ in range(rounds):
        half = np.minimum(width[active], (bounds[:, 1] - bounds[:, 0]) / 2)
        middle = np.clip(centre[active], bounds[:, 0] + half, bounds[:, 1] - half)
        summit, seen, seen_value, predicted = _parabola(objective, middle, half, logs)
        count += len(active) * 3 ** len(bounds)
        better = seen_value > height[active]
        best[active[better]], height[active[better]] = seen[better], seen_value[better]
        centre[active], width[active] = summit, half / 4
        rise = predicted - height[active]
        rounding = ROUNDING * (1 + abs(height.max())) / 4
        # a parabola that predicts no rise, or too little to reach the largest gain, is not followed
        active = active[(rise > rounding) & (height[active] + 2 * rise > height.max())]
        if not len(active):
            break
    return best, height, count


def _parabola(objective: Objective, middle: Array, half: Array, logs: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Summit of the parabola through 3^d values, the best point seen, its gain, the summit's height."""
    count, dimension = middle.shape
    offsets = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=dimension)))
    points = middle[:, None, :] + offsets * half[:, None, :]
    values = objective.gain(points.reshape(-1, dimension), logs).reshape(count, *([3] * dimension))
    slope, hessian = _differences(values)
    eigenvalues, vectors = np.linalg.eigh(hessian)
    downward = np.minimum(eigenvalues, -1e-300)
    move = np.clip(-np.einsum("kia,ka,kja,kj->ki", vectors, 1 / downward, vectors, slope), -1.0, 1.0)
    flat = values.reshape(count, -1)
    first = np.argmax(flat, axis=1)
    rows = np.arange(count)
    summit = np.sum(slope * move, axis=1) + np.einsum("ki,kij,kj->k", move, hessian, move) / 2
    return middle + move * half, points[rows, first], flat[rows, first], flat[:, flat.shape[1] // 2] + summit


def _differences(values: Array) -> tuple[Array, Array]:
    """Central differences on a 3^d stencil, in units of its half width: (k, 3[, 3]) -> (k, d), (k, d, d)."""
    if values.ndim == 2:
        slope = (values[:, 2] - values[:, 0]) / 2
        second = values[:, 2] - 2 * values[:, 1] + values[:, 0]
        return slope[:, None], second[:, None, None]
    across = np.stack([values[:, 2, 1] - values[:, 0, 1], values[:, 1, 2] - values[:, 1, 0]], axis=1) / 2
    own_0 = values[:, 2, 1] - 2 * values[:, 1, 1] + values[:, 0, 1]
    own_1 = values[:, 1, 2] - 2 * values[:, 1, 1] + values[:, 1, 0]
    mixed = (values[:, 2, 2] - values[:, 2, 0] - values[:, 0, 2] + values[:, 0, 0]) / 4
    return across, np.stack([own_0, mixed, mixed, own_1], axis=1).reshape(-1, 2, 2)


def _judge_atoms(case: _Case, gap: float) -> tuple[bool, float]:
    """Whether the optimum has exactly these atoms, as far as doubles can tell, and how far they are from its atoms.

    These atoms satisfy the conditions of the optimum up to a residual. Solving the linearised conditions for
    it moves the marginal, and with it the gain, by at most the residual times a factor that grows where the
    gain is flat. The optimum's atoms lie where our gain is within that tolerance of J. The number is certified
    if that set, or a larger one of the same form, has as many connected components as there are atoms, one in
    each, and the gain is so concave at every atom that no component holds two maxima. The same equations say how
    far the atoms move; where they cannot, a change by √gap costs about the gap.
    """
    objective, u, weights, channel = case.objective, case.u, case.weights, case.objective.channel
    residual = gap + ROUNDING * (1 + abs(case.information))
    if not channel.continuous:
        return _judge_rows(case, residual)
    if len(u) > MOST_ATOMS or not objective.resolved:
        return False, math.sqrt(residual)
    unit = (channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axis_lengths(), 1e-3)
    point = evaluate(objective.table, u, weights)
    factor = sensitivity(point, channel.bounds, unit)
    spread = min(residual * factor**2, math.sqrt(residual))
    # Σ_z p(z|w)²/p(z) is at most 1/π at an atom
    tolerance = residual * factor / math.sqrt(weights.min())
    if not weights.min() > tolerance or not _strictly_concave(objective, point, unit, tolerance):
        return False, spread
    levels = case.information - np.geomspace(tolerance, 1.0, 25)
    return any(_one_atom_per_component(case, level) for level in levels), spread


def _judge_rows(case: _Case, residual: float) -> tuple[bool, float]:
    """A table: the rows in use are independent, so that no other weights do as well, and all others are below J."""
    curvature = Table.of_values(case.objective, case.u).curvature(case.weights) + 1.0  # 1·1ᵀ: weights sum to one
    smallest = float(np.linalg.eigvalsh(curvature)[0])
    if smallest < INDEPENDENT:
        return False, math.sqrt(residual)
    spread = min(residual * len(case.u) / smallest, math.sqrt(residual))
    tolerance = residual * math.sqrt(len(case.u) / smallest / case.weights.min())
    used = np.ravel_multi_index(_nearest_points(case.grid, case.u), case.grid.shape)
    unused = np.delete(case.values, used)
    return bool(case.weights.min() > tolerance and np.all(unused < case.information - tolerance)), spread


def _strictly_concave(objective: Objective, point: Point, unit: Array, tolerance: float) -> bool:
    """Whether the gain is concave, by a margin, around every atom where it is within the tolerance of J.

    An atom's place is uncertain by √(2 tolerance/|G''|). Where the optimum's gain differs by the tolerance, its
    second derivative in standard deviations differs by a little more. Axes on which an atom is fixed at a bound are
    left out.
    """
    bounds = objective.channel.bounds
    free = point.free(bounds)
    both, fixed = free[:, :, None] & free[:, None, :], ~free[:, :, None] * np.eye(len(unit))
    logs = point.table.own_logs(point.weights)

    def largest_curvature(places: Array) -> Array:
        """Largest eigenvalue of G'' on the free axes, in standard deviations, below −1 without any: (K, d) -> (K,)."""
        hessians = objective.table(np.clip(places, bounds[:, 0], bounds[:, 1])).hessians(logs)
        scaled = np.where(both, hessians * unit * unit[:, None], 0.0)
        below = 1 + np.abs(scaled).max(axis=(1, 2), keepdims=True)  # below every eigenvalue of a free axis
        return np.asarray(np.linalg.eigvalsh(scaled - below * fixed)[:, -1])

    margin = -CURVATURE_MARGIN * tolerance
    curvature = largest_curvature(point.u)
    if not np.all(curvature < margin):
        return False
    radius = 2 * np.sqrt(2 * tolerance / -curvature)[:, None] * unit  # twice, as the curvature weakens outward
    moves = [sign * axis * radius for axis in np.eye(len(unit)) for sign in (-1.0, 1.0)]
    return all(bool(np.all(largest_curvature(point.u + move) < margin)) for move in moves)


def _one_atom_per_component(case: _Case, level: float) -> bool:
    """Whether each connected component of {G ≥ level} on the grid holds exactly one atom."""
    grid, nearest = case.grid, _nearest_points(case.grid, case.u)
    own = np.all(grid.points == case.objective.channel.canonical(grid.points), axis=1)
    above = ((case.values >= level) & own).reshape(grid.shape)
    above[nearest] = True  # an atom reaches J itself, however narrow its peak
    components, count = label(above, structure=np.ones([3] * len(grid.shape)))
    return bool(count == len(case.u) == len(np.unique(components[nearest])))


def _nearest_points(grid: Grid, u: Array) -> tuple[Index, ...]:
    """Indices of the grid points nearest to the atoms, one array per axis: [(K,)] * d."""
    return tuple(_nearest(line, u[:, axis]) for axis, line in enumerate(grid.axes))
