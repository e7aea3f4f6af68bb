"""Models of two parameters with two independent outcomes, so that sums over z are matrix products."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import number, whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, as_numbers, grid_of
from refprior.exact.channels._channel import (
    Cells,
    Channel,
    GaussianNoise,
    Resolution,
    Rows,
    Sums,
    Symmetry,
    combined,
)
from refprior.exact.channels._one_parameter import EDGE, TAIL, TAIL_GAIN, Coin, log_normal_nodes
from refprior.exact.geometry import Axes

NODES = 4  # quadrature nodes per standard deviation; twice as many change the gain by less than 5e-13
COARSE_NODES = 2  # good to about 1e-7: enough to find where the atoms are


def _product_expectation(a: Array, b: Array, values: Array) -> Array:
    """Return Σ a b values for independent outcomes, as one matrix product: (K, Y), (K, Z), (Y·Z,) -> (K,)."""
    table = values.reshape(a.shape[1], b.shape[1])
    if np.all(np.isfinite(table)):
        return np.asarray(np.einsum("kz,kz->k", a @ table, b))
    p = combined(np.multiply, (a, b))
    return np.asarray(np.sum(np.where(p > 0, p * values, 0.0), axis=1))


class _Factor(NamedTuple):
    """One of two independent outcomes: its probabilities and their derivatives, (K, Y) each."""

    p: Array
    d1: Array
    d2: Array
    negentropy_hessian: Array  # (K,) second derivative of Σ p log p

    @classmethod
    def of_coin(cls, coin: Coin, u: Array) -> _Factor:
        rows = coin.rows(u)
        identity = np.eye(coin.outcome_count)
        second = np.stack([rows.second(column)[:, 0, 0] for column in identity], axis=1)
        return cls(np.exp(rows.log_p), rows.first[:, 0], second, rows.negentropy_hessian[:, 0, 0])


def _product_sums(a: _Factor, b: _Factor, values: Array) -> dict[tuple[int, int], Array]:
    """Return Σ ∂^i a ∂^j b values for i + j ≤ 2, as matrix products: {(i, j): (K,)}."""
    table = values.reshape(a.p.shape[1], b.p.shape[1])
    left = [a.p @ table, a.d1 @ table, a.d2 @ table]
    right = [b.p, b.d1, b.d2]
    return {(i, j): np.einsum("kz,kz->k", left[i], right[j]) for i in range(3) for j in range(3) if 0 < i + j <= 2}


@dataclass(frozen=True)
class TwoCoins(Channel):
    """Two coins, each tossed n times; w holds both biases and z the heads of each.

    Parameters
    ----------
    n : int
        The number of tosses of each coin.

    Examples
    --------
    >>> from refprior.exact import TwoCoins, reference_prior
    >>> prior = reference_prior(TwoCoins(1), tolerance=1e-11)
    >>> len(prior.atoms), round(prior.information, 6)  # the four corners, 2 log 2
    (4, 1.386294)
    """

    n: int
    coin: Coin = field(init=False, repr=False, compare=False)
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        coin = Coin(self.n)
        check_memory(64.0 * (self.n + 1) ** 2, f"a pair of coins of {self.n} tosses", "take fewer tosses n")
        outcomes = grid_of([coin.outcomes, coin.outcomes])
        self._derive(coin=coin, outcomes=outcomes, bounds=np.vstack([coin.bounds, coin.bounds]))

    def log_likelihood(self, u: Array) -> Array:
        return combined(np.add, (self.coin.log_likelihood(u[:, [i]]) for i in (0, 1)))

    def rows(self, u: Array) -> Rows:
        factors = a, b = [_Factor.of_coin(self.coin, u[:, [i]]) for i in (0, 1)]
        first = np.stack([combined(np.multiply, (a.d1, b.p)), combined(np.multiply, (a.p, b.d1))], axis=1)
        hessian = np.zeros((len(u), 2, 2))
        hessian[:, 0, 0], hessian[:, 1, 1] = (factor.negentropy_hessian for factor in factors)

        def second(values: Array) -> Array:
            sums = _product_sums(a, b, values)
            return np.stack([sums[2, 0], sums[1, 1], sums[1, 1], sums[0, 2]], axis=1).reshape(-1, 2, 2)

        return Rows(self.log_likelihood(u), first, second, hessian)

    @property
    def axes(self) -> Axes:
        return Axes(self.bounds, np.repeat(self.coin.axes.lengths, 2))

    @property
    def sums(self) -> Sums:  # type: ignore[override]
        return Sums(divergence=self._divergence)

    @property
    def factors(self) -> tuple[Channel, ...]:  # type: ignore[override]
        return self.coin, self.coin

    def repeat(self, n: int) -> TwoCoins:
        return TwoCoins(self.n * whole_number("the number of samples n", n, at_least=1))

    def parameter(self, u: Array) -> Array:
        return self.coin.parameter(u)

    def coordinate(self, w: Array) -> Array:
        return self.coin.coordinate(w)

    def jacobian(self, u: Array) -> Array:
        return self.coin.jacobian(u)

    def _divergence(self, u: Array, log_marginal: Array) -> Array:
        logs = [self.coin.log_likelihood(u[:, [i]]) for i in (0, 1)]
        factors = [np.exp(log) for log in logs]
        value = sum(np.sum(f * np.maximum(log, -1e4), axis=1) for f, log in zip(factors, logs, strict=True))
        return np.asarray(value - _product_expectation(factors[0], factors[1], log_marginal))


@dataclass(frozen=True)
class ExponentialDecay(Channel):
    """The mean of two decays that is observed with Gaussian noise at two times.

    z_t = (w₁^t + w₂^t)/2 + noise with w = e^(−rate) in [0, 1], the model of Mattingly et al. (2018) and
    AtomicPriors.jl. The likelihood does not change if w₁ and w₂ are exchanged; atoms have w₁ ≤ w₂.

    Parameters
    ----------
    times : tuple of float, default: (1, 2)
        The two times, which must differ.
    sigma : float, default: 0.1
        Standard deviation of the noise, at least 0.01.
    nodes : int, default: 4
        Quadrature nodes per standard deviation on each of the two axes of outcomes.

    Examples
    --------
    >>> from refprior.exact import ExponentialDecay, reference_prior
    >>> prior = reference_prior(ExponentialDecay((1.0, 2.0), sigma=0.3), tolerance=1e-11)
    >>> len(prior.atoms), round(prior.information, 6)
    (4, 0.756316)
    """

    tail = TAIL_GAIN
    outcome_axes = 2

    times: tuple[float, float] = (1.0, 2.0)
    sigma: float = 0.1
    nodes: int = field(default=NODES, kw_only=True)  # of the quadrature, per standard deviation
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)
    axis: Array = field(init=False, repr=False, compare=False)  # outcomes at one time, (Y,)

    def __post_init__(self) -> None:
        given = as_numbers("times", self.times)
        if given.shape != (2,) or given[0] == given[1]:
            raise ValueError(f"need two different times, got {self.times!r}")
        times = tuple(number("each time", t, at_least=1e-6, at_most=1e6) for t in given.tolist())
        whole_number("nodes", self.nodes, at_least=1)
        sigma = number("sigma", self.sigma, above=0)
        number("sigma", sigma, at_most=1e4)
        if sigma < 0.01:
            raise ValueError(f"sigma = {sigma:g} needs too fine a grid of outcomes; at least 0.01 is supported")
        reach = np.arange(-math.ceil(TAIL * self.nodes), math.ceil((1 / sigma + TAIL) * self.nodes) + 1.0)
        axis = sigma * reach / self.nodes
        outcomes = grid_of([axis, axis])
        self._derive(times=times, axis=axis, outcomes=outcomes, bounds=np.array([[0.0, 1.0], [0.0, 1.0]]))

    @property
    def axes(self) -> Axes:
        """Fisher lengths where the signal changes fastest; elsewhere the coordinates are finer."""
        steepest = math.hypot(*(power / 2 for power in self._powers)) / self.sigma
        return Axes(self.bounds, np.array([steepest, steepest]))

    @property
    def sums(self) -> Sums:  # type: ignore[override]
        return Sums(divergence=self._divergence)

    @property
    def symmetry(self) -> Symmetry:  # type: ignore[override]
        return Symmetry(lambda u: np.sort(u, axis=1))

    @property
    def noise(self) -> GaussianNoise:  # type: ignore[override]
        return GaussianNoise(self._cells, self._gain_of_means)

    def _cells(self, low: Array, high: Array) -> Cells:
        center = (low + high) / 2
        mean, slope, remainder = [], [], []
        for power in self._powers:
            value, steepness = center**power, power * center ** (power - 1)
            ends = [end**power - value - steepness * (end - center) for end in (low, high)]  # convex: largest there
            mean.append(value.sum(axis=1))
            slope.append(steepness)
            remainder.append(np.maximum(*ends).sum(axis=1))
        scale = 2 * self.sigma
        slopes = np.stack(slope, 1) / scale
        return Cells(np.stack(mean, 1) / scale, slopes, (high - low) / 2, np.stack(remainder, 1) / scale)

    def _gain_of_means(self, mean: Array, log_marginal: Array) -> tuple[Array, Array]:
        table = log_marginal.reshape(len(self.axis), -1)
        x = [self.axis / self.sigma - mean[:, [t]] for t in (0, 1)]
        p = [np.exp(log_normal_nodes(part, self.nodes)) for part in x]
        entropy = math.log(2 * math.pi * math.e) + 2 * math.log(self.nodes)
        left, right = p[0] @ table, p[1] * x[1]
        first = np.einsum("ny,ny->n", (p[0] * x[0]) @ table, p[1])
        gradient = -np.stack([first, np.einsum("ny,ny->n", left, right)], axis=1)
        return -entropy - np.einsum("ny,ny->n", left, p[1]), gradient

    def repeat(self, n: int) -> ExponentialDecay:
        # the mean of n samples is a sufficient statistic
        return replace(self, sigma=self.sigma / math.sqrt(whole_number("the number of samples n", n, at_least=1)))

    def at_resolution(self, resolution: Resolution) -> ExponentialDecay | None:
        if resolution == "fine":
            return replace(self, nodes=2 * self.nodes)
        return None if self.nodes <= COARSE_NODES else replace(self, nodes=COARSE_NODES)

    @property
    def _powers(self) -> tuple[float, float]:
        """Exponents in the coordinate x = w^(earliest time): none is below 1, so no slope is infinite."""
        return self.times[0] / min(self.times), self.times[1] / min(self.times)

    def _means(self, u: Array) -> list[Array]:
        """Return noise-free values at the two times: (K, 2) -> [(K,), (K,)]."""
        return [np.mean(u**power, axis=1) for power in self._powers]

    def _log_factors(self, u: Array) -> list[Array]:
        return [log_normal_nodes((self.axis - mean[:, None]) / self.sigma, self.nodes) for mean in self._means(u)]

    def log_likelihood(self, u: Array) -> Array:
        return combined(np.add, self._log_factors(u))

    def rows(self, u: Array) -> Rows:
        factors, gradients, hessians = [], [], []
        for mean, log_f, power in zip(self._means(u), self._log_factors(u), self._powers, strict=True):
            x = (self.axis - mean[:, None]) / self.sigma
            f = np.exp(log_f)
            factors.append(_Factor(f, f * x, f * (x * x - 1), np.zeros(len(u))))
            gradients.append(power * u ** (power - 1) / 2 / self.sigma)  # (K, 2)
            hessians.append(power * (power - 1) * np.maximum(u, EDGE) ** (power - 2) / 2 / self.sigma)
        (s, t), (a, b) = gradients, factors
        by_mean = combined(np.multiply, (a.d1, b.p)), combined(np.multiply, (a.p, b.d1))
        first = s[:, :, None] * by_mean[0][:, None] + t[:, :, None] * by_mean[1][:, None]

        def second(values: Array) -> Array:
            """Return ∂_i ∂_j p by the chain rule through the two means."""
            sums = {key: value[:, None, None] for key, value in _product_sums(a, b, values).items()}
            mixed = s[:, :, None] * t[:, None] + t[:, :, None] * s[:, None]
            total = sums[2, 0] * s[:, :, None] * s[:, None] + sums[0, 2] * t[:, :, None] * t[:, None]
            own = hessians[0] * sums[1, 0][:, 0] + hessians[1] * sums[0, 1][:, 0]
            return np.asarray(total + sums[1, 1] * mixed + own[:, :, None] * np.eye(2))

        return Rows(self.log_likelihood(u), first, second, np.zeros((len(u), 2, 2)))

    def parameter(self, u: Array) -> Array:
        return u ** (1 / min(self.times))

    def coordinate(self, w: Array) -> Array:
        return w ** min(self.times)

    def jacobian(self, u: Array) -> Array:
        return u ** (1 / min(self.times) - 1) / min(self.times)

    def _divergence(self, u: Array, log_marginal: Array) -> Array:
        first, second = (np.exp(log) for log in self._log_factors(u))
        entropy = math.log(2 * math.pi * math.e) + 2 * math.log(self.nodes)  # of every row, on these nodes
        return -entropy - _product_expectation(first, second, log_marginal)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        seen = as_numbers("an outcome", z)
        if seen.shape != (2,) or not np.all(np.isfinite(seen)):
            raise ValueError(f"an outcome must be two finite numbers, one for each time, got {z!r}")
        return np.asarray(
            sum(log_normal_nodes((seen[i] - mean) / self.sigma, 1) for i, mean in enumerate(self._means(u)))
        )
