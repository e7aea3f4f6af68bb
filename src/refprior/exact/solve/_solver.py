"""The reference prior: candidates, weights, joint ascent, and missing atoms added until there are none.

1. Weights on a grid of candidates by the interior-point method; their peaks are the first atoms.
2. Joint Newton ascent on atoms and weights.
3. Maxima of the gain above J are missing atoms: add them, find weights, ascend again.
4. Where the model is symmetric, so is the prior: atoms and weights are averaged with their mirror image.
The certificate then judges the result without knowing how it was found.
"""

from __future__ import annotations

import numpy as np

from refprior.exact._arrays import Array, Mask
from refprior.exact._cost import LOG, check_tables
from refprior.exact.channels import SampledMean, canonical
from refprior.exact.oracle import Objective, Point, Table
from refprior.exact.solve._ascent import MIRRORINGS, Problem, average_with_mirror_image, equalize
from refprior.exact.solve._exchange import exchanged
from refprior.exact.solve._finite import solve_finite
from refprior.exact.solve._forks import respaced
from refprior.exact.solve._joint import MERGE_AFTER_ASCENT, PATIENCE, ascend_merged, merge_close, unit_of
from refprior.exact.solve._long import shorter, solve_long
from refprior.exact.solve._missing import SEARCH_SPACING, Missing, find_missing, search_spacing
from refprior.exact.solve._sampled import search
from refprior.exact.solve._search import Grid, fisher_grid, is_mirrored
from refprior.exact.solve._start import check_cost, start_from_grid
from refprior.exact.solve._weights import optimal_weights

COARSE_TOLERANCE = {1: 1e-6, 2: 1e-6, 3: 1e-3}  # of a search on fewer outcomes, by the number of parameters
SHORT_TOLERANCE = 1e-11  # of the shorter experiment from which a long one starts
ROUNDS = 25
FEW_MISSING = 2  # with more missing atoms than this in one dimension, the others are shifted as well,
DENSE_FROM = 8  # if there are this many
MERGE_BEFORE_ASCENT = (0.3, 0.1, 0.01, 1e-3)  # the same before an ascent, by rounds without progress
SYMMETRY_POINTS = 211  # at which the gain is compared with its mirror image, at least
SPLIT_REACH = 1.2  # standard deviations between an atom that splits and the maxima to both sides of it, at most


