"""Distributions as they stand in scipy, as channels: counts with a bound on the tail, densities on a quadrature.

The support that matters is read off the quantiles of the distribution on a grid of parameters. What lies beyond has a
mass below TAIL_MASS. A density is put on Gauss–Legendre panels whose edges are such quantiles, so that they are as fine
as the narrowest distribution there; the certificate compares with twice as many panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import number
from refprior.exact._arrays import Array, grid_of
from refprior.exact.channels._channel import ROW_SUM_TOLERANCE
from refprior.exact.channels._function import FunctionChannel, box_of

Family = Callable[..., Any]  # parameters -> a frozen distribution

TAIL_MASS = 1e-17  # on either side, at every parameter that was tried
TAIL_NATS = 750.0  # by which a log-ratio of doubles can differ at most: a tail adds less than this times its mass
FINENESS = 1, 2, 4, 8  # parts of a panel, until the mass is right
SMOOTH = 1e-4  # share of the error that a quadrature eight times as fine leaves of a density without kinks
WIDE = 100.0  # ratio of a parameter's ends from which it is tried on a log scale too
MOST_COUNTS = 200_000  # that are listed
LEVELS = np.concatenate([10.0 ** np.arange(-17, -1), np.arange(0.05, 0.5, 0.05)])  # quantiles that are panel edges


def from_family(
    family: object, bounds: ArrayLike, censored_at: float | None, bins: ArrayLike | None = None
) -> FunctionChannel:
    """Find out what the family is, and where its outcomes lie."""
    if not callable(family):
        raise ValueError(f"family must be a function of the parameters, got {family!r}")
    end = None if censored_at is None else number("censored_at", censored_at)
    if bins is not None and end is not None:
        raise ValueError("give censored_at or bins: bins that end in inf are censored there")
    box, _ = box_of(bounds, most=2)
    # quantiles are taken at a grid of parameters
    sides = [_tried(low, high, {1: 33, 2: 9}[len(box)]) for low, high in box]
    try:
        tried = family(*grid_of(sides).T[:, :, None])
    except (TypeError, ValueError) as error:
        raise ValueError(f"family failed on {len(box)} parameters, one array each: {error}") from error
    if not hasattr(tried, "ppf"):
        raise ValueError(f"family must return a frozen distribution such as scipy.stats.gamma(2.0), got {tried!r}")
    if bins is not None:
        return _binned(family, bounds, tried, np.asarray(bins, dtype=float))
    discrete = hasattr(getattr(tried, "dist", tried), "pmf")
    return (_counts if discrete else _density)(family, bounds, tried, end)


def _tried(low: float, high: float, count: int) -> Array:
    """Return values of a parameter at which quantiles are taken: even, and for a wide scale also even in its log."""
    even = np.linspace(low, high, count)
    return np.union1d(even, np.geomspace(low, high, count)) if 0 < low < high / WIDE else even


def _parameters(w: Array) -> Array:
    """Return columns (K, 1) of the parameters: (K,) or (K, d) -> (d, K, 1)."""
    return w.reshape(len(w), -1).T[:, :, None]


def _binned(family: Family, bounds: ArrayLike, tried: Any, edges: Array) -> FunctionChannel:
    """Return the channel whose outcomes are the bins (a, b] between the edges."""
    if edges.ndim != 1 or len(edges) < 3 or not np.all(np.diff(edges) > 0):
        raise ValueError("bins must be at least three increasing edges; the first and the last may be infinite")
    outside = float(np.max(tried.cdf(edges[0]) + tried.sf(edges[-1])))
    if outside > TAIL_MASS:
        raise ValueError(f"bins leave out a probability of up to {outside:.1g}: let them begin at -inf and end at inf")

    def function(w: Array) -> Array:
        """Return log P(a < z <= b) by differences of whichever of cdf and sf is small."""
        chosen = family(*_parameters(w))
        below, above = chosen.cdf(edges), chosen.sf(edges)
        mass = np.where(below[:, 1:] < 0.5, np.diff(below), -np.diff(above))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(mass, 0.0)))

    return replace(FunctionChannel.build(function, bounds, np.arange(len(edges) - 1.0), None), tail=TAIL_NATS * outside)


def _counts(family: Family, bounds: ArrayLike, tried: Any, end: float | None) -> FunctionChannel:
    first = float(np.min(tried.support()[0]))
    if end is not None and end - first <= MOST_COUNTS:
        low, high = first, np.ceil(end)
    elif np.max(tried.sf(first + 5 * MOST_COUNTS)) > 0.5:  # quantiles of scipy would take forever
        low, high = first, math.inf
    else:
        low, high = _last(tried, -1), _last(tried, 1) if end is None else np.ceil(end)
    if not high - low <= MOST_COUNTS:
        beyond = float(np.max(tried.sf(low + MOST_COUNTS))) if np.isfinite(low) else 1.0
        raise ValueError(
            f"counts beyond {MOST_COUNTS:,} have a probability of up to {beyond:.1g}, too much to leave out: pass "
            "censored_at=c, so that all counts from c on are one outcome, or narrow the bounds"
        )
    if not high > low:
        raise ValueError(f"censored_at = {end:g} must be above the smallest outcome, {low:g}")
    z = np.arange(low, high + 1)

    def function(w: Array) -> Array:
        """Return log p of every count, the last one with all beyond it if it is censored there."""
        chosen = family(*_parameters(w))
        return np.asarray(chosen.logpmf(z) if end is None else np.hstack([chosen.logpmf(z[:-1]), chosen.logsf(z[-2])]))

    mass = float(np.max(tried.cdf(z[0] - 1) + (tried.sf(z[-1]) if end is None else 0.0)))
    return replace(FunctionChannel.build(function, bounds, z, None), tail=TAIL_NATS * mass)


def _density(family: Family, bounds: ArrayLike, tried: object, end: float | None) -> FunctionChannel:
    edges = _edges(tried, end)

    def quadrature(fineness: int) -> tuple[Callable[[Array], Array], Array]:
        nodes, log_weights = panel_nodes(edges, fineness)

        def function(w: Array) -> Array:
            chosen = family(*_parameters(w))
            inside = np.asarray(chosen.logpdf(nodes) + log_weights)
            return inside if end is None else np.hstack([inside, chosen.logsf(end)])

        return function, nodes if end is None else np.append(nodes, end)

    def density(w: Array, z: Array) -> Array:
        chosen = family(*w.T)
        return np.asarray(chosen.logpdf(z) if end is None or z < end else chosen.logsf(end))

    box, scalar = box_of(bounds)
    # places other than those at which panels have their edges
    places = box[:, 0] + np.array([0.0, 1e-4, 3e-3, 0.03, 0.217, 0.563, 0.871, 1.0])[:, None] * np.ptp(box, axis=1)
    errors: list[float] = []
    for fineness in FINENESS:
        function, nodes = quadrature(fineness)
        mass = np.exp(function(places[:, 0] if scalar else places)).sum(axis=1)
        errors.append(float(np.abs(mass - 1).max()))
        if errors[-1] <= ROW_SUM_TOLERANCE:
            break
    else:
        raise ValueError(_why_not(float(mass[np.argmax(np.abs(mass - 1))]), errors))
    channel = FunctionChannel.build(function, bounds, nodes, None)
    tail = TAIL_NATS * 2 * TAIL_MASS
    return replace(channel, quadrature=quadrature, fineness=fineness, density=density, tail=tail)


def _why_not(mass: float, errors: list[float]) -> str:
    """Return why no quadrature fits a density, from its integral and the errors of finer and finer quadratures."""
    if mass > 1.5:
        return (
            f"the density integrates to {mass:.3g} instead of 1 over its outcomes, as a periodic one does (vonmises "
            "with loc): give nodes on one period to from_function"
        )
    if errors[-1] > SMOOTH * errors[0]:
        return (
            f"the quadrature misses the density's mass of one by {errors[-1]:.1e}, however fine: it has a kink "
            "or a jump that moves with the parameter (laplace, uniform, triang): pass bins=edges"
        )
    return (
        f"the quadrature misses the density's mass of one by {errors[-1]:.1e}: scales differ too much within the "
        "bounds; narrow them"
    )


def _edges(tried: Any, end: float | None) -> Array:
    """Return edges of the panels: quantiles of the distributions that were tried, up to `end` if there is one."""
    places = [tried.ppf(level) for level in LEVELS] + [tried.isf(level) for level in LEVELS] + [tried.median()]
    found = np.unique(np.concatenate([np.ravel(place) for place in places]))
    found = found[np.isfinite(found)]
    ends = float(np.min(tried.support()[0])), float(np.max(tried.support()[1]))
    if end is not None:
        if not found[0] < end:
            raise ValueError(f"censored_at = {end:g} must be above the smallest outcome, {found[0]:g}")
        found, ends = np.append(found[found < end], end), (ends[0], np.inf)
    thinned = found[np.unique(np.round(np.linspace(0, len(found) - 1, 161)).astype(int))]  # as many from every part
    return np.unique(np.concatenate([thinned, *(_toward(edge, found) for edge in ends)]))


def _last(tried: Any, direction: int) -> float:
    """Return the last count that matters on one side: the end of the support, or where the tail is negligible."""
    end = float(np.max(direction * np.asarray(tried.support()[(1 + direction) // 2])))
    start = float(np.max(direction * tried.median()))
    step = 1.0
    while (
        start + step < end and np.max(tried.sf(start + step) if direction > 0 else tried.cdf(-start - step)) > TAIL_MASS
    ):
        step *= 1.25
        if step > MOST_COUNTS:
            return direction * np.inf
    return float(direction * min(np.ceil(start + step), end))


def _toward(end: float, edges: Array) -> Array:
    """Return edges that halve the distance to a finite end of the support, where a density may be singular."""
    if not np.isfinite(end):
        return edges[:0]
    distances = np.abs(edges - end)
    nearest, farthest = distances[distances > 0].min(), distances.max()
    with np.errstate(over="ignore"):
        halvings = np.ceil(np.log2(farthest / nearest))
    if not np.isfinite(halvings):
        raise ValueError(
            f"some of these densities have nearly all their mass at {end:g}, closer than doubles: narrow the bounds"
        )
    steps = nearest * 2.0 ** np.arange(halvings)
    return np.asarray(np.clip(end + np.sign(np.median(edges) - end) * steps, edges[0], edges[-1]))


def panel_nodes(edges: Array, fineness: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes of all panels, cut into so many parts, and the logs of their weights: (Z,), (Z,)."""
    finer = np.interp(np.arange(fineness * (len(edges) - 1) + 1) / fineness, np.arange(len(edges)), edges)
    x, weight = np.polynomial.legendre.leggauss(8)
    half = np.diff(finer)[:, None] / 2
    with np.errstate(divide="ignore"):  # edges may be neighboring doubles, with nothing between them
        return (finer[:-1, None] + half * (1 + x)).ravel(), np.log(half * weight).ravel()
