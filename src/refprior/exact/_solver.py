"""The reference prior: candidates, weights, joint ascent, and missing atoms added until there are none.

1. Weights on a grid of candidates by the interior-point method; their peaks are the first atoms.
2. Joint Newton ascent on atoms and weights.
3. Maxima of the gain above J are missing atoms: add them, find weights, ascend again.
4. Where the model is symmetric, so is the prior: atoms and weights are averaged with their mirror image.
The certificate then judges the result without knowing how it was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from refprior.exact._arrays import Array, Index, Mask
from refprior.exact._ascent import MIRRORINGS, Problem, ascend, average_with_mirror_image, equalise
from refprior.exact._channels import Channel
from refprior.exact._cost import LOG, check_search
from refprior.exact._objective import Objective, Table
from refprior.exact._optimality import Point, evaluate
from refprior.exact._search import Grid, approach, climb, fisher_grid, peaks, search_logs
from refprior.exact._weights import optimal_weights

CANDIDATE_SPACING = 0.25  # standard deviations between candidates, one parameter
CANDIDATE_SPACING_2D = 0.8  # two parameters: the number of candidates grows with the square
CANDIDATE_SPACING_3D = 1.0  # three parameters, if that is not too many:
MOST_CANDIDATES_3D = 1000  # of three parameters and more
UNCOVERED = 0.1  # of J above J: somewhere the candidates' weights had no peaks, so that no atom is near
EVEN_SPACING = 1.75  # standard deviations between the first atoms if the weights have no peaks
MOST_CANDIDATES = 2000  # of one parameter: the cost of a step grows with the cube
CANDIDATES_PER_OUTCOME = 60  # no prior needs more atoms than there are outcomes
SEARCH_SPACING = 0.25
SEARCH_SPACING_3D = 0.6
COARSE_TOLERANCE = {1: 1e-6, 2: 1e-6, 3: 1e-3}  # of a search on fewer outcomes, by the number of parameters
ENOUGH = 1e-3  # of the tolerance: what an ascent of three parameters and more may leave
FIRST_ROWS, MORE_ROWS = 300, 100  # of a table: in use at first, and those that join in one round
CONTRACTIONS, CONTRACTED = 12, 1.0  # of the first atoms of three parameters and more: rounds, standard deviations
UNUSED_WEIGHT = 1e-8  # rows of a table with less weight are left out if that costs nothing
ROUNDS = 25
SAMPLED_PATIENCE = 25  # steps without a rise of J, where kinks and plateaus of a sampled likelihood stop Newton
EXCHANGES = 30  # rounds in which atoms of a sampled likelihood are exchanged without derivatives,
EXCHANGED = 8  # so many at a time,
MOST_EXCHANGED = 500  # out of the highest points
FEW_MISSING = 2  # with more missing atoms than this in one dimension, the others are shifted as well,
DENSE_FROM = 8  # if there are this many
PATIENCE = 4  # rounds without halving the excess: what is left is rounding
MERGE_AFTER_ASCENT = 0.02  # standard deviations between atoms that have become one in an ascent
MERGE_BEFORE_ASCENT = (0.3, 0.1, 0.01, 1e-3)  # the same before an ascent, by rounds without progress
SYMMETRY_POINTS = 211  # at which the gain is compared with its mirror image, at least
SYMMETRIC = 1e-9  # nats by which the gain of a symmetric prior may differ from its mirror image
SPLIT_REACH = 1.2  # standard deviations between an atom that splits and the maxima to both sides of it, at most
FEWER_ATOMS, MORE_ATOMS = 3, 2  # than where the ascent is stuck: numbers that are tried
AT_REST = 1e-12  # nats of unevenness
FIRST_STEPS, FORK_STEPS = 8, 24  # away from a fork: in how many the end would be reached, and how many there are
SPLIT_OFFSET = 0.02  # standard deviations to either side of an atom that may split, from where to climb


class Missing(NamedTuple):
    """Where the gain exceeds J: the places (M, d), the largest excess, and G − J on the grid (G,)."""

    places: Array
    excess: float
    surplus: Array


def solve(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """Atoms in coordinates (K, d) and weights (K,) whose gap should be below `tolerance`."""
    fast = objective.channel.solve_fast(tolerance) if len(objective.channels) == 1 else None
    if fast is not None:
        return fast
    check_cost(objective)
    if not objective.channel.continuous:
        return _solve_finite(objective, tolerance)
    unit = _unit(objective)
    point = _add_missing_atoms(objective, _first_atoms(objective, unit, tolerance), unit, tolerance)
    if objective.channel.measured:
        point = _exchanged(objective, point, unit, tolerance)
    if objective.channel.dimension == 1:
        point = _symmetric(objective, point, unit, tolerance)
    return objective.channel.canonical(point.u), point.weights


def continued(objective: Objective, u: Array, weights: Array) -> tuple[Array, Array]:
    """The optimum near a prior of a similar problem: a joint ascent only, with as many atoms or fewer."""
    point = _ascend(objective, u, weights, _unit(objective))
    return objective.channel.canonical(point.u), point.weights


def check_cost(objective: Objective) -> None:
    """Refuse a search that does not fit into memory, and say if it will take minutes."""
    channel, outcomes = objective.channel, sum(len(c.coarse().outcomes) for c in objective.channels)
    if not channel.continuous:
        return check_search(len(channel.axis_points(0, 0)), [0.0], outcomes, SEARCH_SPACING)
    lengths = [float(length) for length in channel.axis_lengths()]
    if channel.dimension == 1:
        candidates = max(9, min(_most_candidates(channel), math.ceil(lengths[0] / CANDIDATE_SPACING)) + 1)
    else:
        candidates = math.prod(max(9, math.ceil(length / _candidate_spacing(channel)) + 1) for length in lengths)
        candidates = candidates if channel.dimension == 2 else min(candidates, MOST_CANDIDATES_3D)
    factors = 1 if channel.outcomes.ndim == 1 else channel.outcomes.shape[1]
    return check_search(candidates, lengths, outcomes, search_spacing(channel) / 2, factors=factors)


def search_spacing(channel: Channel) -> float:
    """Standard deviations between the points on which missing atoms are looked for."""
    return SEARCH_SPACING if channel.dimension < 3 else SEARCH_SPACING_3D


def _candidate_spacing(channel: Channel) -> float:
    return CANDIDATE_SPACING_2D if channel.dimension < 3 else CANDIDATE_SPACING_3D


def _most_candidates(channel: Channel) -> int:
    return min(MOST_CANDIDATES, CANDIDATES_PER_OUTCOME * len(channel.outcomes))


def _symmetric(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """A symmetric prior that is as good if the model is symmetric, else the point as it is.

    Where the optimum is flat, rounding makes the answer asymmetric. Averaging atom by atom with the mirror image
    costs the square of that, so evening out and averaging again converges. Where it does not, the mixture of the
    prior and its mirror image is symmetric, and by concavity no worse, with twice the atoms.
    """
    grid = fisher_grid(objective.channel, SEARCH_SPACING, least=SYMMETRY_POINTS)
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    before = _missing(objective, point, grid, unit, tolerance).excess
    trial, attempts = point, []
    for _ in range(MIRRORINGS):
        mirrored = average_with_mirror_image(problem, trial)
        found = _missing(objective, mirrored, grid, unit, tolerance)
        if not np.abs(found.surplus - found.surplus[::-1]).max() < SYMMETRIC:
            return point
        attempts.append((found.excess, mirrored))
        if found.excess <= before:
            break
        trial = equalise(problem, mirrored)
    least, best = min(attempts, key=lambda pair: pair[0])
    if best.information < point.information - tolerance:
        return point
    return best if least <= max(before, tolerance / 3) else _mixed_with_mirror_image(problem, point)


def _mixed_with_mirror_image(problem: Problem, point: Point) -> Point:
    u = np.vstack([point.u, problem.bounds.sum(axis=1) - point.u])
    return problem.evaluate(u, np.concatenate([point.weights, point.weights]) / 2)


def _first_atoms(objective: Objective, unit: Array, tolerance: float) -> Point:
    """From a search on a coarser quadrature if the model has one, else from a grid of candidates."""
    cheaper = Objective(tuple(c.coarse() for c in objective.channels), objective.signs)
    if all(c is d for c, d in zip(cheaper.channels, objective.channels, strict=True)):
        return _start(objective, unit, tolerance)
    rough = max(tolerance, COARSE_TOLERANCE[min(objective.channel.dimension, 3)])
    point = _add_missing_atoms(cheaper, _first_atoms(cheaper, unit, rough), unit, rough)
    return _ascend(objective, objective.channel.canonical(point.u), point.weights, unit, tolerance)


def _add_missing_atoms(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Add missing atoms, always to the best point so far, until none is missing or nothing helps."""
    grid = fisher_grid(objective.channel, search_spacing(objective.channel))
    best, missing, stale, spread = point, _missing(objective, point, grid, unit, tolerance), 0, False
    for number in range(ROUNDS):
        if not len(missing.places) or stale == PATIENCE:
            break
        LOG.info("round %d: %d atoms are missing, excess %.0e nats", number, len(missing.places), missing.excess)
        point = _with_missing(objective, best, missing, grid, unit, tolerance, stale)
        found = _missing(objective, point, grid, unit, tolerance)
        stale = 0 if found.excess < 0.5 * missing.excess else stale + 1
        if found.excess < missing.excess:
            best, missing = point, found
        if stale and not spread and objective.channel.dimension == 1:
            best, spread = _respaced(objective, best, missing, grid, unit, tolerance), True
            missing = _missing(objective, best, grid, unit, tolerance)
    return best


