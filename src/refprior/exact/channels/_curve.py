"""A one-parameter channel through rows that are slow to compute: piecewise polynomials of √p(z | u).

√p moves on a sphere, and stays smooth where probabilities vanish. On each panel it is a Chebyshev polynomial through
DEGREE + 1 rows; panels are halved until the polynomial meets further rows. The coordinate is the parameter itself where
the coordinate of the model was measured, because such a chart has corners. What it misses, in nats of gain, is the
channel's `tail`, so that the certificate adds it to every gap.

Shapes: K points, Z outcomes, P panels, D = DEGREE.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial.chebyshev import chebder, chebvander
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, Mask
from refprior.exact._cost import LOG
from refprior.exact.channels._channel import Channel, Resolution, Rows
from refprior.exact.geometry import Axes, SlicedAxes


@dataclass(frozen=True, eq=False)
class Slice(Channel):
    """A channel with some of its d parameters held fixed; the f axes `free` remain, in their order."""

    whole: Channel
    free: tuple[int, ...]
    place: Array  # (d,) coordinates; those of free axes are not used

    @cached_property
    def bounds(self) -> Array:  # type: ignore[override]
        return self.whole.bounds[list(self.free)]

    @property
    def outcomes(self) -> Array:  # type: ignore[override]
        return self.whole.outcomes

    @property
    def outcome_count(self) -> int:
        return self.whole.outcome_count

    @property
    def tail(self) -> float:  # type: ignore[override]
        return self.whole.tail

    def full(self, u: Array) -> Array:
        """Return coordinates of the whole channel: (K, f) -> (K, d)."""
        points = np.tile(self.place, (len(u), 1))
        points[:, list(self.free)] = u
        return points

    def log_likelihood(self, u: Array) -> Array:
        return self.whole.log_likelihood(self.full(u))

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        return self.whole.log_likelihood_of(self.full(u), z)

    def rows(self, u: Array) -> Rows:
        log_p, first, second, hessian = self.whole.rows(self.full(u))
        free = np.array(self.free)
        pairs = np.ix_(np.arange(len(u)), free, free)
        return Rows(log_p, first[:, free], lambda values: second(values)[pairs], hessian[pairs])

    def parameter(self, u: Array) -> Array:
        return self.whole.parameter(self.full(u))[:, list(self.free)]

    def coordinate(self, w: Array) -> Array:
        points = np.tile(self.whole.parameter(self.place[None]), (len(w), 1))
        points[:, list(self.free)] = w
        return self.whole.coordinate(points)[:, list(self.free)]

    def jacobian(self, u: Array) -> Array:
        return self.whole.jacobian(self.full(u))[:, list(self.free)]

    @property
    def axes(self) -> SlicedAxes:
        return SlicedAxes(self.whole.axes, self.free)

    @property
    def slope_error(self) -> float:  # type: ignore[override]
        return self.whole.slope_error

    def at_resolution(self, resolution: Resolution) -> Channel | None:
        whole = self.whole.at_resolution("fine") if resolution == "fine" else None
        return None if whole is None else replace(self, whole=whole)


DEGREE = 12  # of the polynomial of a panel
NODES = -np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)  # ends included: neighbors share a row
TO_COEFFICIENTS = np.asarray(np.linalg.inv(chebvander(NODES, DEGREE)), dtype=float)
DERIVATIVE = np.vstack([chebder(np.eye(DEGREE + 1)), np.zeros(DEGREE + 1)])  # of coefficients: (D + 1, D + 1)
TESTS = np.array([-0.985, -0.6, 0.13, 0.71, 0.985])  # between nodes
USEFUL, STALLS = 0.8, 3  # of the error before: halving that leaves more is repeated this often
SPEED_POINTS = 16  # per panel, between which the Fisher length is measured

RowsAt = Callable[[Array], Array]  # coordinates of the curve (K,) -> p(z | u), (K, Z)


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Channel):
    """Rows along `axis`, the slice of a channel with one free parameter; `through` makes it."""

    axis: Slice
    at: RowsAt
    panels: list[_Panel]
    edges: Array  # (P + 1,)
    coefficients: Array  # (P, D + 1, Z) of √p
    outcomes: Array
    bounds: Array
    tail: float
    length: float
    exact: Channel | None = None  # the same rows without interpolation: what the certificate compares with

    @classmethod
    def through(
        cls, axis: Slice, rows: RowsAt, tolerance: float, *, exact: Channel | None = None, looks: int = 0
    ) -> Curve:
        """Follow the rows to a `tolerance` in nats of gain: halve every panel that misses it.

        `looks` is a number of further places, even in the coordinate, at which all panels are compared with the rows.
        """
        edges = axis.axes.points(0, 1 + max(1, math.ceil(float(axis.axes.lengths[0]))))[:, None]  # panels of 1 sd
        edges = (axis.parameter(edges) if axis.axes.measured else edges)[:, 0]
        curve = cls.of(axis, rows, [_Panel.through(rows, a, b) for a, b in itertools.pairwise(edges)], exact)
        places = np.linspace(edges[0], edges[-1], looks)
        seen = rows(places) if looks else np.empty((0, axis.outcome_count))
        while True:
            curve = curve.compared(places, seen)
            finer = curve.halved(curve.errors > tolerance)
            if finer is curve:
                return curve
            curve = finer

    @classmethod
    def of(cls, axis: Slice, rows: RowsAt, panels: list[_Panel], exact: Channel | None) -> Curve:
        """Return the curve of panels in order."""
        edges = np.array([panels[0].low, *(panel.high for panel in panels)])
        return cls(
            axis=axis,
            at=rows,
            panels=panels,
            edges=edges,
            coefficients=np.stack([panel.coefficients for panel in panels]),
            outcomes=axis.outcomes,
            bounds=edges[[0, -1]][None],
            tail=axis.tail + max(panel.error for panel in panels),
            length=_length(panels, edges[-1] - edges[0]),
            exact=exact,
        )

    @property
    def errors(self) -> Array:
        """What the polynomial of each panel misses, in nats of gain: (P,)."""
        return np.array([panel.error for panel in self.panels])

    def compared(self, places: Array, seen: Array) -> Curve:
        """Raise the errors of the panels to what they miss at these places: (N,), (N, Z)."""
        if not len(places):
            return self
        missed = _nats(np.exp(self.log_likelihood(places[:, None])), seen)
        panel = np.clip(np.searchsorted(self.edges, places, side="right") - 1, 0, len(self.panels) - 1)
        worst = np.zeros(len(self.panels))
        np.maximum.at(worst, panel, missed)
        pairs = zip(self.panels, worst, strict=True)
        return Curve.of(self.axis, self.at, [replace(p, error=max(p.error, float(e))) for p, e in pairs], self.exact)

    def halved(self, chosen: Mask) -> Curve:
        """Halve some panels (P,), unless that would not help; return the curve itself if none was halved."""
        panels: list[_Panel] = []
        narrowest = 2.0**-30 * (self.edges[-1] - self.edges[0])
        for panel, wanted in zip(self.panels, chosen, strict=True):
            if wanted and panel.stalled < STALLS and panel.high - panel.low > narrowest and len(self.panels) < 400:
                LOG.info("rows along the axis: %d panels, error %.0e nats", len(self.panels), panel.error)
                panels += panel.halves(self.at)
            else:
                panels.append(panel)
        return self if len(panels) == len(self.panels) else Curve.of(self.axis, self.at, panels, self.exact)

    def to_axis(self, u: Array) -> Array:
        """Return the coordinates of the axis: (K, 1) -> (K, 1)."""
        return to_axis(self.axis, u)

    def from_axis(self, u: Array) -> Array:
        """Return the inverse of `to_axis`: (K, 1) -> (K, 1)."""
        return self.axis.parameter(u) if self.axis.axes.measured else u

    def _roots(self, u: Array, order: int) -> list[Array]:
        """Return √p, not yet normalized, and its derivatives up to `order`: (K, 1) -> [(K, Z)]."""
        x = u[:, 0]
        panel = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        width = np.diff(self.edges)[panel]
        powers = chebvander(2 * (x - self.edges[panel]) / width - 1, DEGREE)
        roots = [np.empty((len(u), self.coefficients.shape[2])) for _ in range(order + 1)]
        for number in np.unique(panel):
            own = panel == number
            part = powers[own]
            for root in roots:
                root[own] = part @ self.coefficients[number]
                part = part @ DERIVATIVE * (2 / width[own][:, None])
        return roots

    def log_likelihood(self, u: Array) -> Array:
        root = self._roots(u, 0)[0]
        with np.errstate(divide="ignore"):
            return np.asarray(2 * np.log(np.abs(root)) - np.log(np.sum(root * root, axis=1))[:, None])

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        return super().log_likelihood_of(u, z) if self.exact is None else self.exact.log_likelihood_of(u, z)

    def rows(self, u: Array) -> Rows:
        # p = r²/S with S = Σ r²
        r, r1, r2 = self._roots(u, 2)
        p, p1, p2 = r * r, 2 * r * r1, 2 * (r1 * r1 + r * r2)
        s, s1, s2 = (np.sum(part, axis=1, keepdims=True) for part in (p, p1, p2))
        first = p1 / s - p * s1 / s**2
        second = p2 / s - 2 * p1 * s1 / s**2 - p * (s2 / s**2 - 2 * s1**2 / s**3)
        return Rows.from_derivatives(self.log_likelihood(u), first[:, None], second[:, None, None])

    def parameter(self, u: Array) -> Array:
        return u if self.axis.axes.measured else self.axis.parameter(u)

    def coordinate(self, w: Array) -> Array:
        return w if self.axis.axes.measured else self.axis.coordinate(w)

    def jacobian(self, u: Array) -> Array:
        return np.ones_like(u) if self.axis.axes.measured else self.axis.jacobian(u)

    @property
    def axes(self) -> _CurveAxes:
        return _CurveAxes(self)

    def at_resolution(self, resolution: Resolution) -> Channel | None:
        return self.exact if resolution == "fine" else None


class _CurveAxes(Axes):
    """The axis of a curve; the certificate adds the edges of its panels."""

    def __init__(self, curve: Curve) -> None:
        super().__init__(curve.bounds, np.array([curve.length]))
        self.edges, self.whole = curve.edges, curve.axis.axes
        width = (self.edges[-1] - self.edges[0]) / max(1.0, curve.length)
        self.measured = bool(np.diff(self.edges).min() < 2.0**-6 * width)  # not smooth there

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.whole.resolved

    def certificate_points(self, axis: int, count: int) -> Array:
        return np.union1d(self.points(axis, count), self.edges)


def to_axis(axis: Slice, u: Array) -> Array:
    """Return the coordinate of the axis of a curve: (K, 1) -> (K, 1)."""
    return axis.coordinate(u) if axis.axes.measured else u


@dataclass(frozen=True, eq=False)
class _Panel:
    low: float
    high: float
    coefficients: Array  # (D + 1, Z)
    error: float  # nats
    stalled: int = 0  # halvings in a row that did not help: the rows are not that precise

    @classmethod
    def through(cls, rows: RowsAt, low: float, high: float) -> _Panel:
        places = low + (high - low) * (np.concatenate([NODES, TESTS]) + 1) / 2
        p = rows(np.clip(places, low, high))
        coefficients: Array = TO_COEFFICIENTS @ np.sqrt(p[: len(NODES)])
        root = chebvander(TESTS, DEGREE) @ coefficients
        found = root * root / np.sum(root * root, axis=1, keepdims=True)
        return cls(float(low), float(high), coefficients, float(_nats(found, p[len(NODES) :]).max()))

    def halves(self, rows: RowsAt) -> list[_Panel]:
        """Return both halves."""
        middle = (self.low + self.high) / 2
        parts = [_Panel.through(rows, *ends) for ends in ((self.low, middle), (middle, self.high))]
        return [replace(p, stalled=self.stalled + 1 if p.error > USEFUL * self.error else 0) for p in parts]


def _nats(p: Array, q: Array) -> Array:
    """Bound how much KL(·, m) differs between two rows, by Σ |p − q| (1 + |log max(p, q)|): (K, Z) -> (K,)."""
    size = np.maximum(np.maximum(p, q), 1e-300)
    return np.asarray(np.sum(np.abs(p - q) * (1 - np.log(size)), axis=1))


def _length(panels: list[_Panel], width: float) -> float:
    """Return the Fisher length of the axis if all of it were as steep as its steepest part: 2 |d√p| per step."""
    powers = chebvander(np.linspace(-1, 1, SPEED_POINTS + 1), DEGREE)
    speeds = [
        2 * np.linalg.norm(np.diff(powers @ panel.coefficients, axis=0), axis=1).max() / (panel.high - panel.low)
        for panel in panels
    ]
    return float(max(speeds)) * SPEED_POINTS * width
