"""A user's function as a channel: its log-likelihood, with derivatives given, by torch or by differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers
from refprior.exact._channels import Channel, Rows, check_rows, derivatives_of_p
from refprior.exact._charts import Chart, Scan, measure, scan_plane


@dataclass(frozen=True, eq=False)
class FunctionChannel(Channel):
    """A user's model; `Channel.from_function` says what the functions take and return.

    The coordinates run from 0 to 1, with Fisher length nearly even in them, so that a change of parametrisation
    changes nothing. Every row is checked to be finite and to sum to one.
    """

    function: Callable[[Any], Any]
    box: Array  # (d, 2) bounds of the parameters
    outcomes: Array
    scalar: bool  # whether the function takes w as (K,)
    is_torch: bool
    derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None
    bounds: Array
    partner: FunctionChannel | None = None  # whose coordinates are used instead of its own

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
            box=box,
            outcomes=points,
            scalar=scalar,
            is_torch=_returns_torch(function, box, scalar),
            derivatives=derivatives,
            bounds=np.tile([0.0, 1.0], (len(box), 1)),
        )
        channel.row_values(np.vstack([box.T, box.mean(axis=1)]))
        return channel

    def row_values(self, w: Array) -> Array:
        """log p(z | w) of parameters, checked and normalised: (K, d) -> (K, Z)."""
        value = _call(self.function, w[:, 0] if self.scalar else w, self.is_torch)
        sums = check_rows(value, w, len(self.outcomes), "log_likelihood")
        return np.asarray(value - np.log(sums)[:, None])

    def log_likelihood(self, u: Array) -> Array:
        return self.row_values(self.parameter(u))

    def rows(self, u: Array) -> Rows:
        w, slope, bend = self.parameter(u), self._chart.slopes(u), self._chart.slopes(u, 2)
        log_p, step = self.row_values(w), self._steps(u)
        first, second = self._derivatives_of_p(w, log_p, step)
        lost = ~(np.all(np.isfinite(first), axis=(1, 2)) & np.all(np.isfinite(second), axis=(1, 2, 3)))
        if np.any(lost):  # for example at a bound where p vanishes: 0 times infinity
            first[lost], second[lost] = _differences(self.row_values, w[lost], self.box, step[lost], log_p.shape[1])
        second = second * (slope[:, :, None] * slope[:, None])[..., None]
        axes = np.arange(self.dimension)
        second[:, axes, axes] += first * bend[:, :, None]
        return Rows.from_derivatives(log_p, first * slope[:, :, None], second)

    def parameter(self, u: Array) -> Array:
        return self._chart.to_box(u)

    def coordinate(self, w: Array) -> Array:
        return self._chart.from_box(w)

    def jacobian(self, u: Array) -> Array:
        return self._chart.slopes(u)

    def known_lengths(self) -> Array:
        return self._chart.lengths

    @property
    def measured(self) -> bool:
        return True

    @property
    def slope_error(self) -> float:
        return DIFFERENCE_ERROR if self.derivatives is None and not self.is_torch else 0.0

    def certificate_axis(self, axis: int, count: int) -> Array:
        points = self.axis_points(axis, count)
        return points if self.dimension > 1 else np.union1d(points, self._chart.knots[axis])

    def certificate_points(self) -> tuple[Array, Array]:
        return self._scan.points, self._scan.widths

    @cached_property
    def _chart(self) -> Chart:
        return measure(self.row_values, self.box, len(self.outcomes)) if self.partner is None else self.partner._chart

    @cached_property
    def _scan(self) -> Scan:
        if self.dimension == 1:
            return Scan(np.empty((0, 1)), np.empty((0, 1)), True)
        return scan_plane(self.log_likelihood, self._chart.lengths, len(self.outcomes))

    def sharing(self, other: Channel) -> Channel:
        if not isinstance(other, FunctionChannel) or not np.array_equal(self.box, other.box):
            return self
        return replace(self, partner=other)

    def _steps(self, u: Array) -> Array:
        """Steps of the stencils in w, small parts of a standard deviation and of the box: (K, d) -> (K, d)."""
        reach = STEP / np.maximum(self._chart.lengths, 1.0)
        w, width = self.parameter(u), self.box[:, 1] - self.box[:, 0]
        moves = [np.abs(self.parameter(np.clip(u + sign * reach, 0, 1)) - w) for sign in (1, -1)]
        shorter = np.min([np.where(move > 0, move, np.inf) for move in moves], axis=0)
        return np.asarray(np.clip(shorter, 1e-12 * width, LONGEST_STEP * width))

    def _derivatives_of_p(self, w: Array, log_p: Array, step: Array) -> tuple[Array, Array]:
        """First and second derivatives of p in w, by the best means available: (K, d, Z), (K, d, d, Z)."""
        if self.derivatives is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                pair = self.derivatives(w[:, 0] if self.scalar else w)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"derivatives must return first and second derivatives of log p, got {type(pair)}")
            first, second = (np.array(as_numbers("derivatives", part)) for part in pair)
            return _checked(log_p, first, second, self.dimension)
        if self.is_torch:
            try:
                return _torch_derivatives(self.function, w, self.scalar)
            except RuntimeError:  # a function that torch cannot map, such as one that looks at its values
                pass
        return _differences(self.row_values, w, self.box, step, log_p.shape[1])


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


STENCIL = np.arange(-3, 4)  # seven points: sixth order, errors below DIFFERENCE_ERROR with these steps
DIFFERENCE_ERROR = 1e-9
STEP, LONGEST_STEP = 0.03, 2e-3  # of a standard deviation, and at most of the box


def _differences(
    function: Callable[[Array], Array], w: Array, box: Array, step: Array, outcomes: int
) -> tuple[Array, Array]:
    """First and second derivatives of p by seven-point stencils inside the box: (K, d, Z), (K, d, d, Z)."""
    count, dimension = w.shape
    centre = np.clip(w, box[:, 0] + 3 * step, box[:, 1] - 3 * step)
    offset = (w - centre) / step
    first = np.empty((count, dimension, outcomes))
    second = np.empty((count, dimension, dimension, outcomes))
    for i in range(dimension):
        weights = _stencil_weights(offset[:, i])
        values = _stencil_values(function, w, centre, step, i)
        first[:, i] = np.einsum("ks,ksz->kz", weights[1], values) / step[:, i, None]
        second[:, i, i] = np.einsum("ks,ksz->kz", weights[2], values) / step[:, i, None] ** 2
    if dimension == 2:
        second[:, 0, 1] = second[:, 1, 0] = _mixed_difference(function, w, centre, step)
    return first, second


def _mixed_difference(function: Callable[[Array], Array], w: Array, centre: Array, step: Array) -> Array:
    """∂₁ ∂₂ p, a stencil along one axis at every node of a stencil along the other: (K, Z)."""
    along, across = (_stencil_weights((w[:, i] - centre[:, i]) / step[:, i])[1] for i in (0, 1))
    mixed: Array | float = 0.0
    for s, offset in enumerate(STENCIL):
        shifted = w.copy()
        shifted[:, 1] = centre[:, 1] + offset * step[:, 1]
        values = _stencil_values(function, shifted, centre, step, 0)
        mixed = mixed + across[:, s, None] * np.einsum("ks,ksz->kz", along, values)
    return np.asarray(mixed / (step[:, 0] * step[:, 1])[:, None])


def _stencil_values(function: Callable[[Array], Array], w: Array, centre: Array, step: Array, axis: int) -> Array:
    """p at the stencil's points along an axis: (K, 7, Z)."""
    points = np.repeat(w[:, None, :], len(STENCIL), axis=1)
    points[:, :, axis] = centre[:, axis, None] + STENCIL * step[:, axis, None]
    return np.exp(function(points.reshape(-1, w.shape[1]))).reshape(len(w), len(STENCIL), -1)


def _stencil_weights(offset: Array) -> Array:
    """Weights of the zeroth, first and second derivative at `offset` steps from the centre: (3, K, 7)."""
    distance = (STENCIL[None, :] - offset[:, None])[:, None, :]
    powers = distance ** np.arange(len(STENCIL))[None, :, None]  # (K, power, point)
    right = np.zeros((len(STENCIL), 3))
    right[[0, 1, 2], [0, 1, 2]] = [1.0, 1.0, math.factorial(2)]
    solved = np.linalg.solve(powers, np.broadcast_to(right, (len(offset), *right.shape)))
    return np.moveaxis(np.asarray(solved, dtype=float), 2, 0)