def _respaced(objective: Objective, point: Point, missing: Missing, grid: Grid, unit: Array, tolerance: float) -> Point:
    """Where the ascent is stuck: from fewer atoms on, one more at a time, spread like the last that came to rest.

    With one atom too many the ascent hardly moves, and what it leaves is a bad start for any other number. With too few
    it comes to rest in a few steps. Where the next number does not, the atoms are at a fork.
    """
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    places, rested = np.sort(point.u[:, 0]), None
    count = max(2, len(places) - FEWER_ATOMS)
    for _ in range(FEWER_ATOMS + MORE_ATOMS):
        u = np.interp(np.linspace(0, len(places) - 1, count), np.arange(len(places)), places)[:, None]
        trial = _ascend(objective, u, optimal_weights(Table.of_values(objective, u), 1e-12), unit, tolerance)
        found = _missing(objective, trial, grid, unit, tolerance)
        LOG.info("%d atoms spread anew: excess %.0e nats", count, found.excess)
        if found.excess < missing.excess:
            point, missing = trial, found
        at_rest = problem.residual(trial) <= AT_REST
        if not len(missing.places) or (rested is not None and not at_rest):
            break
        if at_rest:
            places, rested = np.sort(trial.u[:, 0]), (trial, found)
        count = (len(places) if at_rest else count) + 1
    for trial in forked(objective, *rested, unit) if len(missing.places) and rested is not None else ():
        found = _missing(objective, trial, grid, unit, tolerance)
        if found.excess < missing.excess:
            point, missing = trial, found
        if not len(missing.places):
            break
    return point


