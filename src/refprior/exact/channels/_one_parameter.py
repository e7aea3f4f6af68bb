"""Models of one parameter, as channels: the paper's coin, and those of the literature it cites."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, gammaln, rel_entr

from refprior._checks import number, whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, Index, as_numbers
from refprior.exact._cost import say_time
from refprior.exact.channels._channel import Cells, Channel, GaussianNoise, Resolution, Rows, Windows
from refprior.exact.geometry import Axes

# For coins and Poisson counts p(z | w) ≤ exp(−y²/4) at a distance of y standard deviations on the Fisher line, and
# nearly exp(−y²/2) away from the ends of the range and for Gaussian noise: windows of 13 and of 9.2 standard
# deviations omit less than 1e-17 of the mass.
LONG_FROM = 78.0  # standard deviations from end to end: of a long experiment, whose rows are windows
WIDE, NARROW, NARROW_FROM = 13.0, 9.2, 4000.0  # standard deviations; narrow from this variance on
THIN_FROM = 3000.0  # tosses or counts from which leaving out outcomes pays
BLEND_FROM, BLEND_WIDTH = 1.7, 0.22  # where nodes leave the integers, in units of √z / NODES
BLENDED = 12.0  # z / NODES² from which nodes are even in Fisher length, to all digits
SERIES_FROM = 16.0  # the Stirling series is exact to rounding from here on
SERIES_RADIUS = 0.1  # |v| below which the deviance is summed as a series, free of cancellation
TERMS = 8  # v^16 is below rounding at |v| = SERIES_RADIUS


TAIL = 9.0  # outcomes reach this many standard deviations beyond the extreme means: mass 1e-19 is left out
NODES = 8  # quadrature nodes per standard deviation; twice as many change the gain by less than 2e-14
SHORTEST = 1e-6  # standard deviations from end to end: of less, the information is lost in rounding
TAIL_GAIN = 1e-16  # nats that outcomes beyond TAIL can add: a mass of 1e-19 times a log ratio of at most some hundred
EDGE = 1e-9  # derivatives of the coin and of Poisson are taken this far from where p vanishes


def reach(variance: Array) -> Array:
    """Return standard deviations within which all outcomes of a count with this variance lie: (K,) -> (K,)."""
    return np.where(variance > NARROW_FROM, NARROW, WIDE)


def columns_between(outcomes: Array, low: Array, high: Array) -> tuple[Index, Index]:
    """Return the first and the last of the sorted outcomes between real numbers: (Z,), (K,), (K,) -> (K,), (K,)."""
    first = np.searchsorted(outcomes, low, "left")
    last = np.searchsorted(outcomes, high, "right") - 1
    first = np.minimum(first, len(outcomes) - 1)
    return first, np.maximum(first, last)


@dataclass(frozen=True)
class Coin(Channel):
    """A coin that is tossed n times; w is its bias and z the number of heads (example eg:bias).

    The coordinate is the angle φ with w = sin²(φ/2), in which the Fisher information is n everywhere.

    Parameters
    ----------
    n : int
        The number of tosses.

    Examples
    --------
    >>> from refprior.exact import Coin, reference_prior
    >>> prior = reference_prior(Coin(2))
    >>> prior.atoms.round(6).tolist(), prior.weights.round(6).tolist()
    ([0.0, 0.5, 1.0], [0.441176, 0.117647, 0.441176])
    """

    mirror = True

    n: int
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)
    constant: Array = field(init=False, repr=False, compare=False)  # (Z,) the part of log p without w

    def __post_init__(self) -> None:
        n = whole_number("the number of tosses n", self.n, at_least=1)
        check_memory(120.0 * n, f"a coin of {n} tosses", "take fewer tosses n")
        say_time(2.4e-5 * n)  # of search and certificate; logged here because this table is already part of it
        outcomes = np.arange(n + 1.0)
        self._derive(outcomes=outcomes, bounds=np.array([[0.0, np.pi]]), constant=normalizer(n, outcomes))

    @property
    def axes(self) -> Axes:
        return Axes(self.bounds, np.array([np.pi * math.sqrt(self.n)]))

    @property
    def windows(self) -> Windows:  # type: ignore[override]
        long = bool(self.axes.lengths[0] >= LONG_FROM)
        return Windows(long, self._ends, self._log_likelihood_at, self._score_at, self._shortened)

    def _ends(self, u: Array) -> tuple[Index, Index]:
        far = reach(self.n * np.sin(u[:, 0]) ** 2 / 4) / math.sqrt(self.n)
        low, high = (self.n * np.sin(np.clip(u[:, 0] + side, 0, np.pi) / 2) ** 2 for side in (-far, far))
        return columns_between(self.outcomes, low, high)

    def _log_likelihood_at(self, u: Array, columns: Index) -> Array:
        return log_binomial(self.n, self.outcomes[columns], u, self.constant[columns])

    def _score_at(self, u: Array, columns: Index) -> tuple[Array, Array]:
        return score(self.n, self.outcomes[columns], np.clip(u, EDGE, np.pi - EDGE))

    def _shortened(self, share: float) -> Coin:
        return Coin(max(1, math.floor(self.n * share**2)))  # rounded down: a first stage stays shorter than both

    def at_resolution(self, resolution: Resolution) -> Coin | None:
        if resolution == "fine" or self.n < THIN_FROM:
            return None
        z, log_weight = coin_nodes(self.n)
        thin = copy(self)
        thin._derive(outcomes=z, constant=normalizer(self.n, z) + log_weight)
        return thin

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        seen = as_numbers("the number of heads", z)
        if seen.ndim or seen != np.round(seen) or not 0 <= seen <= self.n:
            raise ValueError(f"{z!r} is not an outcome: heads are whole numbers from 0 to {self.n}")
        return log_binomial(self.n, seen, u[:, 0], self.constant[int(seen)])

    def log_likelihood(self, u: Array) -> Array:
        return log_binomial(self.n, self.outcomes, u, self.constant)

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        first, second = score(self.n, self.outcomes, np.clip(u, EDGE, np.pi - EDGE))
        return Rows.from_log_derivatives(log_p, first[:, None], second[:, None, None])

    def parameter(self, u: Array) -> Array:
        return np.where(u > np.pi / 2, 1 - np.sin((np.pi - u) / 2) ** 2, np.sin(u / 2) ** 2)

    def coordinate(self, w: Array) -> Array:
        return 2 * np.arctan2(np.sqrt(w), np.sqrt(1 - w))

    def jacobian(self, u: Array) -> Array:
        return np.sin(np.where(u > np.pi / 2, np.pi - u, u)) / 2  # exactly 0 at both ends

    def repeat(self, n: int) -> Coin:
        return Coin(self.n * whole_number("the number of samples n", n, at_least=1))


@dataclass(frozen=True)
class Gaussian(Channel):
    """A bounded number w that is observed with Gaussian noise (the problem of Smith, 1971).

    z = w + noise with `|w| ≤ amplitude`. Sums over z use a trapezoid rule. p log p is analytic in a strip around the
    real line, so the rule converges exponentially, and the gap is that of the continuous channel.

    Parameters
    ----------
    amplitude : float
        The largest absolute value of w.
    sigma : float, default: 1
        Standard deviation of the noise.
    nodes : int, default: 8
        Quadrature nodes per standard deviation.

    Examples
    --------
    >>> from refprior.exact import Gaussian, reference_prior
    >>> prior = reference_prior(Gaussian(1.0))
    >>> prior.atoms.round(6).tolist(), round(prior.information, 6)
    ([-1.0, 1.0], 0.336831)
    """

    mirror = True
    tail = TAIL_GAIN

    amplitude: float
    sigma: float = 1.0
    nodes: int = field(default=NODES, kw_only=True)  # of the quadrature, per standard deviation
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        amplitude = number("the amplitude", self.amplitude, above=0)
        sigma = number("sigma", self.sigma, above=0)
        number("sigma", sigma, at_least=1e-100, at_most=1e100)
        if not SHORTEST <= amplitude / sigma <= 500:
            raise ValueError(
                f"amplitude / sigma = {amplitude / sigma:g}; at least {SHORTEST:g} and at most 500 is supported"
            )
        whole_number("nodes", self.nodes, at_least=1)
        reach = math.ceil((amplitude / sigma + TAIL) * self.nodes)
        outcomes = sigma * np.arange(-reach, reach + 1.0) / self.nodes
        self._derive(outcomes=outcomes, bounds=np.array([[-amplitude, amplitude]]))

    def log_likelihood(self, u: Array) -> Array:
        return log_normal_nodes((self.outcomes - u) / self.sigma, self.nodes)

    @property
    def axes(self) -> Axes:
        return Axes(self.bounds, np.array([2 * self.amplitude / self.sigma]))

    @property
    def noise(self) -> GaussianNoise:  # type: ignore[override]
        return GaussianNoise(self._cells, self._gain_of_means)

    def _cells(self, low: Array, high: Array) -> Cells:
        mean = (low + high) / 2 / self.sigma
        return Cells(mean, np.full((len(low), 1, 1), 1 / self.sigma), (high - low) / 2, np.zeros_like(mean))

    def _gain_of_means(self, mean: Array, log_marginal: Array) -> tuple[Array, Array]:
        """Sum over the outcomes within TAIL of each mean, as far as outcomes reach beyond the extreme means."""
        half, middle = math.ceil(TAIL * self.nodes), len(self.outcomes) // 2
        first = np.clip(middle + np.rint(mean * self.nodes).astype(int) - half, 0, 2 * (middle - half))
        columns = first + np.arange(2 * half + 1)
        x = self.outcomes[columns] / self.sigma - mean
        p = np.exp(log_normal_nodes(x, self.nodes)) * log_marginal[columns]
        entropy = 0.5 * math.log(2 * math.pi * math.e) + math.log(self.nodes)
        return -entropy - p.sum(axis=1), -(p * x).sum(axis=1, keepdims=True)

    @property
    def windows(self) -> Windows:  # type: ignore[override]
        long = 2 * self.amplitude / self.sigma >= LONG_FROM
        return Windows(long, self._ends, self._log_likelihood_at, self._score_at, self._shortened)

    def _ends(self, u: Array) -> tuple[Index, Index]:
        low, high = (u[:, 0] + side * NARROW * self.sigma for side in (-1, 1))
        return columns_between(self.outcomes, low, high)

    def _log_likelihood_at(self, u: Array, columns: Index) -> Array:
        return log_normal_nodes((self.outcomes[columns] - u) / self.sigma, self.nodes)

    def _score_at(self, u: Array, columns: Index) -> tuple[Array, Array]:
        first = (self.outcomes[columns] - u) / self.sigma**2
        return first, np.full_like(first, -(self.sigma**-2))

    def _shortened(self, share: float) -> Gaussian:
        return replace(self, amplitude=share * self.amplitude)

    def repeat(self, n: int) -> Gaussian:
        # the mean of n samples is a sufficient statistic
        return replace(self, sigma=self.sigma / math.sqrt(whole_number("the number of samples n", n, at_least=1)))

    def at_resolution(self, resolution: Resolution) -> Gaussian | None:
        return replace(self, nodes=2 * self.nodes) if resolution == "fine" else None

    def rows(self, u: Array) -> Rows:
        first = (self.outcomes - u) / self.sigma**2
        second = np.full_like(first, -(self.sigma**-2))
        return Rows.from_log_derivatives(self.log_likelihood(u), first[:, None], second[:, None, None])

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        return log_normal_nodes((number("an outcome", z) - u[:, 0]) / self.sigma, 1)


def log_normal_nodes(x: Array, nodes: int) -> Array:
    """Return the log of the normal density at x standard deviations, times the quadrature weight 1/nodes."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi) - math.log(nodes)


