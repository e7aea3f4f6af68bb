"""The models of the paper and of the literature it cites, as channels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from .binomial import log_binomial, normaliser, score
from .channels import Array, Channel, Rows
from .windows import WINDOWS_FROM, windowed_divergence, windowed_log_marginal

TAIL = 9.0  # outcomes reach this many standard deviations beyond the extreme means: mass 1e-19 is left out
NODES = 8  # quadrature nodes a standard deviation, one parameter: the trapezoid rule's error is below 1e-16
NODES_PLANE = 4  # the same for two outcomes at a time; `tests/exact/test_models.py` measures both
EDGE = 1e-9  # derivatives of the coin and of Poisson are taken this far from where p vanishes


def positive_integer(value: object, name: str) -> int:
    """A count given by the user: an integer of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return int(value)


def positive_number(value: float, name: str) -> float:
    """A size given by the user: finite and above zero."""
    if not (isinstance(value, (int, float, np.number)) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return float(value)


@dataclass(frozen=True)
class Coin(Channel):
    """n tosses of a coin with bias w, example eg:bias; z is the number of heads.

    The coordinate is the angle φ with w = sin²(φ/2): the Fisher information is n everywhere.
    """

    n: int
    outcomes: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)
    constant: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = positive_integer(self.n, "the number of tosses n")
        object.__setattr__(self, "outcomes", np.arange(n + 1.0))
        object.__setattr__(self, "bounds", np.array([[0.0, np.pi]]))
        object.__setattr__(self, "constant", normaliser(n, self.outcomes))

    def log_marginal(self, u: Array, weights: Array) -> Array:
        if self.n < WINDOWS_FROM:
            return super().log_marginal(u, weights)
        return windowed_log_marginal(self.n, self.constant, u[:, 0], weights)

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        if self.n < WINDOWS_FROM:
            return super().divergence(u, log_marginal)
        return windowed_divergence(self.n, self.constant, u[:, 0], log_marginal)

    def column(self, u: Array, z: ArrayLike) -> Array:
        seen = np.asarray(z, dtype=float)
        if seen.ndim or seen != np.round(seen) or not 0 <= seen <= self.n:
            raise ValueError(f"{z!r} is not an outcome: heads are whole numbers from 0 to {self.n}")
        return log_binomial(self.n, seen, u[:, 0], self.constant[int(seen)])

    def log_likelihood(self, u: Array) -> Array:
        return log_binomial(self.n, self.outcomes, u, self.constant)

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        first, second = score(self.n, self.outcomes, np.clip(u, EDGE, np.pi - EDGE))
        p = np.exp(log_p)
        return Rows(log_p, (p * first)[:, None], (p * (second + first**2))[:, None, None])

    def parameter(self, u: Array) -> Array:
        return np.where(u > np.pi / 2, 1 - np.sin((np.pi - u) / 2) ** 2, np.sin(u / 2) ** 2)

    def coordinate(self, w: Array) -> Array:
        return 2 * np.arctan2(np.sqrt(w), np.sqrt(1 - w))

    def stretch(self, u: Array) -> Array:
        return np.sin(u) / 2

    def axis_lengths(self) -> Array:
        return np.array([np.pi * math.sqrt(self.n)])

    def axis_points(self, axis: int, count: int) -> Array:
        return np.linspace(0.0, np.pi, count)


@dataclass(frozen=True)
class TwoCoins(Channel):
    """n tosses of each of two coins; z = (heads of the first, heads of the second), w = (bias, bias)."""

    n: int
    coin: Coin = field(init=False, repr=False)
    outcomes: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        coin = Coin(self.n)
        heads = np.meshgrid(coin.outcomes, coin.outcomes, indexing="ij")
        object.__setattr__(self, "coin", coin)
        object.__setattr__(self, "outcomes", np.stack(heads, axis=-1).reshape(-1, 2))
        object.__setattr__(self, "bounds", np.vstack([coin.bounds, coin.bounds]))

    def log_likelihood(self, u: Array) -> Array:
        first, second = (self.coin.log_likelihood(u[:, [i]]) for i in (0, 1))
        return (first[:, :, None] + second[:, None, :]).reshape(len(u), -1)

    def rows(self, u: Array) -> Rows:
        factors = [self.coin.rows(u[:, [i]]) for i in (0, 1)]
        (a, a1, a2), (b, b1, b2) = ((np.exp(f.log_p), f.first[:, 0], f.second[:, 0, 0]) for f in factors)
        first = np.stack([_outer(a1, b), _outer(a, b1)], axis=1)
        mixed = _outer(a1, b1)
        second = np.stack([_outer(a2, b), mixed, mixed, _outer(a, b2)], axis=1)
        return Rows(self.log_likelihood(u), first, second.reshape(len(u), 2, 2, -1))

    def parameter(self, u: Array) -> Array:
        return self.coin.parameter(u)

    def coordinate(self, w: Array) -> Array:
        return self.coin.coordinate(w)

    def stretch(self, u: Array) -> Array:
        return self.coin.stretch(u)

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        logs = [self.coin.log_likelihood(u[:, [i]]) for i in (0, 1)]
        factors = [np.exp(log) for log in logs]
        value = sum(np.sum(f * np.maximum(log, -1e4), axis=1) for f, log in zip(factors, logs, strict=True))
        return np.asarray(value - _plane_expectation(factors[0], factors[1], log_marginal))

    def axis_lengths(self) -> Array:
        return np.repeat(self.coin.axis_lengths(), 2)

    def axis_points(self, axis: int, count: int) -> Array:
        return self.coin.axis_points(0, count)