def forked(objective: Objective, point: Point, missing: Missing, unit: Array) -> Iterator[Point]:
    """One atom more just after a fork, in steps away from it, with all others at rest: a new one, or one of two.

    There J is so flat, and the other atoms move so far with the new one, that a joint ascent ends almost anywhere.
    """
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    logs = search_logs(objective, point.u, point.weights)
    highest = missing.places[[np.argmax(objective.gain(missing.places, logs))]]
    yield equalise(problem, problem.evaluate(*_joined(objective, point, highest, unit)))
    free = point.free(objective.channel.bounds)[:, 0]
    atom = int(np.argmax(np.where(free, point.hessians[:, 0, 0], -np.inf)))
    if free[atom] and point.hessians[atom, 0, 0] > 0:
        far = float(np.abs(missing.places - point.u[atom]).min())
        yield equalise(problem, problem.evaluate(*_split(objective, point, atom, far, unit)))


def _split(objective: Objective, point: Point, atom: int, far: float, unit: Array) -> tuple[Array, Array]:
    """An atom that becomes two, at most `far` to both sides of it: (K + 1, 1), (K + 1,)."""
    mean = np.eye(len(point.u), len(point.u) + 1)
    mean[atom, [atom, -1]] = 0.5

    def sides(u: Array, half: float) -> Array:
        return np.clip(u[atom] + np.array([[-half], [half]]), *objective.channel.bounds.T)

    def table(half: float, u: Array) -> Table:
        """Both are one atom, with the mean of their likelihoods."""
        points = np.vstack([u, sides(u, half)[1:]])
        points[atom] = sides(u, half)[0]
        return objective.table(points).mixed(mean, mean)

    def outward(point: Point, half: float) -> bool:
        slopes = objective.gains(sides(point.u, half), point.table.own_logs(point.weights)).gradient[:, 0]
        return bool(slopes[1] > slopes[0])

    point, half = _followed(objective, point, table, outward, far, unit)
    u = np.vstack([np.delete(point.u, atom, axis=0), sides(point.u, half)])
    return u, np.append(np.delete(point.weights, atom), point.weights[[atom, atom]] / 2)


