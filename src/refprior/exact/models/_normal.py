"""The normal distribution with unknown mean and scale.

The mean z̄ and the standard deviation of n samples are sufficient. z̄ is normal with mean m and scale s/√n, and (n − 1)
times the sample variance over s² is χ² with n − 1 degrees of freedom. Outcomes are a trapezoid grid in z̄ and in the log
of the standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import gammaln

from refprior._checks import whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, as_numbers, grid_of
from refprior.exact.channels import Channel, FunctionChannel, log_normal_nodes

TAIL_MASS = 1e-12  # left out at each end of each axis
LOG_RATIO = 100.0  # bound on log-ratios of likelihoods in the tails: times their mass, what they add to the gain
NODES = 3.0  # per standard deviation of z̄ at the smallest scale, and of the log standard deviation
NODE_BYTES = 3000.0  # that a search holds for each node


def normal(n: int = 1, *, bounds: ArrayLike = ((-1.0, 1.0), (0.5, 2.0))) -> Channel:
    """Create samples of a normal distribution with unknown mean and scale.

    w = (mean, scale). An outcome is the pair of the sample mean and standard deviation; for n = 1, the sample.

    Parameters
    ----------
    n : int, default: 1
        Number of samples.
    bounds : two pairs of float, default: ((-1.0, 1.0), (0.5, 2.0))
        The lowest and highest mean and scale, the scale above 0.

    Returns
    -------
    Channel
        The model of all samples.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.normal(), tolerance=1e-9)
    >>> prior.evidence, len(prior.atoms), round(prior.information, 6)
    ('certified', 5, 0.677416)
    """
    n = whole_number("the number of samples n", n, at_least=1)
    box = as_numbers("bounds", bounds)
    if box.shape != (2, 2) or not box[1, 0] > 0:
        raise ValueError(
            f"bounds must be pairs for mean and scale, the scale above 0, got {np.asarray(bounds).tolist()}"
        )
    function, outcomes = _quadrature(n, box, 1)
    channel = replace(
        FunctionChannel.build(function, box, outcomes, None),
        quadrature=lambda fineness: _quadrature(n, box, fineness),
        density=lambda w, z: _log_density(w, z, n),
        tail=4 * LOG_RATIO * TAIL_MASS,
    )
    return replace(channel, samples=lambda k: normal(k * n, bounds=box))


def _log_mean(w: Array, z: Array, n: int) -> Array:
    """Evaluate the log density of the mean of n samples: (K, 2), (Y,) -> (K, Y)."""
    scale = w[:, 1:] / math.sqrt(n)
    return log_normal_nodes((z - w[:, :1]) / scale, 1) - np.log(scale)


def _log_deviation(w: Array, deviation: Array, n: int) -> Array:
    """Evaluate the log density of the log standard deviation of n samples: (K, 2), (Y,) -> (K, Y)."""
    half = (n - 1) / 2
    ratio = half * (deviation / w[:, 1:]) ** 2
    with np.errstate(divide="ignore"):
        return np.asarray(math.log(2) + half * np.log(ratio) - ratio - gammaln(half))


def _log_density(w: Array, z: Array, n: int) -> Array:
    """Evaluate log p of one outcome: (K, 2), (2,) or () -> (K,)."""
    if n == 1:
        return _log_mean(w, z.reshape(1), 1)[:, 0]
    return np.asarray(_log_mean(w, z[:1], n)[:, 0] + _log_deviation(w, z[1:], n)[:, 0] - np.log(z[1]))


def _quadrature(n: int, box: Array, fineness: int) -> tuple[Callable[[Array], Array], Array]:
    """Return the log-likelihood on nodes, and the nodes, (Z, 2), or (Z,) for one sample."""
    (low, high), (least, most) = box
    reach, width = stats.norm.isf(TAIL_MASS) * most / math.sqrt(n), least / math.sqrt(n)
    first = _even(low - reach, high + reach, width / NODES / fineness)
    step = float(first[1] - first[0])
    if n == 1:
        return lambda w: _log_mean(w, first, 1) + math.log(step), first
    spread = stats.chi2(n - 1)
    ends = np.log(np.sqrt([spread.ppf(TAIL_MASS) / (n - 1), spread.isf(TAIL_MASS) / (n - 1)]))
    second = _even(math.log(least) + ends[0], math.log(most) + ends[1], 1 / math.sqrt(2 * n) / NODES / fineness)
    check_memory(NODE_BYTES * len(first) * len(second), f"{n} samples of this normal", "narrow the bounds")
    log_weight = math.log(step * (second[1] - second[0]))

    def function(w: Array) -> Array:
        logs = _log_mean(w, first, n)[:, :, None] + _log_deviation(w, np.exp(second), n)[:, None, :]
        return np.asarray(logs.reshape(len(w), -1) + log_weight)

    return function, grid_of([first, np.exp(second)])


def _even(low: float, high: float, step: float) -> Array:
    return np.linspace(low, high, math.ceil((high - low) / step) + 1)
