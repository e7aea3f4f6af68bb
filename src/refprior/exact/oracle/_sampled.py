"""The largest gain of a prior from samples of the noise, and the samples that judge it.

Shapes: K atoms, n points, d parameters, R components of the observations, S samples of the noise.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from refprior.exact._arrays import Array, scattered
from refprior.exact.channels import SampledMean, canonical
from refprior.exact.oracle._mixture import Mixture, normals

STEPS = 150  # of one ascent
APART = 0.5  # standard deviations between starts of a search
STARTS, SCATTERED = 40, 2048  # of a search, and points among which they are chosen
ROUGH = 2048  # samples of the noise with which points climb
FRESH, SCRAMBLES = 16384, 16  # samples of the noise that judge a prior: how many, and how often


def fresh_noise(channel: SampledMean) -> list[Array]:
    """Draw noise that the search has not seen: the first to find large gains, the others to measure them."""
    return [normals(FRESH, channel.width, 1000 * (channel.seed + 1) + i) for i in range(SCRAMBLES)]


def sampled_gain(channel: SampledMean, u: Array, atoms: Array, weights: Array) -> Array:
    """Estimate the gain under a prior from fresh noise: (M, d), (K, d), (K,) -> (M,)."""
    mean = channel.at(u)
    parts = [Mixture.of(channel.at(atoms), weights, noise).gain(mean) for noise in fresh_noise(channel)[1:]]
    return np.asarray(np.mean(parts, axis=0))


def sampled_maxima(
    channel: SampledMean, mixture: Mixture, u: Array, seed: int, starts: int = STARTS
) -> tuple[Array, Array]:
    """Local maxima of the gain from the atoms and other starts, and its values there: (n, d), (n,).

    Fewer samples say where they are, and all of them how high.
    """
    rough = Mixture.of(mixture.means, mixture.weights, mixture.noise[:ROUGH])
    points = candidates(channel, u, seed)
    mean = channel.at(points)
    away = cdist(mean, mixture.means).min(axis=1) > APART  # else all starts would be beside atoms
    points, mean = points[away], mean[away]
    chosen = spread_out(mean, rough.gain(mean), starts)
    places = climbed(channel, rough, np.vstack([u, points[chosen]]))
    return places, mixture.gain(channel.at(places))


def candidates(channel: SampledMean, u: Array, seed: int) -> Array:
    """Points of the box, of its faces and edges, those where some parameters are equal, and some near atoms: (n, d)."""
    rng = np.random.default_rng(seed)
    points = scattered(channel.bounds, SCATTERED, seed=seed)
    kind, same = rng.integers(0, 3, points.shape), rng.uniform(size=(len(points), 1))
    edges = np.where(kind == 2, same, kind)
    near = np.clip(np.repeat(u, 3, axis=0) + 0.1 * rng.normal(size=(3 * len(u), u.shape[1])), 0, 1)
    return canonical(channel, np.vstack([points, edges, near]))


def spread_out(mean: Array, gain: Array, count: int, apart: float = APART) -> list[int]:
    """The highest points that are not close to a higher one, at most so many: (n, R), (n,) -> indices."""
    kept: list[int] = []
    for k in np.argsort(-gain, kind="stable"):
        if len(kept) == count:
            break
        if not kept or np.linalg.norm(mean[kept] - mean[k], axis=1).min() > apart:
            kept.append(int(k))
    return kept


def climbed(channel: SampledMean, mixture: Mixture, u: Array) -> Array:
    """Every point moved uphill to a local maximum of the gain, all at once: (n, d) -> (n, d)."""
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
    """Coordinates from 0 to 1, the ends exactly: scales round them."""
    return np.where(u > 1 - 1e-12, 1.0, np.maximum(u, 0.0))