def _joined(objective: Objective, point: Point, place: Array, unit: Array) -> tuple[Array, Array]:
    """A new atom at a place (1, 1), which takes its weight from all others: (K + 1, 1), (K + 1,)."""
    count = len(point.u)

    def table(share: float, u: Array) -> Table:
        """Its share is a part of every atom's likelihood."""
        own = (1 - share) * np.eye(count, count + 1)
        return objective.table(np.vstack([u, place])).mixed(own + share * np.eye(1, count + 1, count), own)

    def too_light(point: Point, share: float) -> bool:
        return bool(objective.gain(place, point.table.own_logs(point.weights))[0] > point.information)

    point, share = _followed(objective, point, table, too_light, float(point.weights.max()), unit)
    return np.vstack([point.u, place]), np.append((1 - share) * point.weights, share)


def _followed(
    objective: Objective,
    point: Point,
    table: Callable[[float, Array], Table],
    too_little: Callable[[Point, float], bool],
    most: float,
    unit: Array,
) -> tuple[Point, float]:
    """The largest amount that is too little, about, and the atoms at rest there.

    Steps from 0 on, at most `most` altogether: one that goes too far, or after which atoms do not come to rest, is halved.
    """
    amount, step = 0.0, most / FIRST_STEPS
    for _ in range(FORK_STEPS):
        problem = Problem(partial(table, amount + step), objective.channel.bounds, 0.5 * unit)
        trial = equalise(problem, problem.evaluate(point.u, point.weights))
        LOG.info("fork at %.3g: unevenness %.0e nats", amount + step, problem.residual(trial))
        if problem.residual(trial) <= AT_REST and too_little(trial, amount + step):
            point, amount = trial, amount + step
        else:
            step /= 2
    return point, amount


def _with_missing(
    objective: Objective, point: Point, missing: Missing, grid: Grid, unit: Array, tolerance: float, stale: int
) -> Point:
    """One attempt: put the missing atoms in, or, where atoms are dense, fewer of them and shift the neighbours."""
    few = len(missing.places) <= FEW_MISSING or len(point.u) < DENSE_FROM
    if few or objective.channel.dimension > 1:
        return _insert(objective, point, missing.places, unit, tolerance, MERGE_BEFORE_ASCENT[stale])
    more = 1 + len(missing.places) // 16 + stale
    u, weights = insert_and_shift(point, grid.points[:, 0], missing.surplus, more)
    weights = optimal_weights(Table.of_values(objective, u), 1e-12, weights)
    return _ascend(objective, u, weights, unit, tolerance)


