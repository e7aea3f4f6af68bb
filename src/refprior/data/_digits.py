"""Scikit-learn's digits: 1,797 grey images of 8×8, inside the library, nothing to download."""

from collections.abc import Sequence

import numpy as np

from refprior.data._dataset import DataSet, few_labels, held_out, only
from refprior.data._task import Task

TEST_PER_CLASS = 60


def read_digits() -> DataSet:
    """The digits with 60 images a class to test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = np.round(data.images * (255 / 16)).astype(np.uint8)[:, None]
    return held_out("digits", [str(d) for d in range(10)], (images, data.target), TEST_PER_CLASS)


def digits(
    labels: int | None = 5,
    seed: int = 0,
    validation: int = 30,
    labelled_in_pool: bool = False,
    classes: Sequence[int] = range(10),
) -> Task:
    """`labels` labelled images a class, `validation` a class kept apart to choose by, 60 a class to test, the rest
    unlabelled; of all digits or of some of them: `classes=(3, 5)`.

    labelled_in_pool: the labelled images are part of the unlabelled pool too, as in FixMatch (the paper excludes them).
    """
    data = read_digits()
    chosen = data if list(classes) == list(range(10)) else only(data, classes)
    return few_labels(chosen, labels, seed, validation, labelled_in_pool)
