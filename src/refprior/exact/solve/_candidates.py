"""Where atoms may be: grids even in Fisher length, maxima of the gain, and the first atoms of a search."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter
from scipy.spatial import cKDTree

from refprior._process import check_memory
from refprior.exact._arrays import Array, Index, Mask, scattered
from refprior.exact._cost import LOG, Work, check_search
from refprior.exact.certificate import GRIDS, MOST_CELLS, MOST_POINTS, SEARCHED
from refprior.exact.channels import Channel, canonical, is_long
from refprior.exact.oracle import Objective, Point, Table, safe_log
from refprior.exact.solve._ascent import ascend_merged, merge_close, merge_to_centers
from refprior.exact.solve._weights import optimal_weights

SEARCH_SPACING = 0.25
SEARCH_SPACING_3D = 0.6
SPLIT_OFFSET = 0.02  # standard deviations to either side of an atom that may split, from where to climb
CANDIDATE_SPACING = 0.25  # standard deviations between candidates, one parameter
CANDIDATE_SPACING_2D = 0.8  # two parameters: the number of candidates grows with the square
CANDIDATE_SPACING_3D = 1.0  # three parameters, if that is not too many:
USED = 1e-4  # of the largest weight: what a candidate of two parameters and more has at least that becomes an atom
NEAR = 2.0  # of these spacings: candidates of two parameters that are taken around those which have weight
MOST_CANDIDATES_3D = 1000  # of three parameters and more
UNCOVERED = 0.1  # of J above J: somewhere the candidates' weights had no peaks, so that no atom is near
EVEN_SPACING = 1.75  # standard deviations between the first atoms if the weights have no peaks
MOST_CANDIDATES = 2000  # of one parameter: the cost of a step grows with the cube
CANDIDATES_PER_OUTCOME = 60  # no prior needs more atoms than there are outcomes
CONTRACTIONS, CONTRACTED = 12, 1.0  # of the first atoms of three parameters and more: rounds, standard deviations


MOST_GRID = 300_000  # points of a grid of three parameters; it is coarser where that does not suffice
SCATTERED = 8192  # points of more than three parameters
SYMMETRIC = 1e-9  # nats by which the gain of a symmetric prior may differ from its mirror image
MOST_STARTS = 200  # points of no grid from which maxima are looked for


class SearchGrid(NamedTuple):
    """Points (G, d) and the number of points on each axis; of scattered points, no shape."""

    points: Array
    shape: tuple[int, ...]


def fisher_grid(channel: Channel, spacing: float, least: int = 9, most: int = MOST_GRID) -> SearchGrid:
    """Points `spacing` standard deviations apart on each axis, or scattered if there are more than three axes."""
    if channel.dimension > 3:
        return SearchGrid(scattered(channel.bounds, min(most, SCATTERED)), ())
    counts = [max(least, int(np.ceil(length / spacing)) + 1) for length in channel.axes.lengths]
    if channel.dimension == 3 and math.prod(counts) > most:
        share = (most / math.prod(counts)) ** (1 / 3)
        counts = [max(3, int(share * count)) for count in counts]
    axes = [channel.axes.points(axis, count) for axis, count in enumerate(counts)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return SearchGrid(points, tuple(len(axis) for axis in axes))


def peaks(values: Array, shape: tuple[int, ...]) -> Index:
    """Indices of grid points that no neighbor exceeds, or of the highest scattered points: (G,) -> (M,)."""
    if not shape:
        return np.argsort(-values)[:MOST_STARTS]
    table = values.reshape(shape)
    return np.flatnonzero((table >= maximum_filter(table, size=3, mode="nearest")).ravel())


def is_mirrored(gain: Array) -> bool:
    """Whether gains on a grid of one axis are their own mirror image, as those of a symmetric prior are: (G,)."""
    return bool(np.abs(gain - gain[::-1]).max() < SYMMETRIC)


def climb(objective: Objective, u: Array, logs: list[Array], reach: Array, steps: int = 5) -> tuple[Array, Array]:
    """Newton ascent of G from each point, at most `reach` (d,) per step: -> (M, d), (M,)."""
    bounds = objective.channel.bounds
    best, value = u, objective.gain(u, logs)
    for _ in range(steps):
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


def approach(objective: Objective, u: Array, logs: list[Array], width: Array, rounds: int = 60) -> tuple[Array, Array]:
    """Maxima of G near each point without derivatives: move to the best neighbor, else halve the width (M, d)."""
    bounds, dimension = objective.channel.bounds, u.shape[1]
    steps = np.array([s for s in itertools.product((-1.0, 0.0, 1.0), repeat=dimension) if any(s)])
    best, value, width = u.copy(), objective.gain(u, logs), width.copy()
    rows = np.arange(len(u))
    for _ in range(rounds):
        points = np.clip(best[:, None] + steps * width[:, None], bounds[:, 0], bounds[:, 1])
        values = objective.gain(points.reshape(-1, dimension), logs).reshape(len(u), -1)
        first = values.argmax(axis=1)
        higher = values[rows, first] > value
        best = np.where(higher[:, None], points[rows, first], best)
        value = np.maximum(value, values[rows, first])
        width = np.where(higher[:, None], width, width / 2)
    return best, value


def search_logs(objective: Objective, u: Array, weights: Array) -> list[Array]:
    """log p_c(z), finite everywhere, for the solver's searches."""
    return [safe_log(np.exp(log)) if np.any(np.isinf(log)) else log for log in objective.log_marginals(u, weights)]


