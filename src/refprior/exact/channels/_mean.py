"""A user's model with Gaussian noise, z_t = mean_t(w) + noise.

In units of the noise the Fisher length is that of the mean, whose chart is cheap to measure. Outcomes are a grid of
principal components of the observations, so that sums over z are products of small matrices.

Shapes: K points, d parameters, T observations, R components of them, Y_r nodes of one component, Z their product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers, grid_of
from refprior.exact._cost import PRODUCTS
from refprior.exact.channels._channel import Cells, Gains, GaussianNoise, Resolution, Rows, Sums, Symmetry, combined
from refprior.exact.channels._components import COARSE, COARSEST, Components, Precision
from refprior.exact.channels._frameworks import call, framework_of
from refprior.exact.channels._function import (
    DIFFERENCE_ERROR,
    LONGEST_STEP,
    ChartedChannel,
    box_of,
    differences,
    slopes,
)
from refprior.exact.channels._one_parameter import log_normal_nodes
from refprior.exact.geometry import Axes, ChartedAxes

SAMPLED = {1: 201, 2: 33, 3: 13}  # places per axis at which the mean is sampled; with more parameters, at random
MOST_OUTCOMES = 1_000_000  # of a grid; beyond, the noise is a sample
MOST_SEARCHED = 10_000  # the same with more than three parameters, where nothing can be certified


@dataclass(frozen=True, eq=False)
class NoisyMean(ChartedChannel):
    """A user's mean with Gaussian noise; `Channel.from_mean` says what it takes."""

    slope_error = DIFFERENCE_ERROR

    function: Callable[[Array], Array]
    box: Array  # (d, 2)
    scalar: bool  # whether the function takes w as (K,)
    sigma: Array  # (T,)
    curvature: Array | None  # (T, d, d) declared bound of the mean's second derivatives, in units of the noise
    bounds: Array
    exchangeable: bool = False  # whether the order of the parameters does not matter
    partner: NoisyMean | None = None  # whose coordinates are used instead of its own
    precision: Precision | None = None  # of the grid of outcomes, if not that of its components
    derivative: Callable[[Array], Array] | None = None  # ∂mean_t/∂w_i: (K, d) -> (K, T, d); by differences if None
    components: Components = field(init=False, repr=False)
    nodes: list[tuple[Array, Array]] = field(init=False, repr=False)  # [(Y_r,), (Y_r,)] and their log-weights

    @classmethod
    def build(
        cls,
        mean: object,
        sigma: ArrayLike,
        bounds: ArrayLike,
        curvature: ArrayLike | None,
        exchangeable: bool = False,
        slopes: Callable[[Array], ArrayLike] | None = None,
    ) -> NoisyMean:
        """Check what was given, and try the function once."""
        if not callable(mean):
            raise ValueError(f"mean must be a function of the parameters, got {mean!r}")
        box, scalar = box_of(bounds)
        probe = np.vstack([box.T, box.mean(axis=1)])
        framework = framework_of(mean, probe[:, 0] if scalar else probe, "mean")
        function = partial(call, mean, framework=framework, name="mean")
        count = _values(function, probe, scalar).shape[1]
        noise = _spread("sigma", sigma, (count,)).astype(float)
        if not np.all(np.isfinite(noise)) or np.any(noise <= 0):
            raise ValueError(f"sigma must be above 0, got {np.asarray(sigma).tolist()}")
        bend = None
        if curvature is not None:
            bend = _spread("curvature", curvature, (count, len(box), len(box)))
            if not np.all(bend >= 0):
                raise ValueError(f"curvature must be at least 0, an upper bound of |∂²mean|, got {curvature!r}")
            _check_curvature(lambda w: _values(function, w, scalar), box, bend)
            bend = bend / noise[:, None, None]
        derivative = None if slopes is None else partial(_derivative, slopes, scalar=scalar, observations=count)
        kind = _summed_or_sampled(function, box, scalar, noise)
        unit = np.tile([0.0, 1.0], (len(box), 1))
        channel = kind(function, box, scalar, noise, bend, unit, exchangeable, derivative=derivative)
        channel._check_derivative(probe)
        return channel

    def _components(self) -> Components:
        return Components.of(self._observed(_places(self.box)))

    def __post_init__(self) -> None:
        components = self._components()
        precision = self.precision or components.precision
        nodes = components.nodes(precision)
        self._derive(
            components=components,
            precision=precision,
            nodes=nodes,
            tail=len(nodes) * precision.tail_gain + components.left_out,
        )

    @cached_property
    def outcomes(self) -> Array:  # type: ignore[override]
        """The grid as observations: (Z,) or (Z, T). Sums over it do not need it."""
        grid = self.components.outcomes(self.nodes) * self.sigma
        return grid[:, 0] if len(self.sigma) == 1 else grid

    @property
    def outcome_count(self) -> int:
        return math.prod(len(z) for z, _ in self.nodes)

    @property
    def axes(self) -> Axes:
        """Fisher lengths under this channel's noise, in the other channel's coordinates if it shares them."""
        scale = 1.0 if self.partner is None else float(np.mean(self.partner.sigma / self.sigma))
        work = self.outcome_count // (1 if self.width == 1 else PRODUCTS) if self.listed else self.width
        return ChartedAxes(self._chart, lambda: self._scan, np.asarray(scale * self._chart.lengths), max(work, 1))

    @property
    def sums(self) -> Sums:  # type: ignore[override]
        return Sums(self._log_marginal, self._divergence, self._gains)

    @property
    def symmetry(self) -> Symmetry | None:  # type: ignore[override]
        return Symmetry(lambda u: np.sort(u, axis=1)) if self.exchangeable else None

    @property
    def noise(self) -> GaussianNoise | None:  # type: ignore[override]
        """Given only if the curvature is declared and no direction is omitted: measured bounds would prove nothing."""
        declared = self.curvature is not None and self.components.left_out == 0
        return GaussianNoise(self._cells, self.gain_of_means) if declared else None

    def _observed(self, w: Array) -> Array:
        """Return means of the observations in units of the noise: (K, d) -> (K, T)."""
        return _values(self.function, w, self.scalar) / self.sigma

    def means(self, w: Array) -> Array:
        """Return components of the means: (K, d) -> (K, R)."""
        return self.components.of_means(self._observed(w))

    def roots(self, w: Array) -> Array:
        return self.means(w) / 2

    @property
    def width(self) -> int:
        """The number of components R."""
        return len(self.nodes)

    @property
    def outcome_axes(self) -> int:  # type: ignore[override]
        return len(self.nodes)

    def _factors(self, mean: Array) -> list[Array]:
        """Return log-probabilities of each component's nodes: (K, R) -> [(K, Y_r)]."""
        return [log_normal_nodes(z - mean[:, [r]], 1) + weight for r, (z, weight) in enumerate(self.nodes)]

    def log_likelihood(self, u: Array) -> Array:
        return combined(np.add, self._factors(self.means(self.parameter(u))))

    def _expectations(self, mean: Array, values: Array, order: int) -> dict[tuple[int, ...], Array]:
        """Return E[values ∏ h_{n_r}(z_r − m_r)] for Hermite orders n of total at most `order`: {(n_1, …): (K,)}."""
        p = [np.exp(log) for log in self._factors(mean)]
        x = [z - mean[:, [r]] for r, (z, _) in enumerate(self.nodes)]
        factors = [[q, q * y, q * (y * y - 1)][: order + 1] for q, y in zip(p, x, strict=True)]
        table = values.reshape(len(self.nodes[0][0]), -1)
        sizes = [len(z) for z, _ in self.nodes[1:]]
        sums: dict[tuple[int, ...], Array]
        sums = {(n,): (f @ table).reshape(len(f), *sizes) for n, f in enumerate(factors[0])}
        for further in factors[1:]:  # one component at a time; the first one is the most work
            pairs = [(n, k) for n in sums for k in range(order + 1) if sum(n) + k <= order]
            sums = {(*n, k): np.einsum("ky...,ky->k...", sums[n], further[k]) for n, k in pairs}
        return sums

    def _log_marginal(self, u: Array, weights: Array) -> Array:
        """Return log p(z) by one product of matrices; what underflows there is far from all atoms."""
        p = [np.exp(log) for log in self._factors(self.means(self.parameter(u)))]
        rest = combined(np.multiply, [np.ones((len(u), 1)), *p[1:]])
        return np.asarray(np.log(np.maximum((weights[:, None] * p[0]).T @ rest, 1e-300)).ravel())

    def rows(self, u: Array) -> Rows:
        w = self.parameter(u)
        mean = self.means(w)
        first, second = self._in_coordinates(u, w)
        log_p = self.log_likelihood(u)
        p = np.exp(log_p)
        slopes_of_p = np.zeros((len(u), self.dimension, p.shape[1]))
        for r, z in enumerate(grid_of([z for z, _ in self.nodes]).T):
            slopes_of_p += first[:, :, [r]] * (p * (z - mean[:, [r]]))[:, None]

        def summed(values: Array) -> Array:
            return self._chained(first, second, self._expectations(mean, values, 2))[1]

        zero = np.zeros((len(u), self.dimension, self.dimension))
        return Rows(log_p, slopes_of_p, summed, zero)

    def _chained(self, first: Array, second: Array, sums: dict[tuple[int, ...], Array]) -> tuple[Array, Array]:
        """Return gradient and Hessian in u of a sum over z, from those in the mean: -> (K, d), (K, d, d)."""
        unit = np.eye(len(self.nodes), dtype=int)
        by_score = np.stack([sums[tuple(e)] for e in unit], axis=1)
        pairs = np.stack([np.stack([sums[tuple(e + f)] for f in unit], axis=1) for e in unit], axis=1)
        bent = np.einsum("kit,kjs,kts->kij", first, first, pairs) + np.einsum("kijt,kt->kij", second, by_score)
        return np.einsum("kit,kt->ki", first, by_score), np.asarray(bent)

    def _gains(self, u: Array, log_marginal: Array) -> Gains:
        w = self.parameter(u)
        gain, sums = self._gain(self.means(w), log_marginal, 2)
        gradient, hessian = self._chained(*self._in_coordinates(u, w), sums)
        return Gains(gain, -gradient, -hessian)

    def _in_coordinates(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Return derivatives of the means in u: (K, d, R), (K, d, d, R)."""
        if self.derivative is None:
            return self.in_u(u, *differences(self.means, w, self.box, self._steps(w)))
        first = self._slopes(w)
        second = slopes(lambda v: self._slopes(v).reshape(len(v), -1), w, self.box, self._steps(w))
        return self.in_u(u, first, second.reshape(*first.shape[:2], *first.shape[1:]))

    def _slopes(self, w: Array) -> Array:
        """Return first derivatives of the components of the means in w: (K, d) -> (K, d, R)."""
        if self.derivative is None:
            return slopes(self.means, w, self.box, self._steps(w))
        return np.asarray(np.swapaxes(self.derivative(w) / self.sigma[:, None], 1, 2) @ self.components.rotation)

    def at(self, u: Array) -> Array:
        """Return components of the means at coordinates: (n, d) -> (n, R)."""
        return self.means(self.parameter(u))

    def slopes_at(self, u: Array) -> Array:
        """Return their derivatives in the coordinates: (n, d) -> (n, d, R)."""
        return self._slopes(self.parameter(u)) * self.jacobian(u)[:, :, None]

    def observed_slopes(self, u: Array) -> Array:
        """Return derivatives of the means, in units of the noise, in the coordinates: (K, d) -> (K, T, d)."""
        w = self.parameter(u)
        if self.derivative is None:
            by_w = np.swapaxes(slopes(self._observed, w, self.box, self._steps(w)), 1, 2)
        else:
            by_w = self.derivative(w) / self.sigma[:, None]
        return np.asarray(by_w * self.jacobian(u)[:, None, :])

    def _check_derivative(self, w: Array) -> None:
        """Raise ValueError if given slopes differ from differences of the mean by a hundredth of the largest."""
        if self.derivative is None:
            return
        given = self.derivative(w)
        found = np.swapaxes(
            slopes(partial(_values, self.function, scalar=self.scalar), w, self.box, self._steps(w)), 1, 2
        )
        wrong = np.abs(given - found) > 0.01 * np.abs(found).max() + 1e-9
        if np.any(wrong):
            k, t, i = np.argwhere(wrong)[0]
            raise ValueError(
                f"slopes are not the derivatives of the mean: at w = {w[k].tolist()}, observation {t}, parameter {i}, "
                f"they are {given[k, t, i]:.6g}, and differences of the mean {found[k, t, i]:.6g}"
            )

    def _steps(self, w: Array) -> Array:
        return np.tile(LONGEST_STEP * np.ptp(self.box, axis=1), (len(w), 1))

    def _divergence(self, u: Array, log_marginal: Array) -> Array:
        return self._gain(self.means(self.parameter(u)), log_marginal, 0)[0]

    def _gain(self, mean: Array, log_marginal: Array, order: int) -> tuple[Array, dict[tuple[int, ...], Array]]:
        """Return KL(p(z | m), p(z)) from the density of p(z), and the expectations of its log."""
        weights = [weight[None] for _, weight in self.nodes]
        finite = (
            np.maximum(log_marginal, -1e4) - combined(np.add, weights)[0]
        )  # nodes that no atom reaches have no weight in doubles either
        sums = self._expectations(mean, finite, order)
        entropy = len(weights) * 0.5 * math.log(2 * math.pi * math.e)
        return -entropy - sums[(0,) * len(weights)], sums

    def gain_of_means(self, mean: Array, log_marginal: Array) -> tuple[Array, Array]:
        gain, sums = self._gain(mean, log_marginal, 1)
        unit = np.eye(len(self.nodes), dtype=int)
        return gain, np.asarray(-np.stack([sums[tuple(e)] for e in unit], axis=1))

    def _cells(self, low: Array, high: Array) -> Cells:
        below, above = self.parameter(low), self.parameter(high)
        center, half = (below + above) / 2, (above - below) / 2
        first = self._slopes(center)
        assert self.curvature is not None
        bend = np.asarray(np.einsum("tr,tij->rij", np.abs(self.components.rotation), self.curvature))
        remainder = 0.5 * np.einsum("tij,ki,kj->kt", bend, half, half)
        return Cells(self.means(center), np.swapaxes(first, 1, 2), half, remainder)

    def repeat(self, n: int) -> NoisyMean:
        # the mean of n samples is a sufficient statistic
        root = math.sqrt(whole_number("the number of samples n", n, at_least=1))
        curvature = None if self.curvature is None else self.curvature * root
        kind = _summed_or_sampled(self.function, self.box, self.scalar, self.sigma / root)
        settings = self.function, self.box, self.scalar, self.sigma / root, curvature
        return kind(*settings, self.bounds, self.exchangeable, self.partner, derivative=self.derivative)

    def at_resolution(self, resolution: Resolution) -> NoisyMean | None:
        assert self.precision is not None
        if resolution == "fine":
            return replace(self, precision=self.precision.finer(), partner=self.partner or self)
        rough = COARSE if len(self.nodes) < 3 else COARSEST
        if self.precision.nodes <= rough.nodes:
            return None
        return replace(self, precision=rough, partner=self.partner or self)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        seen = np.atleast_1d(as_numbers("an outcome", z))
        if seen.shape != self.sigma.shape or not np.all(np.isfinite(seen)):
            raise ValueError(f"an outcome must be {len(self.sigma)} finite numbers, got {z!r}")
        return np.asarray(np.sum(log_normal_nodes(seen / self.sigma - self._observed(self.parameter(u)), 1), axis=1))


def _spread(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Broadcast a number or an array to the shape."""
    numbers = as_numbers(name, value)
    try:
        return np.broadcast_to(numbers, shape)
    except ValueError:
        raise ValueError(
            f"{name} must be a number or broadcast to {shape}, for {shape[0]} observations, got shape {numbers.shape}"
        ) from None


STENCILS = 1 / 400, 1 / 40  # half widths of second differences, as shares of the box


def _check_curvature(mean: Callable[[Array], Array], box: Array, curvature: Array) -> None:
    """Raise ValueError if a second difference of the mean (K, d) -> (K, T) exceeds its declared bound (T, d, d).

    A second difference is a mean of second derivatives, so a larger one refutes the bound; smaller ones prove nothing.
    """
    if len(box) > 3:  # nothing is proved there
        return
    for share in STENCILS:
        step = share * np.ptp(box, axis=1)
        w = np.clip(_places(box), box[:, 0] + 2 * step, box[:, 1] - 2 * step)  # stencils stay in the box
        for i, j in itertools.combinations_with_replacement(range(len(box)), 2):
            first, second = step[i] * np.eye(len(box))[i] / 2, step[j] * np.eye(len(box))[j] / 2
            corners = [mean(w + a * first + b * second) for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))]
            found = np.abs(corners[0] + corners[1] - corners[2] - corners[3]) / (step[i] * step[j])  # (K, T)
            rounding = 1e-13 * np.max(np.abs(corners)) / (step[i] * step[j])
            place, t = np.unravel_index(np.argmax(found - curvature[:, i, j]), found.shape)
            bound = float(curvature[t, i, j])
            if found[place, t] > (1 + 1e-9) * bound + rounding:
                raise ValueError(
                    f"curvature = {bound:g} is not an upper bound: the second derivative of the mean in parameters {i} "
                    f"and {j} is about {found[place, t]:.3g} at w = {w[place].round(6).tolist()}; declare a larger "
                    "bound, or none, and the gap is certified instead of proved"
                )


