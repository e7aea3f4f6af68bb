"""Cells of parameters under Gaussian noise, on which the gain can be bounded."""

from __future__ import annotations

from typing import NamedTuple

from refprior.exact._arrays import Array


class Cells(NamedTuple):
    """Means at the centers, their slopes, and what is not linear, all in standard deviations of the noise."""

    mean: Array  # (N, T)
    slope: Array  # (N, T, d) S, at the centers
    half: Array  # (N, d) h, in the coordinates of the slopes
    remainder: Array  # (N, T) R, the largest |m − m_c − S δ| on the cell