def _exchanged(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Where a sampled likelihood has kinks, jumps or narrow ridges, Newton steps fail: exchange atoms one by one.

    All points at which the certificate will look are candidates. The highest ones are approached without
    derivatives and join the atoms; weights decide which of them stay.
    """
    channel = objective.channel
    more, widths = channel.certificate_points()
    grid = _exchange_grid(channel)
    points = np.vstack([grid, more])
    widths = np.vstack([np.tile(SEARCH_SPACING * unit, (len(grid), 1)), widths])
    best, least = point, math.inf
    for number in range(EXCHANGES):
        logs = search_logs(objective, point.u, point.weights)
        values, level = objective.gain(points, logs), float(point.weights @ objective.gain(point.u, logs))
        order = np.argsort(-values)[:MOST_EXCHANGED]
        chosen = order[_spread_out(points[order] / unit, EXCHANGED)]
        top, height = approach(objective, points[chosen], logs, widths[chosen])
        excess = float(height.max()) - level
        if excess < least:
            best, least = point, excess
        if excess <= tolerance / 3 or number == EXCHANGES - 1:
            break
        LOG.info("exchange %d: excess %.0e nats", number, excess)
        u = channel.canonical(np.vstack([point.u, top[height > level]]))
        weights = optimal_weights(Table.of_values(objective, u), 1e-13)
        used = weights > UNUSED_WEIGHT
        point = evaluate(objective.table, u[used], weights[used] / weights[used].sum())
    return best


def _exchange_grid(channel: Channel) -> Array:
    """Points on which a sampled likelihood is looked at: (G, d)."""
    if channel.dimension > 2:
        return fisher_grid(channel, search_spacing(channel)).points
    counts = [math.ceil(length / search_spacing(channel)) + 9 for length in channel.axis_lengths()]
    axes = [channel.certificate_axis(i, count) for i, count in enumerate(counts)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _spread_out(u: Array, count: int) -> list[int]:
    """The first `count` of the points, in their order, of which no two are within half a standard deviation."""
    chosen: list[int] = []
    for k, place in enumerate(u):
        if len(chosen) < count and all(np.linalg.norm(place - u[j]) > 0.5 for j in chosen):
            chosen.append(k)
    return chosen


def _solve_finite(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """A finite channel: all its parameters are candidates, and none moves. Few rows are in use: the others wait.

    Weights are found on the rows in use; those whose gain exceeds J join them, the highest first, until there is none.
    """
    u = fisher_grid(objective.channel, 1.0).points
    table = Table.of_values(objective, u)
    uniform = np.full(len(u), 1 / len(u))
    active = np.argsort(-table.gains(table.own_logs(uniform)), kind="stable")[:FIRST_ROWS]
    for number in range(ROUNDS * 4):
        own = Table.of_values(objective, u[active])
        weights = _drop_below(optimal_weights(own, 0.1 * tolerance), 1e-3 * tolerance)
        gains = table.gains(own.own_logs(weights))
        excess = gains - float(weights @ gains[active])
        excess[active] = 0.0
        missing = np.argsort(-excess, kind="stable")[:MORE_ROWS]
        missing = missing[excess[missing] > tolerance / 3]
        LOG.info("rows in use %d, round %d, excess %.0e nats", len(active), number, float(excess.max()))
        if not len(missing):
            break
        active = np.concatenate([active[weights > UNUSED_WEIGHT], missing])
    return _fewest_rows(objective, u[active], own, weights, tolerance)


def _fewest_rows(objective: Objective, u: Array, table: Table, weights: Array, tolerance: float) -> tuple[Array, Array]:
    """The rows without those that have hardly any weight, if that costs nothing."""
    kept = weights > UNUSED_WEIGHT
    again = np.zeros(len(u))
    again[kept] = optimal_weights(Table.of_values(objective, u[kept]), 0.1 * tolerance)
    if _table_gap(table, again) <= max(tolerance, _table_gap(table, weights)):
        weights = _drop_below(again, 1e-3 * tolerance)
    return u[weights > 0], weights[weights > 0]


def _drop_below(weights: Array, least: float) -> Array:
    """Zero where a weight is not above `least`, the others renormalised."""
    kept = np.where(weights > least, weights, 0.0)
    return np.asarray(kept / kept.sum())


def _table_gap(table: Table, weights: Array) -> float:
    """Largest gain minus J on the points of a table."""
    gains = table.gains(table.own_logs(weights))
    return float(gains.max() - weights @ gains)


def _unit(objective: Objective) -> Array:
    """One standard deviation in coordinates, at most the whole axis: (d,)."""
    channel = objective.channel
    return np.asarray((channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axis_lengths(), 1.0))


def _start(objective: Objective, unit: Array, tolerance: float) -> Point:
    """Weights on a grid of candidates, merged around their peaks, then the joint ascent."""
    channel = objective.channel
    if channel.dimension > 1:
        u = _candidates(channel)
        u = u[np.all(u == channel.canonical(u), axis=1)]  # one of the points that a symmetry exchanges
        weights = optimal_weights(Table.of_values(objective, u), 1e-7)
        top = np.flatnonzero(weights > 1e-4 * weights.max())
    else:
        narrowest = float(channel.axis_lengths().max()) / _most_candidates(channel)
        u, shape = fisher_grid(channel, max(CANDIDATE_SPACING, narrowest))
        weights = optimal_weights(Table.of_values(objective, u), 1e-7)
        top = _heavy_peaks(weights, shape)
    u, weights = merge_to_centres(u, weights, u[top])
    if channel.dimension > 2:
        u, weights = _contracted(objective, u, weights, unit)
    if channel.dimension == 1 and _uncovered(objective, u, weights):
        u = fisher_grid(channel, max(EVEN_SPACING, narrowest)).points
        weights = optimal_weights(Table.of_values(objective, u), 1e-12)
    return _ascend(objective, u, weights, unit, tolerance)


def _contracted(objective: Objective, u: Array, weights: Array, unit: Array) -> tuple[Array, Array]:
    """Fewer atoms: each climbs to its summit of the gain, summits that are close are one, and weights choose again."""
    for number in range(CONTRACTIONS):
        before = len(u)
        LOG.info("contraction %d: %d atoms", number, before)
        top, _ = climb(objective, u, search_logs(objective, u, weights), 2 * SEARCH_SPACING * unit)
        both = objective.channel.canonical(np.vstack([u, top]))
        u, _ = merge_close(objective.channel, both, np.concatenate([0.1 * weights, weights]), CONTRACTED)
        weights = optimal_weights(Table.of_values(objective, u), 1e-7)
        used = weights > 1e-3 * weights.max()
        u, weights = u[used], weights[used] / weights[used].sum()
        if number >= 2 and len(u) > 0.95 * before:
            break
    return u, weights


def _candidates(channel: Channel) -> Array:
    """Points of two parameters and more among which the first weights are found: (M, d)."""
    if channel.dimension == 2:
        return fisher_grid(channel, CANDIDATE_SPACING_2D).points
    return fisher_grid(channel, CANDIDATE_SPACING_3D, least=5, most=MOST_CANDIDATES_3D).points


def _uncovered(objective: Objective, u: Array, weights: Array) -> bool:
    """Whether the gain somewhere exceeds J by so much that there can be no atom near."""
    logs = search_logs(objective, u, weights)
    values = objective.gain(fisher_grid(objective.channel, SEARCH_SPACING).points, logs)
    return bool(values.max() > (1 + UNCOVERED) * float(weights @ objective.gain(u, logs)))


def _heavy_peaks(weights: Array, shape: tuple[int, ...]) -> Index:
    top = peaks(weights, shape)
    return np.asarray(top[weights[top] > 1e-3 * weights.max()])


def merge_to_centres(u: Array, weights: Array, centres: Array) -> tuple[Array, Array]:
    """Give each point's weight to its nearest centre, at the mean place: (M, d), (M,)."""
    nearest = cKDTree(centres).query(u)[1]
    total = np.bincount(nearest, weights, len(centres))
    moved = [np.bincount(nearest, weights * u[:, i], len(centres)) / total for i in range(u.shape[1])]
    return np.stack(moved, axis=1), total / total.sum()


def merge_close(channel: Channel, u: Array, weights: Array, distance: float) -> tuple[Array, Array]:
    """One atom for each group closer than `distance` standard deviations, at the mean place: (M, d), (M,).

    Coordinates that are far apart may be one likelihood, as where a parameter does nothing: the heaviest one is kept if
    the mean place is another.
    """
    points = channel.embedding(u)
    chosen, nearest = _representatives(points, weights, distance)
    total = np.bincount(nearest, weights)
    moved = np.stack([np.bincount(nearest, weights * column) / total for column in u.T], axis=1)
    astray = np.linalg.norm(channel.embedding(moved) - points[chosen], axis=1) > distance
    return np.where(astray[:, None], u[chosen], moved), total / total.sum()


def _representatives(points: Array, weights: Array, distance: float) -> tuple[Index, Index]:
    """The heaviest points of which no two are closer than `distance`, and the one nearest to each: (M,), (K,)."""
    squares = np.einsum("km,km->k", points, points)
    apart = squares[:, None] + squares - 2 * points @ points.T
    chosen: list[int] = []
    for k in np.argsort(-weights, kind="stable"):
        if not chosen or np.min(apart[k, chosen]) > distance**2:
            chosen.append(int(k))
    return np.array(chosen), np.argmin(apart[:, chosen], axis=1)


def _ascend(
    objective: Objective,
    u: Array,
    weights: Array,
    unit: Array,
    tolerance: float,
    distance: float = MERGE_AFTER_ASCENT,
) -> Point:
    """Joint ascent, repeated if atoms came closer than `distance` on the way and were merged."""
    many = objective.channel.dimension > 2
    enough = ENOUGH * tolerance if many else 0.0
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit, enough, own_units=many)
    patience = SAMPLED_PATIENCE if objective.channel.measured else 150
    patience = patience if objective.channel.dimension <= 2 else PATIENCE
    for _ in range(3):
        point = equalise(problem, ascend(problem, u, weights, patience=patience))
        u, weights = merge_close(objective.channel, objective.channel.canonical(point.u), point.weights, distance)
        if len(u) == len(point.u):
            break
    return point


