"""Counts: failures before a success, categories, and genotypes.

Shapes: C categories, d = C − 1 parameters, Z counts, K points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import gammaln

from refprior._checks import whole_number
from refprior.exact._arrays import Array, Mask, as_numbers
from refprior.exact.channels import EDGE, Channel, Coin, Rows, Symmetry, from_family, type_number, types
from refprior.exact.geometry import Axes

POLE = 1e-7  # an angle below: the category takes all the probability that is left, and later angles have no effect
TINY = 1e-15  # a few units in the last place of 1
ROUNDING = 1e-12  # by which given probabilities may sum to more than 1


def negative_binomial(successes: int, *, bounds: ArrayLike = (0.1, 1.0)) -> Channel:
    """Create the negative binomial: failures before the r-th success.

    p(z | w) = C(z + r − 1, z) w^r (1 − w)^z, where w is the probability of a success. `repeat(n)` is one sample that
    waits for n r successes, which is equivalent.

    Parameters
    ----------
    successes : int
        The number r of successes.
    bounds : pair of float, default: (0.1, 1.0)
        The lowest and highest probability of a success.

    Returns
    -------
    Channel
        The model of one sample.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.negative_binomial(3, bounds=(0.2, 1)))
    >>> prior.evidence, prior.atoms.round(4).tolist(), round(prior.information, 6)
    ('certified', [0.2, 0.5665, 1.0], 0.73935)
    """
    r = whole_number("successes", successes, at_least=1)
    channel = from_family(lambda w: stats.nbinom(r, w), bounds, None)
    return replace(channel, samples=lambda n: negative_binomial(n * r, bounds=bounds))


def geometric(*, bounds: ArrayLike = (0.1, 1.0)) -> Channel:
    """Create the geometric distribution: failures before the first success.

    p(z | w) = w (1 − w)^z, where w is the probability of a success.

    Parameters
    ----------
    bounds : pair of float, default: (0.1, 1.0)
        The lowest and highest probability of a success.

    Returns
    -------
    Channel
        The model of one sample.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> round(reference_prior(models.geometric(bounds=(0.1, 0.9))).information, 6)
    0.453268
    """
    return negative_binomial(1, bounds=bounds)


def hardy_weinberg(individuals: int, *, inbreeding: tuple[float, float] | None = None) -> Channel:
    """Create the Hardy–Weinberg model of genotypes.

    The genotypes AA, Aa, aa have probabilities w², 2w(1 − w), (1 − w)², where w is the allele frequency. The number of
    alleles is sufficient, so this is a coin of 2n tosses. With `inbreeding` there is a second parameter f, the
    probabilities are w² + f w(1 − w), 2(1 − f) w(1 − w), (1 − w)² + f w(1 − w), and an outcome is the counts of the
    genotypes.

    Parameters
    ----------
    individuals : int
        The number n of individuals.
    inbreeding : pair of float, optional
        The lowest and highest inbreeding coefficient f, within 0 and 1. By default, f = 0.

    Returns
    -------
    Channel
        The model of all individuals.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> models.hardy_weinberg(5)
    Coin(n=10)
    >>> prior = reference_prior(models.hardy_weinberg(5, inbreeding=(0, 1)), tolerance=1e-8)
    >>> prior.evidence, len(prior.atoms), round(prior.information, 6)
    ('certified', 7, 1.386018)
    """
    n = whole_number("individuals", individuals, at_least=1)
    if inbreeding is None:
        return Coin(2 * n)
    low, high = as_numbers("inbreeding", inbreeding)
    if not 0 <= low < high <= 1:
        raise ValueError(f"inbreeding must be (low, high) within 0 and 1, got {inbreeding!r}")

    def one(w: Array) -> Array:
        a, f = w.T
        mixed = a * (1 - a)
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(np.stack([a**2 + f * mixed, 2 * (1 - f) * mixed, (1 - a) ** 2 + f * mixed], axis=1))
            )

    return Channel.from_function(one, bounds=[(0, 1), (low, high)], outcomes=np.arange(3.0)).repeat(n)


def multinomial(categories: int, n: int) -> Channel:
    """Create the multinomial with unknown probabilities.

    w holds the probabilities of all categories but the last, and an outcome is the counts of all.

    Parameters
    ----------
    categories : int
        Number of categories, from 2 to 5.
    n : int
        Number of draws.

    Returns
    -------
    Channel
        The model of all draws; a `Coin` for two categories.

    Notes
    -----
    The square roots of the probabilities are a point on a sphere, on which Fisher length is 2√n times arc length.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.multinomial(3, 1), tolerance=1e-9)
    >>> prior.atoms.round(6).tolist(), round(prior.information, 6)  # the corners, log 3
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], 1.098612)
    """
    if whole_number("categories", categories, at_least=2, at_most=5) == 2:
        return Coin(n)
    return Multinomial(categories, n)


def _share(u: Array) -> Array:
    """Return cos²(u/2), exactly 0 at π: the share that a category takes of the probability that is left."""
    return np.where(u > np.pi - TINY, 0.0, np.cos(u / 2) ** 2)


@dataclass(frozen=True)
class Multinomial(Channel):
    """The channel that `multinomial` returns.

    Coordinates are angles: p₁ = cos²(u₁/2), p₂ = sin²(u₁/2) cos²(u₂/2), …, in which log p is a sum over the angles.
    """

    categories: int
    n: int
    bounds: Array = field(init=False, repr=False, compare=False)
    outcomes: Array = field(init=False, repr=False, compare=False)  # (Z, C) counts
    coefficient: Array = field(init=False, repr=False, compare=False)  # (Z,)
    left: Array = field(init=False, repr=False, compare=False)  # (Z, d) counts of all later categories

    def __post_init__(self) -> None:
        counts = types(whole_number("the number of draws n", self.n, at_least=1), self.categories)
        coefficient = gammaln(self.n + 1.0) - gammaln(counts + 1).sum(axis=1)
        left = self.n - np.cumsum(counts, axis=1)[:, :-1]
        bounds = np.tile([0.0, np.pi], (self.categories - 1, 1))
        self._derive(bounds=bounds, outcomes=counts, coefficient=coefficient, left=left)

    def log_likelihood(self, u: Array) -> Array:
        with np.errstate(divide="ignore"):
            logs = np.log(_share(u)), np.log(np.sin(u / 2) ** 2)
        counts = self.outcomes[:, :-1].T, self.left.T
        total = sum(np.where(np.isneginf(log), 0.0, log) @ count for log, count in zip(logs, counts, strict=True))
        never = sum(np.isneginf(log).astype(float) @ count for log, count in zip(logs, counts, strict=True))
        return np.where(np.asarray(never) > 0, -np.inf, np.asarray(total) + self.coefficient)

    def rows(self, u: Array) -> Rows:
        """Differentiate log p = Σ_i 2 z_i log cos(u_i/2) + 2 left_i log sin(u_i/2), one angle at a time."""
        tan = np.tan(np.clip(u, EDGE, np.pi - EDGE) / 2)[:, :, None]
        first = -self.outcomes[:, :-1].T * tan + self.left.T / tan
        own = -0.5 * (self.outcomes[:, :-1].T * (1 + tan**2) + self.left.T * (1 + 1 / tan**2))
        second = np.eye(self.dimension)[..., None] * own[:, :, None]
        return Rows.from_log_derivatives(self.log_likelihood(u), first, second)

    def parameter(self, u: Array) -> Array:
        before = np.cumprod(np.sin(u / 2) ** 2, axis=1)
        return np.hstack([np.ones((len(u), 1)), before[:, :-1]]) * _share(u)

    def coordinate(self, w: Array) -> Array:
        before = 1 - np.hstack([np.zeros((len(w), 1)), np.cumsum(w, axis=1)[:, :-1]])
        outside = (w < 0) | (w > before + ROUNDING)
        share = np.divide(w, before, out=np.zeros_like(w), where=before > TINY)
        return np.where(outside, np.nan, 2 * np.arccos(np.sqrt(np.clip(share, 0, 1))))

    def jacobian(self, u: Array) -> Array:
        raise ValueError("Fisher information of a multinomial is not supported: each probability has several angles")

    @property
    def axes(self) -> Axes:
        return Axes(self.bounds, np.full(self.dimension, np.pi * math.sqrt(self.n)))

    @property
    def symmetry(self) -> Symmetry:  # type: ignore[override]
        """After a category that takes all that is left, further angles have no effect: π for each."""
        return Symmetry(lambda u: np.where(self._idle(u), np.pi, u), self._idle)

    def _idle(self, u: Array) -> Mask:
        pole = u < POLE
        return np.asarray((np.cumsum(pole, axis=1) > 0) & ~(pole & (np.cumsum(pole, axis=1) == 1)))

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        return np.asarray(self.log_likelihood(u)[:, type_number(self.outcomes, self.n, z)])

    def repeat(self, n: int) -> Multinomial:
        return Multinomial(self.categories, self.n * whole_number("the number of samples n", n, at_least=1))
