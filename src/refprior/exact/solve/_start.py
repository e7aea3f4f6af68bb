"""The first atoms: weights on a grid of candidates, merged around their peaks. And what the search will cost."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from refprior._process import check_memory
from refprior.exact._arrays import Array, Index, Mask
from refprior.exact._cost import LOG, Work, check_search
from refprior.exact.certificate import GRIDS, MOST_CELLS, MOST_POINTS, SEARCHED
from refprior.exact.channels import Channel, canonical, is_long
from refprior.exact.oracle import Objective, Point, Table
from refprior.exact.solve._joint import ascend_merged, merge_close, merge_to_centers
from refprior.exact.solve._missing import SEARCH_SPACING
from refprior.exact.solve._search import climb, fisher_grid, peaks, search_logs
from refprior.exact.solve._weights import optimal_weights

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
