"""The first atoms: weights on a grid of candidates, merged around their peaks. And what the search will cost."""

from __future__ import annotations

import math

import numpy as np

from refprior._limits import check_memory
from refprior.exact._arrays import Array, Index
from refprior.exact._channels import Channel
from refprior.exact._cost import LOG, check_search
from refprior.exact._joint import ascend_merged, merge_close, merge_to_centres
from refprior.exact._missing import SEARCH_SPACING, search_spacing
from refprior.exact._objective import Objective, Table
from refprior.exact._optimality import Point
from refprior.exact._search import climb, fisher_grid, peaks, search_logs
from refprior.exact._weights import optimal_weights

CANDIDATE_SPACING = 0.25  # standard deviations between candidates, one parameter
CANDIDATE_SPACING_2D = 0.8  # two parameters: the number of candidates grows with the square
CANDIDATE_SPACING_3D = 1.0  # three parameters, if that is not too many:
MOST_CANDIDATES_3D = 1000  # of three parameters and more
UNCOVERED = 0.1  # of J above J: somewhere the candidates' weights had no peaks, so that no atom is near
EVEN_SPACING = 1.75  # standard deviations between the first atoms if the weights have no peaks
MOST_CANDIDATES = 2000  # of one parameter: the cost of a step grows with the cube
CANDIDATES_PER_OUTCOME = 60  # no prior needs more atoms than there are outcomes
CONTRACTIONS, CONTRACTED = 12, 1.0  # of the first atoms of three parameters and more: rounds, standard deviations


def check_cost(objective: Objective) -> None:
    """Refuse a search that does not fit into memory, and say if it will take minutes."""
    if objective.channel.window_ends(objective.channel.bounds.T) is not None:
        return _check_long(objective)
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


def _check_long(objective: Objective) -> None:
    """A long experiment takes seconds; only the tables of two stages are large."""
    if len(objective.channels) > 1:
        points = 1.2 * float(objective.channel.axis_lengths()[0])  # about as many as atoms
        outcomes = sum(len(channel.coarse().outcomes) for channel in objective.channels)
        check_memory(
            24.0 * points * outcomes + 48.0 * points**2,
            f"the search over {round(points):,} atoms and {outcomes:,} outcomes",
            "take fewer samples",
        )


def _candidate_spacing(channel: Channel) -> float:
    return CANDIDATE_SPACING_2D if channel.dimension < 3 else CANDIDATE_SPACING_3D


def _most_candidates(channel: Channel) -> int:
    return min(MOST_CANDIDATES, CANDIDATES_PER_OUTCOME * len(channel.outcomes))


def start_from_grid(objective: Objective, unit: Array, tolerance: float) -> Point:
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
    return ascend_merged(objective, u, weights, unit, tolerance)


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
