"""Array types, and evaluation a slice at a time. Shapes in this package: K points, d parameters, Z outcomes."""

from __future__ import annotations

import itertools
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


def scattered(bounds: Array, count: int, seed: int = 0) -> Array:
    """Points of a box (d, 2) of many axes: spread evenly, drawn to faces and edges, and all corners: (M, d)."""
    from scipy.stats import qmc  # slow to import, and only many parameters need it

    with warnings.catch_warnings(action="ignore"):  # any number of points will do
        x = qmc.Sobol(len(bounds), rng=seed).random(count)
    x[: count // 2] = np.clip(1.6 * x[: count // 2] - 0.3, 0, 1)
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(bounds))))
    return np.unique(bounds[:, 0] + np.vstack([corners, x]) * np.ptp(bounds, axis=1), axis=0)


def in_slices(function: Callable[[Array], Array], points: Array, outcomes: int, *, least: int = 64) -> Array:
    """The function's values on many points, a slice of at least `least` at a time, so that memory stays small."""
    size = max(least, SLICE_ENTRIES // outcomes)
    parts = []
    for i in range(0, max(len(points), 1), size):  # of no points, the values have a shape too
        if i:
            LOG.info("%d of %d points", i, len(points))
        parts.append(function(points[i : i + size]))
    return np.concatenate(parts)
