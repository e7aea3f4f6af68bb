"""A user's function as a channel: its log-likelihood, with derivatives given, by torch or jax, or by differences."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels._channel import Channel, Resolution, Rows, check_rows, derivatives_of_p
from refprior.exact.channels._finite import Repeated
from refprior.exact.channels._frameworks import Derivatives, Framework, Function, call, derivatives_by, framework_of
from refprior.exact.geometry import Axes, BoxScan, Chart, ChartedAxes, measure, scan_box


class ChartedChannel(Channel):
    """A channel on a box (d, 2) of parameters that measures its coordinates, or shares those of a partner.

    The coordinates run from 0 to 1 on every axis. A chart, measured from the likelihood alone, takes them to the box.
    Fisher length is nearly even in them, so that parametrizations do not matter.
    """

    box: Array
    partner: Any

    @abstractmethod
    def roots(self, w: Array) -> Array:
        """Return √p(z | w), or anything whose chords are half a Fisher length: (K, d) -> (K, M)."""

    def parameter(self, u: Array) -> Array:
        return self._chart.to_box(u)

    def coordinate(self, w: Array) -> Array:
        return self._chart.from_box(w)

    def jacobian(self, u: Array) -> Array:
        return self._chart.slopes(u)

    @property
    def axes(self) -> Axes:
        return ChartedAxes(self._chart, lambda: self._scan, self._chart.lengths, self.width)

    def in_u(self, u: Array, first: Array, second: Array) -> tuple[Array, Array]:
        """Return derivatives in w as derivatives in u: (K, d, M), (K, d, d, M) -> the same."""
        slope, bend = self._chart.slopes(u), self._chart.slopes(u, 2)
        second = second * (slope[:, :, None] * slope[:, None])[..., None]
        own = np.arange(self.dimension)
        second[:, own, own] += first * bend[:, :, None]
        return first * slope[:, :, None], second

    @property
    def width(self) -> int:
        """M, the length of a row of roots."""
        return self.outcome_count

    @cached_property
    def _chart(self) -> Chart:
        if self.partner is not None:
            chart: Chart = self.partner._chart
            return chart
        return measure(self.roots, self.box, self.width)

    @cached_property
    def _scan(self) -> BoxScan:
        return scan_box(lambda u: self.roots(self.parameter(u)), self._chart.lengths, self.width)


def share_coordinates(channel: Channel, other: Channel) -> Channel:
    """Return the channel in the coordinates of another one of the same parameter, for objectives of both."""
    if (
        isinstance(channel, ChartedChannel)
        and isinstance(other, type(channel))
        and np.array_equal(channel.box, other.box)
    ):
        return replace(channel, partner=other)  # type: ignore[type-var]
    return channel


class _Parameters:
    """Stands in for a partner and its chart where coordinates are the parameters themselves."""

    @property
    def _chart(self) -> _Parameters:
        return self

    def to_box(self, w: Array) -> Array:
        return w


def in_parameters(channel: Channel) -> Channel:
    """Return the channel with w as its coordinate, so that every double of w can be evaluated; else the same object."""
    if isinstance(channel, ChartedChannel):
        return replace(channel, partner=_Parameters())  # type: ignore[type-var]
    return replace(channel, one=in_parameters(channel.one)) if isinstance(channel, Repeated) else channel


MOST_PARAMETERS = 30  # of a custom model
STENCIL = np.arange(-3, 4)  # seven points: sixth order, errors below DIFFERENCE_ERROR with these steps
DIFFERENCE_ERROR = 1e-9  # nats per standard deviation, of slopes of the gain
STEP, LONGEST_STEP = 0.03, 2e-3  # of a standard deviation, and at most of the box


Quadrature = Callable[[int], tuple[Function, Array]]  # log-likelihood and nodes, so many times as fine


@dataclass(frozen=True, eq=False)
class FunctionChannel(ChartedChannel):
    """A user's model; `Channel.from_function` says what the functions take and return.

    The coordinates run from 0 to 1, with Fisher length nearly even in them, so that a change of parametrization
    changes nothing. Every row is checked to be finite and to sum to one.
    """

    function: Function
    box: Array  # (d, 2) bounds of the parameters
    outcomes: Array
    scalar: bool  # whether the function takes w as (K,)
    framework: Framework  # whose arrays the function takes
    derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None
    bounds: Array
    partner: FunctionChannel | None = None  # whose coordinates are used instead of its own
    tail: float = 0.0
    quadrature: Quadrature | None = None  # of continuous outcomes; the outcomes are its nodes
    fineness: int = 1  # of that quadrature
    density: Callable[[Array, Array], Array] | None = None  # log p of an outcome z off the nodes: (K, d), z -> (K,)
    samples: Callable[[int], Channel] | None = None  # the channel of n samples, if a sufficient statistic is known

    @classmethod
    def build(
        cls,
        function: Function,
        bounds: ArrayLike,
        outcomes: ArrayLike,
        derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None,
    ) -> FunctionChannel:
        """Check the bounds and try the function once, so that mistakes show before any search."""
        if not callable(function):
            raise ValueError(f"log_likelihood must be a function of the parameters, got {function!r}")
        if derivatives is not None and not callable(derivatives):
            raise ValueError(f"derivatives must be a function of the parameters, got {derivatives!r}")
        box, scalar = box_of(bounds)
        points = as_numbers("outcomes", outcomes)
        if not points.ndim or not points.size or np.any(np.isnan(points)):
            raise ValueError(f"outcomes must be an array with one number per outcome and no NaN, got {outcomes!r}")
        middle = box.mean(axis=1)[None, :]
        channel = cls(
            function=function,
            box=box,
            outcomes=points,
            scalar=scalar,
            framework=framework_of(function, middle[0] if scalar else middle, "log_likelihood"),
            derivatives=derivatives,
            bounds=np.tile([0.0, 1.0], (len(box), 1)),
        )
        channel.row_values(np.vstack([box.T, box.mean(axis=1)]))
        return channel

    def row_values(self, w: Array) -> Array:
        """Return log p(z | w) of parameters, checked and normalized: (K, d) -> (K, Z)."""
        value = call(self.function, w[:, 0] if self.scalar else w, self.framework, "log_likelihood")
        sums = check_rows(value, w, self.outcome_count, "log_likelihood")
        return np.asarray(value - np.log(sums)[:, None])

    def _probabilities(self, w: Array) -> Array:
        return np.exp(self.row_values(w))

    def log_likelihood(self, u: Array) -> Array:
        return self.row_values(self.parameter(u))

    def rows(self, u: Array) -> Rows:
        w = self.parameter(u)
        log_p, step = self.row_values(w), self._steps(u)
        first, second = self._derivatives_of_p(w, log_p, step)
        lost = ~(np.all(np.isfinite(first), axis=(1, 2)) & np.all(np.isfinite(second), axis=(1, 2, 3)))
        if np.any(lost):  # for example at a bound where p vanishes: 0 times infinity
            first[lost], second[lost] = differences(self._probabilities, w[lost], self.box, step[lost])
        return Rows.from_derivatives(log_p, *self.in_u(u, first, second))

    def roots(self, w: Array) -> Array:
        return np.asarray(np.exp(0.5 * self.row_values(w)))

    @property
    def slope_error(self) -> float:  # type: ignore[override]
        return DIFFERENCE_ERROR if self.derivatives is None and self._automatic is None else 0.0

    @cached_property
    def _automatic(self) -> Derivatives | None:
        """Derivatives of p by torch or jax, if the function is theirs."""
        return derivatives_by(self.function, self.framework, self.box.mean(axis=1)[None, :], scalar=self.scalar)

    def at_resolution(self, resolution: Resolution) -> FunctionChannel | None:
        if self.quadrature is None or resolution == "coarse":
            return None
        function, nodes = self.quadrature(2 * self.fineness)
        return replace(
            self, function=function, outcomes=nodes, fineness=2 * self.fineness, partner=self.partner or self
        )

    def repeat(self, n: int) -> Channel:
        if self.samples is None:
            return super().repeat(n)
        return self if n == 1 else self.samples(whole_number("the number of samples n", n, at_least=1))

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        if self.density is None:
            return super().log_likelihood_of(u, z)
        seen = as_numbers("an outcome", z)
        if seen.shape != self.outcomes.shape[1:] or not np.all(np.isfinite(seen)):
            count = self.outcomes[0].size
            raise ValueError(f"an outcome must be {'a finite number' if count == 1 else f'{count} numbers'}, got {z!r}")
        return np.asarray(self.density(self.parameter(u), seen), dtype=float)

    def _steps(self, u: Array) -> Array:
        """Return steps of the stencils in w, small parts of a standard deviation and of the box: (K, d) -> (K, d)."""
        reach = STEP / np.maximum(self._chart.lengths, 1.0)
        w, width = self.parameter(u), self.box[:, 1] - self.box[:, 0]
        moves = [np.abs(self.parameter(np.clip(u + sign * reach, 0, 1)) - w) for sign in (1, -1)]
        shorter = np.min([np.where(move > 0, move, np.inf) for move in moves], axis=0)
        return np.asarray(np.clip(shorter, 1e-12 * width, LONGEST_STEP * width))

    def _derivatives_of_p(self, w: Array, log_p: Array, step: Array) -> tuple[Array, Array]:
        """Return first and second derivatives of p in w, by the best means available: (K, d, Z), (K, d, d, Z)."""
        if self.derivatives is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                pair = self.derivatives(w[:, 0] if self.scalar else w)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"derivatives must return first and second derivatives of log p, got {type(pair)}")
            first, second = (np.array(as_numbers("derivatives", part)) for part in pair)
            return _checked(log_p, first, second, self.dimension)
        if self._automatic is not None:
            return self._automatic(w)
        return differences(self._probabilities, w, self.box, step)


def box_of(bounds: ArrayLike, *, most: int = MOST_PARAMETERS) -> tuple[Array, bool]:
    """Check bounds given by a user; return them as (d, 2), and whether they are one pair."""
    box = as_numbers("bounds", bounds)
    scalar = box.ndim == 1
    box = np.atleast_2d(box)
    if box.ndim != 2 or box.shape[1] != 2 or not np.all(np.isfinite(box)) or np.any(box[:, 0] >= box[:, 1]):
        raise ValueError(f"bounds must be (low, high) with low < high and finite, got {np.asarray(bounds).tolist()}")
    if len(box) > most:
        raise ValueError(f"models of up to {most} parameters are supported here, got {len(box)}")
    return box, scalar


def _checked(log_p: Array, first: Array, second: Array, dimension: int) -> tuple[Array, Array]:
    """Check derivatives of log p given by a user and return those of p."""
    count, outcomes = log_p.shape
    expected = (count, dimension, outcomes), (count, dimension, dimension, outcomes)
    if (first.shape, second.shape) != expected:
        raise ValueError(
            f"derivatives returned shapes {first.shape} and {second.shape}, expected {expected[0]} and "
            f"{expected[1]}: first and second derivatives of log p, the outcomes last"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        return derivatives_of_p(log_p, first, second)


def slopes(function: Callable[[Array], Array], w: Array, box: Array, step: Array) -> Array:
    """Return first derivatives of (K, d) -> (K, Z) by seven-point stencils in the box: (K, d, Z)."""
    center = np.clip(w, box[:, 0] + 3 * step, box[:, 1] - 3 * step)
    columns = []
    for i in range(w.shape[1]):
        weights = _stencil_weights((w[:, i] - center[:, i]) / step[:, i])[1]
        columns.append(np.einsum("ks,ksz->kz", weights, _on_stencil(function, w, center, step, i)) / step[:, i, None])
    return np.stack(columns, axis=1)


def differences(function: Callable[[Array], Array], w: Array, box: Array, step: Array) -> tuple[Array, Array]:
    """Return first and second derivatives by the same stencils: (K, d, Z), (K, d, d, Z)."""
    count, dimension = w.shape
    center = np.clip(w, box[:, 0] + 3 * step, box[:, 1] - 3 * step)
    weights = [_stencil_weights((w[:, i] - center[:, i]) / step[:, i]) for i in range(dimension)]
    lines = [_on_stencil(function, w, center, step, i) for i in range(dimension)]
    first = np.stack([np.einsum("ks,ksz->kz", weights[i][1], lines[i]) / step[:, i, None] for i in range(dimension)], 1)
    second = np.empty((count, dimension, *first.shape[1:]))
    for i in range(dimension):
        second[:, i, i] = np.einsum("ks,ksz->kz", weights[i][2], lines[i]) / step[:, i, None] ** 2
        for j in range(i):  # a stencil along one axis at every node of a stencil along the other
            mixed: Array | float = 0.0
            for s, offset in enumerate(STENCIL):
                shifted = w.copy()
                shifted[:, j] = center[:, j] + offset * step[:, j]
                line = np.einsum("ks,ksz->kz", weights[i][1], _on_stencil(function, shifted, center, step, i))
                mixed = mixed + weights[j][1][:, s, None] * line
            second[:, i, j] = second[:, j, i] = mixed / (step[:, i] * step[:, j])[:, None]
    return first, second


def _on_stencil(function: Callable[[Array], Array], w: Array, center: Array, step: Array, axis: int) -> Array:
    """Return values at the stencil's points along an axis: (K, 7, Z)."""
    points = np.repeat(w[:, None, :], len(STENCIL), axis=1)
    points[:, :, axis] = center[:, axis, None] + STENCIL * step[:, axis, None]
    return function(points.reshape(-1, w.shape[1])).reshape(len(w), len(STENCIL), -1)


def _stencil_weights(offset: Array) -> Array:
    """Return weights of the zeroth, first and second derivative at `offset` steps from the center: (3, K, 7)."""
    offset, place = np.unique(offset, return_inverse=True)  # nearly all are zero
    distance = (STENCIL[None, :] - offset[:, None])[:, None, :]
    powers = distance ** np.arange(len(STENCIL))[None, :, None]  # (K, power, point)
    right = np.zeros((len(STENCIL), 3))
    right[[0, 1, 2], [0, 1, 2]] = [1.0, 1.0, math.factorial(2)]
    solved = np.linalg.solve(powers, np.broadcast_to(right, (len(offset), *right.shape)))
    return np.moveaxis(np.asarray(solved[place], dtype=float), 2, 0)
