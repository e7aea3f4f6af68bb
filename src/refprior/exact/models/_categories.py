"""Counts of categories: the multinomial on its simplex, and genotypes.

Shapes: C categories, d = C − 1 parameters, Z counts, K points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from refprior._checks import whole_number
from refprior.exact._arrays import Array, Mask, as_numbers
from refprior.exact.channels import EDGE, Channel, Coin, Rows, Symmetry, types
from refprior.exact.geometry import Axes

POLE = 1e-7  # where a share is this close to all that is left, further angles do nothing


def hardy_weinberg(individuals: int, *, inbreeding: tuple[float, float] | None = None) -> Channel:
    """Genotypes AA, Aa, aa of n individuals with allele frequency w: probabilities w², 2w(1 − w), (1 − w)².

    Only the 2n alleles count, so this is a coin of 2n tosses. With `inbreeding`, a pair of bounds within 0 and 1, there
    is a second parameter f, an outcome is the counts of the genotypes, and their probabilities are w² + f w(1 − w),
    2(1 − f) w(1 − w) and (1 − w)² + f w(1 − w).

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
    """n draws from C categories with unknown probabilities; w holds all but the last, and z the counts.

    The square roots of the probabilities are a point on a sphere, on which Fisher length is 2√n times its length.

    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.multinomial(3, 1), tolerance=1e-9)
    >>> prior.atoms.round(6).tolist(), round(prior.information, 6)  # the corners, log 3
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], 1.098612)
    """
    if whole_number("categories", categories, at_least=2, at_most=5) == 2:
        return Coin(n)
    return Multinomial(categories, n)


@dataclass(frozen=True)
class Multinomial(Channel):
    """The channel that `multinomial` returns.

    Coordinates are angles: p₁ = cos²(a₁/2), p₂ = sin²(a₁/2) cos²(a₂/2), … Derivatives are taken in shares of what is
    left, p_i = v_i ∏_{j<i} (1 − v_j), in which log p is a sum.
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
        taken, left = np.cos(u / 2) ** 2, np.sin(u / 2) ** 2
        taken = np.where(u > np.pi - 1e-15, 0.0, taken)
        with np.errstate(divide="ignore"):
            logs = np.log(taken), np.log(left)
        counts = self.outcomes[:, :-1].T, self.left.T
        total = sum(np.where(np.isneginf(log), 0.0, log) @ count for log, count in zip(logs, counts, strict=True))
        never = sum(np.isneginf(log).astype(float) @ count for log, count in zip(logs, counts, strict=True))
        return np.where(np.asarray(never) > 0, -np.inf, np.asarray(total) + self.coefficient)

    def rows(self, u: Array) -> Rows:
        """log p = Σ_i 2 z_i log cos(u_i/2) + 2 left_i log sin(u_i/2): one axis at a time."""
        tan = np.tan(np.clip(u, EDGE, np.pi - EDGE) / 2)[:, :, None]
        first = -self.outcomes[:, :-1].T * tan + self.left.T / tan
        own = -0.5 * (self.outcomes[:, :-1].T * (1 + tan**2) + self.left.T * (1 + 1 / tan**2))
        second = np.eye(self.dimension)[..., None] * own[:, :, None]
        return Rows.from_log_derivatives(self.log_likelihood(u), first, second)

    def parameter(self, u: Array) -> Array:
        before = np.cumprod(np.sin(u / 2) ** 2, axis=1)
        cosine = np.where(u > np.pi - 1e-15, 0.0, np.cos(u / 2) ** 2)
        return np.hstack([np.ones((len(u), 1)), before[:, :-1]]) * cosine

    def coordinate(self, w: Array) -> Array:
        before = 1 - np.hstack([np.zeros((len(w), 1)), np.cumsum(w, axis=1)[:, :-1]])
        outside = (w < 0) | (w > before + 1e-12)
        share = np.divide(w, before, out=np.zeros_like(w), where=before > 1e-15)
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
        seen = as_numbers("an outcome", z)
        if seen.shape != (self.categories,) or seen.sum() != self.n or np.any((seen < 0) | (seen != np.round(seen))):
            raise ValueError(f"{z!r} is not an outcome: they are {self.categories} counts that sum to {self.n}")
        return np.asarray(self.log_likelihood(u)[:, np.all(self.outcomes == seen, axis=1)][:, 0])

    def repeat(self, n: int) -> Multinomial:
        return Multinomial(self.categories, self.n * whole_number("the number of samples n", n, at_least=1))
