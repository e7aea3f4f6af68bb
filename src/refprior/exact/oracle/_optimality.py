"""The conditions of the optimum at a discrete prior: even gains, zero gradients, and how firmly they hold it.

Both the solver and the certificate evaluate them here; this module takes no step itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refprior.exact._arrays import Array, Index, Mask
from refprior.exact.oracle._objective import Table

INWARD_SLOPE = 1e-7  # an atom at a bound may leave it only if the gain rises inward by more than this


class Point(NamedTuple):
    """Atoms (K, d), weights (K,), and the gain with its derivatives there."""

    u: Array
    weights: Array
    table: Table
    gains: Array  # (K,)
    gradients: Array  # (K, d)
    hessians: Array  # (K, d, d)

    @property
    def information(self) -> float:
        """J, the mean of the gains."""
        return float(self.weights @ self.gains)

    def residual(self, bounds: Array, unit: Array) -> float:
        """How far the atoms are from even gains and zero gradients, in nats."""
        slopes = np.where(self.free(bounds), np.abs(self.gradients) * unit, 0.0)
        return float(max(np.abs(self.gains - self.information).max(), slopes.max()))

    def free(self, bounds: Array) -> Mask:
        """Which coordinates may move: all but those at a bound whose gain does not rise inward: (K, d)."""
        low = (self.u <= bounds[:, 0]) & (self.gradients <= INWARD_SLOPE)
        high = (self.u >= bounds[:, 1]) & (self.gradients >= -INWARD_SLOPE)
        return np.asarray(~(low | high))

    def variables(self, bounds: Array) -> Index:
        """Indices of the weights and the free coordinates, interleaved atom by atom: (V,)."""
        return np.flatnonzero(np.column_stack([np.ones(len(self.u), dtype=bool), self.free(bounds)]))


def evaluate(make_table: Callable[[Array], Table], u: Array, weights: Array) -> Point:
    """G, G', G'' at the atoms under their own mixture."""
    table = make_table(u)
    logs = table.own_logs(weights)
    return Point(u, weights, table, table.gains(logs), table.gradients(logs), table.hessians(logs))


def information_matrix(table: Table, weights: Array, dimension: int) -> Array:
    """Σ_c b_c A_c diag(1/p_c) A_cᵀ, A_c the rows (p; p') atom by atom: (K(1+d), K(1+d))."""
    count = len(weights)
    order = np.arange(count * (1 + dimension)).reshape(1 + dimension, count).T.ravel()
    total = np.zeros((len(order), len(order)))
    for sign, p, first, mixture in zip(table.signs, table.p, table.first, table.mixtures(weights), strict=True):
        inverse = 1 / np.sqrt(np.maximum(mixture, 1e-300))
        stacked = np.concatenate([p, *first])[order] * inverse
        total += sign * (stacked @ stacked.T)
    return total


def sensitivity(point: Point, bounds: Array, unit: Array) -> tuple[float, float]:
    """The smallest curvature, and how far a residual of one can move the marginal: √(variables / it), or infinity."""
    count, dimension = point.u.shape
    block = np.zeros((count, 1 + dimension, count, 1 + dimension))
    block[np.arange(count), 1:, np.arange(count), 1:] = -point.hessians / point.weights[:, None, None]
    scale = np.tile(np.concatenate([[1.0], unit]), count)
    ones = np.tile(np.concatenate([[1.0], np.zeros(dimension)]), count)
    matrix = information_matrix(point.table, point.weights, dimension) + block.reshape(len(scale), -1)
    kept = point.variables(bounds)
    matrix = (matrix * scale * scale[:, None] + np.outer(ones, ones))[np.ix_(kept, kept)]
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    return smallest, float(np.sqrt(len(kept) / smallest)) if smallest > 0 else np.inf
