"""Several observations with unit Gaussian noise, as principal components of their means, each on nodes of its own.

Rotating the observations leaves the noise as it is. The means of most models reach far along a few directions only.
Along the others a few Gauss–Hermite nodes are enough, and those along which the means hardly move at all are left out:
with means within r of their middle, a direction tells at most ½ log(1 + r²) ≤ r²/2 nats more.

Shapes: T observations, R components, Y_r nodes of one, Z their product, N sampled means, K points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from refprior._process import check_memory
from refprior.exact._arrays import Array, grid_of

FEWER_OUTCOMES = "take a larger sigma or fewer observations"
MOST_REACH = 1e12  # standard deviations from their middle that means may have: beyond, doubles lose the noise


class Precision(NamedTuple):
    """How finely a component is summed, all lengths in standard deviations."""

    nodes: float  # per standard deviation
    tail: float  # how far they go beyond the means
    narrow: float  # means that stay this close to their middle have Gauss–Hermite nodes,
    hermite: float  # which leave out this much of the mass

    @property
    def tail_gain(self) -> float:
        """Nats that outcomes beyond the nodes of one component can add: their mass times a log-ratio."""
        return 100 * math.erfc(self.tail / math.sqrt(2))

    def finer(self) -> Precision:
        """Return a precision with twice as many nodes, and Gauss–Hermite nodes of a squared error."""
        return self._replace(nodes=2 * self.nodes, hermite=self.hermite**2)


# by the number of components with many nodes; twice the nodes change the gain by 2e-14, 5e-13, and about 1e-7
PRECISIONS = {1: Precision(8, 9.0, 0.1, 1e-20), 2: Precision(4, 9.0, 0.1, 1e-20), 3: Precision(2, 6.5, 0.75, 1e-11)}
MOST_OUTCOMES = 200_000  # beyond, the last of these is used
COARSE = Precision(2, 6.0, 0.1, 1e-10)  # for the first part of a search
COARSEST = Precision(1, 5.0, 0.75, 1e-5)  # the same with three components or more


class Components(NamedTuple):
    """A rotation (T, R) about a center (T,), the ranges of components (R, 2), and what those left out may tell."""

    center: Array
    rotation: Array
    ranges: Array
    left_out: float

    @classmethod
    def of(cls, means: Array) -> Components:
        """Find the components of sampled means: (N, T)."""
        center = means.max(axis=0) / 2 + means.min(axis=0) / 2
        if not np.abs(means - center).max() < MOST_REACH:
            raise ValueError(
                f"means reach more than {MOST_REACH:.0e} standard deviations from their middle: take a larger sigma or "
                "narrower bounds"
            )
        count = means.shape[1]
        rotation = _rotation(means - center)
        seen = (means - center) @ rotation
        ranges = np.stack([seen.min(axis=0), seen.max(axis=0)], axis=1)
        # a direction may reach twice as far as the sampled means; omitted ones tell at most 1e-6 nats together
        tells = (2.0 * np.ptp(ranges, axis=1) / 2) ** 2 / 2
        kept = np.cumsum(tells[::-1])[::-1] > (1e-6 if count > 3 else 0.0)
        kept[0] = True
        return cls(center, rotation[:, kept], ranges[kept], float(tells[~kept].sum()))

    @property
    def precision(self) -> Precision:
        """As fine as the number of wide components allows, and that of the outcomes."""
        wide = int(np.sum(np.ptp(self.ranges, axis=1) / 2 > PRECISIONS[1].narrow))
        finest = PRECISIONS[min(max(wide, 1), 3)]
        return finest if self.size_with(finest) <= MOST_OUTCOMES else PRECISIONS[3]

    @property
    def size(self) -> float:
        """The number of outcomes of a grid."""
        return self.size_with(self.precision)

    def size_with(self, precision: Precision) -> float:
        """Return the number of outcomes of a grid with this precision, without making it."""
        return math.prod(float(_node_count(low, high, precision)) for low, high in self.ranges)

    def of_means(self, means: Array) -> Array:
        """Return components of observations or their means: (K, T) -> (K, R)."""
        return (means - self.center) @ self.rotation

    def nodes(self, precision: Precision) -> list[tuple[Array, Array]]:
        """Return nodes and log-weights of each component: [(Y_r,), (Y_r,)]."""
        entries = self.size_with(precision)
        check_memory(400.0 * entries, f"a grid of {entries:.3g} outcomes", FEWER_OUTCOMES)
        return [_nodes(low, high, precision) for low, high in self.ranges]

    def outcomes(self, nodes: list[tuple[Array, Array]]) -> Array:
        """Return all combinations of nodes, as observations: (Z, T)."""
        entries = math.prod(len(z) for z, _ in nodes)
        check_memory(16.0 * entries * len(self.center), f"a list of {entries:.3g} outcomes", FEWER_OUTCOMES)
        grid = grid_of([z for z, _ in nodes])
        return np.asarray(grid @ self.rotation.T + self.center)


def _rotation(means: Array) -> Array:
    """Return the principal directions of means, or the axes of the observations if these need fewer nodes.

    (N, T) -> (T, at most N). Along all other directions the means do not move.
    """
    turned = np.linalg.svd(means, full_matrices=False)[2].T
    reach = np.ptp(means @ turned, axis=0)
    if np.log1p(np.ptp(means, axis=0)).sum() <= np.log1p(reach).sum():
        turned, reach = np.eye(means.shape[1]), np.ptp(means, axis=0)
    return np.asarray(turned[:, np.argsort(-reach, kind="stable")])


def _nodes(low: float, high: float, precision: Precision) -> tuple[Array, Array]:
    """Return nodes and log-weights for means between low and high: an even grid, or Gauss–Hermite nodes."""
    if (high - low) / 2 <= precision.narrow:
        x, weight = np.polynomial.hermite_e.hermegauss(_node_count(low, high, precision))
        return (low + high) / 2 + x, np.log(weight) + x * x / 2
    first, last = _grid_ends(low, high, precision)
    z = np.arange(first, last + 1) / precision.nodes
    return z, np.full(len(z), -math.log(precision.nodes))


def _node_count(low: float, high: float, precision: Precision) -> int:
    """Return the number of these nodes."""
    reach = (high - low) / 2
    if reach <= precision.narrow:
        return _hermite_count(reach, precision.hermite)
    first, last = _grid_ends(low, high, precision)
    return last - first + 1


def _grid_ends(low: float, high: float, precision: Precision) -> tuple[int, int]:
    """Return the numbers of the first and the last node of an even grid."""
    return math.floor((low - precision.tail) * precision.nodes), math.ceil((high + precision.tail) * precision.nodes)


def _hermite_count(reach: float, error: float) -> int:
    """Return the least n with r^(2n) n!/(2n)! below the error: what n nodes leave of the mass of a normal r away."""
    for n in range(2, 40):
        if reach ** (2 * n) * math.exp(math.lgamma(n + 1) - math.lgamma(2 * n + 1)) < error:
            return n
    return 40
