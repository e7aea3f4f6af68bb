"""A user's model with Gaussian noise, z_t = mean_t(w) + noise: up to three parameters and three observations.

Outcomes are on a trapezoid grid, axis by axis, so that sums over z are products of small matrices. In units of the
noise the Fisher length is that of the mean, whose chart is cheap to measure.

Shapes: K points, d parameters, T observations, Y_t nodes of one observation, Z their product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior._limits import check_memory
from refprior.exact._arrays import Array, as_numbers
from refprior.exact._bound import Cells
from refprior.exact._channels import Channel, Rows
from refprior.exact._charts import Chart, Scan, measure, scan_plane
from refprior.exact._function_channel import LONGEST_STEP, box_of, differences, slopes
from refprior.exact._models import TAIL, TAIL_GAIN, log_normal_nodes

NODES = {1: 8, 2: 4, 3: 3}  # of the quadrature, per standard deviation, by the number of observations
COARSE_NODES = 2
CURVATURE_POINTS = {1: 201, 2: 33, 3: 13}  # per axis, on which the curvature of the mean is measured
SAFETY = 2.0  # times the largest curvature found is taken for a bound


@dataclass(frozen=True, eq=False)
class NoisyMean(Channel):
    """A user's mean with Gaussian noise; `Channel.from_mean` says what it takes."""

    function: Callable[[Any], Any]
    box: Array  # (d, 2)
    scalar: bool  # whether the function takes w as (K,)
    sigma: Array  # (T,)
    curvature: Array | None  # (T, d, d) declared bound of the mean's second derivatives, in units of the noise
    nodes: int
    bounds: Array
    partner: NoisyMean | None = None  # whose coordinates are used instead of its own
    axes: list[Array] = field(init=False, repr=False)  # [(Y_t,)] nodes of each observation, in units of the noise
    outcomes: Array = field(init=False, repr=False)  # (Z,) or (Z, T)

    tail = TAIL_GAIN

    @classmethod
    def build(cls, mean: Any, sigma: ArrayLike, bounds: ArrayLike, curvature: ArrayLike | None) -> NoisyMean:
        """Check what was given, and try the function once."""
        if not callable(mean):
            raise ValueError(f"mean must be a function of the parameters, got {mean!r}")
        box, scalar = box_of(bounds, most=3)
        probe = np.vstack([box.T, box.mean(axis=1)])
        count = _values(mean, probe, scalar).shape[1]
        if not 1 <= count <= 3:
            raise ValueError(f"mean must return one to three observations per parameter, got {count}")
        noise = np.broadcast_to(as_numbers("sigma", sigma), (count,)).astype(float)
        if not np.all(np.isfinite(noise)) or np.any(noise <= 0):
            raise ValueError(f"sigma must be above 0, got {np.asarray(sigma).tolist()}")
        bend = None
        if curvature is not None:
            bend = np.broadcast_to(as_numbers("curvature", curvature), (count, len(box), len(box)))
            if not np.all(bend >= 0):
                raise ValueError(f"curvature must be at least 0, an upper bound of |∂²mean|, got {curvature!r}")
            bend = bend / noise[:, None, None]
        return cls(mean, box, scalar, noise, bend, NODES[count], np.tile([0.0, 1.0], (len(box), 1)))

    def __post_init__(self) -> None:
        whole_number("nodes", self.nodes, at_least=1)
        sides = [np.linspace(0, 1, CURVATURE_POINTS[len(self.box)])] * len(self.box)
        seen = self.means(self.box[:, 0] + np.array(list(itertools.product(*sides))) * np.ptp(self.box, axis=1))
        low, high = np.floor((seen.min(axis=0) - TAIL) * self.nodes), np.ceil((seen.max(axis=0) + TAIL) * self.nodes)
        entries = float(np.prod(high - low + 1))
        check_memory(400.0 * entries, f"a grid of {entries:.3g} outcomes", "take a larger sigma or fewer observations")
        axes = [np.arange(a, b + 1) / self.nodes for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)) * self.sigma
        self._derive(axes=axes, outcomes=grid[:, 0] if len(axes) == 1 else grid)

    @property
    def bounds_are_declared(self) -> bool:  # type: ignore[override]
        return self.curvature is not None

    def means(self, w: Array) -> Array:
        """Means in units of the noise: (K, d) -> (K, T)."""
        return _values(self.function, w, self.scalar) / self.sigma

    def embedding(self, u: Array) -> Array:
        return self.means(self.parameter(u))

    def _logs(self, mean: Array) -> list[Array]:
        """Log-probabilities of each observation's nodes: (K, T) -> [(K, Y_t)]."""
        return [log_normal_nodes(axis - mean[:, [t]], self.nodes) for t, axis in enumerate(self.axes)]

    def log_likelihood(self, u: Array) -> Array:
        logs = self._logs(self.means(self.parameter(u)))
        total = logs[0]
        for log in logs[1:]:
            total = (total[:, :, None] + log[:, None, :]).reshape(len(u), -1)
        return total

    def _expectations(self, mean: Array, values: Array, order: int) -> dict[tuple[int, ...], Array]:
        """E[values ∏ h_{n_t}(z_t − m_t)] for Hermite orders n of total at most `order`: {(n_1, …): (K,)}."""
        p = [np.exp(log) for log in self._logs(mean)]
        x = [axis - mean[:, [t]] for t, axis in enumerate(self.axes)]
        factors = [[q, q * y, q * (y * y - 1)][: order + 1] for q, y in zip(p, x, strict=True)]
        table = values.reshape(len(self.axes[0]), -1)
        sums: dict[tuple[int, ...], Array]
        sums = {(n,): (f @ table).reshape(len(f), *map(len, self.axes[1:])) for n, f in enumerate(factors[0])}
        for further in factors[1:]:  # one observation at a time; the first one is the most work
            pairs = [(n, k) for n in sums for k in range(order + 1) if sum(n) + k <= order]
            sums = {(*n, k): np.einsum("ky...,ky->k...", sums[n], further[k]) for n, k in pairs}
        return sums

    def rows(self, u: Array) -> Rows:
        w, slope, bend = self.parameter(u), self._chart.slopes(u), self._chart.slopes(u, 2)
        mean = self.means(w)
        first, second = self._mean_derivatives(w)  # (K, d, T), (K, d, d, T)
        second = second * (slope[:, :, None] * slope[:, None])[..., None]
        own = np.arange(self.dimension)
        second[:, own, own] += first * bend[:, :, None]
        first = first * slope[:, :, None]
        log_p = self.log_likelihood(u)
        scores = np.meshgrid(*self.axes, indexing="ij")
        p = np.exp(log_p)
        by_mean = np.stack([p * (z.ravel() - mean[:, [t]]) for t, z in enumerate(scores)], axis=1)  # (K, T, Z)

        def summed(values: Array) -> Array:
            sums = self._expectations(mean, values, 2)
            unit = np.eye(len(self.axes), dtype=int)
            by_score = np.stack([sums[tuple(e)] for e in unit], axis=1)
            pairs = np.stack([np.stack([sums[tuple(e + f)] for f in unit], axis=1) for e in unit], axis=1)
            total = np.einsum("kit,kjs,kts->kij", first, first, pairs) + np.einsum("kijt,kt->kij", second, by_score)
            return np.asarray(total)

        zero = np.zeros((len(u), self.dimension, self.dimension))
        return Rows(log_p, np.einsum("kit,ktz->kiz", first, by_mean), summed, zero)

    def _steps(self, w: Array) -> Array:
        return np.tile(LONGEST_STEP * np.ptp(self.box, axis=1), (len(w), 1))

    def _mean_derivatives(self, w: Array) -> tuple[Array, Array]:
        return differences(self.means, w, self.box, self._steps(w))

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        return self._gain(self.means(self.parameter(u)), log_marginal, 0)[0]

    def _gain(self, mean: Array, log_marginal: Array, order: int) -> tuple[Array, dict[tuple[int, ...], Array]]:
        finite = np.maximum(log_marginal, -1e4)  # nodes that no atom reaches have no weight in doubles either
        sums = self._expectations(mean, finite, order)
        count = len(self.axes)
        entropy = count * (0.5 * math.log(2 * math.pi * math.e) + math.log(self.nodes))
        return -entropy - sums[(0,) * count], sums

    def gain_of_means(self, mean: Array, log_marginal: Array) -> tuple[Array, Array]:
        gain, sums = self._gain(mean, log_marginal, 1)
        unit = np.eye(len(self.axes), dtype=int)
        return gain, -np.stack([sums[tuple(e)] for e in unit], axis=1)

    def means_on(self, low: Array, high: Array) -> Cells:
        below, above = self.parameter(low), self.parameter(high)
        centre, half = (below + above) / 2, (above - below) / 2
        first = slopes(self.means, centre, self.box, self._steps(centre))
        remainder = 0.5 * np.einsum("tij,ki,kj->kt", self._bend, half, half)
        return Cells(self.means(centre), np.swapaxes(first, 1, 2), half, remainder)

    @cached_property
    def _bend(self) -> Array:
        """Bounds of the mean's second derivatives, declared or measured: (T, d, d)."""
        if self.curvature is not None:
            return self.curvature
        sides = [np.linspace(a, b, CURVATURE_POINTS[self.dimension]) for a, b in self.box]
        _, second = self._mean_derivatives(np.array(list(itertools.product(*sides))))
        return np.asarray(SAFETY * np.moveaxis(np.abs(second).max(axis=0), 2, 0))

    def parameter(self, u: Array) -> Array:
        return self._chart.to_box(u)

    def coordinate(self, w: Array) -> Array:
        return self._chart.from_box(w)

    def jacobian(self, u: Array) -> Array:
        return self._chart.slopes(u)

    def known_lengths(self) -> Array:
        """Those of its own: a partner's coordinates are as even, but its noise may be another."""
        scale = 1.0 if self.partner is None else float(np.mean(self.partner.sigma / self.sigma))
        return np.asarray(scale * self._chart.lengths)

    @property
    def measured(self) -> bool:
        return True

    @property
    def slope_error(self) -> float:
        return 1e-9

    def certificate_axis(self, axis: int, count: int) -> Array:
        points = self.axis_points(axis, count)
        return points if self.dimension > 1 else np.union1d(points, self._chart.knots[axis])

    def certificate_points(self) -> tuple[Array, Array]:
        return self._scan.points, self._scan.widths

    @cached_property
    def _chart(self) -> Chart:
        if self.partner is not None:
            return self.partner._chart
        return measure(lambda w: self.means(w) / 2, self.box, len(self.axes))

    @cached_property
    def _scan(self) -> Scan:
        if self.dimension != 2:
            return Scan(np.empty((0, self.dimension)), np.empty((0, self.dimension)), True)
        return scan_plane(lambda u: self.means(self.parameter(u)) / 2, self._chart.lengths, len(self.axes))

    def repeat(self, n: int) -> NoisyMean:
        """The mean of n samples, which is all that they tell."""
        root = math.sqrt(whole_number("the number of samples n", n, at_least=1))
        return replace(
            self, sigma=self.sigma / root, curvature=None if self.curvature is None else self.curvature * root
        )

    def sharing(self, other: Channel) -> Channel:
        same = isinstance(other, NoisyMean) and np.array_equal(self.box, other.box)
        return replace(self, partner=other) if same and isinstance(other, NoisyMean) else self

    def finer(self) -> NoisyMean:
        return replace(self, nodes=2 * self.nodes)

    def coarse(self) -> NoisyMean:
        return self if self.nodes <= COARSE_NODES else replace(self, nodes=COARSE_NODES)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        seen = np.atleast_1d(as_numbers("an outcome", z))
        if seen.shape != (len(self.axes),) or not np.all(np.isfinite(seen)):
            raise ValueError(f"an outcome must be {len(self.axes)} finite numbers, got {z!r}")
        return np.asarray(np.sum(log_normal_nodes(seen / self.sigma - self.means(self.parameter(u)), 1), axis=1))


def _values(function: Callable[[Any], Any], w: Array, scalar: bool) -> Array:
    """What the function returns, as (K, T), refused if it is not finite."""
    value = as_numbers("what mean returns", function(w[:, 0] if scalar else w))
    if value.ndim not in (1, 2) or len(value) != len(w):
        raise ValueError(f"mean returned shape {value.shape}, expected one row for each of {len(w)} parameters")
    if not np.all(np.isfinite(value)):
        bad = w[np.argmin(np.all(np.isfinite(value.reshape(len(w), -1)), axis=1))]
        raise ValueError(f"mean is not finite at w = {bad.tolist()}")
    return value.reshape(len(w), -1)
