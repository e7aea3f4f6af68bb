"""How far a prior can be from the optimum, judged without knowing how the prior was found.

Where J is concave in π, J* − J ≤ max_w G(w) − J, with the maximum over all w and not over a grid. It is taken
on a grid even in Fisher length that is finer than the solver's. Around every peak of the grid and around every
atom, a polynomial through more values looks for what the grid missed, and parabolas refine the result. Only
values of G are used: no derivative, and no step of the solver.

The gap also holds what can make G and J differ from the truth: outcomes left out, the quadrature of continuous
outcomes (compared with a finer one), and rounding. Of a likelihood that was only sampled, the highest points are
approached until G no longer changes between neighbours; what still changes is a part of the gap.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.ndimage import label, maximum_filter, minimum_filter
from scipy.optimize import minimize

from refprior.exact._arrays import Array, Index, Mask, scattered
from refprior.exact._bound import stays_below
from refprior.exact._channels import Channel
from refprior.exact._objective import Objective, Table
from refprior.exact._optimality import Point, evaluate, sensitivity

GRIDS = {1: (0.11, 201), 2: (0.22, 41), 3: (0.3, 25)}  # standard deviations between grid points, and how many at least
NODES = {1: 9, 2: 9, 3: 5}  # Chebyshev nodes per axis within one cell: a polynomial of degree 8 errs by 1e-16 at 0.11
SUBDIVISIONS = 16  # of a cell, at which that polynomial is evaluated
CURVATURE_MARGIN = 4.0  # times the error of the gain: how much its second derivative may err, in standard deviations
INDEPENDENT = 1e-10  # smallest curvature at which the rows of the atoms count as independent
SAME_PLACE = 1e-6  # standard deviations between a summit and its atom, as far as parabolas find it
MOST_ATOMS = 150  # with more, spacings are so narrow that doubles cannot tell the number
EPSILON = float(np.finfo(float).eps)
ROUNDING = 4 * EPSILON  # relative error of one evaluation of the gain
FLOOR = 8 * EPSILON  # of 1 + J: a gap is never below
SLACK, SLACK_SHARE = 1e-14, 0.05  # above the largest gain: of 1 + J, and of the tolerance, what a proof may leave
MOST_POINTS = 1_500_000  # of a grid: a coarser one certifies nothing
SEARCHED = 8192  # points of more than three parameters, which no grid can cover,
STARTS = 15  # from so many of the highest, about as many of the upper half, and the atoms, maxima are looked for
ZOOMS = 60  # halvings of a cell around a summit
MOST_SUMMITS = 400  # points off the grid that are looked at more closely


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """J, the gap, where the gain is largest, whether the number of atoms is certain, and how well each is known."""

    information: float
    gap: float
    error: float  # the part of the gap that rounding, quadrature and outcomes left out may hide
    proved: bool  # whether the gap bounds the gain on whole cells, and not on a grid that was looked at closely
    searched: bool  # whether that grid was too coarse to certify anything: many parameters
    spread: float  # about how far atoms and weights are from those of the optimum
    worst: Array  # (d,) coordinates of the largest gain
    atoms_certified: bool
    evaluations: int


def judge(objective: Objective, u: Array, weights: Array, tolerance: float = 1e-12) -> Certificate:
    """Certificate of a prior given by coordinates (K, d) and weights (K,).

    A gap within the tolerance is proved where that is possible, to a bound slightly above it.
    """
    case, bounded = _Case.of(objective, u, weights), False
    if np.all(np.isfinite(case.values)):
        top, height, count = _maxima(case)
        worst = top[int(np.argmax(height))]
        error = _error(case, worst)
        residual = max(0.0, float(height.max()) - case.information)
        gap = _capped(case, residual + error)
        certified, spread = _judge_atoms(case, residual)
        bound = residual + max(SLACK * (1 + abs(case.information)), SLACK_SHARE * tolerance)
        if objective.resolved and bound + error <= tolerance and _bounded(case, bound):
            bounded, gap = True, bound + error
    else:  # some w allows an outcome that the prior excludes
        worst, count, gap, error = case.grid.points[int(np.argmax(case.values))], 0, math.inf, math.inf
        certified, spread = False, math.inf
    return Certificate(
        information=case.information,
        gap=gap,
        error=error,
        proved=bounded,
        searched=case.grid.coarse and not bounded,
        spread=spread,
        worst=worst,
        atoms_certified=certified,
        evaluations=len(case.values) + len(u) + count,
    )


def _bounded(case: _Case, bound: float) -> bool:
    """Whether the gain stays below J + bound on cells that cover the box: for one channel with Gaussian noise.

    Not tried where what is known of the cells was only measured, and would prove nothing, and not with more than three
    parameters, where there are too many cells.
    """
    channel = case.objective.channel
    if channel.dimension > 3:
        return False
    if len(case.objective.channels) > 1 or not channel.bounds_are_declared or channel.means_on(case.u, case.u) is None:
        return False
    return stays_below(channel, case.logs[0], case.information + bound)


def _error(case: _Case, worst: Array) -> float:
    """By how much G − J may err: rounding, outcomes left out, and the quadrature, compared with a finer one."""
    objective = case.objective
    error = FLOOR * (1 + abs(case.information))
    error += sum(abs(b) * c.tail for b, c in zip(objective.signs, objective.channels, strict=True))
    finer = [channel.finer() for channel in objective.channels]
    if all(channel is None for channel in finer):
        return error
    pairs = zip(finer, objective.channels, strict=True)
    other = Objective(tuple(c if f is None else f for f, c in pairs), objective.signs)
    places = np.vstack([case.u, worst])
    ours, theirs = objective.gain(places, case.logs), other.gain(places, other.log_marginals(case.u, case.weights))
    return error + 2 * float(np.abs(ours - theirs).max())


def _capped(case: _Case, gap: float) -> float:
    """The gap, never above the distance to the log of the number of outcomes, and that if no grid is fine enough."""
    channel = case.objective.channel
    if channel.finer() is not None:  # continuous outcomes: their number is that of the nodes, and bounds nothing
        return gap if case.objective.resolved else math.inf
    most = math.log(len(channel.outcomes)) - case.information + FLOOR
    return max(0.0, min(gap, most)) if case.objective.resolved else most


class Grid(NamedTuple):
    """All points (G, d), the lines of the axes, and the number of points on each."""

    points: Array
    axes: list[Array]
    shape: tuple[int, ...]
    coarse: bool = False  # too coarse to certify anything

    @classmethod
    def of(cls, channel: Channel) -> Grid:
        """The grid of a channel, even in Fisher length; with more than three parameters, scattered points."""
        if channel.dimension > 3:
            return cls(scattered(channel.bounds, SEARCHED, seed=1), [], (), coarse=True)
        spacing, least = GRIDS[channel.dimension]
        counts = [max(least, math.ceil(length / spacing) + 2) for length in channel.axis_lengths()]
        coarse = channel.dimension == 3 and math.prod(counts) > MOST_POINTS
        if coarse:
            counts = [int(count * (MOST_POINTS / math.prod(counts)) ** (1 / 3)) for count in counts]
        axes = [channel.certificate_axis(axis, count) for axis, count in enumerate(counts)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return cls(points, axes, tuple(len(axis) for axis in axes), coarse)


class _Case(NamedTuple):
    """A prior under judgement, and its gain at the atoms and on the grid."""

    objective: Objective
    u: Array  # (K, d)
    weights: Array  # (K,)
    logs: list[Array]  # log p_c(z), [(Z_c,)]
    at_atoms: Array  # (K,)
    grid: Grid
    values: Array  # (G,) on the grid
    more: Array  # (M, d) points off the grid, where the likelihood had to be followed more closely
    more_widths: Array  # (M, d)
    more_values: Array  # (M,)

    @classmethod
    def of(cls, objective: Objective, u: Array, weights: Array) -> _Case:
        """Evaluate the gain of a prior."""
        logs = objective.log_marginals(u, weights)
        grid = Grid.of(objective.channel)
        more, widths = objective.channel.certificate_points()
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
    """The gain on a grid; of points that a symmetry exchanges, it is computed once: (G, d) -> (G,)."""
    own = objective.channel.canonical(points)
    if np.array_equal(own, points):
        return objective.gain(points, logs)
    different, place = np.unique(own, axis=0, return_inverse=True)
    return np.asarray(objective.gain(different, logs)[place.ravel()])


def _maxima(case: _Case) -> tuple[Array, Array, int]:
    """Highest points of G around the grid's peaks and around the atoms: (M, d), (M,), evaluations."""
    everywhere = np.vstack([case.grid.points, case.u]), np.concatenate([case.values, case.at_atoms])
    if not case.objective.channel.continuous:
        return *everywhere, 0
    if not case.grid.shape:
        return _searched_maxima(case, *everywhere)
    top, height, width, count = _summits(case, float(everywhere[1].max()))
    if case.objective.channel.measured:
        top, height, more = _zoom(case.objective, top, height, width, case.logs)
        count += more
    return np.vstack([top, everywhere[0]]), np.concatenate([height, everywhere[1]]), count


