"""A channel is a model p(z | w): what the data z say about the parameter w.

Every channel is finite in z: continuous outcomes are put on a quadrature so fine that its error is below
rounding (each model says how). The weight of a node is absorbed into p, so rows sum to one. The solver
works in coordinates u of its own, axis by axis a monotone function of w, in which the Fisher length is
even.
"""

# K points, d parameters, Z outcomes — the shapes of this package

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SMALLEST_LOG = -745.0  # exp of less is zero: stands for log 0 where it meets a factor that is zero
ROW_SUM_TOLERANCE = 1e-9  # a likelihood that misses one by more than this is a mistake, not rounding


class Rows(NamedTuple):
    """p(z | w_k) with derivatives in the coordinates u.

    Derivatives are those of p, not of log p: they stay finite where p = 0. The second ones are large and only
    ever needed summed over z, so they are given as that sum.
    """

    log_p: Array  # (K, Z)
    first: Array  # (K, d, Z)
    second: Callable[[Array], Array]  # values (Z,) -> Σ_z ∂_i ∂_j p values (K, d, d)
    bend: Array  # (K, d, d) second derivative of Σ_z p log p


def dense_rows(log_p: Array, first: Array, second: Array) -> Rows:
    """Rows from all second derivatives of p, (K, d, d, Z)."""
    p = np.exp(log_p)[:, None]
    relative = np.divide(first, p, out=np.zeros_like(first), where=p > 0)
    bend = np.einsum("kijz,kz->kij", second, np.maximum(log_p, SMALLEST_LOG))
    bend += np.einsum("kiz,kjz->kij", first, relative)
    return Rows(log_p, first, lambda values: np.asarray(second @ values), bend)


class Channel(ABC):
    """A model p(z | w) on a box of d parameters; subclasses give log p and its derivatives."""

    bounds: Array  # (d, 2), of the coordinates u
    outcomes: Array  # (Z,) or (Z, t)

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    @property
    def resolved(self) -> bool:
        """Whether the Fisher lengths are known: if not, no grid can be trusted."""
        return True

    @abstractmethod
    def log_likelihood(self, u: Array) -> Array:
        """log p(z | w(u)): (K, d) -> (K, Z)."""

    @abstractmethod
    def rows(self, u: Array) -> Rows:
        """log p and the derivatives of p in u: (K, d) -> Rows."""

    def parameter(self, u: Array) -> Array:
        """The parameter w of a coordinate: (K, d) -> (K, d)."""
        return u

    def coordinate(self, w: Array) -> Array:
        """The coordinate u of a parameter, inverse of `parameter`: (K, d) -> (K, d)."""
        return w

    def inside(self, w: ArrayLike) -> Array:
        """Coordinates of parameters given by the user, refused out of bounds: (M,) or (M, d) -> (M, d)."""
        points = np.asarray(w, dtype=float).reshape(-1, self.dimension)
        with np.errstate(invalid="ignore"):
            u = self.coordinate(points)
        outside = (u < self.bounds[:, 0] - 1e-12) | (u > self.bounds[:, 1] + 1e-12) | np.isnan(u)
        if np.any(outside):
            raise ValueError(f"the parameter {points[np.argmax(np.any(outside, axis=1))].tolist()} is out of bounds")
        return np.clip(u, self.bounds[:, 0], self.bounds[:, 1])

    def stretch(self, u: Array) -> Array:
        """dw/du along each axis: (K, d) -> (K, d)."""
        return np.ones_like(u)

    def canonical(self, u: Array) -> Array:
        """One representative of the coordinates that give the same p(z | w): (K, d) -> (K, d)."""
        return u

    def coarse(self) -> Channel:
        """A cheaper channel for the first part of the search: fewer outcomes, the same parameters."""
        return self

    def log_marginal(self, u: Array, weights: Array) -> Array:
        """log p(z) = log Σ_k π_k p(z | w_k): (K, d), (K,) -> (Z,)."""
        return log_mixture(self.log_likelihood(u), weights)

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        """KL(p(z | w), p(z)), infinite where w allows what the marginal excludes: (K, d), (Z,) -> (K,)."""
        log_p = self.log_likelihood(u)
        p = np.exp(log_p)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sum(np.where(p > 0, p * (log_p - log_marginal), 0.0), axis=1))

    def column(self, u: Array, z: ArrayLike) -> Array:
        """log p(z | w) for one outcome z: (K, d) -> (K,)."""
        match = np.flatnonzero(np.all(np.reshape(self.outcomes == np.asarray(z), (len(self.outcomes), -1)), axis=1))
        if len(match) != 1:
            raise ValueError(f"{z!r} is not an outcome: they run from {self.outcomes[0]} to {self.outcomes[-1]}")
        return np.asarray(self.log_likelihood(u)[:, match[0]])

    def axis_lengths(self) -> Array:
        """Fisher length of each axis in standard deviations, the longest over the other axes: (d,)."""
        return np.array([np.max(self._axis_cumulative(axis)[1][-1]) for axis in range(self.dimension)])

    def axis_points(self, axis: int, count: int) -> Array:
        """`count` points of an axis, both ends included, even in Fisher length: (count,)."""
        nodes, length = self._axis_cumulative(axis)
        if length[-1] == 0:
            return np.linspace(self.bounds[axis, 0], self.bounds[axis, 1], count)
        increasing = length + 1e-9 * length[-1] * np.linspace(0, 1, len(length))  # a flat stretch has no inverse
        return np.interp(np.linspace(0, increasing[-1], count), increasing, nodes)

    def _axis_cumulative(self, axis: int) -> tuple[Array, Array]:
        """Fisher length along an axis by angles between √p, refined until neighbours overlap well."""
        for count in (65, 257, 1025, 4097):
            nodes = np.linspace(self.bounds[axis, 0], self.bounds[axis, 1], count)
            angles = self._bhattacharyya_angles(axis, nodes)
            if angles.max() < 0.5:
                break
        return nodes, np.concatenate([[0.0], np.cumsum(2 * angles)])

    def _bhattacharyya_angles(self, axis: int, nodes: Array) -> Array:
        """arccos Σ √(p q) of neighbours, the largest over five places on the other axis: (count - 1,)."""
        others = [np.linspace(b[0], b[1], 5) for i, b in enumerate(self.bounds) if i != axis]
        largest = np.zeros(len(nodes) - 1)
        for place in np.array(np.meshgrid(*others)).reshape(len(others), -1).T if others else [np.empty(0)]:
            u = np.insert(np.tile(place, (len(nodes), 1)), axis, nodes, axis=1)
            root = np.exp(0.5 * self.log_likelihood(u))
            overlap = np.sum(root[1:] * root[:-1], axis=1)
            largest = np.maximum(largest, np.arccos(np.clip(overlap, -1.0, 1.0)))
        return largest

    @staticmethod
    def from_function(
        log_likelihood: Callable[[Any], Any],
        bounds: ArrayLike,
        outcomes: ArrayLike,
        derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None = None,
    ) -> Channel:
        """Your own model: see `own.FunctionChannel` for shapes and derivatives."""
        from refprior.exact._own import FunctionChannel  # it is a Channel itself

        return FunctionChannel.build(log_likelihood, bounds, outcomes, derivatives)


