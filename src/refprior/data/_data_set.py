"""A data set whose inputs are all labeled, and its subsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from refprior._kinds import Kind
from refprior._words import in_short
from refprior.data._split import per_class, without
from refprior.data._task import Array, Examples, check_labels, examples
from refprior.data.files import DataError

_TEST_SEED = 0  # one test part for all runs


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set as its makers divided it. `FewLabels` makes tasks of it that hide most labels.

    >>> import refprior as rp
    >>> digits = rp.data.read("digits")
    >>> len(digits.train), len(digits.test)
    (1197, 600)
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples | None = None
    unlabeled: Tensor | None = None  # further inputs without labels
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # named sets of classes: superclasses
    names: tuple[str, ...] = ()  # of the inputs to train with, then of those without labels: files
    validation: Examples | None = None  # where the makers have kept one apart
    features: tuple[str, ...] = ()  # of the values of a vector, where they have names: columns
    kind: Kind | None = None  # what the inputs show, by which `rp.views.default_views` chooses; None: unknown

    def __post_init__(self) -> None:
        for name in self.classes:
            if not isinstance(name, str) or not name.isprintable():
                raise DataError(f"{self.name}: the name of a class is {in_short(repr(name))}, expected printable text")
        for part, them in (("train", self.train), ("test", self.test), ("validation", self.validation)):
            if them is None:
                continue
            check_labels(f"{self.name} {part}", them.labels, len(self.classes))
            counts = torch.bincount(them.labels, minlength=len(self.classes))
            if not counts.all() and part != "validation":
                empty = int(counts.argmin())
                raise DataError(f"{self.name}: class {empty} ({self.classes[empty]}) has no {part} inputs")
        inputs = len(self.train) + (0 if self.unlabeled is None else len(self.unlabeled))
        if self.names and len(self.names) != inputs:
            raise DataError(f"{self.name}: {len(self.names)} names for {inputs} inputs")


def data_set(
    name: str,
    classes: Sequence[str],
    train: tuple[Array, Array],
    test: tuple[Array, Array] | None,
    *,
    kind: Kind | None = None,
) -> DataSet:
    """From arrays of inputs, images (n, channels, height, width) or vectors (n, features), and integer labels."""
    kept = examples(f"{name} test", *test) if test is not None else None
    return DataSet(name, tuple(classes), examples(f"{name} train", *train), kept, kind=kind)


def held_out(
    name: str,
    classes: Sequence[str],
    everything: tuple[np.ndarray, np.ndarray],
    test: int,
    names: Sequence[str] = (),
    *,
    kind: Kind | None = None,
) -> DataSet:
    """A data set without a division of its own: `test` inputs in all, equally many per class and the same for every
    seed, are its test part."""
    inputs, labels = everything
    rest, chosen = divided(labels, test)
    kept = (inputs[chosen], labels[chosen]) if test else None
    data = data_set(name, classes, (inputs[rest], labels[rest]), kept, kind=kind)
    return replace(data, names=tuple(names[i] for i in rest)) if names else data


def divided(labels: np.ndarray, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of those to train and of the `test` ones to test with, equally many per class and always the same."""
    chosen = per_class(labels, test, _TEST_SEED, "test")
    return without(len(labels), chosen), chosen


def subset(data: DataSet, members: Sequence[int], name: str | None = None) -> DataSet:
    """The classes `members`, numbered 0, 1, … in the order given."""
    check_members(members, len(data.classes))
    classes = tuple(data.classes[m] for m in members)
    train = _subset(data.train, members)
    test, validation = (None if part is None else _subset(part, members) for part in (data.test, data.validation))
    title = name or f"{data.name}-{'-'.join(classes)}"
    kept = np.flatnonzero(np.isin(data.train.labels.numpy(), list(members)))
    names = (*(data.names[i] for i in kept), *data.names[len(data.train) :]) if data.names else ()
    return replace(
        data, name=title, classes=classes, train=train, test=test, validation=validation, groups={}, names=names
    )


def check_members(members: Sequence[int], count: int) -> None:
    """Refuse what are not different numbers of classes."""
    if len(set(members)) < len(members) or not set(members) <= set(range(count)):
        raise ValueError(f"classes {list(members)} must be different numbers of 0 … {count - 1}")


def foreign_inputs(data: DataSet, members: Sequence[int], count: int, seed: int) -> Tensor:
    """`count` training inputs of the classes that are not `members`, chosen by seed."""
    foreign = np.flatnonzero(~np.isin(data.train.labels.numpy(), list(members)))
    if not 0 <= count <= len(foreign):
        raise ValueError(f"foreign must be at most {len(foreign)}, the inputs of the other classes, got {count}")
    chosen = np.random.RandomState(seed + 3).permutation(foreign)[:count]
    return data.train.inputs[torch.from_numpy(np.sort(chosen))]


def _subset(part: Examples, members: Sequence[int]) -> Examples:
    position = torch.full((int(part.labels.max()) + 1,), -1)
    for new, old in enumerate(members):
        position[old : old + 1] = new
    labels = position[part.labels]
    return Examples(part.inputs[labels >= 0], labels[labels >= 0])