def _searched_maxima(case: _Case, points: Array, values: Array) -> tuple[Array, Array, int]:
    """More than three parameters: maxima by L-BFGS from the highest points and from all atoms: (M, d), (M,), count."""
    bounds = [(float(low), float(high)) for low, high in case.objective.channel.bounds]
    logs = [np.maximum(log, -1e4) for log in case.logs]
    order = np.argsort(-values)
    chosen = np.concatenate([order[:STARTS], order[STARTS : len(order) // 2 : len(order) // (2 * STARTS)]])
    count, starts = 0, np.vstack([points[chosen], case.u])  # the highest points may all belong to one peak

    def downhill(u: Array) -> tuple[float, Array]:
        gains = case.objective.gains(u[None, :], logs)
        return -float(gains.value[0]), -gains.gradient[0]

    found = []
    for start in starts:
        result = minimize(downhill, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
        found.append(result.x)
        count += int(result.nfev)
    top = np.vstack([points, found])
    return top, np.concatenate([values, case.objective.gain(np.array(found), case.logs)]), count


def _summits(case: _Case, level: float) -> tuple[Array, Array, Array, int]:
    """Local maxima of G that may reach a level, polished: (M, d), (M,), widths of their cells (M, d), evaluations."""
    grid, values = case.grid, case.values
    centre = np.vstack([grid.points, case.u])
    table = values.reshape(grid.shape)
    peak = (table >= maximum_filter(table, size=3, mode="nearest")).ravel()
    fall = (table - minimum_filter(table, size=5, mode="nearest")).ravel()
    high = peak & (values + fall >= level)  # a rise between grid points is less than the fall around it
    high[high] = _own(case.objective.channel, grid.points[high])
    chosen = np.flatnonzero(np.concatenate([high, np.ones(len(case.u), dtype=bool)]))
    width = _cells(grid, case.u)[chosen]
    bounds = case.objective.channel.bounds
    width = np.where(case.objective.channel.idle(centre[chosen]), np.ptp(bounds, axis=1), width)  # in all directions
    best = np.argsort(-case.more_values)[:MOST_SUMMITS]
    places, width = np.vstack([centre[chosen], case.more[best]]), np.vstack([width, case.more_widths[best]])
    summit, top, count = _best_in_cells(case.objective, places, width, case.logs)
    refined, height, more = _refine(case.objective, summit, top, width / SUBDIVISIONS, case.logs, level)
    return refined, height, width, count + more


def _own(channel: Channel, points: Array) -> Mask:
    """Which points stand for all with the same likelihood: (G, d) -> (G,)."""
    return np.asarray(np.all(points == channel.canonical(points), axis=1))


def _zoom(
    objective: Objective, best: Array, height: Array, width: Array, logs: list[Array]
) -> tuple[Array, Array, int]:
    """Approach the summits until G no longer falls on both sides of them: (M, d), the heights they may have (M,).

    What a cell hides is at most about the fall from its middle to both sides; a smooth summit's fall vanishes with
    the square of the width, a cusp's more slowly, and that of a jump, on its higher side, like a slope's.
    """
    bounds, dimension = objective.channel.bounds, best.shape[1]
    steps = np.array([s for s in itertools.product((-1.0, 0.0, 1.0), repeat=dimension) if s > (0.0,) * dimension])
    best, height, width, hidden = best.copy(), height.copy(), width.copy(), np.full(len(best), np.inf)
    floor, count, active = FLOOR * (1 + abs(height.max())), 0, np.arange(len(best))
    for _ in range(ZOOMS):
        sides = np.concatenate([steps, -steps]) * width[active, None]
        points = np.clip(best[active, None] + sides, bounds[:, 0], bounds[:, 1])
        values = objective.gain(points.reshape(-1, dimension), logs).reshape(len(active), 2, -1)
        count += values.size
        fall = height[active] - values.max(axis=1).min(axis=1)
        rows, first = np.arange(len(active)), values.reshape(len(active), -1).argmax(axis=1)
        higher = values.reshape(len(active), -1)[rows, first]
        moved = higher > height[active]
        best[active[moved]] = points[rows, first][moved]
        height[active] = np.maximum(height[active], higher)
        hidden[active] = np.where(moved, np.maximum(hidden[active], 0.0), np.maximum(fall, 0.0))
        width[active[~moved]] /= 2
        small = np.all(width <= 2 * np.spacing(np.maximum(np.abs(best), 1e-300)), axis=1)
        open_ = (hidden > floor) & ~small & (height + 4 * hidden > height.max())
        active = np.flatnonzero(open_)
        if not len(active):
            break
    return best, height + np.where(np.isfinite(hidden), hidden, 0.0), count


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
    count = NODES[dimension]
    nodes = -np.cos(np.pi * np.arange(count) / (count - 1))
    seen = middle[:, None] + half[:, None] * np.array(list(itertools.product(nodes, repeat=dimension)))
    values = objective.gain(seen.reshape(-1, dimension), logs).reshape(len(centre), -1)
    fine = np.linspace(-1, 1, 2 * (SUBDIVISIONS if dimension < 3 else 4) + 1)
    between = chebvander(fine, count - 1) @ np.linalg.inv(chebvander(nodes, count - 1))
    matrix = reduce(np.kron, [between] * dimension)
    predicted = np.argmax(values @ matrix.T, axis=1)
    tops = middle + half * np.array(list(itertools.product(fine, repeat=dimension)))[predicted]
    points = np.concatenate([seen, tops[:, None]], axis=1)
    heights = np.concatenate([values, objective.gain(tops, logs)[:, None]], axis=1)
    rows, best = np.arange(len(centre)), np.argmax(heights, axis=1)
    return points[rows, best], heights[rows, best], heights.size


def _refine(
    objective: Objective, best: Array, height: Array, width: Array, logs: list[Array], level: float, rounds: int = 6
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
        # a parabola that predicts no rise, or too little to reach the level, is not followed
        active = active[(rise > rounding) & (height[active] + 2 * rise > level)]
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
    """Central differences on a 3^d stencil, in units of its half width: (k, 3[, 3, 3]) -> (k, d), (k, d, d)."""
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


def _judge_atoms(case: _Case, gap: float) -> tuple[bool, float]:
    """Whether the optimum has exactly these atoms, as far as doubles can tell, and how far they are from its atoms.

    These atoms satisfy the conditions of the optimum up to a residual. Solving the linearised conditions for
    it moves the marginal, and with it the gain, by at most the residual times a factor that grows where the
    gain is flat. The optimum's atoms lie where our gain is within that tolerance of J. The number is certified
    if every summit that high is an atom, the atoms' rows are independent (else other weights do as well), that set,
    or a larger one of the same form, has as many connected components as there are atoms, one in each, and the gain
    is so concave at every atom that no component holds two maxima. The same equations say how far the atoms move;
    where they cannot, a change by √gap costs about the gap.
    """
    objective, u, weights, channel = case.objective, case.u, case.weights, case.objective.channel
    residual = gap + ROUNDING * (1 + abs(case.information))
    if not channel.continuous:
        return _judge_rows(case, residual)
    if len(u) > MOST_ATOMS or not objective.resolved or case.grid.coarse:
        return False, math.sqrt(residual)
    unit = (channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axis_lengths(), 1e-3)
    point = evaluate(objective.table, u, weights)
    smallest, factor = sensitivity(point, channel.bounds, unit)
    spread = min((residual + channel.slope_error) * factor**2, math.sqrt(residual))
    # Σ_z p(z|w)²/p(z) is at most 1/π at an atom
    tolerance = residual * factor / math.sqrt(weights.min())
    if smallest < INDEPENDENT or not weights.min() > tolerance:
        return False, spread
    radius = _certain_radius(objective, point, unit, tolerance)
    if radius is None or not _only_atoms(case, radius, tolerance):
        return False, spread
    levels = case.information - np.geomspace(tolerance, 1.0, 25)
    return any(_one_atom_per_component(case, level) for level in levels), spread


def _only_atoms(case: _Case, radius: Array, tolerance: float) -> bool:
    """Whether every summit of the gain within the tolerance of J lies within the radius (K, d) of an atom."""
    channel, level = case.objective.channel, case.information - tolerance
    top, height, _, _ = _summits(case, level)
    reached = channel.canonical(top[height >= level])
    apart = np.abs(reached[:, None] - channel.canonical(case.u)) <= radius
    return bool(np.all(np.any(np.all(apart, axis=2), axis=1)))


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


def _certain_radius(objective: Objective, point: Point, unit: Array, tolerance: float) -> Array | None:
    """How far from its atom a summit within the tolerance of J can be, (K, d); None if the gain is not concave there.

    An atom's place is uncertain by √(2 tolerance/|G''|). Where the optimum's gain differs by the tolerance, its
    second derivative in standard deviations differs by a little more. Axes on which an atom is fixed at a bound are
    left out; there the slope takes the place of the curvature.
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
        return None
    radius = 2 * np.sqrt(2 * tolerance / -curvature)[:, None] * unit  # twice, as the curvature weakens outward
    moves = [sign * axis * radius for axis in np.eye(len(unit)) for sign in (-1.0, 1.0)]
    if not all(bool(np.all(largest_curvature(point.u + move) < margin)) for move in moves):
        return None
    return np.maximum(radius, SAME_PLACE * unit)


def _one_atom_per_component(case: _Case, level: float) -> bool:
    """Whether each connected component of {G ≥ level} on the grid holds exactly one atom."""
    grid, nearest = case.grid, _nearest_points(case.grid, case.u)
    own = _own(case.objective.channel, grid.points)
    above = ((case.values >= level) & own).reshape(grid.shape)
    above[nearest] = True  # an atom reaches J itself, however narrow its peak
    components, count = label(above, structure=np.ones([3] * len(grid.shape)))
    return bool(count == len(case.u) == len(np.unique(components[nearest])))


def _nearest_points(grid: Grid, u: Array) -> tuple[Index, ...]:
    """Indices of the grid points nearest to the atoms, one array per axis: [(K,)] * d."""
    return tuple(_nearest(line, u[:, axis]) for axis, line in enumerate(grid.axes))
