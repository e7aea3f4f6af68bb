"""Draws from densities that no quadrature reaches, and how far posteriors are displaced from the truth.

Jeffreys prior π_J ∝ √det g is drawn by Metropolis steps. The projected maximum-likelihood prior is that of the estimate
ŵ(z) of data z with the normalized maximum likelihood, p(z) ∝ max_w p(z | w).

Shapes: K draws, d parameters, T observations, R components of them, M true parameters.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from refprior._checks import whole_number
from refprior.exact._arrays import Array, scattered, separated
from refprior.exact._cost import LOG, SLICE_ENTRIES
from refprior.exact.ask._jeffreys import coordinate_information, require_density
from refprior.exact.channels import Channel, NoisyMean, SampledMean, canonical, check_channel
from refprior.exact.oracle import log_marginal
from refprior.exact.sampling import Mixture, candidates, into_box, normals
from refprior.exact.solve import fisher_grid

DENSITIES = ("jeffreys", "uniform", "projected")
FIRST_SWEEPS, MOST_SWEEPS = 50, 3200  # of the Metropolis steps, each of as many steps as parameters
DRIFT = 3.0  # standard errors by which log √det g may change over the second half of the steps
SMALLEST_SLOPE = 1e-13, 1e-7  # of the largest one, of given slopes and of differences: below, √det g is rounding
NET = 0.5  # standard deviations between the predictions of true parameters
MOST_TRUTHS = 200
STEPS = {"maxiter": 300}  # of the fits
NOISE = 4096  # samples of the noise in the mean of a posterior
ESTIMATE_SPACING = 1e-3, 0.1  # standard deviations between the parameters that may be estimates, at least and at most


def draw_prior(channel: Channel, name: str, count: int = 512, *, seed: int = 0) -> tuple[Array, Array]:
    """Draw parameters from the Jeffreys, the uniform or the projected maximum-likelihood prior.

    Jeffreys prior, π_J ∝ √det g, is drawn in any dimension by Metropolis steps, one independent chain per draw, until
    the mean of log √det g no longer drifts. The projected maximum-likelihood prior is the law of the estimate ŵ(z) if
    data have the normalized maximum likelihood, p(z) ∝ max_w p(z | w): listed outcomes are weighted, and Gaussian data
    are drawn by importance sampling, so that the weights differ.

    Parameters
    ----------
    channel : Channel
        The model p(z | w), with continuous parameters.
    name : {"jeffreys", "uniform", "projected"}
        The prior.
    count : int, default: 512
        The number of draws; for "projected" and listed outcomes, as many as there are different estimates.
    seed : int, default: 0
        Seed of the draws.

    Returns
    -------
    parameters : ndarray of shape (K, d)
        The draws.
    weights : ndarray of shape (K,)
        Their weights, which sum to one.

    Raises
    ------
    ValueError
        If det g is zero, or too small for its slopes.

    Examples
    --------
    >>> from refprior.exact import Coin, draw_prior
    >>> w, weights = draw_prior(Coin(2), "projected")  # estimates 0, 1/2, 1 with weights 1, 1/2, 1
    >>> w.ravel().round(3).tolist(), weights.round(6).tolist()
    ([0.0, 0.5, 1.0], [0.4, 0.2, 0.4])
    """
    u, weights = draws(check_channel(channel), name, whole_number("count", count, at_least=10), seed)
    return channel.parameter(u), weights


def draws(channel: Channel, name: str, count: int, seed: int) -> tuple[Array, Array]:
    """Return coordinates (K, d) and weights (K,) that represent one of the densities."""
    if name not in DENSITIES:
        raise ValueError(f"unknown prior {name!r}: choose {', '.join(DENSITIES)}")
    require_density(channel)
    if name == "projected":
        return _projected(channel, count, seed) if isinstance(channel, NoisyMean) else _projected_outcomes(channel)
    rng = np.random.default_rng(seed)
    ends = channel.parameter(channel.bounds.T)
    w = rng.uniform(ends.min(axis=0), ends.max(axis=0), (count, channel.dimension))
    u = channel.coordinate(w) if name == "uniform" else _jeffreys(channel, count, rng)
    return u, np.full(count, 1 / count)


def log_volume(channel: Channel, u: Array) -> Array:
    """Compute log √det g in the coordinates: (K, d) -> (K,)."""
    if isinstance(channel, NoisyMean):  # g = JᵀJ = RᵀR
        diagonal = np.abs(np.einsum("kii->ki", np.linalg.qr(channel.observed_slopes(u), mode="r")))
    else:
        information = coordinate_information(channel, u)
        diagonal = np.sqrt(np.maximum(np.linalg.eigvalsh(information), 0.0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(diagonal).sum(axis=1))


def _jeffreys(channel: Channel, count: int, rng: np.random.Generator) -> Array:
    """Draw from √det g by Metropolis steps along single coordinates, of many lengths, reflected at the bounds."""
    low, width = channel.bounds[:, 0], np.ptp(channel.bounds, axis=1)
    u = rng.uniform(low, low + width, (count, channel.dimension))
    _check_volume(channel, u)
    height, own, sweeps = log_volume(channel, u), np.arange(count), FIRST_SWEEPS
    while True:
        before = height
        for _ in range(sweeps * channel.dimension):
            axis = rng.integers(0, channel.dimension, count)
            step = 10 ** rng.uniform(-2.5, 0.3, count) * rng.normal(size=count)
            x = np.abs((u[own, axis] - low[axis]) / width[axis] + step) % 2
            moved = u.copy()
            moved[own, axis] = low[axis] + width[axis] * np.minimum(x, 2 - x)
            there = log_volume(channel, moved)
            accepted = np.log(rng.uniform(size=count)) < there - height
            u, height = np.where(accepted[:, None], moved, u), np.where(accepted, there, height)
        drift = abs(float(height.mean() - before.mean()))
        error = float(np.hypot(height.std(), before.std())) / np.sqrt(count)
        LOG.info("Jeffreys prior, %d sweeps: log √det g moved by %.2g, standard error %.2g", sweeps, drift, error)
        if sweeps > FIRST_SWEEPS and drift < DRIFT * error:
            return canonical(channel, u)
        if sweeps >= MOST_SWEEPS:
            raise ValueError(
                "the draws from the Jeffreys prior did not settle: narrow the bounds, or pass your own draws"
            )
        sweeps *= 2


def _check_volume(channel: Channel, u: Array) -> None:
    """Raise ValueError if √det g is zero or rounding at most places."""
    if isinstance(channel, NoisyMean):
        seen = channel.observed_slopes(u)
        if seen.shape[1] < seen.shape[2]:
            raise ValueError(
                f"det g is zero with {seen.shape[1]} observations of {seen.shape[2]} parameters: take more observations"
            )
        size = np.linalg.svd(seen, compute_uv=False)
        smallest = SMALLEST_SLOPE[channel.derivative is None]
    else:
        size = np.sqrt(np.maximum(np.linalg.eigvalsh(coordinate_information(channel, u))[:, ::-1], 0.0))
        smallest = SMALLEST_SLOPE[1]
    ratio = float(np.median(size[:, -1] / np.maximum(size[:, 0], 1e-300)))
    if ratio < smallest:
        given = "" if smallest == SMALLEST_SLOPE[0] else "give from_mean the slopes, or "
        raise ValueError(
            f"√det g is rounding: the smallest singular value of the slopes is {ratio:.1e} of the largest, below the "
            f"limit of {smallest:.0e}; {given}pass your own draws from the Jeffreys prior"
        )


def _projected(channel: NoisyMean, count: int, seed: int) -> tuple[Array, Array]:
    """Draw data with density ∝ max_w p(z | w), by importance sampling from a net of parameters, and estimate w."""
    rng = np.random.default_rng(seed)
    points = rng.permutation(candidates(channel, channel.bounds.T, seed))
    mean = channel.at(points)
    net = mean[separated(mean, range(len(mean)), 1.0, 400)]
    seen = net[rng.integers(0, len(net), count)] + rng.normal(size=(count, mean.shape[1]))
    proposed = logsumexp(-(cdist(seen, net) ** 2) / 2, axis=1)
    u = _estimates(channel, seen, points[np.argmin(cdist(seen, mean), axis=1)])
    apart = np.sum((seen - channel.at(u)) ** 2, axis=1)
    log_weights = -apart / 2 - proposed
    return u, np.exp(log_weights - logsumexp(log_weights))


def _estimates(channel: NoisyMean, seen: Array, start: Array) -> Array:
    """Return maximum-likelihood estimates of data in components, all at once: (K, R), (K, d) -> (K, d)."""
    scale = 1 / np.maximum(channel.axes.lengths, 1.0)

    def loss(x: Array) -> tuple[float, Array]:
        u = into_box(x.reshape(start.shape) * scale)
        off = channel.at(u) - seen
        return float(np.sum(off**2) / 2), (np.einsum("kir,kr->ki", channel.slopes_at(u), off) * scale).ravel()

    limits = [(0.0, float(end)) for end in np.tile(1 / scale, len(start))]
    found = minimize(
        loss, (start / scale).ravel(), jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 300}
    )
    return canonical(channel, into_box(found.x.reshape(start.shape) * scale))


def _projected_outcomes(channel: Channel) -> tuple[Array, Array]:
    """Return the estimates ŵ(z) of all outcomes, on a fine grid, and their shares of Σ_z max_w p(z | w)."""
    if channel.dimension > 3:
        raise ValueError("the projected prior needs Gaussian noise (from_mean) or at most three parameters")
    entries = (2e7 / channel.outcome_count) ** (1 / channel.dimension)  # of each axis
    spacing = float(np.clip(channel.axes.lengths.max() / entries, *ESTIMATE_SPACING))
    points = fisher_grid(channel, spacing).points
    best, place = np.full(channel.outcome_count, -np.inf), np.zeros(channel.outcome_count, dtype=int)
    size = max(1, SLICE_ENTRIES // channel.outcome_count)
    for i in range(0, len(points), size):
        logs = channel.log_likelihood(points[i : i + size])
        top = logs.max(axis=0)
        place, best = np.where(top > best, i + logs.argmax(axis=0), place), np.maximum(top, best)
    used, number = np.unique(place, return_inverse=True)
    weights = np.bincount(number, np.exp(best))
    return points[used], weights / weights.sum()


def true_parameters(channel: Channel, count: int) -> Array:
    """Return parameters at which a bias is evaluated, spread evenly over what a model predicts: (M, d).

    Of one parameter they are even in Fisher length. Under Gaussian noise, their predictions are equally far apart;
    else they are scattered over the coordinates.
    """
    if channel.dimension == 1:
        return channel.axes.points(0, count)[:, None]
    if not isinstance(channel, NoisyMean):
        return canonical(channel, scattered(channel.bounds, MOST_TRUTHS - 2**channel.dimension))
    points = np.random.default_rng(1).permutation(candidates(channel, channel.bounds.T, 1))
    mean, distance = channel.at(points), NET
    while len(chosen := separated(mean, range(len(mean)), distance, MOST_TRUTHS + 1)) > MOST_TRUTHS:
        distance *= 1.2
    return np.asarray(points[chosen])


def displacements(channel: Channel, u: Array, weights: Array, truths: Array, seed: int = 0) -> Array:
    """Compute how far the posterior mean of the predictions is from the truth on average, in standard deviations.

    Under Gaussian noise ∂G/∂m = m − E[Σ_k r_k m_k | m] with the posterior's weights r_k, so the displacement is minus
    the slope of the gain in the mean. Otherwise it is that of the coordinates, |Δu| = √(Δuᵀ g Δu) with the Fisher
    information g at the truth. (K, d), (K,), (M, d) -> (M,).
    """
    if isinstance(channel, SampledMean):
        mixture = Mixture.of(channel.at(u), weights, normals(NOISE, channel.width, seed))
        return np.asarray(np.linalg.norm(mixture.gain_and_slope(channel.at(truths))[1], axis=1))
    logs = log_marginal(channel, u, weights)
    if isinstance(channel, NoisyMean):
        return np.asarray(np.linalg.norm(channel.gain_of_means(channel.at(truths), logs)[1], axis=1))
    if channel.noise is not None:
        means = channel.noise.cells(truths, truths).mean
        return np.asarray(np.linalg.norm(channel.noise.gain(means, logs)[1], axis=1))
    if not channel.continuous:
        return np.full(len(truths), np.nan)
    possible = np.isfinite(logs)
    posterior = np.exp(channel.log_likelihood(u) - np.where(possible, logs, 0.0)) * weights[:, None]  # (K, Z)
    p = np.exp(channel.log_likelihood(truths))
    moved = p @ (posterior.T @ u) - truths  # of the coordinates
    moved[np.any(p[:, ~possible] > 0, axis=1)] = np.nan  # the prior has no posterior there
    return np.asarray(np.sqrt(np.einsum("mi,mij,mj->m", moved, coordinate_information(channel, truths), moved)))