def _missing(objective: Objective, point: Point, grid: Grid, unit: Array, tolerance: float) -> Missing:
    """Maxima of the gain above J by more than a third of the tolerance."""
    logs = search_logs(objective, point.u, point.weights)
    values = objective.gain(grid.points, logs)
    level = float(point.weights @ objective.gain(point.u, logs))
    start = peaks(values, grid.shape)
    start = start[np.all(grid.points[start] == objective.channel.canonical(grid.points[start]), axis=1)]
    distance = cKDTree(point.u / unit).query(grid.points[start] / unit)[0]
    start = start[(distance > SEARCH_SPACING) | (values[start] > level)]  # leave out the peaks of the atoms themselves
    for places in (grid.points[start], _split_starts(point, objective.channel.bounds, unit)):
        if len(places):
            top, height = climb(objective, places, logs, SEARCH_SPACING * unit)
            excess = height - level
            if excess.max() > tolerance / 3:
                return Missing(top[excess > tolerance / 3], float(excess.max()), values - level)
    return Missing(grid.points[:0], float(values.max()) - level, values - level)


def _split_starts(point: Point, bounds: Array, unit: Array) -> Array:
    """Both sides of every atom at which the gain is not concave, where one atom may become two: (M, d)."""
    free = point.free(bounds)
    hessians = np.where(free[:, :, None] & free[:, None, :], point.hessians * unit * unit[:, None], 0.0)
    values, vectors = np.linalg.eigh(hessians)
    split = values[:, -1] > 0
    offset = SPLIT_OFFSET * vectors[split, :, -1] * unit
    return np.clip(np.vstack([point.u[split] - offset, point.u[split] + offset]), bounds[:, 0], bounds[:, 1])


