"""Gaussian noise in too many directions for a grid of outcomes: the noise is a sample, and its error is in the gap.

The search maximizes what one sample of the noise says about the information; `_mixture` has the equations. The judge
asks other samples, which the search has not seen, and adds three standard errors to the gap.

Shapes: K atoms, n points, d parameters, R components of the observations, S samples of the noise.
Coordinates run from 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import softmax

from refprior.exact._arrays import Array, scattered
from refprior.exact._cost import LOG
from refprior.exact.channels._function import slopes
from refprior.exact.channels._mean import NoisyMean
from refprior.exact.channels._rows import Estimate
from refprior.exact.oracle._mixture import Mixture, normals
from refprior.exact.solve._best import note

STAGES = ((512, 2e-3), (2048, 5e-4), (16384, 2e-4))  # samples of the noise, and nats above I that are a missing atom
SHARE = 0.25  # of the tolerance, if that is more
ROUNDS, PATIENCE = 15, 2  # of one stage, at most, and of those without progress
STEPS = 150  # of one ascent
FIRST_ATOMS, PACKED = 150, 2.0  # first atoms, at most, and standard deviations between them
MOST_ATOMS = 300  # to which others are added
FIRST, LEAST = 1e-2, 1e-6  # weight of a new atom, and of those that are dropped
APART, SAME = 0.5, 0.1  # standard deviations between starts of a search, and between atoms that are one
STARTS, JUDGED_STARTS, SCATTERED = 40, 120, 2048  # of a search, of the judge, and points among which they are chosen
ROUGH = 2048  # samples of the noise with which points climb
FRESH, SCRAMBLES = 16384, 16  # samples of the noise that judge a prior: how many, and how often
ERRORS = 3.0  # standard errors of the information and of the largest gain that the gap holds
FARTHEST = 50.0  # standard deviations from the middle that means may have, so that no exponential overflows

NOT_LISTED = "outcomes of this model are too many to be listed: it has priors, their gain and posteriors only"


@dataclass(frozen=True, eq=False)
class SampledMean(NoisyMean):
    """A mean with Gaussian noise whose outcomes are too many to be summed."""

    seed: int = 0
    listed = False

    def __post_init__(self) -> None:
        components = self._components()
        far = float(np.linalg.norm(np.abs(components.ranges).max(axis=1)))
        if far > FARTHEST:
            raise ValueError(
                f"means reach {far:.3g} standard deviations from their middle, and a grid of outcomes would have "
                f"{components.size:.2g} of them: take a larger sigma, narrower bounds or fewer observations"
            )
        self._derive(components=components, tail=components.left_out)

    @property
    def usual_tolerance(self) -> float:
        return 1e-3

    @property
    def outcomes(self) -> Array:  # type: ignore[override]
        raise ValueError(NOT_LISTED)

    @property  # type: ignore[misc]
    def nodes(self) -> list[tuple[Array, Array]]:
        raise ValueError(NOT_LISTED)

    def finer(self) -> NoisyMean:
        raise ValueError(NOT_LISTED)

    @property
    def bounds_are_declared(self) -> bool:  # type: ignore[override]
        return False

    @property
    def _width(self) -> int:
        return len(self.components.ranges)

    @property
    def measured(self) -> bool:
        return False

    @property
    def resolved(self) -> bool:
        return self._chart.resolved

    def solve_fast(self, tolerance: float) -> tuple[Array, Array]:
        return search(self, tolerance)

    def estimate(self, u: Array, weights: Array) -> Estimate:
        return judged(self, u, weights)

    def sampled_gain(self, u: Array, atoms: Array, weights: Array) -> Array:
        mean = self.at(u)
        parts = [Mixture.of(self.at(atoms), weights, noise).gain(mean) for noise in self.fresh()[1:]]
        return np.asarray(np.mean(parts, axis=0))

    def at(self, u: Array) -> Array:
        """Components of the means at coordinates: (n, d) -> (n, R)."""
        return self.means(self.parameter(u))

    def slopes_at(self, u: Array) -> Array:
        """Their derivatives in the coordinates: (n, d) -> (n, d, R)."""
        w = self.parameter(u)
        return slopes(self.means, w, self.box, self._steps(w)) * self.jacobian(u)[:, :, None]

    def fresh(self) -> list[Array]:
        """Noise that the search has not seen: the first to look for large gains, the others to measure them."""
        return [normals(FRESH, self._width, 1000 * (self.seed + 1) + i) for i in range(SCRAMBLES)]


# the search


def search(channel: SampledMean, tolerance: float = 0.0) -> tuple[Array, Array]:
    """Atoms (K, d) and weights (K,), on ever more samples of the noise."""
    in_order = candidates(channel, channel.bounds.T, channel.seed)
    starts = np.random.default_rng(channel.seed).permutation(in_order)  # else the first would be on one side
    u = starts[_spread(channel.at(starts), np.zeros(len(starts)), FIRST_ATOMS, PACKED)]
    weights = np.full(len(u), 1 / len(u))
    for stage, (count, above) in enumerate(STAGES):
        noise = normals(count, channel._width, 1000 * channel.seed + stage)
        u, weights = completed(channel, u, weights, noise, max(above, SHARE * tolerance))
    return u, weights


def completed(channel: SampledMean, u: Array, weights: Array, noise: Array, above: float) -> tuple[Array, Array]:
    """The best of some rounds: an ascent of atoms and weights, then atoms added where the gain exceeds I."""
    best, least, stale = (u, weights), math.inf, 0
    for number in range(ROUNDS):
        u, weights = ascended(channel, u, weights, noise)
        mixture = Mixture.of(channel.at(u), weights, noise)
        information = float(weights @ mixture.gain(mixture.means))
        places, gain = maxima(channel, mixture, u, seed=len(noise) + number)
        excess = float(gain.max()) - information
        note(u, weights, information)
        LOG.info("%d samples, round %d: %d atoms, excess %.0e nats", len(noise), number, len(u), excess)
        stale = 0 if excess < 0.8 * least else stale + 1
        if excess < least:
            best, least = (u, weights), excess
        if excess < above or stale == PATIENCE or len(u) > MOST_ATOMS:
            break
        places, gain = places[gain > information + above], gain[gain > information + above]
        missing, share = places[_spread(channel.at(places), gain, STARTS)], min(FIRST, excess)
        weights = np.concatenate([weights, np.full(len(missing), share)])
        u, weights = merged(channel, np.vstack([u, missing]), weights / weights.sum())
    return best


def ascended(channel: SampledMean, u: Array, weights: Array, noise: Array) -> tuple[Array, Array]:
    """Atoms and weights that maximize the sampled information, by L-BFGS in units in which its curvature is even."""
    log_scale, count = 1 / np.sqrt(weights), len(u)
    scale = log_scale[:, None] / np.maximum(channel.axis_lengths(), 1.0)

    def unpacked(x: Array) -> tuple[Array, Array]:
        places = _in_box(x[count:].reshape(u.shape) * scale)
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
    used = share > LEAST
    return channel.canonical(places[used]), share[used] / share[used].sum()


def _in_box(u: Array) -> Array:
    """Coordinates from 0 to 1, the ends exactly: scales round them."""
    return np.where(u > 1 - 1e-12, 1.0, np.maximum(u, 0.0))


def merged(channel: SampledMean, u: Array, weights: Array) -> tuple[Array, Array]:
    """Atoms at the same place as a heavier one give their weight to it."""
    order = np.argsort(-weights)
    u, weights = u[order], weights[order]
    mean = channel.at(u)
    kept: list[int] = []
    total = weights.copy()
    for k in range(len(u)):
        apart = np.linalg.norm(mean[kept] - mean[k], axis=1)
        if len(kept) and apart.min() < SAME:
            total[kept[int(np.argmin(apart))]] += weights[k]
        else:
            kept.append(k)
    return u[kept], total[kept]


# where the gain is largest


def maxima(channel: SampledMean, mixture: Mixture, u: Array, seed: int, starts: int = STARTS) -> tuple[Array, Array]:
    """Local maxima of the gain from the atoms and other starts, and its values there: (n, d), (n,).

    Fewer samples say where they are, and all of them how high.
    """
    rough = Mixture.of(mixture.means, mixture.weights, mixture.noise[:ROUGH])
    points = candidates(channel, u, seed)
    mean = channel.at(points)
    away = cdist(mean, mixture.means).min(axis=1) > APART  # else all starts would be beside atoms
    points, mean = points[away], mean[away]
    chosen = _spread(mean, rough.gain(mean), starts)
    places = climbed(channel, rough, np.vstack([u, points[chosen]]))
    return places, mixture.gain(channel.at(places))


def candidates(channel: SampledMean, u: Array, seed: int) -> Array:
    """Points of the box, of its faces and edges, those where some parameters are equal, and some near atoms: (n, d)."""
    rng = np.random.default_rng(seed)
    points = scattered(channel.bounds, SCATTERED, seed=seed)
    kind, same = rng.integers(0, 3, points.shape), rng.uniform(size=(len(points), 1))
    edges = np.where(kind == 2, same, kind)
    near = np.clip(np.repeat(u, 3, axis=0) + 0.1 * rng.normal(size=(3 * len(u), u.shape[1])), 0, 1)
    return channel.canonical(np.vstack([points, edges, near]))


def _spread(mean: Array, gain: Array, count: int, apart: float = APART) -> list[int]:
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
    scale = 1 / np.maximum(channel.axis_lengths(), 1.0)

    def loss(x: Array) -> tuple[float, Array]:
        places = _in_box(x.reshape(u.shape) * scale)
        gain, by_mean = mixture.gain_and_slope(channel.at(places))
        slope = np.einsum("kir,kr->ki", channel.slopes_at(places), by_mean) * scale
        return -float(gain.sum()), -slope.ravel()

    limits = [(0.0, float(end)) for end in np.tile(1 / scale, len(u))]
    found = minimize(loss, (u / scale).ravel(), jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": STEPS})
    return channel.canonical(_in_box(found.x.reshape(u.shape) * scale))


def judged(channel: SampledMean, u: Array, weights: Array) -> Estimate:
    """Information and gap from noise that the search has not seen, with their standard errors over its scrambles."""
    means, (first, *others) = channel.at(u), channel.fresh()
    found, _ = maxima(channel, Mixture.of(means, weights, first), u, seed=1000 + channel.seed, starts=JUDGED_STARTS)
    places = np.vstack([found, u])
    at_places = channel.at(places)
    gains = np.stack([Mixture.of(means, weights, noise).gain(at_places) for noise in others])
    gain, gain_error = _mean_and_error(gains)
    information, information_error = _mean_and_error(gains[:, -len(u) :] @ weights)
    top = int(np.argmax(gain + ERRORS * gain_error))
    error = ERRORS * float(gain_error[top] + information_error) + channel.tail
    gap = max(0.0, float(gain[top] - information)) + error
    return Estimate(float(information), gap, error, places[top], len(places) * len(others))


def _mean_and_error(values: Array) -> tuple[Array, Array]:
    """The mean over scrambles and its standard error: (N, …) -> (…), (…)."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