def _outer(a: Array, b: Array) -> Array:
    """Row by row outer product: (K, Y), (K, Z) -> (K, Y·Z)."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _plane_expectation(a: Array, b: Array, values: Array) -> Array:
    """Σ a b values for independent outcomes, as one matrix product: (K, Y), (K, Z), (Y·Z,) -> (K,)."""
    table = values.reshape(a.shape[1], b.shape[1])
    if np.all(np.isfinite(table)):
        return np.einsum("kz,kz->k", a @ table, b)
    p = _outer(a, b)
    return np.sum(np.where(p > 0, p * values, 0.0), axis=1)


@dataclass(frozen=True)
class Gaussian(Channel):
    """z = w + noise of standard deviation sigma, |w| ≤ amplitude (the problem of Smith, 1971).

    z is put on a trapezoid rule of eight nodes a standard deviation. p log p is analytic in a strip around
    the real line, so the rule converges exponentially: the gap of the continuous channel is this one's.
    """

    amplitude: float
    sigma: float = 1.0
    outcomes: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        amplitude = positive_number(self.amplitude, "the amplitude")
        sigma = positive_number(self.sigma, "sigma")
        if amplitude / sigma > 500:
            raise ValueError(f"amplitude / sigma = {amplitude / sigma:g}; at most 500 is supported")
        reach = math.ceil((amplitude / sigma + TAIL) * NODES)
        object.__setattr__(self, "outcomes", sigma * np.arange(-reach, reach + 1.0) / NODES)
        object.__setattr__(self, "bounds", np.array([[-amplitude, amplitude]]))

    def log_likelihood(self, u: Array) -> Array:
        return log_normal_nodes((self.outcomes - u) / self.sigma, NODES)

    def rows(self, u: Array) -> Rows:
        score_ = (self.outcomes - u) / self.sigma**2
        log_p = self.log_likelihood(u)
        p = np.exp(log_p)
        return Rows(log_p, (p * score_)[:, None], (p * (score_**2 - self.sigma**-2))[:, None, None])

    def column(self, u: Array, z: ArrayLike) -> Array:
        return log_normal_nodes((float(np.asarray(z)) - u[:, 0]) / self.sigma, 1)

    def axis_lengths(self) -> Array:
        return np.array([2 * self.amplitude / self.sigma])

    def axis_points(self, axis: int, count: int) -> Array:
        return np.linspace(-self.amplitude, self.amplitude, count)


def log_normal_nodes(x: Array, nodes: int) -> Array:
    """log of the normal density at x standard deviations, times the quadrature weight 1/nodes."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi) - math.log(nodes)


@dataclass(frozen=True)
class Poisson(Channel):
    """z counts with mean dark + w, 0 ≤ w ≤ amplitude. Outcomes beyond a tail mass of 1e-22 are left out."""

    amplitude: float
    dark: float = 0.0
    outcomes: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        amplitude = positive_number(self.amplitude, "the amplitude")
        if not (math.isfinite(self.dark) and self.dark >= 0):
            raise ValueError(f"the dark current must be finite and at least 0, got {self.dark!r}")
        if amplitude + self.dark > 1e5:
            raise ValueError(
                f"a mean count of {amplitude + self.dark:g} is too large; at most 1e5 is supported"
            )
        top = amplitude + self.dark
        object.__setattr__(self, "outcomes", np.arange(math.ceil(top + TAIL * math.sqrt(top) + 40) + 1.0))
        object.__setattr__(self, "bounds", np.sqrt([[self.dark, top]]))

    def log_likelihood(self, u: Array) -> Array:
        mean = u * u
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(self.outcomes > 0, self.outcomes * np.log(mean), 0.0)
        return rate - mean - gammaln(self.outcomes + 1)

    def rows(self, u: Array) -> Rows:
        inside = np.maximum(u, EDGE)
        first = 2 * (self.outcomes / inside - inside)
        second = -2 * (self.outcomes / inside**2 + 1)
        log_p = self.log_likelihood(u)
        p = np.exp(log_p)
        return Rows(log_p, (p * first)[:, None], (p * (second + first**2))[:, None, None])

    def parameter(self, u: Array) -> Array:
        return np.clip(u * u - self.dark, 0.0, self.amplitude)

    def coordinate(self, w: Array) -> Array:
        return np.clip(np.sqrt(w + self.dark), *self.bounds[0])

    def stretch(self, u: Array) -> Array:
        return 2 * u

    def axis_lengths(self) -> Array:
        return 2 * (self.bounds[:, 1] - self.bounds[:, 0])

    def axis_points(self, axis: int, count: int) -> Array:
        return np.linspace(*self.bounds[0], count)


