"""The reference prior: candidates, weights, joint ascent, and exchange until nothing is missing.

1. Weights of a grid of candidates by the interior-point method; its peaks are the first atoms.
2. Joint Newton ascent on atoms and weights.
3. Maxima of the gain above J are missing atoms: add them, find weights, ascend again.
The certificate (certificate.py) then judges the result without knowing how it was found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from refprior.exact._ascent import Point, ascend, settle
from refprior.exact._channels import Array, Categorical, Index
from refprior.exact._objective import Objective, Table, safe_log
from refprior.exact._search import climb, fisher_grid, grid_gain, peaks, search_logs
from refprior.exact._weights import optimal_weights

CANDIDATE_SPACING = 0.25  # standard deviations between candidates, one parameter
CANDIDATE_SPACING_PLANE = 0.8  # two parameters: their number grows with the square
MOST_CANDIDATES = 2000  # of one parameter: the cost of a step grows with the cube
SEARCH_SPACING = 0.25
COARSE_TOLERANCE = 1e-6  # of a search on fewer outcomes
IDLE = 1e-8  # rows of a table with less weight are left out, if that costs nothing
ROUNDS = 25
FEW = 2  # more missing atoms than this in one dimension: let the others move aside
PATIENCE = 4  # rounds without halving the excess: what is left is rounding
MET = 0.02  # standard deviations; atoms this near after an ascent have met
TEAR = 0.02  # standard deviations to either side of an atom in a dip, from where to climb
# atoms closer than this (standard deviations) become one before an ascent; less after each stale round
TWIN = (0.3, 0.1, 0.01, 1e-3)


class Missing(NamedTuple):
    """Where the gain exceeds J: the places (M, d), the largest excess, and G − J on the grid (G,)."""

    places: Array
    excess: float
    surplus: Array


def solve(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """Atoms in coordinates (K, d) and weights (K,) whose gap should be below `tolerance`."""
    if isinstance(objective.channel, Categorical):
        return _solve_table(objective, tolerance)
    unit = _unit(objective)
    point = _completed(objective, _first_atoms(objective, unit), unit, tolerance)
    return objective.channel.canonical(point.u), point.weights


def _first_atoms(objective: Objective, unit: Array) -> Point:
    """From a search on a coarser quadrature where the model has one, else from a grid of candidates."""
    cheaper = Objective(tuple(c.coarse() for c in objective.channels), objective.signs)
    if all(c is d for c, d in zip(cheaper.channels, objective.channels, strict=True)):
        return _start(objective, unit)
    return _ascend(objective, *solve(cheaper, COARSE_TOLERANCE), unit)


def _completed(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Let missing atoms in, always from the best point so far, until none is missing or nothing helps."""
    grid, shape = fisher_grid(objective.channel, SEARCH_SPACING)
    best, missing, stale = point, _missing(objective, point, grid, shape, unit, tolerance), 0
    for _ in range(ROUNDS):
        if not len(missing.places) or stale == PATIENCE:
            break
        point = _enlarged(objective, best, missing, grid, unit, stale)
        found = _missing(objective, point, grid, shape, unit, tolerance)
        stale = 0 if found.excess < 0.5 * missing.excess else stale + 1
        if found.excess < missing.excess:
            best, missing = point, found
    return best


def _enlarged(objective: Objective, point: Point, missing: Missing, grid: Array, unit: Array, stale: int) -> Point:
    """One more try: neighbours move aside where atoms stand dense, else the missing atoms are put in."""
    if len(missing.places) <= FEW or objective.channel.dimension > 1:
        return _exchange(objective, point, missing.places, unit, TWIN[stale])
    more = 1 + len(missing.places) // 16 + stale
    u, weights = respaced(point, grid[:, 0], missing.surplus, more)
    return _ascend(objective, u, optimal_weights(Table.of_values(objective, u), 1e-12, weights), unit)