@dataclass(frozen=True)
class Poisson(Channel):
    """Poisson counts z with mean dark + w and 0 ≤ w ≤ amplitude.

    Outcomes beyond a tail mass of 1e-21 are omitted.

    Parameters
    ----------
    amplitude : float
        The largest w.
    dark : float, default: 0
        The mean count without a signal.
    samples : int, default: 1
        The number of counts that are added up.

    Examples
    --------
    >>> from refprior.exact import Poisson, reference_prior
    >>> prior = reference_prior(Poisson(2.0))
    >>> prior.atoms.round(6).tolist(), round(prior.information, 6)
    ([0.0, 2.0], 0.489968)
    """

    mirror = False
    tail = TAIL_GAIN

    amplitude: float
    dark: float = 0.0
    samples: int = field(default=1, kw_only=True)  # whose counts are added up
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)
    constant: Array = field(init=False, repr=False, compare=False)  # (Z,) the part of log p without w

    def __post_init__(self) -> None:
        dark = number("the dark current", self.dark, at_least=0)
        top = number("the amplitude", self.amplitude, above=0) + dark
        most = top * whole_number("samples", self.samples, at_least=1)
        if most > 1e5:
            raise ValueError(f"a mean count of {most:g} is too large; at most 1e5 is supported")
        if math.sqrt(top) - math.sqrt(dark) < SHORTEST:
            raise ValueError(
                f"an amplitude of {self.amplitude:g} over a dark current of {dark:g} shows nothing: raise it"
            )
        outcomes = np.arange(math.ceil(most + TAIL * math.sqrt(most) + 40) + 1.0)
        self._derive(outcomes=outcomes, bounds=np.sqrt([[dark, top]]), constant=log_poisson_constant(outcomes))

    def log_likelihood(self, u: Array) -> Array:
        return self.constant - deviance(self.outcomes, self.samples * u * u)

    def rows(self, u: Array) -> Rows:
        root = np.maximum(u, EDGE)
        first = 2 * (self.outcomes / root - self.samples * root)
        second = -2 * (self.outcomes / root**2 + self.samples)
        return Rows.from_log_derivatives(self.log_likelihood(u), first[:, None], second[:, None, None])

    @property
    def axes(self) -> Axes:
        return Axes(self.bounds, np.asarray(2 * math.sqrt(self.samples) * (self.bounds[:, 1] - self.bounds[:, 0])))

    @property
    def windows(self) -> Windows:  # type: ignore[override]
        long = bool(self.axes.lengths[0] >= LONG_FROM)
        return Windows(long, self._ends, self._log_likelihood_at, self._score_at, self._shortened)

    def _ends(self, u: Array) -> tuple[Index, Index]:
        far = reach(self.samples * u[:, 0] ** 2) / (2 * math.sqrt(self.samples))
        low, high = (self.samples * np.maximum(u[:, 0] + side, 0) ** 2 for side in (-far, far))
        return columns_between(self.outcomes, low, high)

    def _log_likelihood_at(self, u: Array, columns: Index) -> Array:
        return self.constant[columns] - deviance(self.outcomes[columns], self.samples * u * u)

    def _score_at(self, u: Array, columns: Index) -> tuple[Array, Array]:
        root, z = np.maximum(u, EDGE), self.outcomes[columns]
        return 2 * (z / root - self.samples * root), -2 * (z / root**2 + self.samples)

    def _shortened(self, share: float) -> Poisson:
        low, high = self.bounds[0]
        return replace(self, amplitude=(low + share * (high - low)) ** 2 - self.dark)

    def at_resolution(self, resolution: Resolution) -> Poisson | None:
        if resolution == "fine" or self.outcomes[-1] < THIN_FROM:
            return None
        z, log_weight = count_nodes(self.outcomes[-1])
        thin = copy(self)
        thin._derive(outcomes=z, constant=log_poisson_constant(z) + log_weight)
        return thin

    def repeat(self, n: int) -> Poisson:
        # the sum of n counts is a sufficient statistic
        return replace(self, samples=self.samples * whole_number("the number of samples n", n, at_least=1))

    def parameter(self, u: Array) -> Array:
        return np.clip(u * u - self.dark, 0.0, self.amplitude)

    def coordinate(self, w: Array) -> Array:
        return np.clip(np.sqrt(w + self.dark), self.bounds[:, 0], self.bounds[:, 1])

    def jacobian(self, u: Array) -> Array:
        return 2 * u


