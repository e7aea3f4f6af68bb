"""The user's own model as a channel: a log-likelihood, with derivatives given, by torch or by differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .channels import Array, Channel, Rows, check_row_sums, dense_rows


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
        if box.ndim != 2 or box.shape[1] != 2 or not np.all(np.isfinite(box)) or np.any(box[:, 0] >= box[:, 1]):
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
    return dense_rows(log_p, p * first, p[:, None] * (second + outer))


def _torch_rows(function: Callable[[Any], Any], u: Array, scalar: bool, log_p: Array) -> Rows:
    import torch

    def row(point: Any) -> Any:
        return torch.exp(function(point if scalar else point[None, :])[0])

    points = torch.as_tensor(u, dtype=torch.float64)
    first = torch.vmap(torch.func.jacrev(row))(points)
    second = torch.vmap(torch.func.jacrev(torch.func.jacrev(row)))(points)
    return dense_rows(log_p, first.permute(0, 2, 1).numpy(), second.permute(0, 2, 3, 1).numpy())


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
    return dense_rows(log_p, first, second)


def _stencil_values(function: Callable[[Array], Array], u: Array, centre: Array, step: Array, axis: int) -> Array:
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
    solved = np.linalg.solve(powers, np.broadcast_to(right, (len(offset), *right.shape)))
    return np.moveaxis(np.asarray(solved, dtype=float), 2, 0)
