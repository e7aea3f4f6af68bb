"""Axes of the box of coordinates: their Fisher lengths, and grids that are even in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact.geometry._charts import BoxScan, Chart, Roots, measure, scan_box


class Axes:
    """Axes of a box whose coordinates are even in Fisher length, or finer.

    Parameters
    ----------
    bounds : ndarray of shape (d, 2)
        Lower and upper end of each coordinate.
    lengths : ndarray of shape (d,)
        Fisher length of each axis in standard deviations, the longest over the other axes.

    Attributes
    ----------
    measured : bool
        Whether the lengths were measured by sampling the likelihood. The certificate then searches more closely.
    resolved : bool
        Whether the lengths are known or could be measured. If not, no grid can be trusted.
    """

    measured: bool = False
    resolved: bool = True
    lengths: Array

    def __init__(self, bounds: Array, lengths: Array) -> None:
        self.bounds, self.lengths = bounds, lengths

    def points(self, axis: int, count: int) -> Array:
        """Return `count` points of an axis that are even in Fisher length, both ends included: (count,)."""
        return np.linspace(self.bounds[axis, 0], self.bounds[axis, 1], count)

    def certificate_points(self, axis: int, count: int) -> Array:
        """Return the points of an axis at which the certificate evaluates the gain: `points`, or more."""
        return self.points(axis, count)

    def off_grid(self) -> tuple[Array, Array]:
        """Return further points for the certificate and their widths: (M, d), (M, d)."""
        nothing = np.empty((0, len(self.bounds)))
        return nothing, nothing


class ListedAxes(Axes):
    """The axis of a finite set of parameters, none of which can move; neighbors have distance one."""

    def __init__(self, places: Array) -> None:
        super().__init__(np.array([[places[0], places[-1]]]), np.array([len(places) - 1.0]))
        self.places = places

    def points(self, axis: int, count: int) -> Array:
        """Return all parameters, whatever the count."""
        return self.places


class MeasuredAxes(Axes):
    """Axes whose Fisher lengths are measured from the likelihood when they are first needed.

    Parameters
    ----------
    roots : callable
        √p(z | w) at coordinates: (K, d) -> (K, Z).
    bounds : ndarray of shape (d, 2)
        Lower and upper end of each coordinate.
    outcomes : int
        The number of outcomes Z.
    """

    measured = True

    def __init__(self, roots: Roots, bounds: Array, outcomes: int) -> None:
        self.roots, self.bounds, self.outcomes = roots, bounds, outcomes

    @cached_property
    def chart(self) -> Chart:
        """The coordinates that are even in Fisher length."""
        return measure(self.roots, self.bounds, self.outcomes)

    @cached_property
    def scan(self) -> BoxScan:
        """Where two or three parameters had to be followed together."""
        return scan_box(lambda x: self.roots(self.chart.to_box(x)), self.chart.lengths, self.outcomes)

    @property
    def lengths(self) -> Array:  # type: ignore[override]
        return self.chart.lengths

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.chart.resolved and self.scan.resolved

    def points(self, axis: int, count: int) -> Array:
        x = np.tile(np.linspace(0, 1, count)[:, None], (1, len(self.bounds)))
        return np.asarray(self.chart.to_box(x)[:, axis])

    def certificate_points(self, axis: int, count: int) -> Array:
        points = self.points(axis, count)
        return points if len(self.bounds) > 1 else np.union1d(points, self.chart.axes[axis].nodes)

    def off_grid(self) -> tuple[Array, Array]:
        if len(self.bounds) == 1:
            return super().off_grid()
        points, widths = self.scan.points, self.scan.widths
        return self.chart.to_box(points), self.chart.slopes(points) * widths


class ChartedAxes(Axes):
    """Axes from 0 to 1 that a chart maps to the box, where the likelihood is scanned when that is first needed."""

    measured = True

    def __init__(self, chart: Chart, scan: Callable[[], BoxScan], lengths: Array) -> None:
        super().__init__(np.tile([0.0, 1.0], (len(lengths), 1)), lengths)
        self.chart, self._scan = chart, scan

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.chart.resolved and self._scan().resolved

    def certificate_points(self, axis: int, count: int) -> Array:
        points = self.points(axis, count)
        return points if len(self.bounds) > 1 else np.union1d(points, self.chart.knots[axis])

    def off_grid(self) -> tuple[Array, Array]:
        return self._scan().points, self._scan().widths


class ScaledAxes(Axes):
    """The axes of another channel with the same box, their Fisher lengths multiplied by a number."""

    def __init__(self, axes: Axes, scale: float) -> None:
        self.axes, self.scale, self.bounds = axes, scale, axes.bounds
        self.measured = axes.measured

    @property
    def lengths(self) -> Array:  # type: ignore[override]
        return np.asarray(self.axes.lengths * self.scale)

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.axes.resolved

    def points(self, axis: int, count: int) -> Array:
        return self.axes.points(axis, count)

    def certificate_points(self, axis: int, count: int) -> Array:
        return self.axes.certificate_points(axis, count)

    def off_grid(self) -> tuple[Array, Array]:
        return self.axes.off_grid()


class SlicedAxes(Axes):
    """Some axes of a larger box; lengths are the longest over the fixed parameters, so a grid may be finer."""

    def __init__(self, whole: Axes, chosen: tuple[int, ...]) -> None:
        self.whole, self.chosen, self.bounds = whole, chosen, whole.bounds[list(chosen)]
        self.measured = whole.measured

    @property
    def lengths(self) -> Array:  # type: ignore[override]
        return self.whole.lengths[list(self.chosen)]

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.whole.resolved

    def points(self, axis: int, count: int) -> Array:
        return self.whole.points(self.chosen[axis], count)
