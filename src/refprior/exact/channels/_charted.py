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
from refprior.exact.geometry import Axes, BoxScan, Chart, ChartedAxes, measure, scan_box


class ChartedChannel(Channel):
    """A channel on a box (d, 2) of parameters, in coordinates of its own or of a partner with the same box."""

    box: Array
    partner: Any

    @abstractmethod
    def roots(self, w: Array) -> Array:
        """Return √p(z | w), or anything whose chords are half a Fisher length: (K, d) -> (K, M)."""

    def parameter(self, u: Array) -> Array:
        return self._chart.to_box(u)

    def coordinate(self, w: Array) -> Array:
        return self._chart.from_box(w)

    def jacobian(self, u: Array) -> Array:
        return self._chart.slopes(u)

    @property
    def axes(self) -> Axes:
        return ChartedAxes(self._chart, lambda: self._scan, self._chart.lengths)

    def in_u(self, u: Array, first: Array, second: Array) -> tuple[Array, Array]:
        """Return derivatives in w as derivatives in u: (K, d, M), (K, d, d, M) -> the same."""
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
    def _scan(self) -> BoxScan:
        return scan_box(lambda u: self.roots(self.parameter(u)), self._chart.lengths, self.width)


def share_coordinates(channel: Channel, other: Channel) -> Channel:
    """Return the channel in the coordinates of another one of the same parameter, for objectives of both."""
    if (
        isinstance(channel, ChartedChannel)
        and isinstance(other, type(channel))
        and np.array_equal(channel.box, other.box)
    ):
        return replace(channel, partner=other)  # type: ignore[type-var]
    return channel