def log_poisson_constant(z: Array) -> Array:
    """Return the part of log p(z | mean) that does not depend on the mean: (Z,) -> (Z,)."""
    return np.where(z > 0, -0.5 * np.log(2 * np.pi * np.where(z > 0, z, 1.0)) - stirling_error(z), 0.0)


def coin_nodes(n: int) -> tuple[Array, Array]:
    """Return nodes z and the logs of their weights, symmetric under z → n − z: (Z,), (Z,)."""
    density = NODES
    half = _node_number(np.array([n / 2.0]), n, density)[0][0]
    total = math.ceil(2 * half)
    for _ in range(30):  # scale the density until the middle is a node or halfway between two
        miss = total / 2 - _node_number(np.array([n / 2.0]), n, density)[0][0]
        density *= 1 + miss / (math.sqrt(n) * density * math.pi / 2)
    target = np.arange(total // 2 + 1.0)
    z = _invert(target, n / 2 * np.sin(np.linspace(0, np.pi / 2, 20 * len(target))) ** 2, n, density)
    far = z > BLENDED * density**2
    z[far] = n / 2 * (1 - np.sin((total / 2 - target[far]) / (density * math.sqrt(n))))  # its exact solution there
    weight = 1 / _node_number(z, n, density)[1]
    mirrored = target < total / 2
    z = np.concatenate([z, (n - z[mirrored])[::-1]])
    return z, np.log(np.concatenate([weight, weight[mirrored][::-1]]))


def count_nodes(most: float) -> tuple[Array, Array]:
    """Return nodes z of counts without an end, from 0 to at least `most`, and the logs of their weights: (Z,), (Z,)."""
    last = math.ceil(_node_number(np.array([most]), math.inf, NODES)[0][0])
    table = 1.1 * most * np.linspace(0, 1, 40 * last) ** 2
    target = np.arange(last + 1.0)
    z = _invert(target, table, math.inf, NODES)
    z = np.where(z > BLENDED * NODES**2, ((target / NODES + NODES) / 2) ** 2, z)  # its exact solution there
    return z, -np.log(_node_number(z, math.inf, NODES)[1])


def _node_number(z: Array, n: float, density: float) -> tuple[Array, Array]:
    """Return the number t(z) of the node at z, and dt/dz: z itself near the ends, linear in Fisher length further in.

    n is the number of tosses, or infinite for Poisson counts, which are a coin of endless tosses.
    """
    touch = density**2  # here a standard deviation holds `density` integers: both formulas have the same slope
    safe = np.maximum(z, 1e-3)
    x = np.sqrt(z) / density
    blend = 0.5 * (1 + erf((x - BLEND_FROM) / BLEND_WIDTH))
    slope_x = 1 / (2 * density * np.sqrt(safe))
    slope_blend = np.exp(-(((x - BLEND_FROM) / BLEND_WIDTH) ** 2)) / (BLEND_WIDTH * math.sqrt(math.pi)) * slope_x
    slope = density / np.sqrt(safe * (1 - np.minimum(z, n - 1e-3) / n))
    excess = touch + density * (_length(z, n) - _length(np.array(touch), n)) - z
    return z + blend * excess, 1 + blend * (slope - 1) + slope_blend * excess


def _length(z: Array, n: float) -> Array:
    """Return the Fisher length from 0 to a mean of z, in standard deviations."""
    if math.isinf(n):
        return 2 * np.sqrt(z)
    return 2 * math.sqrt(n) * np.arcsin(np.sqrt(np.minimum(z / n, 1.0)))


def _invert(target: Array, table: Array, n: float, density: float) -> Array:
    """Return z with t(z) = target, by Newton from a table that covers it."""
    z = np.interp(target, _node_number(table, n, density)[0], table)
    for _ in range(8):
        value, slope = _node_number(z, n, density)
        z = np.clip(z - (value - target) / slope, 0.0, table[-1])
    return z


def stirling_error(x: Array) -> Array:
    """Return log Γ(x+1) − log(√(2πx) (x/e)^x), and 0 at x = 0, where it is not needed: (Z,) -> (Z,)."""
    large = np.maximum(x, SERIES_FROM)
    square = 1.0 / (large * large)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / large
    few = np.clip(x, 1e-300, SERIES_FROM)
    direct = gammaln(few + 1) - (few + 0.5) * np.log(few) + few - 0.5 * np.log(2 * np.pi)
    return np.where(x >= SERIES_FROM, series, np.where(x > 0, direct, 0.0))


def deviance(x: Array, mean: Array) -> Array:
    """Return x log(x/mean) + mean − x without cancellation near x = mean; shapes broadcast."""
    if np.max(x, initial=0.0) < 32.0:  # cancellation costs less than the rounding of the result
        return _direct_deviance(x, mean)
    x, mean = np.broadcast_arrays(x, mean)
    total = x + mean
    v = np.divide(x - mean, total, out=np.zeros_like(total), where=total > 0)
    square = v * v
    if square.size and square.max() < SERIES_RADIUS**2:
        return _series_deviance(x, mean, v, square)
    return np.where(square < SERIES_RADIUS**2, _series_deviance(x, mean, v, square), _direct_deviance(x, mean))


def _direct_deviance(x: Array, mean: Array) -> Array:
    return np.asarray(rel_entr(x, mean) + mean - x)


def _series_deviance(x: Array, mean: Array, v: Array, square: Array) -> Array:
    tail = np.full_like(square, 1 / (2 * TERMS + 1))
    for j in range(TERMS - 1, 0, -1):
        tail *= square
        tail += 1 / (2 * j + 1)
    return (x - mean) * v + 2 * x * v * square * tail


def normalizer(n: float, z: Array) -> Array:
    """Return the part of log p(z | w) that does not depend on w: (Z,) -> (Z,)."""
    inside = (z > 0) & (z < n)
    safe = np.where(inside, z, 0.5 * n)
    root = 0.5 * np.log(n / (2 * np.pi * safe * (n - safe)))
    stirling = stirling_error(np.array([float(n)])) - stirling_error(z) - stirling_error(n - z)
    return np.where(inside, stirling + root, 0.0)


def log_binomial(n: float, z: Array, angle: Array, constant: Array) -> Array:
    """Return log p(z | w) at w = sin²(angle / 2); `constant` is `normalizer(n, z)`; shapes broadcast."""
    sine, cosine = np.sin(angle / 2), np.sin((np.pi - angle) / 2)  # cos that is exactly 0 at π
    return constant - deviance(z, n * sine**2) - deviance(n - z, n * cosine**2)


def score(n: float, z: Array, angle: Array) -> tuple[Array, Array]:
    """Return first and second derivative of log p(z | w) in the angle; the angle is inside (0, π)."""
    sine, cosine = np.sin(angle / 2), np.sin((np.pi - angle) / 2)
    # n sin² loses digits near the upper end, which matters for many tosses
    few = n < 900
    first = (z - n * sine**2) / (sine * cosine) if few else z * (cosine / sine) - (n - z) * (sine / cosine)
    second = -0.5 * (z / sine**2 + (n - z) / cosine**2)
    return first, second
