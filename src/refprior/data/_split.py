"""Which examples are labelled: chosen by seed, the same on every platform and in every version.

The draws come from numpy's RandomState, whose stream is frozen by numpy's policy; its newer Generator and torch's
generators may change between releases.
"""

import numpy as np


def per_class(labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Indices of `count` examples of each class, in ascending order."""
    random = np.random.RandomState(seed)
    chosen = [_draw(np.flatnonzero(labels == c), count, int(c), random) for c in np.unique(labels)]
    return np.sort(np.concatenate(chosen))


def long_tail(labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Indices of examples whose class sizes fall geometrically: the first class is `ratio` times the last."""
    if not ratio >= 1:
        raise ValueError(f"the first class must be at least as large as the last: ratio {ratio} is below 1")
    random = np.random.RandomState(seed)
    classes, counts = np.unique(labels, return_counts=True)
    shares = ratio ** -np.linspace(0, 1, len(classes))
    sizes = np.maximum(1, np.round(counts.min() * shares)).astype(int)
    chosen = [_draw(np.flatnonzero(labels == c), size, int(c), random) for c, size in zip(classes, sizes, strict=True)]
    return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)


def without(size: int, *taken: np.ndarray) -> np.ndarray:
    """The indices of 0 … size - 1 that stand in none of `taken`."""
    free = np.ones(size, dtype=bool)
    for indices in taken:
        free[indices] = False
    return np.flatnonzero(free)


def _draw(members: np.ndarray, count: int, label: int, random: np.random.RandomState) -> np.ndarray:
    if count > len(members):
        raise ValueError(f"asked for {count} examples of class {label}, which has {len(members)}")
    return random.permutation(members)[:count]
