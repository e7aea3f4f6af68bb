"""Scikit-learn's digits: 1,797 grey images of 8×8, inside the library, nothing to download."""

import numpy as np

from refprior.data.split import per_class, without
from refprior.data.task import Task, task_from_arrays

TEST_PER_CLASS = 60
_TEST_SEED = 0  # one test part for all runs


def digits(labels: int = 5, seed: int = 0, validation: int = 30, labelled_in_pool: bool = False) -> Task:
    """`labels` labelled images a class, `validation` a class kept apart to choose by, 60 a class to test, the rest
    unlabelled.

    labelled_in_pool: the labelled images are part of the unlabelled pool too, as in FixMatch (the paper excludes them).
    """
    from sklearn.datasets import load_digits

    if labels < 1:
        raise ValueError(f"labels a class must be at least 1, got {labels}")
    data = load_digits()
    images = np.round(data.images * (255 / 16)).astype(np.uint8)[:, None]
    truth = data.target
    test = per_class(truth, TEST_PER_CLASS, _TEST_SEED)
    train = without(len(truth), test)
    kept = train[per_class(truth[train], validation, seed + 1)] if validation else train[:0]
    train = without(len(truth), test, kept)
    labelled = train[per_class(truth[train], labels, seed)]
    pool = train if labelled_in_pool else without(len(truth), test, kept, labelled)
    return task_from_arrays(
        (images[labelled], truth[labelled]),
        images[pool],
        (images[test], truth[test]),
        (images[kept], truth[kept]) if validation else None,
        classes=[str(d) for d in range(10)],
        name="digits",
    )
