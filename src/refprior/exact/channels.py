"""A channel is a model p(z | w): what the data z say about the parameter w.

Every channel is finite in z: continuous outcomes are put on a quadrature so fine that its error is below
rounding (each model says how). The weight of a node is absorbed into p, so rows sum to one. The solver works
in coordinates u of its own, axis by axis a monotone function of w, in which the Fisher length is even.
"""

# K points, d parameters, Z outcomes — the shapes of this package

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

ROW_SUM_TOLERANCE = 1e-9  # a likelihood that misses one by more than this is a mistake, not rounding


class Rows(NamedTuple):
    """p(z | w_k) with derivatives in the coordinates u.

    Derivatives are those of p, not of log p: they stay finite where p = 0. Shapes: log_p (K, Z),
    first (K, d, Z), second (K, d, d, Z).
    """

    log_p: Array
    first: Array
    second: Array


class Channel(ABC):
    """A model p(z | w) on a box of d parameters; subclasses give log p and its derivatives."""

    bounds: Array  # (d, 2), of the coordinates u
    outcomes: Array  # (Z,) or (Z, t)

    @property
    def dimension(self) -> int:
        return len(self.bounds)

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

    def stretch(self, u: Array) -> Array:
        """dw/du along each axis: (K, d) -> (K, d)."""
        return np.ones_like(u)

    def canonical(self, u: Array) -> Array:
        """One representative of the coordinates that give the same p(z | w): (K, d) -> (K, d)."""
        return u

    def log_marginal(self, u: Array, weights: Array) -> Array:
        """log p(z) = log Σ_k π_k p(z | w_k): (K, d), (K,) -> (Z,)."""
        return log_mixture(self.log_likelihood(u), weights)

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        """KL(p(z | w), p(z)), infinite where w allows what the marginal excludes: (K, d), (Z,) -> (K,)."""
        log_p = self.log_likelihood(u)
        p = np.exp(log_p)
        with np.errstate(invalid="ignore"):
            return np.sum(np.where(p > 0, p * (log_p - log_marginal), 0.0), axis=1)

    def column(self, u: Array, z: ArrayLike) -> Array:
        """log p(z | w) for one outcome z: (K, d) -> (K,)."""
        match = np.flatnonzero(
            np.all(np.reshape(self.outcomes == np.asarray(z), (len(self.outcomes), -1)), axis=1)
        )
        if len(match) != 1:
            raise ValueError(
                f"{z!r} is not an outcome: they run from {self.outcomes[0]} to {self.outcomes[-1]}"
            )
        return self.log_likelihood(u)[:, match[0]]

    def axis_lengths(self) -> Array:
        """Fisher length of each axis in standard deviations, the longest over the other axes: (d,)."""
        return np.array([np.max(self._axis_cumulative(axis)[1][-1]) for axis in range(self.dimension)])

    def axis_points(self, axis: int, count: int) -> Array:
        """`count` points of an axis, both ends included, even in Fisher length: (count,)."""
        nodes, length = self._axis_cumulative(axis)
        if length[-1] == 0:
            return np.linspace(*self.bounds[axis], count)
        increasing = length + 1e-9 * length[-1] * np.linspace(
            0, 1, len(length)
        )  # a flat stretch has no inverse
        return np.interp(np.linspace(0, increasing[-1], count), increasing, nodes)

    def _axis_cumulative(self, axis: int) -> tuple[Array, Array]:
        """Fisher length along an axis by angles between √p, refined until neighbours overlap well."""
        for count in (65, 257, 1025, 4097):
            nodes = np.linspace(*self.bounds[axis], count)
            angles = self._bhattacharyya_angles(axis, nodes)
            if angles.max() < 0.5:
                break
        return nodes, np.concatenate([[0.0], np.cumsum(2 * angles)])

    def _bhattacharyya_angles(self, axis: int, nodes: Array) -> Array:
        """arccos Σ √(p q) of neighbours, the largest over five places on the other axis: (count - 1,)."""
        others = [np.linspace(*b, 5) for i, b in enumerate(self.bounds) if i != axis]
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
        """Your own model. See `FunctionChannel`."""
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


