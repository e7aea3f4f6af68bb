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