class Missing(NamedTuple):
    """Where the gain exceeds J: the places (M, d), the largest excess, and G − J on the grid (G,)."""

    places: Array
    excess: float
    surplus: Array


def search_spacing(channel: Channel) -> float:
    """Standard deviations between the points on which missing atoms are looked for."""
    return SEARCH_SPACING if channel.dimension < 3 else SEARCH_SPACING_3D


def find_missing(objective: Objective, point: Point, grid: SearchGrid, unit: Array, tolerance: float) -> Missing:
    """Maxima of the gain above J by more than a third of the tolerance."""
    logs = search_logs(objective, point.u, point.weights)
    values = objective.gain(grid.points, logs)
    level = float(point.weights @ objective.gain(point.u, logs))
    start = peaks(values, grid.shape)
    start = start[np.all(grid.points[start] == canonical(objective.channel, grid.points[start]), axis=1)]
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


def check_cost(objective: Objective) -> None:
    """Refuse a search that does not fit into memory, and say if it will take minutes."""
    if is_long(objective.channel):
        return _check_long(objective)
    channel = objective.channel
    outcomes = sum(c.outcome_count for c in objective.channels)
    if not channel.continuous:
        rows = len(channel.axes.points(0, 0))
        return check_search(Work(rows, [0.0], outcomes, outcomes, 1, rows))
    lengths = [float(length) for length in channel.axes.lengths]
    work = Work(
        candidates=_number_of_candidates(channel, lengths),
        lengths=lengths,
        outcomes=sum(c.outcome_count for c in objective.coarse().channels),
        all_outcomes=outcomes,
        axes=channel.outcome_axes,
        looked_at=_looked_at(channel, lengths),
        nodes=sum(c.outcome_count * 2.0**c.outcome_axes for c in objective.channels if c.outcome_axes > 1),
    )
    return check_search(work)


def _number_of_candidates(channel: Channel, lengths: list[float]) -> int:
    if channel.dimension == 1:
        return max(9, min(_most_candidates(channel), math.ceil(lengths[0] / CANDIDATE_SPACING)) + 1)
    if channel.dimension == 2:  # of a grid, those near one that has weight: about a half
        return math.prod(max(9, math.ceil(length / CANDIDATE_SPACING_2D) + 1) for length in lengths) // 2
    candidates = math.prod(max(9, math.ceil(length / CANDIDATE_SPACING_3D) + 1) for length in lengths)
    return min(candidates, MOST_CANDIDATES_3D)


def _looked_at(channel: Channel, lengths: list[float]) -> float:
    """About how many points the certificate looks at: its grid, or a tenth of the cells that a proof may take."""
    if channel.dimension > 3:
        return 3.0 * SEARCHED
    spacing, least = GRIDS[channel.dimension]
    grid = min(MOST_POINTS, math.prod(max(least, length / spacing + 2) for length in lengths))
    return 2.0 * grid + (0.1 * MOST_CELLS if channel.noise is not None else 0.0)


def _check_long(objective: Objective) -> None:
    """A long experiment takes seconds; only the tables of two stages are large."""
    if len(objective.channels) > 1:
        points = 1.2 * float(objective.channel.axes.lengths[0])  # about as many as atoms
        outcomes = sum(channel.outcome_count for channel in objective.coarse().channels)
        check_memory(
            24.0 * points * outcomes + 48.0 * points**2,
            f"the search over {round(points):,} atoms and {outcomes:,} outcomes",
            "take fewer samples",
        )


