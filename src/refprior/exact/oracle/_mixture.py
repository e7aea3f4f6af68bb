"""The gain under atoms with Gaussian noise, as a mean over samples of the noise.

With unit noise, z = m(w) + ε, and the gain of w under atoms with means m_k and weights π_k is

    G(w) = E_ε[−log Σ_k π_k exp(−|m(w) − m_k|²/2 − ε·(m(w) − m_k))].

The mean over ε is one over a scrambled Sobol sequence, the same for every w, so that G is smooth. As the exponential is
a product of one factor of (w, k) and one of (ε, k), all of G is a product of two matrices.

Shapes: K atoms, n points, R components of the observations, S samples of the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from refprior.exact._arrays import Array, in_slices


def normals(count: int, width: int, seed: int) -> Array:
    """Unit normal noise from a scrambled Sobol sequence: (S, R)."""
    from scipy.stats import qmc  # slow to import, and only samples need it

    return np.asarray(ndtri(np.clip(qmc.Sobol(width, rng=seed).random(count), 1e-15, 1 - 1e-15)))


class Mixture(NamedTuple):
    """p(z) = Σ_k π_k φ(z − m_k), seen through a sample of the noise."""

    means: Array  # (K, R)
    weights: Array  # (K,)
    noise: Array  # (S, R)
    toward: Array  # (S, K) exp(ε·m_k)

    @classmethod
    def of(cls, means: Array, weights: Array, noise: Array) -> Mixture:
        return cls(means, np.maximum(weights, 1e-300), noise, np.exp(noise @ means.T))

    def near(self, m: Array) -> tuple[Array, Array]:
        """π_k exp(−|m − m_k|²/2), divided by the largest of each point, and its logarithm: (n, R) -> (n, K), (n,)."""
        logs = np.log(self.weights) - np.sum((m[:, None] - self.means) ** 2, axis=2) / 2
        largest = logs.max(axis=1)
        return np.exp(logs - largest[:, None]), largest

    def density(self, near: Array) -> Array:
        """p(m + ε)/φ(ε), but for exp(−ε·m) and for what `near` was divided by: (n, K) -> (n, S)."""
        return np.asarray(near @ self.toward.T)

    def gain(self, m: Array) -> Array:
        """G of points with these means: (n, R) -> (n,)."""

        def gain(part: Array) -> Array:
            near, largest = self.near(part)
            return self._gain(part, self.density(near), largest)

        return in_slices(gain, m, len(self.noise))

    def _gain(self, m: Array, density: Array, largest: Array) -> Array:
        return np.asarray(m @ self.noise.mean(axis=0) - np.log(density).mean(axis=1) - largest)

    def gain_and_slope(self, m: Array) -> tuple[Array, Array]:
        """The same with ∂G/∂m = m − Σ_k r_k m_k + the mean of ε, r_k the responsibilities: -> (n,), (n, R)."""
        near, largest = self.near(m)
        density = self.density(near)
        responsible = near * (1 / density @ self.toward) / len(self.noise)
        return self._gain(m, density, largest), m - responsible @ self.means + self.noise.mean(axis=0)

    def information(self) -> tuple[float, Array, Array]:
        """I = Σ_k π_k G(w_k), and its derivatives in the weights and in the means: -> I, (K,), (K, R).

        They are those of the sampled I, in which an atom counts twice: as the w of G, and in the mixture.
        """
        near, largest = self.near(self.means)
        density = self.density(near)
        gain = self._gain(self.means, density, largest)
        inverse = 1 / density / len(self.noise)
        responsible = near * (inverse @ self.toward)
        as_w = self.means - responsible @ self.means + self.noise.mean(axis=0)
        share = ((self.weights[:, None] * near).T @ inverse) * self.toward.T  # (K, S), its sum is about π
        total = share.sum(axis=1)
        as_part = (
            total[:, None] * self.means - (self.weights[:, None] * responsible).T @ self.means - share @ self.noise
        )
        slope = self.weights[:, None] * as_w + as_part
        return float(self.weights @ gain), gain - total / self.weights, slope