@dataclass(frozen=True)
class ExponentialDecay(Channel):
    """Two decays seen at two times: z_t = (w₁^t + w₂^t)/2 + noise, w = e^(−rate) in [0, 1].

    The model of Mattingly et al. (2018) and AtomicPriors.jl. Exchanging w₁ and w₂ changes nothing; atoms are
    given with w₁ ≤ w₂. z lies on a trapezoid grid of four nodes a standard deviation on each axis.
    """

    times: tuple[float, float] = (1.0, 2.0)
    sigma: float = 0.1
    outcomes: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)
    axis: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        times = tuple(positive_number(t, "each time") for t in self.times)
        if len(times) != 2 or times[0] == times[1]:
            raise ValueError(f"need two different times, got {self.times!r}")
        sigma = positive_number(self.sigma, "sigma")
        if sigma < 0.01:
            raise ValueError(
                f"sigma = {sigma:g} needs too fine a grid of outcomes; at least 0.01 is supported"
            )
        object.__setattr__(self, "times", times)
        reach = np.arange(-math.ceil(TAIL * NODES_PLANE), math.ceil((1 / sigma + TAIL) * NODES_PLANE) + 1.0)
        object.__setattr__(self, "axis", sigma * reach / NODES_PLANE)
        plane = np.stack(np.meshgrid(self.axis, self.axis, indexing="ij"), axis=-1)
        object.__setattr__(self, "outcomes", plane.reshape(-1, 2))
        object.__setattr__(self, "bounds", np.array([[0.0, 1.0], [0.0, 1.0]]))

    @property
    def powers(self) -> tuple[float, float]:
        """Exponents in the coordinate x = w^(earliest time): none is below 1, so no slope is infinite."""
        return self.times[0] / min(self.times), self.times[1] / min(self.times)

    def means(self, u: Array) -> tuple[Array, Array]:
        """Noise-free values at the two times: (K, 2) -> (K,), (K,)."""
        first, second = (np.mean(u**power, axis=1) for power in self.powers)
        return first, second

    def _log_factors(self, u: Array) -> tuple[Array, Array]:
        first, second = (
            log_normal_nodes((self.axis - mean[:, None]) / self.sigma, NODES_PLANE) for mean in self.means(u)
        )
        return first, second

    def log_likelihood(self, u: Array) -> Array:
        first, second = self._log_factors(u)
        return (first[:, :, None] + second[:, None, :]).reshape(len(u), -1)

    def rows(self, u: Array) -> Rows:
        parts = []
        for mean, log_f, power in zip(self.means(u), self._log_factors(u), self.powers, strict=True):
            x = (self.axis - mean[:, None]) / self.sigma
            f = np.exp(log_f)
            slope = power * u ** (power - 1) / 2 / self.sigma
            bend = power * (power - 1) * np.maximum(u, EDGE) ** (power - 2) / 2 / self.sigma
            parts.append((f, f * x, f * (x * x - 1), slope, bend))
        return self._product_rows(u, parts)

    def _product_rows(self, u: Array, parts: list[tuple[Array, Array, Array, Array, Array]]) -> Rows:
        (a, a1, a2, s, c), (b, b1, b2, t, e) = parts
        by_a, by_b = _outer(a1, b), _outer(a, b1)
        aa, ab, bb = _outer(a2, b), _outer(a1, b1), _outer(a, b2)
        first = s[:, :, None] * by_a[:, None] + t[:, :, None] * by_b[:, None]
        second = np.einsum("ki,kj,kz->kijz", s, s, aa) + np.einsum("ki,kj,kz->kijz", t, t, bb)
        second += np.einsum("kij,kz->kijz", s[:, :, None] * t[:, None] + t[:, :, None] * s[:, None], ab)
        for i in (0, 1):
            second[:, i, i] += c[:, [i]] * by_a + e[:, [i]] * by_b
        return Rows(self.log_likelihood(u), first, second)

    def parameter(self, u: Array) -> Array:
        return u ** (1 / min(self.times))

    def coordinate(self, w: Array) -> Array:
        return w ** min(self.times)

    def stretch(self, u: Array) -> Array:
        return u ** (1 / min(self.times) - 1) / min(self.times)

    def canonical(self, u: Array) -> Array:
        return np.sort(u, axis=1)

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        first, second = (np.exp(log) for log in self._log_factors(u))
        entropy = math.log(2 * math.pi * math.e) + 2 * math.log(NODES_PLANE)  # of every row, on these nodes
        return -entropy - _plane_expectation(first, second, log_marginal)

    def column(self, u: Array, z: ArrayLike) -> Array:
        seen = np.asarray(z, dtype=float)
        return np.asarray(
            sum(log_normal_nodes((seen[i] - mean) / self.sigma, 1) for i, mean in enumerate(self.means(u)))
        )

    def axis_lengths(self) -> Array:
        steepest = math.hypot(*(power / 2 for power in self.powers)) / self.sigma
        return np.array([steepest, steepest])

    def axis_points(self, axis: int, count: int) -> Array:
        return np.linspace(0.0, 1.0, count)
