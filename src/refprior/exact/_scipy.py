"""Distributions as they stand in scipy, as channels: counts with a bound on the tail, densities on a quadrature.

The support that matters is read off the quantiles of the distribution on a grid of parameters. What lies beyond has a
mass below TAIL_MASS. A density is put on Gauss–Legendre panels whose edges are such quantiles, so that they are as fine
as the narrowest distribution there; the certificate compares with twice as many panels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers
from refprior.exact._channels import Channel
from refprior.exact._function_channel import FunctionChannel, box_of

TAIL_MASS = 1e-17  # on either side, at every parameter that was tried
TAIL_NATS = 750.0  # by which a log-ratio of doubles can differ at most: a tail adds less than this times its mass
MOST_COUNTS = 200_000
PLACES = {1: 33, 2: 9}  # parameters per axis at which quantiles are taken
ORDER = 8  # Gauss–Legendre nodes per panel
LEVELS = np.concatenate([10.0 ** np.arange(-17, -1), np.arange(0.05, 0.5, 0.05)])  # quantiles that are panel edges
PANELS = 160  # about, of the union of all edges


@dataclass(frozen=True, eq=False)
class ScipyChannel(FunctionChannel):
    """A family of frozen scipy distributions; `Channel.from_scipy` says what it takes."""

    family: Callable[..., Any] | None = None
    edges: Array | None = None  # of the panels of a density; None for counts
    tail: float = 0.0

    @classmethod
    def of(cls, family: Any, bounds: ArrayLike) -> Channel:
        """Find out what the family is, and where its outcomes lie."""
        if not callable(family):
            raise ValueError(f"family must be a function of the parameters, got {family!r}")
        box, _ = box_of(bounds, most=2)
        sides = [np.linspace(low, high, PLACES[len(box)]) for low, high in box]
        try:
            tried = family(*np.array(list(itertools.product(*sides))).T[:, :, None])
        except (TypeError, ValueError) as error:
            raise ValueError(f"family failed on {len(box)} parameters, one array each: {error}") from error
        if not hasattr(tried, "ppf"):
            raise ValueError(f"family must return a frozen distribution such as scipy.stats.gamma(2.0), got {tried!r}")
        discrete = hasattr(getattr(tried, "dist", tried), "pmf")
        return _counts(cls, family, bounds, tried) if discrete else _density(cls, family, bounds, tried)

    def finer(self) -> Channel | None:
        if self.edges is None:
            return None
        edges = np.sort(np.concatenate([self.edges, (self.edges[1:] + self.edges[:-1]) / 2]))
        nodes, log_weights = _nodes(edges)
        function = _log_density(self.family, nodes, log_weights)  # type: ignore[arg-type]
        return replace(self, function=function, outcomes=nodes, edges=edges, partner=self.partner or self)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        if self.edges is None:
            return super().log_likelihood_of(u, z)
        seen = as_numbers("an outcome", z)
        if seen.ndim or not np.isfinite(seen):
            raise ValueError(f"an outcome must be a finite number, got {z!r}")
        assert self.family is not None
        return np.asarray(self.family(*self.parameter(u).T).logpdf(seen), dtype=float)


def _parameters(w: Array) -> Array:
    """Columns (K, 1) of the parameters: (K,) or (K, d) -> (d, K, 1)."""
    return w.reshape(len(w), -1).T[:, :, None]


def _counts(cls: type[ScipyChannel], family: Callable[..., Any], bounds: ArrayLike, tried: Any) -> Channel:
    low, high = _last(tried, -1), _last(tried, 1)
    if not high - low <= MOST_COUNTS:
        raise ValueError(f"outcomes reach from {low:g} to {high:g}; at most {MOST_COUNTS:,}: narrow the bounds")
    z = np.arange(low, high + 1)
    mass = float(np.max(tried.cdf(z[0] - 1) + tried.sf(z[-1])))
    channel = cls.build(lambda w: family(*_parameters(w)).logpmf(z), bounds, z, None)
    assert isinstance(channel, ScipyChannel)
    return replace(channel, family=family, tail=TAIL_NATS * mass)


def _last(tried: Any, direction: int) -> float:
    """The last count on one side that matters: the end of the support, or where the tail's mass is negligible."""
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


def _density(cls: type[ScipyChannel], family: Callable[..., Any], bounds: ArrayLike, tried: Any) -> Channel:
    places = [tried.ppf(level) for level in LEVELS] + [tried.isf(level) for level in LEVELS] + [tried.median()]
    found = np.unique(np.concatenate([np.ravel(place) for place in places]))
    found = found[np.isfinite(found)]
    ends = float(np.min(tried.support()[0])), float(np.max(tried.support()[1]))
    edges = np.unique(np.concatenate([_thin(found, PANELS), *(_towards(end, found) for end in ends)]))
    nodes, log_weights = _nodes(edges)
    channel = cls.build(_log_density(family, nodes, log_weights), bounds, nodes, None)
    assert isinstance(channel, ScipyChannel)
    return replace(channel, family=family, edges=edges, tail=TAIL_NATS * 2 * TAIL_MASS)


def _towards(end: float, edges: Array) -> Array:
    """Edges that halve the distance to a finite end of the support, where a density may be singular."""
    if not np.isfinite(end):
        return edges[:0]
    distances = np.abs(edges - end)
    nearest, farthest = distances[distances > 0].min(), distances.max()
    steps = nearest * 2.0 ** np.arange(np.ceil(np.log2(farthest / nearest)))
    return np.asarray(np.clip(end + np.sign(np.median(edges) - end) * steps, edges[0], edges[-1]))


def _thin(edges: Array, count: int) -> Array:
    """About `count` of the edges, both ends included, as many from every part of the sorted list."""
    chosen = np.unique(np.round(np.linspace(0, len(edges) - 1, count + 1)).astype(int))
    return np.asarray(edges[chosen])


def _nodes(edges: Array) -> tuple[Array, Array]:
    """Gauss–Legendre nodes of all panels and the logs of their weights: (Z,), (Z,)."""
    x, weight = np.polynomial.legendre.leggauss(ORDER)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + x)).ravel(), np.log(half * weight).ravel()


def _log_density(family: Callable[..., Any], nodes: Array, log_weights: Array) -> Callable[[Array], Array]:
    def function(w: Array) -> Array:
        return np.asarray(family(*_parameters(w)).logpdf(nodes) + log_weights)

    return function
