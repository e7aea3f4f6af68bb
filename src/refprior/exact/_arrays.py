"""Array types, and evaluation a slice at a time. Shapes in this package: K points, d parameters, Z outcomes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refprior.exact._cost import LOG

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

SLICE_ENTRIES = 4_000_000  # entries of one (points, outcomes) table


def as_numbers(name: str, value: Any) -> Array:
    """The value as an array of doubles."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        text = " ".join(repr(value).split())
        raise ValueError(f"{name} must be numbers in an array, got {text[:60]}") from None


def scattered(bounds: Array, count: int) -> Array:
    """Points of a box (d, 2) of many axes, evenly spread, half of them drawn to faces, edges and corners: (M, d)."""
    from scipy.stats import qmc  # slow to import, and only many parameters need it

    with warnings.catch_warnings(action="ignore"):  # any number of points will do
        x = qmc.Sobol(len(bounds), rng=0).random(count)
    x[::2] = np.clip(1.6 * x[::2] - 0.3, 0, 1)
    return np.unique(bounds[:, 0] + x * np.ptp(bounds, axis=1), axis=0)


def in_slices(function: Callable[[Array], Array], points: Array, outcomes: int, *, least: int = 64) -> Array:
    """The function's values on many points, a slice of at least `least` at a time, so that memory stays small."""
    size = max(least, SLICE_ENTRIES // outcomes)
    parts = []
    for i in range(0, len(points), size):
        if i:
            LOG.info("%d of %d points", i, len(points))
        parts.append(function(points[i : i + size]))
    return np.concatenate(parts)