def _summed_or_sampled(function: Callable[[Array], Array], box: Array, scalar: bool, sigma: Array) -> type[NoisyMean]:
    """Return the class for a model, by the number of outcomes that a grid of them would have."""
    outcomes = Components.of(_values(function, _places(box), scalar) / sigma).size
    return NoisyMean if outcomes <= (MOST_OUTCOMES if len(box) <= 3 else MOST_SEARCHED) else SampledMean


def _places(box: Array) -> Array:
    """Return places at which the mean is sampled: (N, d)."""
    dimension = len(box)
    if dimension in SAMPLED:
        x = grid_of([np.linspace(0, 1, SAMPLED[dimension])] * dimension)
    else:
        x = np.random.default_rng(0).uniform(0, 1, (8000, dimension))
        x[::2] = np.round(x[::2])  # corners: there the mean is most extreme
    return np.asarray(box[:, 0] + x * np.ptp(box, axis=1))


def _values(function: Callable[[Array], Array], w: Array, scalar: bool) -> Array:
    """Return the function's values as (K, T); raise ValueError if they are not finite."""
    value = function(w[:, 0] if scalar else w)
    if value.ndim not in (1, 2) or len(value) != len(w) or not value.size:
        raise ValueError(f"mean returned shape {value.shape}, expected one row for each of {len(w)} parameters")
    if not np.all(np.isfinite(value)):
        bad = w[np.argmin(np.all(np.isfinite(value.reshape(len(w), -1)), axis=1))]
        raise ValueError(f"mean is not finite at w = {bad.tolist()}")
    return value.reshape(len(w), -1)


