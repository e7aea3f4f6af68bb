"""Channels that measure their own coordinates, in which Fisher length is nearly even: parametrizations do not matter.

The coordinates run from 0 to 1 on every axis. A chart, measured from the likelihood alone, takes them to the box.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact.channels._channel import Channel
from refprior.exact.geometry import Chart, Scan, measure, scan_box


class ChartedChannel(Channel):
    """A channel on a box (d, 2) of parameters, in coordinates of its own or of a partner with the same box."""

    box: Array
    partner: Any

    @abstractmethod
    def roots(self, w: Array) -> Array:
        """√p(z | w), or anything whose chords are half a Fisher length: (K, d) -> (K, M)."""

    def embedding(self, u: Array) -> Array:
        return 2 * self.roots(self.parameter(u))

    def parameter(self, u: Array) -> Array:
        return self._chart.to_box(u)

    def coordinate(self, w: Array) -> Array:
        return self._chart.from_box(w)

    def jacobian(self, u: Array) -> Array:
        return self._chart.slopes(u)

    def known_lengths(self) -> Array:
        return self._chart.lengths

    @property
    def measured(self) -> bool:
        return True

    def certificate_axis(self, axis: int, count: int) -> Array:
        points = self.axis_points(axis, count)
        return points if self.dimension > 1 else np.union1d(points, self._chart.knots[axis])

    def certificate_points(self) -> tuple[Array, Array]:
        return self._scan.points, self._scan.widths

    def sharing(self, other: Channel) -> Channel:
        return replace(self, partner=other) if self._shares_box(other) else self  # type: ignore[type-var]

    def _shares_box(self, other: Channel) -> bool:
        return isinstance(other, type(self)) and np.array_equal(self.box, other.box)

    def in_u(self, u: Array, first: Array, second: Array) -> tuple[Array, Array]:
        """Derivatives in w as derivatives in u: (K, d, M), (K, d, d, M) -> the same."""
        slope, bend = self._chart.slopes(u), self._chart.slopes(u, 2)
        second = second * (slope[:, :, None] * slope[:, None])[..., None]
        own = np.arange(self.dimension)
        second[:, own, own] += first * bend[:, :, None]
        return first * slope[:, :, None], second

    @property
    def width(self) -> int:
        """M, the length of a row of roots."""
        return self.outcome_count

    @cached_property
    def _chart(self) -> Chart:
        if self.partner is not None:
            chart: Chart = self.partner._chart
            return chart
        return measure(self.roots, self.box, self.width)

    @cached_property
    def _scan(self) -> Scan:
        return scan_box(lambda u: self.roots(self.parameter(u)), self._chart.lengths, self.width)
