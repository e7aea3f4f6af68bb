"""Lifetimes of one unit, observed until an end or inspected at some times.

An observed lifetime uses Gauss–Legendre panels in its log, y: with x = k (y − log s), for shape k and scale s, the
density of y is k exp(x − e^x), and the unit survives y with probability exp(−e^x).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from refprior._checks import number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels import Channel, FunctionChannel, box_of, from_family, panel_nodes

NEGLIGIBLE = 40.0  # nats: a mass of e^−40 = 4e-18 is left out
TAIL = 1e-14  # nats by which that mass, times a log-ratio of a few hundred, can change the gain


def exponential_lifetime(*, bounds: ArrayLike = (0.1, 10.0), censored_at: float | None = None) -> Channel:
    """Create an exponential lifetime, possibly right-censored.

    p(z | w) = w e^(−w z), where w is the rate. Without censoring, `repeat(n)` is the sum of n lifetimes, which is
    sufficient and has a gamma distribution.

    Parameters
    ----------
    bounds : pair of float, default: (0.1, 10.0)
        The lowest and highest rate, above 0.
    censored_at : float, optional
        The time at which observation ends.

    Returns
    -------
    Channel
        The model of one unit.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.exponential_lifetime(censored_at=1.0), tolerance=1e-9)
    >>> prior.evidence, prior.atoms.round(3).tolist(), round(prior.information, 6)  # uncensored 0.644196
    ('certified', [0.1, 3.19, 10.0], 0.610042)
    """
    box, _ = box_of(bounds, most=1)
    if not box[0, 0] > 0:
        raise ValueError(f"bounds of the rate must be above 0, got {np.asarray(bounds).tolist()}")
    shape_and_scale = np.array([[1.0, 1.0], 1 / box[0, ::-1]])

    def family(w: Array) -> tuple[Array, Array]:
        return np.ones((len(w), 1)), 1 / w[:, None]

    channel = _observed(family, bounds, shape_and_scale, censored_at)
    if censored_at is not None:
        return channel
    return replace(channel, samples=lambda n: _sum_of_lifetimes(n, bounds))


def _sum_of_lifetimes(n: int, bounds: ArrayLike) -> Channel:
    channel = from_family(lambda w: stats.gamma(n, scale=1 / w), bounds, None)
    return replace(channel, samples=lambda more: _sum_of_lifetimes(n * more, bounds))


def weibull_lifetime(*, bounds: ArrayLike = ((0.5, 4.0), (0.5, 2.0)), censored_at: float | None = None) -> Channel:
    """Create a Weibull lifetime, possibly right-censored.

    p(z | w) = (k/s) (z/s)^(k−1) e^(−(z/s)^k), where w = (k, s) are shape and scale.

    Parameters
    ----------
    bounds : two pairs of float, default: ((0.5, 4.0), (0.5, 2.0))
        The lowest and highest shape and scale, above 0.
    censored_at : float, optional
        The time at which observation ends.

    Returns
    -------
    Channel
        The model of one unit.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.weibull_lifetime(censored_at=2.0), tolerance=1e-8)
    >>> prior.evidence, len(prior.atoms), round(prior.information, 6)
    ('certified', 5, 0.782046)
    """
    box, _ = box_of(bounds, most=2)
    if len(box) != 2 or not np.all(box > 0):
        raise ValueError(f"bounds must be pairs above 0 for shape and scale, got {np.asarray(bounds).tolist()}")
    return _observed(lambda w: (w[:, :1], w[:, 1:]), bounds, box, censored_at)


Family = Callable[[Array], tuple[Array, Array]]  # parameters (K,) or (K, d) -> shape (K, 1) and scale (K, 1)


def _observed(family: Family, bounds: ArrayLike, box: Array, censored_at: float | None) -> FunctionChannel:
    """Create a Weibull lifetime observed until an end; box (2, 2) has the bounds of shape and scale."""
    end = math.inf if censored_at is None else math.log(number("censored_at", censored_at, above=0))
    edges = _edges(box, end)

    def log_density(w: Array, y: Array) -> Array:
        """Evaluate log p of the log y of a lifetime, or, from the end on, of survival: (K, d), (Y,) -> (K, Y)."""
        shape, scale = family(w)
        x = shape * (np.minimum(y, end) - np.log(scale))
        return np.asarray(np.where(y < end, np.log(shape) + x - np.exp(x), -np.exp(x)))

    def quadrature(fineness: int) -> tuple[Callable[[Array], Array], Array]:
        nodes, log_weights = panel_nodes(edges, fineness)
        if math.isfinite(end):  # one more outcome: survival
            nodes, log_weights = np.append(nodes, end), np.append(log_weights, 0.0)
        return lambda w: log_density(w, nodes) + log_weights, np.exp(nodes)

    def density(w: Array, z: Array) -> Array:
        if not z > 0:
            raise ValueError(f"a lifetime must be above 0, got {z!r}")
        return log_density(w[:, 0] if w.shape[1] == 1 else w, np.log(z).reshape(1))[:, 0]

    function, nodes = quadrature(1)
    channel = FunctionChannel.build(function, bounds, nodes, None)
    return replace(channel, quadrature=quadrature, density=density, tail=TAIL)


def _edges(box: Array, end: float) -> Array:
    """Return edges of panels in log time: narrow where all shapes have mass, wider where only flat ones do."""
    (flat, steep), (short, long) = box
    low = math.log(short) - NEGLIGIBLE / flat
    edges = [min(end, math.log(long) + math.log(NEGLIGIBLE) / flat)]
    if not edges[0] > low:
        raise ValueError(f"censored_at = {math.exp(end):g} is before all lifetimes: raise it")
    while edges[-1] > low:
        edges.append(max(low, edges[-1] - max(1 / steep, (math.log(short) - edges[-1]) / NEGLIGIBLE)))
    return np.array(edges[::-1])


def inspected_lifetime(family: Callable[..., Any], times: ArrayLike, *, bounds: ArrayLike) -> Channel:
    """Create the lifetime of a unit that is inspected at some times only.

    An outcome is the number z of inspections that the unit survived: p(z | w) = F(t_{z+1} | w) − F(t_z | w), with
    t_0 = −∞ and the last t = ∞.

    Parameters
    ----------
    family : callable
        Returns a scipy distribution at the parameters, as for `Channel.from_scipy`.
    times : array_like of shape (P,)
        Times of the inspections, increasing.
    bounds : pair or sequence of pairs of float
        The lowest and highest value of each parameter.

    Returns
    -------
    Channel
        The model of one unit; `repeat(n)` is that of n units.

    Examples
    --------
    >>> from scipy import stats
    >>> from refprior.exact import models, reference_prior
    >>> bulb = models.inspected_lifetime(lambda w: stats.expon(scale=1 / w), [1.0, 2.0], bounds=(0.1, 10))
    >>> [round(reference_prior(bulb.repeat(n)).information, 4) for n in (1, 10)]
    [0.5343, 1.1715]
    """
    ends = as_numbers("times", times)
    if ends.ndim != 1 or not len(ends) or not np.all(np.isfinite(ends)) or np.any(np.diff(ends) <= 0):
        raise ValueError(f"times must be finite numbers in increasing order, got {np.asarray(times).tolist()}")

    def log_likelihood(w: Array) -> Array:
        """Take differences of the distribution function or of survival, whichever is smaller and so more accurate."""
        chosen = family(*w.reshape(len(w), -1).T[:, :, None])
        below, above = np.asarray(chosen.cdf(ends)), np.asarray(chosen.sf(ends))
        edge = np.zeros((len(w), 1))
        rising = np.diff(np.hstack([edge, below, edge + 1]), axis=1)
        falling = -np.diff(np.hstack([edge + 1, above, edge]), axis=1)
        early = np.hstack([edge, below]) < 0.5
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.where(early, rising, falling)))

    return Channel.from_function(log_likelihood, bounds=bounds, outcomes=np.arange(len(ends) + 1.0))
