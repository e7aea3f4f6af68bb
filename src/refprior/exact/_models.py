"""Models of one parameter, as channels: the paper's coin, and those of the literature it cites."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from refprior.exact._binomial import log_binomial, normaliser, score
from refprior.exact._channels import Array, Channel, Rows, dense_rows
from refprior.exact._windows import WINDOWS_FROM, windowed_divergence, windowed_log_marginal

TAIL = 9.0  # outcomes reach this many standard deviations beyond the extreme means: mass 1e-19 is left out
NODES = 8  # quadrature nodes a standard deviation; twice as many change the gain by less than 2e-14
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
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)
    constant: Array = field(init=False, repr=False, compare=False)

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
        return dense_rows(log_p, (p * first)[:, None], (p * (second + first**2))[:, None, None])

    def parameter(self, u: Array) -> Array:
        return np.where(u > np.pi / 2, 1 - np.sin((np.pi - u) / 2) ** 2, np.sin(u / 2) ** 2)

    def coordinate(self, w: Array) -> Array:
        return 2 * np.arctan2(np.sqrt(w), np.sqrt(1 - w))

    def stretch(self, u: Array) -> Array:
        return np.sin(np.where(u > np.pi / 2, np.pi - u, u)) / 2  # exactly 0 at both ends

    def axis_lengths(self) -> Array:
        return np.array([np.pi * math.sqrt(self.n)])

    def axis_points(self, axis: int, count: int) -> Array:
        return np.linspace(0.0, np.pi, count)


@dataclass(frozen=True)
class Gaussian(Channel):
    """z = w + noise of standard deviation sigma, |w| ≤ amplitude (the problem of Smith, 1971).

    z is put on a trapezoid rule of eight nodes a standard deviation. p log p is analytic in a strip around
    the real line, so the rule converges exponentially: the gap of the continuous channel is this one's.
    """

    amplitude: float
    sigma: float = 1.0
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)

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
        return dense_rows(log_p, (p * score_)[:, None], (p * (score_**2 - self.sigma**-2))[:, None, None])

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
    """z counts with mean dark + w, 0 ≤ w ≤ amplitude. Outcomes beyond a tail mass of 1e-21 are left out."""

    amplitude: float
    dark: float = 0.0
    outcomes: Array = field(init=False, repr=False, compare=False)
    bounds: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        amplitude = positive_number(self.amplitude, "the amplitude")
        if not (math.isfinite(self.dark) and self.dark >= 0):
            raise ValueError(f"the dark current must be finite and at least 0, got {self.dark!r}")
        if amplitude + self.dark > 1e5:
            raise ValueError(f"a mean count of {amplitude + self.dark:g} is too large; at most 1e5 is supported")
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
        return dense_rows(log_p, (p * first)[:, None], (p * (second + first**2))[:, None, None])

    def parameter(self, u: Array) -> Array:
        return np.clip(u * u - self.dark, 0.0, self.amplitude)

    def coordinate(self, w: Array) -> Array:
        return np.clip(np.sqrt(w + self.dark), self.bounds[:, 0], self.bounds[:, 1])

    def stretch(self, u: Array) -> Array:
        return 2 * u

    def axis_lengths(self) -> Array:
        return np.asarray(2 * (self.bounds[:, 1] - self.bounds[:, 0]))

    def axis_points(self, axis: int, count: int) -> Array:
        return np.linspace(self.bounds[0, 0], self.bounds[0, 1], count)