def _most_candidates(channel: Channel) -> int:
    return min(MOST_CANDIDATES, CANDIDATES_PER_OUTCOME * channel.outcome_count)


def start_from_grid(objective: Objective, unit: Array, tolerance: float) -> Point:
    """Weights on a grid of candidates, merged around their peaks, then the joint ascent."""
    channel = objective.channel
    if channel.dimension > 1:
        u, weights = _weighed(objective, unit)
        top = np.flatnonzero(weights > USED * weights.max())
    else:
        narrowest = float(channel.axes.lengths.max()) / _most_candidates(channel)
        u, shape = fisher_grid(channel, max(CANDIDATE_SPACING, narrowest))
        weights = optimal_weights(Table.of_values(objective, u), 1e-7)
        top = _heavy_peaks(weights, shape)
    u, weights = merge_to_centers(u, weights, u[top])
    if channel.dimension > 2:
        u, weights = _contracted(objective, u, weights, unit)
    if channel.dimension == 1 and _uncovered(objective, u, weights):
        u = fisher_grid(channel, max(EVEN_SPACING, narrowest)).points
        weights = optimal_weights(Table.of_values(objective, u), 1e-12)
    return ascend_merged(objective, u, weights, unit, tolerance)


def _weighed(objective: Objective, unit: Array) -> tuple[Array, Array]:
    """Candidates of two parameters and more, and their weights: (M, d), (M,)."""
    u = _candidates(objective.channel)
    if objective.channel.dimension == 2:
        u = u[_near_weight(objective, u, unit)]
    return u, optimal_weights(Table.of_values(objective, u), 1e-7)


def _near_weight(objective: Objective, u: Array, unit: Array) -> Mask:
    """Which candidates are near one that has weight on a grid twice as coarse, found in a tenth of the time: (M,)."""
    rough = _candidates(objective.channel, 2.0)
    weights = optimal_weights(Table.of_values(objective, rough), 1e-7)
    distance = cKDTree(rough[weights > USED * weights.max()] / unit).query(u / unit)[0]
    return np.asarray(distance <= NEAR * CANDIDATE_SPACING_2D)


def _contracted(objective: Objective, u: Array, weights: Array, unit: Array) -> tuple[Array, Array]:
    """Fewer atoms: each climbs to its summit of the gain, summits that are close are one, and weights choose again."""
    for number in range(CONTRACTIONS):
        before = len(u)
        LOG.info("contraction %d: %d atoms", number, before)
        top, _ = climb(objective, u, search_logs(objective, u, weights), 2 * SEARCH_SPACING * unit)
        both = canonical(objective.channel, np.vstack([u, top]))
        u, _ = merge_close(objective.channel, both, np.concatenate([0.1 * weights, weights]), CONTRACTED)
        weights = optimal_weights(Table.of_values(objective, u), 1e-7)
        used = weights > 1e-3 * weights.max()
        u, weights = u[used], weights[used] / weights[used].sum()
        if number >= 2 and len(u) > 0.95 * before:
            break
    return u, weights


def _candidates(channel: Channel, times: float = 1.0) -> Array:
    """Points of two parameters and more, so many times as far apart, one of those that a symmetry exchanges: (M, d)."""
    if channel.dimension == 2:
        u = fisher_grid(channel, times * CANDIDATE_SPACING_2D).points
    else:
        u = fisher_grid(channel, CANDIDATE_SPACING_3D, least=5, most=MOST_CANDIDATES_3D).points
    return np.asarray(u[np.all(u == canonical(channel, u), axis=1)])


def _uncovered(objective: Objective, u: Array, weights: Array) -> bool:
    """Whether the gain somewhere exceeds J by so much that there can be no atom near."""
    logs = search_logs(objective, u, weights)
    values = objective.gain(fisher_grid(objective.channel, SEARCH_SPACING).points, logs)
    return bool(values.max() > (1 + UNCOVERED) * float(weights @ objective.gain(u, logs)))


def _heavy_peaks(weights: Array, shape: tuple[int, ...]) -> Index:
    top = peaks(weights, shape)
    return np.asarray(top[weights[top] > 1e-3 * weights.max()])