@dataclass(frozen=True)
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

    def log_likelihood(self, u: Array) -> Array:
        return self.log_p[np.round(u[:, 0]).astype(int)]

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        zero = np.zeros_like(log_p)
        return Rows(log_p, zero[:, None, :], zero[:, None, None, :])


def check_row_sums(sums: Array) -> None:
    """Refuse likelihoods that are not normalised, naming the worst."""
    worst = int(np.argmax(np.abs(sums - 1)))
    if not abs(sums[worst] - 1) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"the likelihood must sum to one over the outcomes: row {worst} sums to {sums[worst]:.12g}; "
            "normalise it, or multiply a density by its quadrature weights"
        )


@dataclass(frozen=True)
class FunctionChannel(Channel):
    """The user's model: `log_likelihood` takes w of shape (K, d) ((K,) if bounds is one pair), gives (K, Z).

    `derivatives` may give (first, second) of log p in w, shapes (K, d, Z) and (K, d, d, Z). Without it a
    torch function is differentiated by torch, any other by finite differences. Those steer the search only:
    the gap is computed from values of the likelihood itself.
    """

    function: Callable[[Any], Any]
    bounds: Array
    outcomes: Array
    scalar: bool
    is_torch: bool
    derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None

    @classmethod
    def build(
        cls,
        function: Callable[[Any], Any],
        bounds: ArrayLike,
        outcomes: ArrayLike,
        derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None,
    ) -> FunctionChannel:
        box = np.asarray(bounds, dtype=float)
        scalar = box.ndim == 1
        box = np.atleast_2d(box)
        if (
            box.ndim != 2
            or box.shape[1] != 2
            or not np.all(np.isfinite(box))
            or np.any(box[:, 0] >= box[:, 1])
        ):
            raise ValueError(
                f"bounds must be (low, high) with low < high and finite, got {np.asarray(bounds).tolist()}"
            )
        if len(box) > 2:
            raise ValueError(f"models of one or two parameters are supported, got {len(box)}")
        values = np.asarray(outcomes, dtype=float)
        channel = cls(function, box, values, scalar, _returns_torch(function, box, scalar), derivatives)
        check_row_sums(np.exp(channel.log_likelihood(np.vstack([box.T, box.mean(axis=1)]))).sum(axis=1))
        return channel

    def log_likelihood(self, u: Array) -> Array:
        value = _call(self.function, u[:, 0] if self.scalar else u, self.is_torch)
        if value.shape != (len(u), len(self.outcomes)):
            raise ValueError(
                f"log_likelihood returned shape {value.shape}, expected {(len(u), len(self.outcomes))}: "
                "one row a parameter, one column an outcome"
            )
        if np.any(np.isnan(value)) or np.any(value == np.inf):
            bad = np.argwhere(np.isnan(value) | (value == np.inf))[0]
            raise ValueError(f"log_likelihood is NaN or +inf at w = {u[bad[0]].tolist()}, outcome {bad[1]}")
        return value

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        if self.derivatives is not None:
            given = self.derivatives(u[:, 0] if self.scalar else u)
            return _rows_of_log(log_p, *(np.asarray(g, dtype=float) for g in given))
        if self.is_torch:
            return _torch_rows(self.function, u, self.scalar, log_p)
        return _difference_rows(self.log_likelihood, u, self.bounds, log_p)


def _returns_torch(function: Callable[[Any], Any], box: Array, scalar: bool) -> bool:
    """A torch function fails on numpy input or answers with a tensor; numpy functions do neither."""
    middle = box.mean(axis=1)
    probe = middle if scalar else middle[None, :]
    try:
        return type(function(probe)).__module__.startswith("torch")
    except TypeError:
        return True


