"""A prior under judgment: its gain at the atoms and on a grid finer than the solver's."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from refprior.exact._arrays import Array, Index, Mask, scattered
from refprior.exact.channels import Channel, canonical
from refprior.exact.oracle import Objective

GRIDS = {1: (0.11, 201), 2: (0.22, 41), 3: (0.3, 25)}  # standard deviations between grid points, and how many at least
MOST_POINTS = 1_500_000  # of a grid: a coarser one certifies nothing
SEARCHED = 8192  # points of more than three parameters, which no grid can cover,


class Grid(NamedTuple):
    """All points (G, d), the lines of the axes, and the number of points on each."""

    points: Array
    axes: list[Array]
    shape: tuple[int, ...]
    coarse: bool = False  # too coarse to certify anything

    @classmethod
    def of(cls, channel: Channel) -> Grid:
        """The grid of a channel, even in Fisher length; with more than three parameters, scattered points."""
        if channel.dimension > 3:
            return cls(scattered(channel.bounds, SEARCHED, seed=1), [], (), coarse=True)
        spacing, least = GRIDS[channel.dimension]
        counts = [max(least, math.ceil(length / spacing) + 2) for length in channel.axes.lengths]
        coarse = channel.dimension == 3 and math.prod(counts) > MOST_POINTS
        if coarse:
            counts = [int(count * (MOST_POINTS / math.prod(counts)) ** (1 / 3)) for count in counts]
        axes = [channel.axes.certificate_points(axis, count) for axis, count in enumerate(counts)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return cls(points, axes, tuple(len(axis) for axis in axes), coarse)


class Case(NamedTuple):
    """A prior under judgment, and its gain at the atoms and on the grid."""

    objective: Objective
    u: Array  # (K, d)
    weights: Array  # (K,)
    logs: list[Array]  # log p_c(z), [(Z_c,)]
    at_atoms: Array  # (K,)
    grid: Grid
    values: Array  # (G,) on the grid
    more: Array  # (M, d) points off the grid, where the likelihood had to be followed more closely
    more_widths: Array  # (M, d)
    more_values: Array  # (M,)

    @classmethod
    def of(cls, objective: Objective, u: Array, weights: Array) -> Case:
        """Evaluate the gain of a prior."""
        logs = objective.log_marginals(u, weights)
        grid = Grid.of(objective.channel)
        more, widths = objective.channel.axes.off_grid()
        return cls(
            objective=objective,
            u=u,
            weights=weights,
            logs=logs,
            at_atoms=objective.gain(u, logs),
            grid=grid,
            values=_gain_on_grid(objective, grid.points, logs),
            more=more,
            more_widths=widths,
            more_values=objective.gain(more, logs) if len(more) else np.empty(0),
        )

    @property
    def information(self) -> float:
        """J, the mean gain of the atoms."""
        return float(self.weights @ self.at_atoms)


def _gain_on_grid(objective: Objective, points: Array, logs: list[Array]) -> Array:
    """The gain on a grid; of points that a symmetry exchanges, it is computed once: (G, d) -> (G,)."""
    own = canonical(objective.channel, points)
    if np.array_equal(own, points):
        return objective.gain(points, logs)
    different, place = np.unique(own, axis=0, return_inverse=True)
    return np.asarray(objective.gain(different, logs)[place.ravel()])


def own_points(channel: Channel, points: Array) -> Mask:
    """Which points stand for all with the same likelihood: (G, d) -> (G,)."""
    return np.asarray(np.all(points == canonical(channel, points), axis=1))


def nearest(line: Array, x: Array) -> Index:
    """Index of the point of a sorted line nearest to each x: (G,), (M,) -> (M,)."""
    right = np.clip(np.searchsorted(line, x), 1, max(len(line) - 1, 1))
    right = np.minimum(right, len(line) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(x - line[left] < line[right] - x, left, right)


def nearest_points(grid: Grid, u: Array) -> tuple[Index, ...]:
    """Indices of the grid points nearest to the atoms, one array per axis: [(K,)] * d."""
    return tuple(nearest(line, u[:, axis]) for axis, line in enumerate(grid.axes))
