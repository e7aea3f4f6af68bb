"""Gaussian noise in too many directions for a grid of outcomes: sums over outcomes become means over samples.

Shapes: n points, d parameters, R components of the observations. Coordinates run from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact.channels._channel import Resolution
from refprior.exact.channels._function import slopes
from refprior.exact.channels._mean import NoisyMean
from refprior.exact.geometry import Axes

FARTHEST = 50.0  # standard deviations from the middle that means may have, so that no exponential overflows

NOT_LISTED = "outcomes of this model are too many to be listed: it has priors, their gain and posteriors only"


@dataclass(frozen=True, eq=False)
class SampledMean(NoisyMean):
    """A mean with Gaussian noise whose outcomes are too many to be summed."""

    default_tolerance = 1e-3
    listed = False

    seed: int = 0

    def __post_init__(self) -> None:
        components = self._components()
        far = float(np.linalg.norm(np.abs(components.ranges).max(axis=1)))
        if far > FARTHEST:
            raise ValueError(
                f"means reach {far:.3g} standard deviations from their middle, and a grid of outcomes would have "
                f"{components.size:.2g} of them: take a larger sigma, narrower bounds or fewer observations"
            )
        self._derive(components=components, tail=components.left_out)

    @property
    def outcomes(self) -> Array:  # type: ignore[override]
        raise ValueError(NOT_LISTED)

    @property  # type: ignore[misc]
    def nodes(self) -> list[tuple[Array, Array]]:
        raise ValueError(NOT_LISTED)

    def at_resolution(self, resolution: Resolution) -> NoisyMean | None:
        raise ValueError(NOT_LISTED)

    noise = None

    @property
    def width(self) -> int:
        """The number of components R."""
        return len(self.components.ranges)

    @property
    def axes(self) -> Axes:
        axes = Axes(self.bounds, super().axes.lengths)
        axes.resolved = self._chart.resolved
        return axes

    def at(self, u: Array) -> Array:
        """Return components of the means at coordinates: (n, d) -> (n, R)."""
        return self.means(self.parameter(u))

    def slopes_at(self, u: Array) -> Array:
        """Return their derivatives in the coordinates: (n, d) -> (n, d, R)."""
        w = self.parameter(u)
        return slopes(self.means, w, self.box, self._steps(w)) * self.jacobian(u)[:, :, None]
