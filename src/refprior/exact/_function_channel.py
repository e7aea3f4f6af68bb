"""A user's function as a channel: its log-likelihood, with derivatives given, by torch or by differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers
from refprior.exact._channels import Channel, Rows, check_rows, derivatives_of_p


@dataclass(frozen=True, eq=False)
class FunctionChannel(Channel):
    """A user's model; `Channel.from_function` says what the functions take and return.

    The coordinates are the parameters. Every row is checked to be finite and to sum to one.
    """

    function: Callable[[Any], Any]
    bounds: Array
    outcomes: Array
    scalar: bool  # whether the function takes w as (K,)
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
        """Check the bounds and try the function once, so that mistakes show before any search."""
        if not callable(function):
            raise ValueError(f"log_likelihood must be a function of the parameters, got {function!r}")
        if derivatives is not None and not callable(derivatives):
            raise ValueError(f"derivatives must be a function of the parameters, got {derivatives!r}")
        box = as_numbers("bounds", bounds)
        scalar = box.ndim == 1
        box = np.atleast_2d(box)
        if box.ndim != 2 or box.shape[1] != 2 or not np.all(np.isfinite(box)) or np.any(box[:, 0] >= box[:, 1]):
            raise ValueError(
                f"bounds must be (low, high) with low < high and finite, got {np.asarray(bounds).tolist()}"
            )
        if len(box) > 2:
            raise ValueError(f"models of one or two parameters are supported, got {len(box)}")
        points = as_numbers("outcomes", outcomes)
        if not points.ndim or not points.size or np.any(np.isnan(points)):
            raise ValueError(f"outcomes must be an array with one number per outcome and no NaN, got {outcomes!r}")
        channel = cls(
            function=function,
            bounds=box,
            outcomes=points,
            scalar=scalar,
            is_torch=_returns_torch(function, box, scalar),
            derivatives=derivatives,
        )
        channel.log_likelihood(np.vstack([box.T, box.mean(axis=1)]))
        return channel

    def log_likelihood(self, u: Array) -> Array:
        value = _call(self.function, u[:, 0] if self.scalar else u, self.is_torch)
        sums = check_rows(value, u, len(self.outcomes), "log_likelihood")
        return np.asarray(value - np.log(sums)[:, None])

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        first, second = self._derivatives_of_p(u, log_p)
        lost = ~(np.all(np.isfinite(first), axis=(1, 2)) & np.all(np.isfinite(second), axis=(1, 2, 3)))
        if np.any(lost):  # for example at a bound where p vanishes: 0 times infinity
            first[lost], second[lost] = _differences(self.log_likelihood, u[lost], self.bounds, log_p.shape[1])
        return Rows.from_derivatives(log_p, first, second)

    def _derivatives_of_p(self, u: Array, log_p: Array) -> tuple[Array, Array]:
        """First and second derivatives of p, by the best means available: (K, d, Z), (K, d, d, Z)."""
        if self.derivatives is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                pair = self.derivatives(u[:, 0] if self.scalar else u)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"derivatives must return first and second derivatives of log p, got {type(pair)}")
            first, second = (np.array(as_numbers("derivatives", part)) for part in pair)
            return _checked(log_p, first, second, self.dimension)
        if self.is_torch:
            try:
                return _torch_derivatives(self.function, u, self.scalar)
            except RuntimeError:  # a function that torch cannot map, such as one that looks at its values
                pass
        return _differences(self.log_likelihood, u, self.bounds, log_p.shape[1])


def _returns_torch(function: Callable[[Any], Any], box: Array, scalar: bool) -> bool:
    """Whether the function is torch's: it then fails on numpy input or returns a tensor."""
    middle = box.mean(axis=1)
    probe = middle if scalar else middle[None, :]
    try:
        with np.errstate(all="ignore"):
            return type(function(probe)).__module__.startswith("torch")
    except Exception as error:
        if _accepts_torch(function, probe):
            return True
        if isinstance(error, TypeError | ValueError):  # most often a function of one number, given an array
            shapes = f"an array of parameters of shape {probe.shape}: {' '.join(str(error).split())}"
            raise ValueError(f"log_likelihood failed on {shapes}; it must return one row per parameter") from error
        raise error


def _accepts_torch(function: Callable[[Any], Any], probe: Array) -> bool:
    """Whether the function returns a tensor for a tensor."""
    try:
        import torch

        return isinstance(function(torch.as_tensor(probe, dtype=torch.float64)), torch.Tensor)
    except Exception:  # the user's function may fail in any way; its first error is the one to show
        return False


