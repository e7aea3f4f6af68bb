"""The search for channels whose noise is sampled: the information estimated from one sample is maximized.

The certificate judges the result by other samples, which the search has not seen.

Shapes: K atoms, n points, d parameters, R components of the observations, S samples of the noise.
Coordinates run from 0 to 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import softmax

from refprior.exact._arrays import Array, separated
from refprior.exact._cost import LOG
from refprior.exact.channels import SampledMean, canonical
from refprior.exact.sampling import APART, STARTS, STEPS, Mixture, candidates, into_box, normals, sampled_maxima
from refprior.exact.solve._ascent import note

STAGES = ((512, 2e-3), (2048, 5e-4), (16384, 2e-4))  # samples of the noise, and nats above I of a missing atom
LEAST_WEIGHT = 1e-6  # of atoms that are kept


def search(channel: SampledMean, tolerance: float = 0.0) -> tuple[Array, Array]:
    """Return atoms (K, d) and weights (K,), from ever more samples of the noise."""
    in_order = candidates(channel, channel.bounds.T, channel.seed)
    starts = np.random.default_rng(channel.seed).permutation(in_order)  # else the first would be on one side
    u = starts[separated(channel.at(starts), range(len(starts)), 2.0, 150)]
    weights = np.full(len(u), 1 / len(u))
    for stage, (count, above) in enumerate(STAGES):
        noise = normals(count, channel.width, 1000 * channel.seed + stage)
        u, weights = completed(channel, u, weights, noise, max(above, 0.25 * tolerance))
    return u, weights


def completed(channel: SampledMean, u: Array, weights: Array, noise: Array, above: float) -> tuple[Array, Array]:
    """Return the best of some rounds: ascend atoms and weights, then add atoms where the gain exceeds I."""
    best, least, stale = (u, weights), math.inf, 0
    for number in range(15):
        u, weights = ascended(channel, u, weights, noise)
        mixture = Mixture.of(channel.at(u), weights, noise)
        information = float(weights @ mixture.gain(mixture.means))
        places, gain = sampled_maxima(channel, mixture, u, seed=len(noise) + number)
        excess = float(gain.max()) - information
        note(u, weights, information)
        LOG.info("%d samples, round %d: %d atoms, excess %.0e nats", len(noise), number, len(u), excess)
        stale = 0 if excess < 0.8 * least else stale + 1
        if excess < least:
            best, least = (u, weights), excess
        if excess < above or stale == 2 or len(u) > 300:
            break
        places, gain = places[gain > information + above], gain[gain > information + above]
        order = np.argsort(-gain, kind="stable")
        missing, share = places[separated(channel.at(places), order, APART, STARTS)], min(1e-2, excess)
        weights = np.concatenate([weights, np.full(len(missing), share)])
        u, weights = merged(channel, np.vstack([u, missing]), weights / weights.sum())
    return best


def ascended(channel: SampledMean, u: Array, weights: Array, noise: Array) -> tuple[Array, Array]:
    """Maximize the sampled information over atoms and weights, by L-BFGS in units in which its curvature is even."""
    log_scale, count = 1 / np.sqrt(weights), len(u)
    scale = log_scale[:, None] / np.maximum(channel.axes.lengths, 1.0)

    def unpacked(x: Array) -> tuple[Array, Array]:
        places = into_box(x[count:].reshape(u.shape) * scale)
        return places, softmax(np.log(weights) + x[:count] * log_scale)

    def loss(x: Array) -> tuple[float, Array]:
        places, share = unpacked(x)
        value, by_weight, by_mean = Mixture.of(channel.at(places), share, noise).information()
        by_log = share * (by_weight - share @ by_weight)
        by_place = np.einsum("kir,kr->ki", channel.slopes_at(places), by_mean)
        return -value, -np.concatenate([by_log * log_scale, (by_place * scale).ravel()])

    limits = [(None, None)] * count + [(0.0, float(end)) for end in (1 / scale).ravel()]
    start = np.concatenate([np.zeros(count), (u / scale).ravel()])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": STEPS, "maxcor": 20})
    places, share = unpacked(found.x)
    used = share > LEAST_WEIGHT
    return canonical(channel, places[used]), share[used] / share[used].sum()


def merged(channel: SampledMean, u: Array, weights: Array) -> tuple[Array, Array]:
    """Give the weight of atoms at the same place to the heaviest of them."""
    order = np.argsort(-weights)
    u, weights = u[order], weights[order]
    mean = channel.at(u)
    kept = separated(mean, range(len(u)), 0.1)
    nearest = np.argmin(cdist(mean, mean[kept]), axis=1)
    return u[kept], np.bincount(nearest, weights).astype(float)
