"""The solver's search for maxima of the gain: a grid even in Fisher length, then Newton."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter

from refprior.exact._arrays import Array, Index, scattered
from refprior.exact.channels import Channel
from refprior.exact.oracle import Objective, safe_log

MOST_GRID = 300_000  # points of a grid of three parameters; it is coarser where that does not suffice
SCATTERED = 8192  # points of more than three parameters
SYMMETRIC = 1e-9  # nats by which the gain of a symmetric prior may differ from its mirror image
MOST_STARTS = 200  # points of no grid from which maxima are looked for


class Grid(NamedTuple):
    """Points (G, d) and the number of points on each axis; of scattered points, no shape."""

    points: Array
    shape: tuple[int, ...]


def fisher_grid(channel: Channel, spacing: float, least: int = 9, most: int = MOST_GRID) -> Grid:
    """Points `spacing` standard deviations apart on each axis, or scattered if there are more than three axes."""
    if channel.dimension > 3:
        return Grid(scattered(channel.bounds, min(most, SCATTERED)), ())
    counts = [max(least, int(np.ceil(length / spacing)) + 1) for length in channel.axes.lengths]
    if channel.dimension == 3 and math.prod(counts) > most:
        share = (most / math.prod(counts)) ** (1 / 3)
        counts = [max(3, int(share * count)) for count in counts]
    axes = [channel.axes.points(axis, count) for axis, count in enumerate(counts)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return Grid(points, tuple(len(axis) for axis in axes))


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