def log_mixture(log_p: Array, weights: Array) -> Array:
    """log Σ_k π_k p(z | w_k), safe where every p underflows: (K, Z), (K,) -> (Z,)."""
    mixture = weights @ np.exp(log_p)
    with np.errstate(divide="ignore"):
        log = np.log(mixture)
        tiny = mixture < 1e-250
        if np.any(tiny):
            joint = log_p[:, tiny] + np.log(weights)[:, None]
            top = joint.max(axis=0)
            shift = np.where(np.isfinite(top), top, 0.0)
            log[tiny] = np.log(np.exp(joint - shift).sum(axis=0)) + shift
    return np.asarray(log)


@dataclass(frozen=True, eq=False)
class Categorical(Channel):
    """Any finite channel, a table p(z | w) of shape (inputs, outcomes). The parameter is the row's number."""

    matrix: ArrayLike
    log_p: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)
    outcomes: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=float)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(f"need a table of shape (inputs, outcomes), got shape {matrix.shape}")
        if not np.all(np.isfinite(matrix)) or matrix.min() < 0:
            raise ValueError("the table holds NaN, infinite or negative probabilities: mend those entries")
        check_row_sums(matrix.sum(axis=1))
        matrix = matrix / matrix.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            object.__setattr__(self, "log_p", np.log(matrix))
        object.__setattr__(self, "bounds", np.array([[0.0, len(matrix) - 1.0]]))
        object.__setattr__(self, "outcomes", np.arange(float(matrix.shape[1])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categorical) and np.array_equal(self.log_p, other.log_p)

    def __hash__(self) -> int:
        return hash(self.log_p.tobytes())

    def log_likelihood(self, u: Array) -> Array:
        return np.asarray(self.log_p[np.round(u[:, 0]).astype(int)])

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        zero = np.zeros_like(log_p)
        return dense_rows(log_p, zero[:, None, :], zero[:, None, None, :])


def check_row_sums(sums: Array, name: Callable[[int], str] = lambda row: f"row {row}") -> None:
    """Refuse likelihoods that are not normalised, naming the worst."""
    worst = int(np.argmax(np.abs(sums - 1)))
    if not abs(sums[worst] - 1) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"the likelihood must sum to one over the outcomes: {name(worst)} sums to {sums[worst]:.12g}; "
            "normalise it, or multiply a density by its quadrature weights"
        )
