"""Which examples are labeled: chosen by seed, the same on every platform and in every version.

The draws come from numpy's RandomState, whose stream is frozen by numpy's policy; its newer Generator and torch's
generators may change between releases.
"""

import numpy as np


def per_class(labels: np.ndarray, count: int, seed: int, what: str = "examples") -> np.ndarray:
    """Choose `count` examples in all, equally many of each class, in ascending order; errors call them `what`."""
    classes = np.unique(labels)
    if not count:
        return np.arange(0)
    check_multiple(what, count, len(classes))
    random, each = np.random.RandomState(seed), count // len(classes)
    smallest = min(int((labels == c).sum()) for c in classes)
    if each > smallest:
        most = smallest * len(classes)
        raise ValueError(f"{what} must be at most {most}, {smallest} of each of {len(classes)} classes, got {count}")
    return np.sort(np.concatenate([random.permutation(np.flatnonzero(labels == c))[:each] for c in classes]))


def check_multiple(what: str, count: int, classes: int) -> None:
    """Reject a number of examples that cannot be divided equally."""
    if count % classes:
        raise ValueError(f"{what} must be a multiple of the {classes} classes, equally many of each, got {count}")


def long_tail(labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Choose examples whose class sizes fall geometrically: the first class is `ratio` times the last."""
    if not ratio >= 1:
        raise ValueError(f"the first class must be at least as large as the last: ratio {ratio} is below 1")
    random = np.random.RandomState(seed)
    classes, counts = np.unique(labels, return_counts=True)
    shares = ratio ** -np.linspace(0, 1, len(classes))
    sizes = np.maximum(1, np.round(counts.min() * shares)).astype(int)
    chosen = [random.permutation(np.flatnonzero(labels == c))[:size] for c, size in zip(classes, sizes, strict=True)]
    return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)


def without(size: int, *taken: np.ndarray) -> np.ndarray:
    """Return the indices of 0 … size - 1 that are in none of `taken`."""
    free = np.ones(size, dtype=bool)
    for indices in taken:
        free[indices] = False
    return np.flatnonzero(free)


def with_label_noise(labels: np.ndarray, share: float, classes: int, seed: int) -> np.ndarray:
    """Replace a share of the labels, each by another class drawn at random: (n,) -> (n,)."""
    random = np.random.RandomState(seed)
    chosen = random.permutation(len(labels))[: round(share * len(labels))]
    wrong = labels.copy()
    wrong[chosen] = (labels[chosen] + random.randint(1, classes, len(chosen))) % classes
    return wrong