def _solve_table(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """A finite channel: all rows are candidates, none moves."""
    u = np.arange(objective.channel.bounds[0, 1] + 1)[:, None]
    table = Table.of_values(objective, u)
    weights = _over(optimal_weights(table, 0.1 * tolerance), 1e-3 * tolerance)
    kept = weights > IDLE
    again = np.zeros(len(u))
    again[kept] = optimal_weights(Table.of_values(objective, u[kept]), 0.1 * tolerance)
    if _table_gap(table, again) <= max(tolerance, _table_gap(table, weights)):
        weights = _over(again, 1e-3 * tolerance)
    return u[weights > 0], weights[weights > 0]


def _over(weights: Array, least: float) -> Array:
    """Weights above `least` only, renormalised."""
    kept = np.where(weights > least, weights, 0.0)
    return np.asarray(kept / kept.sum())


def _table_gap(table: Table, weights: Array) -> float:
    """Largest gain minus J on the points of a table."""
    gains = table.gains([safe_log(mixture) for mixture in table.mixtures(weights)])
    return float(gains.max() - weights @ gains)


def _unit(objective: Objective) -> Array:
    """One standard deviation in coordinates, at most the whole axis: (d,)."""
    channel = objective.channel
    return np.asarray((channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axis_lengths(), 1.0))


def _start(objective: Objective, unit: Array) -> Point:
    """Weights on a grid of candidates, gathered around their peaks, then the joint ascent."""
    channel = objective.channel
    plane = channel.dimension > 1
    narrowest = float(channel.axis_lengths().max()) / MOST_CANDIDATES
    u, shape = fisher_grid(channel, CANDIDATE_SPACING_PLANE if plane else max(CANDIDATE_SPACING, narrowest))
    if plane:
        u, shape = _one_of_each(u, channel.canonical(u)), ()
    weights = optimal_weights(Table.of_values(objective, u), 1e-7)
    top = np.flatnonzero(weights > 1e-4 * weights.max()) if plane else _heavy_peaks(weights, shape)
    return _ascend(objective, *gather(u, weights, u[top]), unit)


def _one_of_each(u: Array, canonical: Array) -> Array:
    """Drop points whose representative is another point."""
    return u[np.all(u == canonical, axis=1)]


def _heavy_peaks(weights: Array, shape: tuple[int, ...]) -> Index:
    top = peaks(weights, shape)
    return np.asarray(top[weights[top] > 1e-3 * weights.max()])


def gather(u: Array, weights: Array, centres: Array) -> tuple[Array, Array]:
    """Give each candidate's weight to its nearest centre, at the mean place: (M, d), (M,)."""
    nearest = cKDTree(centres).query(u)[1]
    total = np.bincount(nearest, weights, len(centres))
    moved = [np.bincount(nearest, weights * u[:, i], len(centres)) / total for i in range(u.shape[1])]
    return np.stack(moved, axis=1), total / total.sum()


def _ascend(objective: Objective, u: Array, weights: Array, unit: Array, met: float = MET) -> Point:
    """Joint ascent; atoms that met on the way become one."""
    bounds = objective.channel.bounds
    for _ in range(3):
        point = ascend(objective.table, u, weights, bounds, 0.5 * unit)
        point = settle(objective.table, point, bounds, 0.5 * unit)
        u, weights = merged(objective.channel.canonical(point.u), point.weights, unit, met)
        if len(u) == len(point.u):
            break
    return point


def merged(u: Array, weights: Array, unit: Array, apart: float) -> tuple[Array, Array]:
    """One atom for each group closer than `apart` standard deviations: (M, d), (M,)."""
    return gather(u, weights, _representatives(u / unit, weights, apart) * unit)


def _missing(
    objective: Objective, point: Point, grid: Array, shape: tuple[int, ...], unit: Array, tolerance: float
) -> Missing:
    """Maxima of the gain above J by more than a third of the tolerance."""
    logs = search_logs(objective, point.u, point.weights)
    values = grid_gain(objective, grid, logs)
    level = float(point.weights @ objective.gain(point.u, logs))
    start = peaks(values, shape)
    distance = cKDTree(point.u / unit).query(grid[start] / unit)[0]
    start = start[(distance > SEARCH_SPACING) | (values[start] > level)]  # not the atoms' own
    for places in (grid[start], _torn(point, objective.channel.bounds, unit)):
        if len(places):
            top, height = climb(objective, places, logs, SEARCH_SPACING * unit)
            excess = height - level
            if excess.max() > tolerance / 3:
                return Missing(top[excess > tolerance / 3], float(excess.max()), values - level)
    return Missing(grid[:0], float(values.max()) - level, values - level)


def _torn(point: Point, bounds: Array, unit: Array) -> Array:
    """Both sides of every atom that stands in a dip of the gain, as where one is about to become two: (M, d)."""
    free = point.free(bounds)
    bends = np.where(free[:, :, None] & free[:, None, :], point.bends * unit * unit[:, None], 0.0)
    values, vectors = np.linalg.eigh(bends)
    torn = values[:, -1] > 0
    aside = TEAR * vectors[torn, :, -1] * unit
    return np.clip(np.vstack([point.u[torn] - aside, point.u[torn] + aside]), bounds[:, 0], bounds[:, 1])


def respaced(point: Point, grid: Array, surplus: Array, more: int) -> tuple[Array, Array]:
    """`more` atoms in addition, let in where the gain exceeds J; their neighbours move aside: (M, 1), (M,).

    Where atoms stand so dense that the gain hardly ripples, a new one in every gap would be far too many.
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


def _exchange(objective: Objective, point: Point, added: Array, unit: Array, apart: float) -> Point:
    """Atoms and missing ones together: weights, then the joint ascent without twins and without the dead."""
    u = objective.channel.canonical(np.vstack([point.u, added]))
    weights = optimal_weights(Table.of_values(objective, u), 1e-12)
    alive = weights > 1e-9
    u, weights = u[alive], weights[alive] / weights[alive].sum()
    return _ascend(objective, *merged(u, weights, unit, apart), unit, min(MET, apart / 2))


def _representatives(u: Array, weights: Array, apart: float) -> Array:
    """The heaviest points of which no two are nearer than `apart`: (K, d) -> (M, d)."""
    chosen: list[Array] = []
    for k in np.argsort(-weights):
        if all(np.linalg.norm(u[k] - other) > apart for other in chosen):
            chosen.append(u[k])
    return np.array(chosen)
