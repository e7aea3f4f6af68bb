"""The reference prior: candidates, weights, joint ascent, and missing atoms added until there are none.

1. Weights on a grid of candidates by the interior-point method; their peaks are the first atoms.
2. Joint Newton ascent on atoms and weights.
3. Maxima of the gain above J are missing atoms: add them, find weights, ascend again.
4. If the model is symmetric, so is the prior: atoms and weights are averaged with their mirror image.
The certificate then judges the result without knowing how it was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from refprior.exact._arrays import Array, grid_of, separated
from refprior.exact._cost import LOG, check_tables
from refprior.exact.channels import SampledMean, canonical, is_long
from refprior.exact.oracle import Likelihoods, Objective, Point, evaluate
from refprior.exact.solve._ascent import (
    MERGE_AFTER_ASCENT,
    PATIENCE,
    Problem,
    ascend_merged,
    average_with_mirror_image,
    equalize,
    merge_close,
    optimal_weights,
    unit_of,
)
from refprior.exact.solve._candidates import (
    SEARCH_SPACING,
    Missing,
    SearchGrid,
    approach,
    check_cost,
    find_missing,
    fisher_grid,
    search_grid,
    search_logs,
    start_from_grid,
)
from refprior.exact.solve._long import shorter, solve_long
from refprior.exact.solve._sampled import search

COARSE_TOLERANCE = {1: 1e-6, 2: 1e-6, 3: 1e-3}  # of a search on fewer outcomes, by the number of parameters
SHORT_TOLERANCE = 1e-11  # of the shorter experiment from which a long one starts
FINE_WEIGHTS = 1e-12  # nats to which weights of atoms are computed
UNUSED_WEIGHT = 1e-8  # atoms and rows of a table with less weight are left out if that costs nothing
MERGE_BEFORE_ASCENT = (0.3, 0.1, 0.01, 1e-3)  # standard deviations between atoms that merge, by rounds without progress
AT_REST = 1e-12  # nats between gains of atoms at rest
FEWER_ATOMS, MORE_ATOMS = 3, 2  # than where the ascent is stuck: numbers that are tried


def solve(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """Return atoms in coordinates (K, d) and weights (K,) whose gap should be below `tolerance`."""
    channel = objective.channel
    if len(objective.channels) == 1 and isinstance(channel, SampledMean):
        return search(channel, tolerance)
    if is_long(channel) and (short := shorter(objective)) is not None:
        return solve_long(objective, short, tolerance, solve(short, SHORT_TOLERANCE))
    check_cost(objective)
    if not channel.continuous:
        return solve_finite(objective, tolerance)
    unit = unit_of(objective)
    point = _add_missing_atoms(objective, _first_atoms(objective, unit, tolerance), unit, tolerance)
    if channel.axes.measured:
        point = exchanged(objective, point, unit, tolerance)
    if channel.dimension == 1 and objective.mirror is not False:
        point = _symmetric(objective, point, unit, tolerance)
    return canonical(channel, point.u), point.weights


def continued(objective: Objective, u: Array, weights: Array, tolerance: float) -> tuple[Array, Array]:
    """Return the optimum near a prior of a similar problem by a joint ascent, with as many atoms or fewer."""
    point = ascend_merged(objective, u, weights, unit_of(objective), tolerance)
    return canonical(objective.channel, point.u), point.weights


def _symmetric(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Return a symmetric prior that is as good if the model is symmetric, else the point as it is.

    Where the optimum is flat, rounding makes the answer asymmetric. Averaging atom by atom with the mirror image
    costs the square of that, so equalizing and averaging again converges. If it does not, the mixture of the prior
    and its mirror image is symmetric, and by concavity no worse, with twice the atoms.
    """
    grid = fisher_grid(objective.channel, SEARCH_SPACING, least=211)
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    before = find_missing(objective, point, grid, unit, tolerance).excess
    trial, attempts = point, []
    for _ in range(8):
        mirrored = average_with_mirror_image(problem, trial)
        found = find_missing(objective, mirrored, grid, unit, tolerance)
        asymmetry = np.abs(found.surplus - found.surplus[::-1]).max()
        if not (objective.mirror or asymmetry < 1e-9):  # nats: more than rounding, so the model is not symmetric
            return point
        attempts.append((found.excess, mirrored))
        even = max(found.excess, problem.residual(mirrored)) <= 1e-3 * tolerance
        if even or found.excess <= before:
            break
        trial = equalize(problem, mirrored)
    least, best = min(attempts, key=lambda pair: pair[0])
    if best.information < point.information - tolerance:
        return point
    if least <= max(before, tolerance / 3):
        return best
    u = np.vstack([point.u, problem.bounds.sum(axis=1) - point.u])
    return problem.evaluate(u, np.concatenate([point.weights, point.weights]) / 2)


