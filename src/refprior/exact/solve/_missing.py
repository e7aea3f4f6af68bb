"""Missing atoms: maxima of the gain above J, and both sides of atoms that may split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from refprior.exact._arrays import Array
from refprior.exact.channels import Channel, canonical
from refprior.exact.oracle import Objective, Point
from refprior.exact.solve._search import Grid, climb, peaks, search_logs

SEARCH_SPACING = 0.25
SEARCH_SPACING_3D = 0.6
SPLIT_OFFSET = 0.02  # standard deviations to either side of an atom that may split, from where to climb


class Missing(NamedTuple):
    """Where the gain exceeds J: the places (M, d), the largest excess, and G − J on the grid (G,)."""

    places: Array
    excess: float
    surplus: Array


def search_spacing(channel: Channel) -> float:
    """Standard deviations between the points on which missing atoms are looked for."""
    return SEARCH_SPACING if channel.dimension < 3 else SEARCH_SPACING_3D


def find_missing(objective: Objective, point: Point, grid: Grid, unit: Array, tolerance: float) -> Missing:
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