def _derivative(slopes: Callable[[Array], ArrayLike], w: Array, scalar: bool, observations: int) -> Array:
    """Return a user's derivatives of the mean as (K, T, d); raise ValueError if they are not that."""
    value = as_numbers("slopes", slopes(w[:, 0] if scalar else w))
    expected = (len(w), observations, w.shape[1])
    if value.size != math.prod(expected) or value.shape[:1] != expected[:1] or not np.all(np.isfinite(value)):
        raise ValueError(f"slopes must return finite ∂mean_t/∂w_i of shape {expected}, got shape {value.shape}")
    return value.reshape(expected)


FARTHEST = 50.0  # standard deviations from the middle that means may have, so that no exponential overflows

NOT_LISTED = "outcomes of this model are too many to be listed: it has priors, their gain and posteriors only"


@dataclass(frozen=True, eq=False)
class SampledMean(NoisyMean):
    """A mean with noise in too many directions for a grid of outcomes: sums become means over samples of the noise."""

    default_tolerance = 1e-3
    listed = False

    seed: int = 0

    def __post_init__(self) -> None:
        components = self._components()
        far = float(np.linalg.norm(np.abs(components.ranges).max(axis=1)))
        if far > FARTHEST:
            raise ValueError(
                f"means reach {far:.3g} standard deviations from their middle, and a grid of outcomes would have "
                f"{components.size:.2g} of them: take a larger sigma, narrower bounds or fewer observations"
            )
        self._derive(components=components, tail=components.left_out)

    @property
    def outcomes(self) -> Array:  # type: ignore[override]
        raise ValueError(NOT_LISTED)

    @property  # type: ignore[misc]
    def nodes(self) -> list[tuple[Array, Array]]:
        raise ValueError(NOT_LISTED)

    def at_resolution(self, resolution: Resolution) -> NoisyMean | None:
        raise ValueError(NOT_LISTED)

    noise = None

    @property
    def width(self) -> int:
        """The number of components R."""
        return len(self.components.ranges)

    @property
    def axes(self) -> Axes:
        axes = Axes(self.bounds, super().axes.lengths)
        axes.resolved = self._chart.resolved
        return axes
