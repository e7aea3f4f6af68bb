"""A data set whose images are all labelled, and the tasks that hide most of the labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from refprior.data._error import DataError
from refprior.data._split import long_tail, per_class, without
from refprior.data._task import Array, Examples, Task, check_labels, examples

_TEST_SEED = 0  # one test part for all runs


@dataclass(frozen=True)
class DataSet:
    """A data set as its makers divided it."""

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples

    def __post_init__(self) -> None:
        for part, them in (("train", self.train), ("test", self.test)):
            check_labels(f"{self.name} {part}", them.labels, len(self.classes))
            counts = torch.bincount(them.labels, minlength=len(self.classes))
            if not counts.all():
                empty = int(counts.argmin())
                raise DataError(f"{self.name}: class {empty} ({self.classes[empty]}) has no {part} images")


def data_set(name: str, classes: Sequence[str], train: tuple[Array, Array], test: tuple[Array, Array]) -> DataSet:
    """From arrays of images (n, channels, height, width) and integer labels."""
    return DataSet(name, tuple(classes), examples(f"{name} train", *train), examples(f"{name} test", *test))


def held_out(name: str, classes: Sequence[str], everything: tuple[np.ndarray, np.ndarray], test: int) -> DataSet:
    """A data set without a division of its own: `test` images a class, the same for all seeds, are its test part."""
    images, labels = everything
    chosen = per_class(labels, test, _TEST_SEED)
    rest = without(len(labels), chosen)
    return data_set(name, classes, (images[rest], labels[rest]), (images[chosen], labels[chosen]))


def only(data: DataSet, members: Sequence[int], name: str | None = None) -> DataSet:
    """The classes `members`, numbered 0, 1, … in the order given."""
    if len(set(members)) < len(members) or not set(members) <= set(range(len(data.classes))):
        raise ValueError(f"classes {list(members)} must be different numbers of 0 … {len(data.classes) - 1}")
    classes = tuple(data.classes[m] for m in members)
    parts = [_only(part, members) for part in (data.train, data.test)]
    return DataSet(name or f"{data.name}-{'-'.join(classes)}", classes, *parts)


def few_labels(
    data: DataSet,
    labels: int | None,
    seed: int = 0,
    validation: int = 0,
    labelled_in_pool: bool = False,
    imbalance: float = 1.0,
    extra: Tensor | None = None,
) -> Task:
    """A semi-supervised task: `labels` labelled images a class (None: all; 0: none), `validation` a class kept apart to
    choose by, the rest of the training images unlabelled.

    labelled_in_pool: the labelled images are part of the unlabelled pool too, as in FixMatch (the paper excludes them).
    imbalance: how many times more often the first class occurs in the pool than the last, geometric in between.
    extra: further images for the pool, of other classes or none (out of distribution).
    """
    truth = data.train.labels.numpy()
    labelled, kept, pool = _split(truth, labels, seed, validation, labelled_in_pool)
    if imbalance != 1 and len(pool):
        pool = pool[long_tail(truth[pool], imbalance, seed + 2)]
    unlabelled = data.train.images[torch.from_numpy(pool)]
    if extra is not None and len(extra):
        if extra.shape[1:] != unlabelled.shape[1:] or extra.dtype != unlabelled.dtype:
            raise ValueError(
                f"extra images are {tuple(extra.shape[1:])} {extra.dtype}, "
                f"the others {tuple(unlabelled.shape[1:])} {unlabelled.dtype}"
            )
        unlabelled = torch.cat([unlabelled, extra])
    chosen = data.train[torch.from_numpy(labelled)]
    apart = data.train[torch.from_numpy(kept)] if validation else None
    return Task(data.name, data.classes, chosen, unlabelled, data.test, apart)


def strangers(data: DataSet, members: Sequence[int], count: int, seed: int) -> Tensor:
    """`count` training images of the classes that are not `members`, chosen by seed."""
    foreign = np.flatnonzero(~np.isin(data.train.labels.numpy(), list(members)))
    if not 0 <= count <= len(foreign):
        raise ValueError(f"asked for {count} images of other classes, there are {len(foreign)}")
    chosen = np.random.RandomState(seed + 3).permutation(foreign)[:count]
    return data.train.images[torch.from_numpy(np.sort(chosen))]


def _split(
    truth: np.ndarray, labels: int | None, seed: int, validation: int, labelled_in_pool: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the labelled, kept and unlabelled images."""
    if labels is not None and labels < 0:
        raise ValueError(f"labels a class must be at least 0, got {labels}")
    if validation < 0:
        raise ValueError(f"validation images a class must be at least 0, got {validation}")
    kept = per_class(truth, validation, seed + 1) if validation else np.arange(0)
    train = without(len(truth), kept)
    labelled = train[per_class(truth[train], labels, seed)] if labels is not None else train
    return labelled, kept, train if labelled_in_pool else without(len(truth), kept, labelled)


def _only(part: Examples, members: Sequence[int]) -> Examples:
    position = torch.full((int(part.labels.max()) + 1,), -1)
    for new, old in enumerate(members):
        position[old : old + 1] = new
    labels = position[part.labels]
    return Examples(part.images[labels >= 0], labels[labels >= 0])