def _call(function: Callable[[Any], Any], w: Array, is_torch: bool) -> Array:
    if not is_torch:
        with np.errstate(divide="ignore"):
            return as_numbers("what log_likelihood returns", function(w))
    import torch  # only for a torch function, so torch is installed

    with torch.no_grad():
        return np.asarray(function(torch.as_tensor(w, dtype=torch.float64)).detach().numpy(), dtype=float)


def _checked(log_p: Array, first: Array, second: Array, dimension: int) -> tuple[Array, Array]:
    """Derivatives of p from those of log p that the user gave, their shapes checked."""
    count, outcomes = log_p.shape
    expected = (count, dimension, outcomes), (count, dimension, dimension, outcomes)
    if (first.shape, second.shape) != expected:
        raise ValueError(
            f"derivatives returned shapes {first.shape} and {second.shape}, expected {expected[0]} and "
            f"{expected[1]}: first and second derivatives of log p, the outcomes last"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        return derivatives_of_p(log_p, first, second)


def _torch_derivatives(function: Callable[[Any], Any], u: Array, scalar: bool) -> tuple[Array, Array]:
    import torch

    def row(point: Any) -> Any:
        return torch.exp(function(point if scalar else point[None, :])[0])

    points = torch.as_tensor(u, dtype=torch.float64)
    first = torch.vmap(torch.func.jacrev(row))(points)
    second = torch.vmap(torch.func.jacrev(torch.func.jacrev(row)))(points)
    first, second = first.detach().permute(0, 2, 1), second.detach().permute(0, 2, 3, 1)
    return np.array(first.numpy(), dtype=float), np.array(second.numpy(), dtype=float)


STENCIL = np.arange(-3, 4)  # seven points: sixth order, errors near 1e-9 with the step below


def _differences(function: Callable[[Array], Array], u: Array, bounds: Array, outcomes: int) -> tuple[Array, Array]:
    """First and second derivatives of p by seven-point stencils inside the bounds: (K, d, Z), (K, d, d, Z)."""
    count, dimension = u.shape
    step = 2e-3 * (bounds[:, 1] - bounds[:, 0])
    centre = np.clip(u, bounds[:, 0] + 3 * step, bounds[:, 1] - 3 * step)
    first = np.empty((count, dimension, outcomes))
    second = np.empty((count, dimension, dimension, outcomes))
    for i in range(dimension):
        weights = _stencil_weights((u[:, i] - centre[:, i]) / step[i])
        values = _stencil_values(function, u, centre, step, i)
        first[:, i] = np.einsum("ks,ksz->kz", weights[1], values) / step[i]
        second[:, i, i] = np.einsum("ks,ksz->kz", weights[2], values) / step[i] ** 2
    if dimension == 2:
        second[:, 0, 1] = second[:, 1, 0] = _mixed_difference(function, u, centre, step)
    return first, second


def _mixed_difference(function: Callable[[Array], Array], u: Array, centre: Array, step: Array) -> Array:
    """∂₁ ∂₂ p, a stencil along one axis at every node of a stencil along the other: (K, Z)."""
    along, across = (_stencil_weights((u[:, i] - centre[:, i]) / step[i])[1] for i in (0, 1))
    mixed: Array | float = 0.0
    for s, offset in enumerate(STENCIL):
        shifted = u.copy()
        shifted[:, 1] = centre[:, 1] + offset * step[1]
        values = _stencil_values(function, shifted, centre, step, 0)
        mixed = mixed + across[:, s, None] * np.einsum("ks,ksz->kz", along, values)
    return np.asarray(mixed / (step[0] * step[1]))


def _stencil_values(function: Callable[[Array], Array], u: Array, centre: Array, step: Array, axis: int) -> Array:
    """p at the stencil's points along an axis: (K, 7, Z)."""
    points = np.repeat(u[:, None, :], len(STENCIL), axis=1)
    points[:, :, axis] = centre[:, axis, None] + STENCIL * step[axis]
    return np.exp(function(points.reshape(-1, u.shape[1]))).reshape(len(u), len(STENCIL), -1)


def _stencil_weights(offset: Array) -> Array:
    """Weights of the zeroth, first and second derivative at `offset` steps from the centre: (3, K, 7)."""
    distance = (STENCIL[None, :] - offset[:, None])[:, None, :]
    powers = distance ** np.arange(len(STENCIL))[None, :, None]  # (K, power, point)
    right = np.zeros((len(STENCIL), 3))
    right[[0, 1, 2], [0, 1, 2]] = [1.0, 1.0, math.factorial(2)]
    solved = np.linalg.solve(powers, np.broadcast_to(right, (len(offset), *right.shape)))
    return np.moveaxis(np.asarray(solved, dtype=float), 2, 0)
