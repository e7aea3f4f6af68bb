"""Maxima of the gain of a prior over the whole box: a grid, then polynomials, parabolas and halvings.

Only values of the gain are used, except with more than three parameters.
"""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.ndimage import maximum_filter, minimum_filter
from scipy.optimize import minimize

from refprior.exact._arrays import Array, Index, Mask, grid_of, scattered
from refprior.exact.channels import Channel, canonical, in_parameters
from refprior.exact.oracle import Objective

EPSILON = float(np.finfo(float).eps)
ROUNDING = 4 * EPSILON  # relative error of one evaluation of the gain
FLOOR = 8 * EPSILON  # of 1 + J: a gap is never below
SUBDIVISIONS = 16  # of a cell, at which a polynomial through its values is evaluated
GRIDS = {1: (0.11, 201), 2: (0.22, 41), 3: (0.3, 25)}  # standard deviations between grid points, and how many at least
MOST_POINTS = 1_500_000  # of a grid: a coarser one certifies nothing
# Largest rise between grid points, in units of the fall around a point. A bump as wide as a cell has 2^-d of its height
# at the corners of the cell; a cusp |w - w0|^(1/4) has a third.
HIDDEN = 8.0
NEARLY = 1e-9  # nats below the largest gain: lower peaks are not followed
NEAR_SUMMIT = 1e-5  # of 1 + J below the largest gain: kinks that are searched to the last bit of w
SEARCHED = 8192  # points of more than three parameters, which no grid can cover,


class CertificateGrid(NamedTuple):
    """All points (G, d), the lines of the axes, and the number of points on each."""

    points: Array
    axes: list[Array]
    shape: tuple[int, ...]
    coarse: bool = False  # too coarse to certify anything

    @classmethod
    def of(cls, channel: Channel) -> CertificateGrid:
        """Return the grid of a channel, even in Fisher length; with more than three parameters, scattered points."""
        if channel.dimension > 3:
            return cls(scattered(channel.bounds, SEARCHED, seed=1), [], (), coarse=True)
        spacing, least = GRIDS[channel.dimension]
        counts = [max(least, math.ceil(length / spacing) + 2) for length in channel.axes.lengths]
        coarse = channel.dimension == 3 and math.prod(counts) > MOST_POINTS
        if coarse:
            counts = [int(count * (MOST_POINTS / math.prod(counts)) ** (1 / 3)) for count in counts]
        axes = [channel.axes.certificate_points(axis, count) for axis, count in enumerate(counts)]
        points = grid_of(axes)
        return cls(points, axes, tuple(len(axis) for axis in axes), coarse)


class Case(NamedTuple):
    """A prior under judgment, and its gain at the atoms and on the grid."""

    objective: Objective
    u: Array  # (K, d)
    weights: Array  # (K,)
    logs: list[Array]  # log p_c(z), [(Z_c,)]
    at_atoms: Array  # (K,)
    grid: CertificateGrid
    values: Array  # (G,) on the grid
    more: Array  # (M, d) points off the grid, where the likelihood had to be followed more closely
    more_widths: Array  # (M, d)
    more_values: Array  # (M,)

    @classmethod
    def of(cls, objective: Objective, u: Array, weights: Array) -> Case:
        """Evaluate the gain of a prior."""
        logs = objective.log_marginals(u, weights)
        grid = CertificateGrid.of(objective.channel)
        more, widths = objective.channel.axes.off_grid()
        return cls(
            objective=objective,
            u=u,
            weights=weights,
            logs=logs,
            at_atoms=objective.gain(u, logs),
            grid=grid,
            values=_gain_on_grid(objective, grid.points, logs),
            more=more,
            more_widths=widths,
            more_values=objective.gain(more, logs) if len(more) else np.empty(0),
        )

    @property
    def information(self) -> float:
        """J, the mean gain of the atoms."""
        return float(self.weights @ self.at_atoms)


def _gain_on_grid(objective: Objective, points: Array, logs: list[Array]) -> Array:
    """Evaluate the gain on a grid, once for all points that a symmetry exchanges: (G, d) -> (G,)."""
    own = canonical(objective.channel, points)
    if np.array_equal(own, points):
        return objective.gain(points, logs)
    different, place = np.unique(own, axis=0, return_inverse=True)
    return np.asarray(objective.gain(different, logs)[place.ravel()])


def own_points(channel: Channel, points: Array) -> Mask:
    """Return which points represent all with the same likelihood: (G, d) -> (G,)."""
    return np.asarray(np.all(points == canonical(channel, points), axis=1))