def _first_atoms(objective: Objective, unit: Array, tolerance: float) -> Point:
    """Search on a coarser quadrature if the model has one, else start from a grid of candidates."""
    cheaper, dimension = objective.coarse(), objective.channel.dimension
    if cheaper is objective:
        return start_from_grid(objective, unit, tolerance)
    rough = max(tolerance, COARSE_TOLERANCE[min(dimension, 3)])
    point = _add_missing_atoms(cheaper, _first_atoms(cheaper, unit, rough), unit, rough)
    check_tables(len(point.u), dimension, sum(c.outcome_count for c in objective.channels))
    return ascend_merged(objective, canonical(objective.channel, point.u), point.weights, unit, tolerance)


def _add_missing_atoms(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Add missing atoms, always to the best point so far, until none is missing or nothing helps."""
    grid = search_grid(objective.channel)
    best, missing, stale, spread = point, find_missing(objective, point, grid, unit, tolerance), 0, False
    for number in range(25):
        if not len(missing.places) or stale == PATIENCE:
            break
        LOG.info("round %d: %d atoms are missing, excess %.0e nats", number, len(missing.places), missing.excess)
        point = _with_missing(objective, best, missing, grid, unit, tolerance, stale)
        found = find_missing(objective, point, grid, unit, tolerance)
        stale = 0 if found.excess < 0.5 * missing.excess else stale + 1
        if found.excess < missing.excess:
            best, missing = point, found
        if stale and not spread and objective.channel.dimension == 1:
            best, spread = respaced(objective, best, missing, grid, unit, tolerance), True
            missing = find_missing(objective, best, grid, unit, tolerance)
    return best


def _with_missing(
    objective: Objective, point: Point, missing: Missing, grid: SearchGrid, unit: Array, tolerance: float, stale: int
) -> Point:
    """Insert the missing atoms, or, where atoms of one parameter are dense, fewer of them and shift the neighbors."""
    channel = objective.channel
    if channel.dimension == 1 and len(missing.places) > 2 and len(point.u) >= 8:
        more = 1 + len(missing.places) // 16 + stale
        u, weights = insert_and_shift(point, grid.points[:, 0], missing.surplus, more)
        weights = optimal_weights(Likelihoods.of_values(objective, u), FINE_WEIGHTS, weights)
        return ascend_merged(objective, u, weights, unit, tolerance)
    distance, old = MERGE_BEFORE_ASCENT[stale], point.u
    if stale == 0 and channel.dimension == 1:  # an atom with a new one near on both sides has become these two
        apart = (missing.places[:, 0] - old) / unit[0]
        near = np.abs(apart) < 1.2
        old = old[~(np.any(near & (apart < 0), axis=1) & np.any(near & (apart > 0), axis=1))]
    u = canonical(channel, np.vstack([old, missing.places]))
    weights = optimal_weights(Likelihoods.of_values(objective, u), FINE_WEIGHTS)
    used = weights > 1e-9
    u, weights = u[used], weights[used] / weights[used].sum()
    u, weights = merge_close(channel, u, weights, distance)
    return ascend_merged(objective, u, weights, unit, tolerance, min(MERGE_AFTER_ASCENT, distance / 2))


def insert_and_shift(point: Point, grid: Array, surplus: Array, more: int) -> tuple[Array, Array]:
    """Add `more` atoms where the gain exceeds J, and shift their neighbors to make room: (M, 1), (M,).

    Where atoms are so dense that the gain hardly varies between them, a new one in every interval is far too many.
    """
    order = np.argsort(point.u[:, 0])
    u, weights = point.u[order, 0], point.weights[order]
    numbers = np.arange(len(u))
    share = np.cumsum(np.cbrt(np.maximum(surplus, 0.0)))  # the root spreads the change over more neighbors
    counted = np.interp(grid, u, numbers) + more * share / share[-1]
    moved = np.interp(np.arange(len(u) + more), counted, grid)
    density = np.interp(moved, u, weights / np.gradient(u))
    new = density * np.gradient(moved)
    return moved[:, None], new / new.sum()


def solve_finite(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """Solve a finite channel: all its parameters are candidates, and none moves.

    Weights are found on few rows; rows whose gain exceeds J join them, the highest first, until there is none. Rows
    with hardly any weight are then left out if that costs nothing.
    """
    u = fisher_grid(objective.channel, 1.0).points
    table = Likelihoods.of_values(objective, u)
    uniform = np.full(len(u), 1 / len(u))
    active = np.argsort(-table.gains(table.own_logs(uniform)), kind="stable")[:300]
    for number in range(100):
        own = Likelihoods.of_values(objective, u[active])
        weights = _drop_below(optimal_weights(own, 0.1 * tolerance), 1e-3 * tolerance)
        gains = table.gains(own.own_logs(weights))
        excess = gains - float(weights @ gains[active])
        excess[active] = 0.0
        missing = np.argsort(-excess, kind="stable")[:100]
        missing = missing[excess[missing] > tolerance / 3]
        LOG.info("rows in use %d, round %d, excess %.0e nats", len(active), number, float(excess.max()))
        if not len(missing):
            break
        active = np.concatenate([active[weights > UNUSED_WEIGHT], missing])
    u, kept = u[active], weights > UNUSED_WEIGHT
    fewer = np.zeros(len(u))
    fewer[kept] = optimal_weights(Likelihoods.of_values(objective, u[kept]), 0.1 * tolerance)
    if _table_gap(own, fewer) <= max(tolerance, _table_gap(own, weights)):
        weights = _drop_below(fewer, 1e-3 * tolerance)
    return u[weights > 0], weights[weights > 0]


def _drop_below(weights: Array, least: float) -> Array:
    """Set weights that are not above `least` to zero and renormalize the others."""
    kept = np.where(weights > least, weights, 0.0)
    return np.asarray(kept / kept.sum())


def _table_gap(table: Likelihoods, weights: Array) -> float:
    """Return the largest gain minus J on the points of a table."""
    gains = table.gains(table.own_logs(weights))
    return float(gains.max() - weights @ gains)


def exchanged(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Exchange atoms one by one where a measured likelihood has kinks, jumps or ridges and Newton steps fail.

    All points at which the certificate will evaluate the gain are candidates. The highest ones are approached without
    derivatives and join the atoms; weights decide which of them stay.
    """
    channel = objective.channel
    more, widths = channel.axes.off_grid()
    if channel.dimension > 2:
        grid = search_grid(channel).points
    else:
        counts = [math.ceil(length / SEARCH_SPACING) + 9 for length in channel.axes.lengths]
        axes = [channel.axes.certificate_points(i, count) for i, count in enumerate(counts)]
        grid = grid_of(axes)
    points = np.vstack([grid, more])
    widths = np.vstack([np.tile(SEARCH_SPACING * unit, (len(grid), 1)), widths])
    best, least, rounds = point, math.inf, 30
    for number in range(rounds):
        logs = search_logs(objective, point.u, point.weights)
        values, level = objective.gain(points, logs), float(point.weights @ objective.gain(point.u, logs))
        order = np.argsort(-values)[:500]
        chosen = order[separated(points[order] / unit, range(len(order)), 0.5, 8)]
        top, height = approach(objective, points[chosen], logs, widths[chosen])
        excess = float(height.max()) - level
        if excess < least:
            best, least = point, excess
        if excess <= tolerance / 3 or number == rounds - 1:
            break
        LOG.info("exchange %d: excess %.0e nats", number, excess)
        u = canonical(channel, np.vstack([point.u, top[height > level]]))
        weights = optimal_weights(Likelihoods.of_values(objective, u), 1e-13)
        used = weights > UNUSED_WEIGHT
        point = evaluate(objective.table, u[used], weights[used] / weights[used].sum())
    return best


def respaced(
    objective: Objective, point: Point, missing: Missing, grid: SearchGrid, unit: Array, tolerance: float
) -> Point:
    """Where the ascent is stuck, start from fewer atoms and add one at a time, spaced like the last at rest.

    With one atom too many the ascent hardly moves, and what it leaves is a bad start for any other number. With too
    few it comes to rest in a few steps. If the next number does not, the atoms are at a fork.
    """
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    places, rested = np.sort(point.u[:, 0]), None
    count = max(2, len(places) - FEWER_ATOMS)
    for _ in range(FEWER_ATOMS + MORE_ATOMS):
        u = np.interp(np.linspace(0, len(places) - 1, count), np.arange(len(places)), places)[:, None]
        weights = optimal_weights(Likelihoods.of_values(objective, u), FINE_WEIGHTS)
        trial = ascend_merged(objective, u, weights, unit, tolerance)
        found = find_missing(objective, trial, grid, unit, tolerance)
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
        found = find_missing(objective, trial, grid, unit, tolerance)
        if found.excess < missing.excess:
            point, missing = trial, found
        if not len(missing.places):
            break
    return point


def forked(objective: Objective, point: Point, missing: Missing, unit: Array) -> Iterator[Point]:
    """Yield points with one atom more just after a fork: a new atom, and one that became two.

    There J is so flat, and the other atoms move so far with the new one, that a joint ascent ends almost anywhere.
    The new atom therefore moves away from the fork in steps, with all others at rest after each.
    """
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    logs = search_logs(objective, point.u, point.weights)
    highest = missing.places[[np.argmax(objective.gain(missing.places, logs))]]
    u, weights = _joined(objective, point, highest, unit)
    if weights[-1] > 0:  # at the fork itself the new atom has none
        yield equalize(problem, problem.evaluate(u, weights))
    free = point.free(objective.channel.bounds)[:, 0]
    atom = int(np.argmax(np.where(free, point.hessians[:, 0, 0], -np.inf)))
    if free[atom] and point.hessians[atom, 0, 0] > 0:
        far = float(np.abs(missing.places - point.u[atom]).min())
        yield equalize(problem, problem.evaluate(*_split(objective, point, atom, far, unit)))


def _split(objective: Objective, point: Point, atom: int, far: float, unit: Array) -> tuple[Array, Array]:
    """Split an atom in two, at most `far` to both sides of it: (K + 1, 1), (K + 1,)."""
    mean = np.eye(len(point.u), len(point.u) + 1)
    mean[atom, [atom, -1]] = 0.5

    def sides(u: Array, half: float) -> Array:
        return np.asarray(np.clip(u[atom] + np.array([[-half], [half]]), *objective.channel.bounds.T))

    def table(half: float, u: Array) -> Likelihoods:
        """Treat both as one atom with the mean of their likelihoods."""
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
    """Add an atom at a place (1, 1) that takes its weight from all others: (K + 1, 1), (K + 1,)."""
    count = len(point.u)

    def table(share: float, u: Array) -> Likelihoods:
        """Make the share of the new atom part of every atom's likelihood."""
        own = (1 - share) * np.eye(count, count + 1)
        return objective.table(np.vstack([u, place])).mixed(own + share * np.eye(1, count + 1, count), own)

    def too_light(point: Point, share: float) -> bool:
        return bool(objective.gain(place, point.table.own_logs(point.weights))[0] > point.information)

    point, share = _followed(objective, point, table, too_light, float(point.weights.max()), unit)
    return np.vstack([point.u, place]), np.append((1 - share) * point.weights, share)


def _followed(
    objective: Objective,
    point: Point,
    table: Callable[[float, Array], Likelihoods],
    too_little: Callable[[Point, float], bool],
    most: float,
    unit: Array,
) -> tuple[Point, float]:
    """Return about the largest amount that is too little, at most `most`, and the atoms at rest there.

    A step that goes too far, or after which atoms do not come to rest, is halved.
    """
    amount, step = 0.0, most / 8
    for _ in range(24):
        problem = Problem(partial(table, amount + step), objective.channel.bounds, 0.5 * unit)
        trial = equalize(problem, problem.evaluate(point.u, point.weights))
        LOG.info("fork at %.3g: unevenness %.0e nats", amount + step, problem.residual(trial))
        if problem.residual(trial) <= AT_REST and too_little(trial, amount + step):
            point, amount = trial, amount + step
        else:
            step /= 2
    return point, amount