def insert_and_shift(point: Point, grid: Array, surplus: Array, more: int) -> tuple[Array, Array]:
    """`more` additional atoms where the gain exceeds J, and their neighbours shifted to make room: (M, 1), (M,).

    Where atoms are so dense that the gain hardly varies between them, a new one in every interval is far too many.
    """
    order = np.argsort(point.u[:, 0])
    u, weights = point.u[order, 0], point.weights[order]
    numbers = np.arange(len(u))
    share = np.cumsum(np.cbrt(np.maximum(surplus, 0.0)))  # the root spreads the change over more neighbours
    counted = np.interp(grid, u, numbers) + more * share / share[-1]
    moved = np.interp(np.arange(len(u) + more), counted, grid)
    density = np.interp(moved, u, weights / np.gradient(u))
    new = density * np.gradient(moved)
    return moved[:, None], new / new.sum()


def _between(u: Array, added: Array, unit: Array) -> Mask:
    """Atoms of one parameter with a new one near on both sides, which they became: (K, 1), (M, 1) -> (K,)."""
    apart = (added[:, 0] - u) / unit[0] if u.shape[1] == 1 else np.empty((len(u), 0))
    near = np.abs(apart) < SPLIT_REACH
    return np.asarray(np.any(near & (apart < 0), axis=1) & np.any(near & (apart > 0), axis=1))


def _insert(objective: Objective, point: Point, added: Array, unit: Array, tolerance: float, distance: float) -> Point:
    """Old and new atoms together: weights, then the joint ascent of those that have weight, close ones merged."""
    old = point.u if distance < MERGE_BEFORE_ASCENT[0] else point.u[~_between(point.u, added, unit)]
    u = objective.channel.canonical(np.vstack([old, added]))
    weights = optimal_weights(Table.of_values(objective, u), 1e-12)
    used = weights > 1e-9
    u, weights = u[used], weights[used] / weights[used].sum()
    u, weights = merge_close(objective.channel, u, weights, distance)
    return _ascend(objective, u, weights, unit, tolerance, min(MERGE_AFTER_ASCENT, distance / 2))