def nearest(line: Array, x: Array) -> Index:
    """Return the index of the point of a sorted line nearest to each x: (G,), (M,) -> (M,)."""
    right = np.clip(np.searchsorted(line, x), 1, max(len(line) - 1, 1))
    right = np.minimum(right, len(line) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(x - line[left] < line[right] - x, left, right)


def nearest_points(grid: CertificateGrid, u: Array) -> tuple[Index, ...]:
    """Return indices of the grid points nearest to the atoms, one array per axis: [(K,)] * d."""
    return tuple(nearest(line, u[:, axis]) for axis, line in enumerate(grid.axes))


def maxima(case: Case) -> tuple[Array, Array]:
    """Find all maxima of G within NEARLY of the highest, around the grid's peaks and the atoms: (M, d), (M,)."""
    everywhere = np.vstack([case.grid.points, case.u]), np.concatenate([case.values, case.at_atoms])
    if not case.objective.channel.continuous:
        return everywhere
    if not case.grid.shape:
        return _searched_maxima(case, *everywhere)
    top, height, width = summits(case, float(everywhere[1].max()) - NEARLY)
    if case.objective.channel.axes.measured:
        top, height = _zoom(case.objective, top, height, width, case.logs)
        top, height = _at_doubles(case.objective, top, height, case.logs)
    return np.vstack([top, everywhere[0]]), np.concatenate([height, everywhere[1]])


def _searched_maxima(case: Case, points: Array, values: Array) -> tuple[Array, Array]:
    """Find maxima of more than three parameters by L-BFGS from the highest points and from all atoms."""
    bounds = [(float(low), float(high)) for low, high in case.objective.channel.bounds]
    logs = [np.maximum(log, -1e4) for log in case.logs]
    order = np.argsort(-values)
    chosen = np.concatenate([order[:15], order[15 : len(order) // 2 : len(order) // 30]])  # and some of the upper half
    starts = np.vstack([points[chosen], case.u])  # the highest points may all belong to one peak

    def downhill(u: Array) -> tuple[float, Array]:
        gains = case.objective.gains(u[None, :], logs)
        return -float(gains.value[0]), -gains.gradient[0]

    runs = (minimize(downhill, u, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}) for u in starts)
    found = np.array([run.x for run in runs])
    return np.vstack([points, found]), np.concatenate([values, case.objective.gain(found, case.logs)])


def summits(case: Case, level: float) -> tuple[Array, Array, Array]:
    """Find local maxima of G that may reach a level: (M, d), (M,), widths of their cells (M, d)."""
    grid, values = case.grid, case.values
    center = np.vstack([grid.points, case.u])
    table = values.reshape(grid.shape)
    peak = (table >= maximum_filter(table, size=3, mode="nearest")).ravel()
    fall = (table - minimum_filter(table, size=5, mode="nearest")).ravel()
    # A rise between grid points is less than the fall around it; for a custom model, less than HIDDEN times the fall.
    hidden = HIDDEN if case.objective.channel.axes.measured else 1.0
    high = peak & (values + hidden * fall >= level)
    high[high] = own_points(case.objective.channel, grid.points[high])
    chosen = np.flatnonzero(np.concatenate([high, np.ones(len(case.u), dtype=bool)]))
    width = _cells(grid, center[chosen])
    bounds = case.objective.channel.bounds
    symmetry = case.objective.channel.symmetry
    if symmetry is not None and symmetry.idle is not None:
        width = np.where(symmetry.idle(center[chosen]), np.ptp(bounds, axis=1), width)  # in all directions
    best = np.argsort(-case.more_values)[:400]
    places, width = np.vstack([center[chosen], case.more[best]]), np.vstack([width, case.more_widths[best]])
    if case.objective.channel.axes.measured and len(grid.shape) == 1:
        between, half = _midpoints(case.objective.channel, grid.points, np.flatnonzero(high))
        places, width = np.vstack([places, between]), np.vstack([width, half])
    summit, top = _best_in_cells(case.objective, places, width, case.logs)
    return *_refine(case.objective, summit, top, width / SUBDIVISIONS, case.logs, level), width


def _midpoints(channel: Channel, points: Array, chosen: Index) -> tuple[Array, Array]:
    """Return the middle in w of the cells beside some points of a line, and the distance to their nearer end: (M, 1).

    Two points on both sides of a cusp may have nearly the same row, and then nearly the same coordinate.
    """
    left = np.unique(np.concatenate([chosen - 1, chosen]))
    left = left[(left >= 0) & (left < len(points) - 1)]
    w = channel.parameter(points)
    middle = np.clip(channel.coordinate((w[left] + w[left + 1]) / 2), points[left], points[left + 1])
    return middle, np.maximum(np.minimum(middle - points[left], points[left + 1] - middle), np.spacing(middle))


def _zoom(objective: Objective, best: Array, height: Array, width: Array, logs: list[Array]) -> tuple[Array, Array]:
    """Approach the summits until G no longer falls on both sides of them: (M, d), and bounds of their heights (M,).

    What a cell hides is at most about the fall from its middle to both sides; a smooth summit's fall vanishes with
    the square of the width, a cusp's more slowly, and that of a jump, on its higher side, like a slope's.
    """
    bounds, dimension = objective.channel.bounds, best.shape[1]
    steps = np.array([s for s in itertools.product((-1.0, 0.0, 1.0), repeat=dimension) if s > (0.0,) * dimension])
    best, height, width = best.copy(), height.copy(), width.copy()
    hidden, drop = np.full(len(best), np.inf), np.full(len(best), np.inf)
    floor, active = FLOOR * (1 + abs(height.max())), np.arange(len(best))
    rise = HIDDEN if dimension == 1 else 4.0
    for _ in range(300):  # along a curved ridge it takes many moves
        sides = np.concatenate([steps, -steps]) * width[active, None]
        points = np.clip(best[active, None] + sides, bounds[:, 0], bounds[:, 1])
        values = objective.gain(points.reshape(-1, dimension), logs).reshape(len(active), 2, -1)
        fall = height[active] - values.max(axis=1).min(axis=1)
        rows, first = np.arange(len(active)), values.reshape(len(active), -1).argmax(axis=1)
        higher = values.reshape(len(active), -1)[rows, first]
        moved = higher > height[active]
        best[active[moved]] = points[rows, first][moved]
        height[active] = np.maximum(height[active], higher)
        hidden[active] = np.where(moved, np.maximum(hidden[active], 0.0), np.maximum(fall, 0.0))
        # Beside a cusp one side may be as high, and the lower side shows its slope; on a ridge it shows nothing.
        drop[active] = height[active] - values.min(axis=(1, 2)) if dimension == 1 else hidden[active]
        width[active[~moved]] /= 2
        small = np.all(width <= 2 * np.spacing(np.maximum(np.abs(best), 1e-300)), axis=1)
        active = np.flatnonzero((drop > floor) & ~small & (height + rise * drop > height.max()))
        if not len(active):
            break
    return best, height + np.where(np.isfinite(hidden), hidden, 0.0)


def _at_doubles(objective: Objective, best: Array, height: Array, logs: list[Array]) -> tuple[Array, Array]:
    """Move summits with a kink to the highest double of w: (M, d), and bounds of their heights (M,).

    A cusp can lie at a double that coordinates do not hit, and beside it two equal values look like a flat summit.
    A rise between doubles is at most about the fall to the next ones.
    """
    direct = Objective(tuple(map(in_parameters, objective.channels)), objective.signs)
    charted, dimension = direct.channel is not objective.channel, best.shape[1]
    low, high = objective.channel.parameter(objective.channel.bounds.T) if charted else objective.channel.bounds.T
    steps = np.array([s for s in itertools.product((-1.0, 0.0, 1.0), repeat=dimension) if any(s)])
    floor = FLOOR * (1 + abs(height.max()))
    place = objective.channel.parameter(best) if charted else best.copy()

    def around(w: Array, distances: Array) -> tuple[Array, Array]:
        """Return points so many doubles away in all directions, and their gains: (A, N, d), (A, N)."""
        moves = (distances[:, None, None] * steps).reshape(-1, dimension)
        points = np.clip(w[:, None] + moves * np.spacing(np.abs(w))[:, None], low, high)
        points = np.concatenate([points, np.clip(np.zeros_like(w), low, high)[:, None]], axis=1)
        return points, direct.gain(points.reshape(-1, dimension), logs).reshape(points.shape[:2])

    active = np.flatnonzero(height >= height.max() - NEAR_SUMMIT * (1 + abs(height.max())))
    _, values = around(place[active], np.array([1.0, 4.0, 64.0]))
    active = active[np.ptp(values[:, :-1], axis=1) > 4 * floor]  # the others are flat, or slopes that rounding hides
    reached = direct.gain(place, logs)
    for _ in range(100):
        if not len(active):
            break
        points, values = around(place[active], 2.0 ** np.arange(50.0))
        rows, first = np.arange(len(active)), values.argmax(axis=1)
        higher = values[rows, first]
        rises = higher > reached[active]
        beside = values[:, : len(steps)].reshape(len(active), 2, -1)  # opposite directions, in reverse order
        fall = reached[active] - np.maximum(beside[:, 0], beside[:, 1, ::-1]).min(axis=1)
        still = active[~rises]
        height[still] = np.maximum(height[still], reached[still] + np.maximum(fall[~rises], 0.0))
        active = active[rises]
        place[active], reached[active] = points[rows, first][rises], higher[rises]
    height = np.maximum(height, reached)
    return np.clip(objective.channel.coordinate(place), *objective.channel.bounds.T) if charted else place, height


def _cells(grid: CertificateGrid, places: Array) -> Array:
    """Return the distance to the next grid point on each axis, the largest nearby: (M, d) -> (M, d)."""
    columns = []
    for axis, line in enumerate(grid.axes):
        steps = np.diff(line) if len(line) > 1 else np.ones(1)
        wide = np.maximum(np.append(steps, steps[-1]), np.insert(steps, 0, steps[0]))
        columns.append(wide[nearest(line, places[:, axis])])
    return np.stack(columns, axis=-1)


def _best_in_cells(objective: Objective, center: Array, width: Array, logs: list[Array]) -> tuple[Array, Array]:
    """Find the top of a polynomial through values in one cell of each center, if it is the best point seen.

    Two maxima within one cell, as near where an atom splits, look like one peak on the grid.
    """
    dimension = center.shape[1]
    bounds = objective.channel.bounds
    half = np.minimum(width, (bounds[:, 1] - bounds[:, 0]) / 2)
    middle = np.clip(center, bounds[:, 0] + half, bounds[:, 1] - half)
    count = 9 if dimension < 3 else 5  # a polynomial of degree 8 errs by 1e-16 in a cell of 0.11
    nodes = -np.cos(np.pi * np.arange(count) / (count - 1))
    seen = middle[:, None] + half[:, None] * grid_of([nodes] * dimension)
    values = objective.gain(seen.reshape(-1, dimension), logs).reshape(len(center), -1)
    fine = np.linspace(-1, 1, 2 * (SUBDIVISIONS if dimension < 3 else 4) + 1)
    between = chebvander(fine, count - 1) @ np.linalg.inv(chebvander(nodes, count - 1))
    matrix = reduce(np.kron, [between] * dimension)
    predicted = np.argmax(values @ matrix.T, axis=1)
    tops = middle + half * grid_of([fine] * dimension)[predicted]
    points = np.concatenate([seen, tops[:, None]], axis=1)
    heights = np.concatenate([values, objective.gain(tops, logs)[:, None]], axis=1)
    rows, best = np.arange(len(center)), np.argmax(heights, axis=1)
    return points[rows, best], heights[rows, best]


def _refine(
    objective: Objective, best: Array, height: Array, width: Array, logs: list[Array], level: float
) -> tuple[Array, Array]:
    """Return maxima of G near the given points, by parabolas on shrinking stencils: (M, d), (M,)."""
    bounds = objective.channel.bounds
    best, height, center, width = best.copy(), height.copy(), best.copy(), width.copy()
    active = np.arange(len(best))
    for _ in range(6):  # each stencil is a quarter as wide as the one before
        half = np.minimum(width[active], (bounds[:, 1] - bounds[:, 0]) / 2)
        middle = np.clip(center[active], bounds[:, 0] + half, bounds[:, 1] - half)
        summit, seen, seen_value, predicted = _parabola(objective, middle, half, logs)
        better = seen_value > height[active]
        best[active[better]], height[active[better]] = seen[better], seen_value[better]
        center[active], width[active] = summit, half / 4
        rise = predicted - height[active]
        rounding = ROUNDING * (1 + abs(height.max())) / 4
        # a parabola that predicts no rise, or too little to reach the level, is not followed
        active = active[(rise > rounding) & (height[active] + 2 * rise > level)]
        if not len(active):
            break
    return best, height


def _parabola(objective: Objective, middle: Array, half: Array, logs: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Return the summit of the parabola through 3^d values, the best point seen, its gain, the summit's height."""
    count, dimension = middle.shape
    offsets = grid_of([np.array([-1.0, 0.0, 1.0])] * dimension)
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
    """Return central differences on a 3^d stencil, in units of its half width: (k, 3[, 3, 3]) -> (k, d), (k, d, d)."""
    dimension = values.ndim - 1
    unit: Index = np.eye(dimension, dtype=np.intp)

    def at(offset: Index) -> Array:
        return np.asarray(values.reshape(len(values), -1)[:, np.ravel_multi_index(tuple(1 + offset), (3,) * dimension)])

    slope = np.stack([(at(e) - at(-e)) / 2 for e in unit], axis=1)
    second = np.empty((len(values), dimension, dimension))
    for i, e in enumerate(unit):
        second[:, i, i] = at(e) - 2 * at(0 * e) + at(-e)
        for j, f in enumerate(unit[:i]):
            second[:, i, j] = second[:, j, i] = (at(e + f) + at(-e - f) - at(e - f) - at(f - e)) / 4
    return slope, second
