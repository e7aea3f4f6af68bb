"""The gain under Gaussian noise in many directions, as a mean over samples of the noise.

With unit noise, z = m(w) + ε, and the gain of w under atoms with means m_k and weights π_k is

    G(w) = E_ε[−log Σ_k π_k exp(−|m(w) − m_k|²/2 − ε·(m(w) − m_k))].

The mean over ε is one over a scrambled Sobol sequence, the same for every w, so that G is smooth. As the exponential is
a product of one factor of (w, k) and one of (ε, k), all of G is a product of two matrices.

Shapes: K atoms, n points, d parameters, R components of the observations, S samples of the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from refprior.exact._arrays import Array, scattered, separated
from refprior.exact._cost import in_slices
from refprior.exact.channels import Channel, SampledMean, canonical

STEPS = 150  # of one ascent
APART = 0.5  # standard deviations between starts of a search
MOST_OWN = 301  # atoms of a prior from all of which the gain is climbed; a prior of more is a sample of a density
STARTS, SCATTERED = 40, 2048  # of a search, and points among which they are chosen
FRESH, SCRAMBLES = 16384, 16  # samples of the noise that judge a prior: how many, and how often
FEWER_FRESH, FEWER_SCRAMBLES = 4096, 5  # the same for a sample of a density


def normals(count: int, width: int, seed: int) -> Array:
    """Return unit normal noise from a scrambled Sobol sequence: (S, R)."""
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
        """Return π_k exp(−|m − m_k|²/2) divided by its largest, and the log of that: (n, R) -> (n, K), (n,)."""
        logs = np.log(self.weights) - np.sum((m[:, None] - self.means) ** 2, axis=2) / 2
        largest = logs.max(axis=1)
        return np.exp(logs - largest[:, None]), largest

    def density(self, near: Array) -> Array:
        """Return p(m + ε)/φ(ε), but for exp(−ε·m) and for what `near` was divided by: (n, K) -> (n, S)."""
        return np.asarray(near @ self.toward.T)

    def gain(self, m: Array) -> Array:
        """Return G of points with these means: (n, R) -> (n,)."""

        def gain(part: Array) -> Array:
            near, largest = self.near(part)
            return self._gain(part, self.density(near), largest)

        return in_slices(gain, m, len(self.noise))

    def _gain(self, m: Array, density: Array, largest: Array) -> Array:
        return np.asarray(m @ self.noise.mean(axis=0) - np.log(density).mean(axis=1) - largest)

    def gain_and_slope(self, m: Array) -> tuple[Array, Array]:
        """Return the same with ∂G/∂m = m − Σ_k r_k m_k + the mean of ε, r_k the responsibilities: -> (n,), (n, R)."""
        near, largest = self.near(m)
        density = self.density(near)
        responsible = near * (1 / density @ self.toward) / len(self.noise)
        return self._gain(m, density, largest), m - responsible @ self.means + self.noise.mean(axis=0)

    def information(self) -> tuple[float, Array, Array]:
        """Return I = Σ_k π_k G(w_k), and its derivatives in the weights and in the means: -> I, (K,), (K, R).

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


def fresh_noise(channel: SampledMean, atoms: int = 0) -> list[Array]:
    """Draw noise that the search has not seen: the first to find large gains, the others to measure them."""
    count, scrambles = (FRESH, SCRAMBLES) if atoms <= MOST_OWN else (FEWER_FRESH, FEWER_SCRAMBLES)
    return [normals(count, channel.width, 1000 * (channel.seed + 1) + i) for i in range(scrambles)]


def sampled_gain(channel: SampledMean, u: Array, atoms: Array, weights: Array) -> Array:
    """Estimate the gain under a prior from fresh noise: (M, d), (K, d), (K,) -> (M,)."""
    mean = channel.at(u)
    parts = [Mixture.of(channel.at(atoms), weights, noise).gain(mean) for noise in fresh_noise(channel)[1:]]
    return np.asarray(np.mean(parts, axis=0))


def sampled_maxima(
    channel: SampledMean, mixture: Mixture, u: Array, seed: int, starts: int = STARTS
) -> tuple[Array, Array]:
    """Return local maxima of the gain from the atoms and other starts, and its values there: (n, d), (n,).

    Fewer samples say where they are, and all of them how high.
    """
    rough = Mixture.of(mixture.means, mixture.weights, mixture.noise[:2048])
    points = candidates(channel, u, seed)
    mean = channel.at(points)
    away = cdist(mean, mixture.means).min(axis=1) > APART  # else all starts would be beside atoms
    points, mean = points[away], mean[away]
    chosen = separated(mean, np.argsort(-rough.gain(mean), kind="stable"), APART, starts)
    own = u if len(u) <= MOST_OWN else u[np.argsort(-rough.gain(mixture.means), kind="stable")[:STARTS]]
    places = climbed(channel, rough, np.vstack([own, points[chosen]]))
    return places, mixture.gain(channel.at(places))


def candidates(channel: Channel, u: Array, seed: int) -> Array:
    """Return points of the box, its faces and edges, where parameters are equal, and near atoms: (n, d)."""
    rng = np.random.default_rng(seed)
    points = scattered(channel.bounds, SCATTERED, seed=seed)
    kind, same = rng.integers(0, 3, points.shape), rng.uniform(size=(len(points), 1))
    edges = np.where(kind == 2, same, kind)
    near = np.clip(np.repeat(u, 3, axis=0) + 0.1 * rng.normal(size=(3 * len(u), u.shape[1])), 0, 1)
    return canonical(channel, np.vstack([points, edges, near]))


def climbed(channel: SampledMean, mixture: Mixture, u: Array) -> Array:
    """Move every point uphill to a local maximum of the gain, all at once: (n, d) -> (n, d)."""
    scale = 1 / np.maximum(channel.axes.lengths, 1.0)

    def loss(x: Array) -> tuple[float, Array]:
        places = into_box(x.reshape(u.shape) * scale)
        gain, by_mean = mixture.gain_and_slope(channel.at(places))
        slope = np.einsum("kir,kr->ki", channel.slopes_at(places), by_mean) * scale
        return -float(gain.sum()), -slope.ravel()

    limits = [(0.0, float(end)) for end in np.tile(1 / scale, len(u))]
    found = minimize(loss, (u / scale).ravel(), jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": STEPS})
    return canonical(channel, into_box(found.x.reshape(u.shape) * scale))


def into_box(u: Array) -> Array:
    """Clip coordinates to the range from 0 to 1, the ends exactly, as scaling rounds them."""
    return np.where(u > 1 - 1e-12, 1.0, np.maximum(u, 0.0))
