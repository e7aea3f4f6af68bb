"""Array types, and arrays given by a user. Shapes in this package: K points, d parameters, Z outcomes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
MOST_CORNERS = 12  # axes of a box of which all corners are taken


def as_numbers(name: str, value: object) -> Array:
    """Return the value as an array of doubles."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        text = " ".join(repr(value).split())
        raise ValueError(f"{name} must be numbers in an array, got {text[:60]}") from None


def grid_of(axes: Sequence[Array]) -> Array:
    """Return all points of a grid, the last axis fastest: [(N_i,)] -> (∏ N_i, d)."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def scattered(bounds: Array, count: int, seed: int = 0) -> Array:
    """Return points of a box (d, 2) of many axes: spread evenly, drawn to faces and edges, and corners: (M, d)."""
    from scipy.stats import qmc  # slow to import, and only many parameters need it

    with warnings.catch_warnings(action="ignore"):  # any number of points will do
        x = qmc.Sobol(len(bounds), rng=seed).random(count)
    x[: count // 2] = np.clip(1.6 * x[: count // 2] - 0.3, 0, 1)
    if len(bounds) <= MOST_CORNERS:
        corners = grid_of([np.array([0.0, 1.0])] * len(bounds))
    else:  # some, with any number of ends: where parameters can be exchanged, the number is all that matters
        order = np.argsort(np.random.default_rng(seed).uniform(size=(count, len(bounds))), axis=1)
        corners = (order < (np.arange(count) % (len(bounds) + 1))[:, None]).astype(float)
    return np.unique(bounds[:, 0] + np.vstack([corners, x]) * np.ptp(bounds, axis=1), axis=0)


def separated(points: Array, order: Iterable[int], distance: float, most: int | None = None) -> list[int]:
    """Return at most `most` indices in order, without points closer than `distance` to an earlier one: (K, M)."""
    kept: list[int] = []
    for k in order:
        if len(kept) == most:
            break
        if not kept or np.linalg.norm(points[kept] - points[k], axis=1).min() > distance:
            kept.append(int(k))
    return kept
