"""Where atoms may be: grids even in Fisher length, maxima of the gain, and the first atoms of a search."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter
from scipy.spatial import cKDTree

from refprior._process import check_memory
from refprior._words import duration
from refprior.exact._arrays import Array, Index, grid_of, scattered
from refprior.exact._cost import LOG, LONG_SEARCH, Work, check_search
from refprior.exact.certificate import GRIDS, MOST_CELLS, MOST_POINTS, SEARCHED
from refprior.exact.channels import Channel, canonical, is_long
from refprior.exact.oracle import Likelihoods, Objective, Point, safe_log
from refprior.exact.solve._ascent import ascend_merged, merge_close, merge_to_centers, optimal_weights

# Lengths are in standard deviations.
SPACING = {1: 0.25, 2: 0.8, 3: 1.0}  # between candidates, by the number of parameters: their number grows fast
SEARCH_SPACING, SEARCH_SPACING_3D = 0.25, 0.6  # of the grid on which missing atoms are searched
MOST_CANDIDATES = {1: 2000, 3: 1000}  # the cost of a step grows with the cube; two parameters are limited by memory
MOST_GRID = 300_000  # points of a grid of three parameters; it is coarser if that does not suffice
MOST_MISSING = 2000  # atoms that are added at once
ROUGH_WEIGHTS = 1e-7  # nats to which weights of candidates are computed: the ascent follows


class SearchGrid(NamedTuple):
    """Points (G, d) and the number of points on each axis; scattered points have no shape."""

    points: Array
    shape: tuple[int, ...]


def fisher_grid(channel: Channel, spacing: float, least: int = 9, most: int = MOST_GRID) -> SearchGrid:
    """Return points `spacing` standard deviations apart on each axis, or scattered points of more than three axes."""
    if channel.dimension > 3:
        return SearchGrid(scattered(channel.bounds, min(most, SEARCHED)), ())
    counts = [max(least, int(np.ceil(length / spacing)) + 1) for length in channel.axes.lengths]
    if channel.dimension == 3 and math.prod(counts) > most:
        share = (most / math.prod(counts)) ** (1 / 3)
        counts = [max(3, int(share * count)) for count in counts]
    axes = [channel.axes.points(axis, count) for axis, count in enumerate(counts)]
    points = grid_of(axes)
    return SearchGrid(points, tuple(len(axis) for axis in axes))


def search_grid(channel: Channel) -> SearchGrid:
    """Return the points on which missing atoms are searched."""
    return fisher_grid(channel, SEARCH_SPACING if channel.dimension < 3 else SEARCH_SPACING_3D)


def peaks(values: Array, shape: tuple[int, ...]) -> Index:
    """Return indices of grid points that no neighbor exceeds, or of the 200 highest scattered points: (G,) -> (M,)."""
    if not shape:
        return np.argsort(-values)[:200]
    table = values.reshape(shape)
    return np.flatnonzero((table >= maximum_filter(table, size=3, mode="nearest")).ravel())


def climb(objective: Objective, u: Array, logs: list[Array], reach: Array) -> tuple[Array, Array]:
    """Ascend G by Newton steps from each point, at most `reach` (d,) per step: -> (M, d), (M,)."""
    bounds = objective.channel.bounds
    best, value = u, objective.gain(u, logs)
    for _ in range(5):
        gains = objective.gains(best, logs)
        values, vectors = np.linalg.eigh(-gains.hessian)
        inverse = 1 / np.maximum(np.abs(values), 1e-12)
        uphill = np.einsum("kia,ka,kja,kj->ki", vectors, inverse, vectors, gains.gradient)
        trial = np.clip(best + np.clip(uphill, -reach, reach), bounds[:, 0], bounds[:, 1])
        trial_value = objective.gain(trial, logs)
        better = trial_value > value
        if not np.any(better):
            break
        best = np.where(better[:, None], trial, best)
        value = np.where(better, trial_value, value)
    return best, value


def approach(objective: Objective, u: Array, logs: list[Array], width: Array) -> tuple[Array, Array]:
    """Ascend G without derivatives: move to the best neighbor, or halve the width (M, d) if there is none."""
    bounds, dimension = objective.channel.bounds, u.shape[1]
    steps = np.array([s for s in itertools.product((-1.0, 0.0, 1.0), repeat=dimension) if any(s)])
    best, value, width = u.copy(), objective.gain(u, logs), width.copy()
    rows = np.arange(len(u))
    for _ in range(60):
        points = np.clip(best[:, None] + steps * width[:, None], bounds[:, 0], bounds[:, 1])
        values = objective.gain(points.reshape(-1, dimension), logs).reshape(len(u), -1)
        first = values.argmax(axis=1)
        higher = values[rows, first] > value
        best = np.where(higher[:, None], points[rows, first], best)
        value = np.maximum(value, values[rows, first])
        width = np.where(higher[:, None], width, width / 2)
    return best, value


def search_logs(objective: Objective, u: Array, weights: Array) -> list[Array]:
    """Return log p_c(z), finite everywhere, for searches."""
    return [safe_log(np.exp(log)) if np.any(np.isinf(log)) else log for log in objective.log_marginals(u, weights)]


class Missing(NamedTuple):
    """Where the gain exceeds J: the places (M, d), the largest excess, and G − J on the grid (G,)."""

    places: Array
    excess: float
    surplus: Array


def find_missing(objective: Objective, point: Point, grid: SearchGrid, unit: Array, tolerance: float) -> Missing:
    """Find maxima of the gain that exceed J by more than a third of the tolerance.

    If there are none on the grid, atoms at which the gain is not concave may split: both sides of them are searched.
    """
    channel = objective.channel
    logs = search_logs(objective, point.u, point.weights)
    values = objective.gain(grid.points, logs)
    level = float(point.weights @ objective.gain(point.u, logs))
    start = peaks(values, grid.shape)
    start = start[np.all(grid.points[start] == canonical(channel, grid.points[start]), axis=1)]
    distance = cKDTree(point.u / unit).query(grid.points[start] / unit)[0]
    start = start[(distance > SEARCH_SPACING) | (values[start] > level)]  # leave out the peaks of the atoms themselves
    for places in (grid.points[start], _sides_of_atoms(point, channel.bounds, unit)):
        if len(places):
            top, height = climb(objective, places, logs, SEARCH_SPACING * unit)
            excess = height - level
            if excess.max() > tolerance / 3:
                highest = np.sort(np.argsort(-excess, kind="stable")[:MOST_MISSING])  # all, unless there are very many
                top = top[highest][excess[highest] > tolerance / 3]
                return Missing(top, float(excess.max()), values - level)
    return Missing(grid.points[:0], float(values.max()) - level, values - level)


def _sides_of_atoms(point: Point, bounds: Array, unit: Array) -> Array:
    """Return both sides of every atom at which the gain is not concave, and one atom may become two: (M, d)."""
    free = point.free(bounds)
    hessians = np.where(free[:, :, None] & free[:, None, :], point.hessians * unit * unit[:, None], 0.0)
    values, vectors = np.linalg.eigh(hessians)
    split = values[:, -1] > 0
    offset = 0.02 * vectors[split, :, -1] * unit  # close to the atom, along the axis on which the gain rises
    return np.clip(np.vstack([point.u[split] - offset, point.u[split] + offset]), bounds[:, 0], bounds[:, 1])


def check_cost(objective: Objective) -> None:
    """Raise an error if a search does not fit into memory, and log its duration if it will take minutes."""
    channel = objective.channel
    if is_long(channel) and len(objective.channels) == 1:
        return  # it takes seconds
    outcomes = sum(c.outcome_count for c in objective.channels)
    fewer = sum(c.outcome_count for c in objective.coarse().channels)
    if is_long(channel):
        atoms = 1.2 * float(channel.axes.lengths[0])
        check_memory(
            24.0 * atoms * fewer + 48.0 * atoms**2,
            f"the search over {round(atoms):,} atoms and {fewer:,} outcomes",
            "take fewer samples",
        )
        return
    if not channel.continuous:
        rows = len(channel.axes.points(0, 0))
        check_search(Work(rows, [0.0], outcomes, outcomes, 1, rows))
        return
    lengths, dimension = [float(length) for length in channel.axes.lengths], min(channel.dimension, 3)
    if dimension == 1:
        candidates = max(9, min(_most_candidates(channel), math.ceil(lengths[0] / SPACING[1])) + 1)
    else:
        candidates = math.prod(max(9, math.ceil(length / SPACING[dimension]) + 1) for length in lengths)
        candidates = candidates // 2 if dimension == 2 else min(candidates, MOST_CANDIDATES[3])
    if channel.dimension > 3:
        looked_at = 3.0 * SEARCHED
    else:  # the certificate's grid, and a tenth of the cells that a proof may take
        spacing, least = GRIDS[dimension]
        looked_at = 2.0 * min(MOST_POINTS, math.prod(max(least, length / spacing + 2) for length in lengths))
        looked_at += 0.1 * MOST_CELLS if channel.noise is not None else 0.0
    work = Work(
        candidates=candidates,
        lengths=lengths,
        outcomes=fewer,
        all_outcomes=outcomes,
        axes=channel.outcome_axes,
        looked_at=looked_at,
        nodes=sum(c.outcome_count * 2.0**c.outcome_axes for c in objective.channels if c.outcome_axes > 1),
    )
    if work.seconds >= LONG_SEARCH and not objective.resolved:
        raise ValueError(
            "log_likelihood varies at all scales that were tried, as if it were noisy, so that a search would take "
            f"about {duration(work.seconds)} and certify nothing: make it a smooth function of w (fix the seed of a "
            "simulation), or narrow the bounds"
        )
    check_search(work)


def _most_candidates(channel: Channel) -> int:
    return min(MOST_CANDIDATES[1], 60 * channel.outcome_count)  # no prior needs more atoms than there are outcomes


def start_from_grid(objective: Objective, unit: Array, tolerance: float) -> Point:
    """Find weights of candidates on a grid, merge them around their peaks, and ascend."""
    channel = objective.channel
    if channel.dimension > 1:
        u = _candidates(channel)
        if channel.dimension == 2:  # only near those with weight on a grid twice as coarse: a tenth of the time
            rough = _candidates(channel, 2.0)
            weights = optimal_weights(Likelihoods.of_values(objective, rough), ROUGH_WEIGHTS)
            heavy = rough[weights > 1e-4 * weights.max()]
            u = u[cKDTree(heavy / unit).query(u / unit)[0] <= 2.0 * SPACING[2]]
        weights = optimal_weights(Likelihoods.of_values(objective, u), ROUGH_WEIGHTS)
        top = np.flatnonzero(weights > 1e-4 * weights.max())
        u, weights = merge_to_centers(u, weights, u[top])
        if channel.dimension > 2:
            u, weights = _contracted(objective, u, weights, unit)
        return ascend_merged(objective, u, weights, unit, tolerance)
    narrowest = float(channel.axes.lengths.max()) / _most_candidates(channel)
    u, shape = fisher_grid(channel, max(SPACING[1], narrowest))
    weights = optimal_weights(Likelihoods.of_values(objective, u), ROUGH_WEIGHTS)
    top = peaks(weights, shape)
    u, weights = merge_to_centers(u, weights, u[top[weights[top] > 1e-3 * weights.max()]])
    logs = search_logs(objective, u, weights)
    values = objective.gain(search_grid(channel).points, logs)
    if values.max() > 1.1 * float(weights @ objective.gain(u, logs)):
        # somewhere the weights had no peaks, so no atom is near: start with atoms about as dense as in an optimum
        u = fisher_grid(channel, max(1.75, narrowest)).points
        weights = optimal_weights(Likelihoods.of_values(objective, u), 1e-12)
    return ascend_merged(objective, u, weights, unit, tolerance)


def _contracted(objective: Objective, u: Array, weights: Array, unit: Array) -> tuple[Array, Array]:
    """Reduce atoms of three parameters and more: each climbs, close summits are merged, and weights choose again."""
    for number in range(12):
        before = len(u)
        LOG.info("contraction %d: %d atoms", number, before)
        top, _ = climb(objective, u, search_logs(objective, u, weights), 2 * SEARCH_SPACING * unit)
        both = canonical(objective.channel, np.vstack([u, top]))
        u, _ = merge_close(objective.channel, both, np.concatenate([0.1 * weights, weights]), SPACING[3])
        weights = optimal_weights(Likelihoods.of_values(objective, u), ROUGH_WEIGHTS)
        used = weights > 1e-3 * weights.max()
        u, weights = u[used], weights[used] / weights[used].sum()
        if number >= 2 and len(u) > 0.95 * before:
            break
    return u, weights


def _candidates(channel: Channel, times: float = 1.0) -> Array:
    """Return candidates of two parameters and more, one of those that a symmetry exchanges: (M, d)."""
    if channel.dimension == 2:
        u = fisher_grid(channel, times * SPACING[2]).points
    else:
        u = fisher_grid(channel, SPACING[3], least=5, most=MOST_CANDIDATES[3]).points
    return np.asarray(u[np.all(u == canonical(channel, u), axis=1)])