def solve(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """Atoms in coordinates (K, d) and weights (K,) whose gap should be below `tolerance`."""
    if len(objective.channels) == 1 and isinstance(objective.channel, SampledMean):
        return search(objective.channel, tolerance)
    short = shorter(objective)
    if short is not None:
        return solve_long(objective, short, tolerance, solve(short, SHORT_TOLERANCE))
    check_cost(objective)
    if not objective.channel.continuous:
        return solve_finite(objective, tolerance)
    unit = unit_of(objective)
    point = _add_missing_atoms(objective, _first_atoms(objective, unit, tolerance), unit, tolerance)
    if objective.channel.axes.measured:
        point = exchanged(objective, point, unit, tolerance)
    if objective.channel.dimension == 1:
        point = _symmetric(objective, point, unit, tolerance)
    return canonical(objective.channel, point.u), point.weights


def continued(objective: Objective, u: Array, weights: Array, tolerance: float) -> tuple[Array, Array]:
    """The optimum near a prior of a similar problem: a joint ascent only, with as many atoms or fewer."""
    point = ascend_merged(objective, u, weights, unit_of(objective), tolerance)
    return canonical(objective.channel, point.u), point.weights


def _symmetric(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """A symmetric prior that is as good if the model is symmetric, else the point as it is.

    Where the optimum is flat, rounding makes the answer asymmetric. Averaging atom by atom with the mirror image
    costs the square of that, so evening out and averaging again converges. Where it does not, the mixture of the
    prior and its mirror image is symmetric, and by concavity no worse, with twice the atoms.
    """
    if objective.mirror is False:
        return point
    grid = fisher_grid(objective.channel, SEARCH_SPACING, least=SYMMETRY_POINTS)
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    before = find_missing(objective, point, grid, unit, tolerance).excess
    trial, attempts = point, []
    for _ in range(MIRRORINGS):
        mirrored = average_with_mirror_image(problem, trial)
        found = find_missing(objective, mirrored, grid, unit, tolerance)
        if not (objective.mirror or is_mirrored(found.surplus)):
            return point
        attempts.append((found.excess, mirrored))
        if found.excess <= before:
            break
        trial = equalize(problem, mirrored)
    least, best = min(attempts, key=lambda pair: pair[0])
    if best.information < point.information - tolerance:
        return point
    return best if least <= max(before, tolerance / 3) else _mixed_with_mirror_image(problem, point)


def _mixed_with_mirror_image(problem: Problem, point: Point) -> Point:
    u = np.vstack([point.u, problem.bounds.sum(axis=1) - point.u])
    return problem.evaluate(u, np.concatenate([point.weights, point.weights]) / 2)


def _first_atoms(objective: Objective, unit: Array, tolerance: float) -> Point:
    """From a search on a coarser quadrature if the model has one, else from a grid of candidates."""
    cheaper = objective.coarse()
    if cheaper is objective:
        return start_from_grid(objective, unit, tolerance)
    rough = max(tolerance, COARSE_TOLERANCE[min(objective.channel.dimension, 3)])
    point = _add_missing_atoms(cheaper, _first_atoms(cheaper, unit, rough), unit, rough)
    check_tables(len(point.u), objective.channel.dimension, sum(c.outcome_count for c in objective.channels))
    return ascend_merged(objective, canonical(objective.channel, point.u), point.weights, unit, tolerance)


def _add_missing_atoms(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Add missing atoms, always to the best point so far, until none is missing or nothing helps."""
    grid = fisher_grid(objective.channel, search_spacing(objective.channel))
    best, missing, stale, spread = point, find_missing(objective, point, grid, unit, tolerance), 0, False
    for number in range(ROUNDS):
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
    objective: Objective, point: Point, missing: Missing, grid: Grid, unit: Array, tolerance: float, stale: int
) -> Point:
    """One attempt: put the missing atoms in, or, where atoms are dense, fewer of them and shift the neighbors."""
    few = len(missing.places) <= FEW_MISSING or len(point.u) < DENSE_FROM
    if few or objective.channel.dimension > 1:
        return _insert(objective, point, missing.places, unit, tolerance, MERGE_BEFORE_ASCENT[stale])
    more = 1 + len(missing.places) // 16 + stale
    u, weights = insert_and_shift(point, grid.points[:, 0], missing.surplus, more)
    weights = optimal_weights(Table.of_values(objective, u), 1e-12, weights)
    return ascend_merged(objective, u, weights, unit, tolerance)


def insert_and_shift(point: Point, grid: Array, surplus: Array, more: int) -> tuple[Array, Array]:
    """`more` additional atoms where the gain exceeds J, and their neighbors shifted to make room: (M, 1), (M,).

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


def _between(u: Array, added: Array, unit: Array) -> Mask:
    """Atoms of one parameter with a new one near on both sides, which they became: (K, 1), (M, 1) -> (K,)."""
    apart = (added[:, 0] - u) / unit[0] if u.shape[1] == 1 else np.empty((len(u), 0))
    near = np.abs(apart) < SPLIT_REACH
    return np.asarray(np.any(near & (apart < 0), axis=1) & np.any(near & (apart > 0), axis=1))


def _insert(objective: Objective, point: Point, added: Array, unit: Array, tolerance: float, distance: float) -> Point:
    """Old and new atoms together: weights, then the joint ascent of those that have weight, close ones merged."""
    old = point.u if distance < MERGE_BEFORE_ASCENT[0] else point.u[~_between(point.u, added, unit)]
    u = canonical(objective.channel, np.vstack([old, added]))
    weights = optimal_weights(Table.of_values(objective, u), 1e-12)
    used = weights > 1e-9
    u, weights = u[used], weights[used] / weights[used].sum()
    u, weights = merge_close(objective.channel, u, weights, distance)
    return ascend_merged(objective, u, weights, unit, tolerance, min(MERGE_AFTER_ASCENT, distance / 2))
