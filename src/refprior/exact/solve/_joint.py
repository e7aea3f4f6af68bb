"""Atoms that meet are one: merging, and the joint ascent that merges on the way."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from refprior.exact._arrays import Array, Index
from refprior.exact.channels import Channel, NoisyMean, canonical
from refprior.exact.oracle import Objective, Point, evaluate
from refprior.exact.solve._ascent import Problem, ascend, equalize

ENOUGH = 1e-3  # of the tolerance: what an ascent of three parameters and more may leave
SAMPLED_PATIENCE = 25  # steps without a rise of J, where kinks and plateaus of a sampled likelihood stop Newton
PATIENCE = 4  # rounds without halving the excess: what is left is rounding
MERGE_AFTER_ASCENT = 0.02  # standard deviations between atoms that have become one in an ascent


def unit_of(objective: Objective) -> Array:
    """One standard deviation in coordinates, at most the whole axis: (d,)."""
    channel = objective.channel
    return np.asarray((channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axes.lengths, 1.0))


def merge_to_centers(u: Array, weights: Array, centers: Array) -> tuple[Array, Array]:
    """Give each point's weight to its nearest center, at the mean place: (M, d), (M,)."""
    nearest = cKDTree(centers).query(u)[1]
    total = np.bincount(nearest, weights, len(centers))
    moved = [np.bincount(nearest, weights * u[:, i], len(centers)) / total for i in range(u.shape[1])]
    return np.stack(moved, axis=1), total / total.sum()


def merge_close(channel: Channel, u: Array, weights: Array, distance: float) -> tuple[Array, Array]:
    """One atom for each group closer than `distance` standard deviations, at the mean place: (M, d), (M,).

    Coordinates that are far apart may be one likelihood, as where a parameter does nothing: the heaviest one is kept if
    the mean place is another.
    """
    points = embedding(channel, u)
    chosen, nearest = _representatives(points, weights, distance)
    total = np.bincount(nearest, weights)
    moved = np.stack([np.bincount(nearest, weights * column) / total for column in u.T], axis=1)
    astray = np.linalg.norm(embedding(channel, moved) - points[chosen], axis=1) > distance
    return np.where(astray[:, None], u[chosen], moved), total / total.sum()


def embedding(channel: Channel, u: Array) -> Array:
    """Return points whose distance, where it is short, is the Fisher length between parameters: (K, d) -> (K, M)."""
    if isinstance(channel, NoisyMean):
        return channel.means(channel.parameter(u))
    return np.asarray(2 * np.exp(0.5 * channel.log_likelihood(u)))


def _representatives(points: Array, weights: Array, distance: float) -> tuple[Index, Index]:
    """The heaviest points of which no two are closer than `distance`, and the one nearest to each: (M,), (K,)."""
    squares = np.einsum("km,km->k", points, points)
    apart = squares[:, None] + squares - 2 * points @ points.T
    chosen: list[int] = []
    for k in np.argsort(-weights, kind="stable"):
        if not chosen or np.min(apart[k, chosen]) > distance**2:
            chosen.append(int(k))
    return np.array(chosen), np.argmin(apart[:, chosen], axis=1)


def ascend_merged(
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
    patience = SAMPLED_PATIENCE if objective.channel.axes.measured else 150
    patience = patience if objective.channel.dimension <= 2 else PATIENCE
    for _ in range(3):
        point = equalize(problem, ascend(problem, evaluate(problem.make_table, u, weights), patience=patience))
        u, weights = merge_close(objective.channel, canonical(objective.channel, point.u), point.weights, distance)
        if len(u) == len(point.u):
            break
    return point