def _call(function: Callable[[Any], Any], w: Array, is_torch: bool) -> Array:
    if not is_torch:
        with np.errstate(divide="ignore"):
            return np.asarray(function(w), dtype=float)
    import torch  # only for a torch function, whose owner has torch

    with torch.no_grad():
        return np.asarray(function(torch.as_tensor(w, dtype=torch.float64)).numpy(), dtype=float)


def _rows_of_log(log_p: Array, first: Array, second: Array) -> Rows:
    """Derivatives of p from those of log p."""
    p = np.exp(log_p)[:, None, :]
    outer = first[:, :, None, :] * first[:, None, :, :]
    return Rows(log_p, p * first, p[:, None] * (second + outer))


def _torch_rows(function: Callable[[Any], Any], u: Array, scalar: bool, log_p: Array) -> Rows:
    import torch

    def row(point: Any) -> Any:
        return torch.exp(function(point if scalar else point[None, :])[0])

    points = torch.as_tensor(u, dtype=torch.float64)
    first = torch.vmap(torch.func.jacfwd(row))(points)
    second = torch.vmap(torch.func.jacfwd(torch.func.jacfwd(row)))(points)
    return Rows(log_p, first.permute(0, 2, 1).numpy(), second.permute(0, 2, 3, 1).numpy())


STENCIL = np.arange(-3, 4)  # seven points: sixth order, errors near 1e-9 with the step below


def _difference_rows(function: Callable[[Array], Array], u: Array, bounds: Array, log_p: Array) -> Rows:
    """Derivatives of p by seven-point stencils that stay inside the bounds."""
    count, dimension = u.shape
    step = 2e-3 * (bounds[:, 1] - bounds[:, 0])
    centre = np.clip(u, bounds[:, 0] + 3 * step, bounds[:, 1] - 3 * step)
    first = np.empty((count, dimension, log_p.shape[1]))
    second = np.empty((count, dimension, dimension, log_p.shape[1]))
    for i in range(dimension):
        weights = _stencil_weights((u[:, i] - centre[:, i]) / step[i])
        values = _stencil_values(function, u, centre, step, i)
        first[:, i] = np.einsum("ks,ksz->kz", weights[1], values) / step[i]
        second[:, i, i] = np.einsum("ks,ksz->kz", weights[2], values) / step[i] ** 2
    if dimension == 2:
        other = _stencil_weights((u[:, 1] - centre[:, 1]) / step[1])[1]
        mixed = np.zeros_like(log_p)
        for s, offset in enumerate(STENCIL):
            shifted = u.copy()
            shifted[:, 1] = centre[:, 1] + offset * step[1]
            along = _stencil_values(function, shifted, centre, step, 0)
            weights = _stencil_weights((u[:, 0] - centre[:, 0]) / step[0])
            mixed += other[:, s, None] * np.einsum("ks,ksz->kz", weights[1], along)
        second[:, 0, 1] = second[:, 1, 0] = mixed / (step[0] * step[1])
    return Rows(log_p, first, second)


def _stencil_values(
    function: Callable[[Array], Array], u: Array, centre: Array, step: Array, axis: int
) -> Array:
    """p at the stencil's points along an axis: (K, 7, Z)."""
    points = np.repeat(u[:, None, :], len(STENCIL), axis=1)
    points[:, :, axis] = centre[:, axis, None] + STENCIL * step[axis]
    return np.exp(function(points.reshape(-1, u.shape[1]))).reshape(len(u), len(STENCIL), -1)


def _stencil_weights(offset: Array) -> Array:
    """Weights of the zeroth, first and second derivative at `offset` steps off the centre: (3, K, 7)."""
    distance = (STENCIL[None, :] - offset[:, None])[:, None, :]
    powers = distance ** np.arange(len(STENCIL))[None, :, None]  # (K, power, point)
    right = np.zeros((len(STENCIL), 3))
    right[[0, 1, 2], [0, 1, 2]] = [1.0, 1.0, math.factorial(2)]
    return np.moveaxis(np.linalg.solve(powers, np.broadcast_to(right, (len(offset), *right.shape))), 2, 0)
