"""Optional properties of a channel: symmetries, shortcuts for sums over outcomes, and Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from refprior.exact._arrays import Array, Mask


class Symmetry(NamedTuple):
    """Coordinates that have the same likelihood.

    `canonical` returns one representative of all coordinates with the same p(z | w): (K, d) -> (K, d). `idle` returns
    which coordinates have no effect there, whatever their value: (K, d) -> (K, d).
    """

    canonical: Callable[[Array], Array]
    idle: Callable[[Array], Mask] | None = None


class Gains(NamedTuple):
    """KL(p(z | w_k), p(z)) with its gradient and Hessian in the coordinates u: (K,), (K, d), (K, d, d)."""

    value: Array
    gradient: Array
    hessian: Array


class Sums(NamedTuple):
    """Faster sums over the outcomes than the general ones, for those that are given.

    `log_marginal` returns log Σ_k π_k p(z | w_k): (K, d), (K,) -> (Z,). `divergence` returns KL(p(z | w), p(z)):
    (K, d), (Z,) -> (K,). `gains` returns the same with derivatives.
    """

    log_marginal: Callable[[Array, Array], Array] | None = None
    divergence: Callable[[Array, Array], Array] | None = None
    gains: Callable[[Array, Array], Gains] | None = None


class Cells(NamedTuple):
    """Means at the centers of cells, their slopes, and what is not linear, in standard deviations of the noise."""

    mean: Array  # (N, T)
    slope: Array  # (N, T, d) S, at the centers
    half: Array  # (N, d) h, in the coordinates of the slopes
    remainder: Array  # (N, T) R, the largest |m − m_c − S δ| on the cell


class GaussianNoise(NamedTuple):
    """Gaussian noise around a mean whose slope and curvature are bounded: the gain can be bounded on whole cells.

    `cells` returns the means on cells of coordinates from low to high: (N, d), (N, d) -> Cells. `gain` returns
    KL(p(z | m), p(z)) and its gradient in the mean m: (N, T), (Z,) -> (N,), (N, T).
    """

    cells: Callable[[Array, Array], Cells]
    gain: Callable[[Array, Array], tuple[Array, Array]]
