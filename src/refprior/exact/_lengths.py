"""Fisher lengths of a channel's axes, measured: for channels that do not know them in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refprior.exact._arrays import SLICE_ENTRIES, Array

NODE_COUNTS = (1025, 4097, 16385, 65537)  # nodes on the axis of one parameter
NODE_COUNTS_2D = (257, 1025, 4097)  # on each axis of two parameters
AGREEMENT = 0.01  # relative difference of two lengths at which they count as resolved


class MeasuredAxis(NamedTuple):
    """Nodes (N,), the Fisher length from the lower bound to each (N,), and whether a coarser grid agrees."""

    nodes: Array
    length: Array
    resolved: bool

    def even_points(self, count: int) -> Array:
        """`count` points, both ends included, evenly spaced in Fisher length: (count,)."""
        if self.length[-1] == 0:
            return np.linspace(self.nodes[0], self.nodes[-1], count)
        # a part of the axis on which the likelihood is constant has no inverse, so add a small slope
        increasing = self.length + 1e-9 * self.length[-1] * np.linspace(0, 1, len(self.length))
        return np.interp(np.linspace(0, increasing[-1], count), increasing, self.nodes)


def measure_axis(log_likelihood: Callable[[Array], Array], bounds: Array, outcomes: int, axis: int) -> MeasuredAxis:
    """Sum angles between neighbours, on four times as many nodes each time until two lengths agree."""
    before, size = -math.inf, max(64, SLICE_ENTRIES // outcomes)
    for count in NODE_COUNTS if len(bounds) == 1 else NODE_COUNTS_2D:
        nodes = np.linspace(bounds[axis, 0], bounds[axis, 1], count)
        parts = [nodes[i : i + size + 1] for i in range(0, count - 1, size)]
        angles = np.concatenate([_bhattacharyya_angles(log_likelihood, bounds, axis, part) for part in parts])
        length = np.concatenate([[0.0], np.cumsum(2 * angles)])
        agreed = abs(length[-1] - before) <= AGREEMENT * length[-1]
        if agreed:
            break
        before = length[-1]
    return MeasuredAxis(nodes, length, bool(agreed))


def _bhattacharyya_angles(log_likelihood: Callable[[Array], Array], bounds: Array, axis: int, nodes: Array) -> Array:
    """arccos Σ √(p q) of neighbouring nodes, the largest over five places on the other axis: (count - 1,)."""
    others = [np.linspace(b[0], b[1], 5) for i, b in enumerate(bounds) if i != axis]
    largest = np.zeros(len(nodes) - 1)
    for place in np.array(np.meshgrid(*others)).reshape(len(others), -1).T if others else [np.empty(0)]:
        u = np.insert(np.tile(place, (len(nodes), 1)), axis, nodes, axis=1)
        root = np.exp(0.5 * log_likelihood(u))
        overlap = np.sum(root[1:] * root[:-1], axis=1)
        largest = np.maximum(largest, np.arccos(np.clip(overlap, -1.0, 1.0)))
    return largest
