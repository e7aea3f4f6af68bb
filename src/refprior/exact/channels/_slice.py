"""A channel with some of its parameters held fixed: what is left of the others.

Shapes: d parameters in all, f of them free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array
from refprior.exact.channels._channel import Channel, Resolution
from refprior.exact.channels._rows import Rows
from refprior.exact.geometry import SlicedAxes


@dataclass(frozen=True, eq=False)
class Slice(Channel):
    """`whole` at fixed coordinates; the axes `free` remain, in their order."""

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
