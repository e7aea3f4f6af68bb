"""A labeled data set, its subsets, and the choice of examples by seed, the same on every platform and in every version.

The draws come from numpy's RandomState, whose stream is frozen by numpy's policy; its newer Generator and torch's
generators may change between releases.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refprior._kinds import Kind
from refprior._process import check_memory
from refprior._words import in_short
from refprior.data._preparation import Preparation
from refprior.data._task import Examples
from refprior.data.files import DataError

NO_LABEL = -1
Array = np.ndarray | Tensor
_TEST_SEED = 0  # one test part for all runs


@dataclass(frozen=True, eq=False)
class DataSet:
    """A labeled data set with the parts its makers defined.

    `FewLabels` makes tasks of it that hide most of the labels.

    Parameters
    ----------
    name : str
        Name of the data set.
    classes : tuple of str
        Names of the classes.
    train : Examples
        The training part, with inputs of every class.
    test : Examples, optional
        The test part, with inputs of every class.
    unlabeled : Tensor, (n, ...), optional
        Further inputs without labels.
    groups : mapping of str to tuple of int
        Named sets of classes, such as the superclasses of CIFAR-100.
    names : tuple of str
        Names of the training inputs and then of the unlabeled inputs, such as files or rows with their texts.
    validation : Examples, optional
        A part to choose settings.
    features : tuple of str
        Names of the columns of a table.
    kind : {"digits", "photos", "objects", "vectors", "tokens"}, optional
        What the inputs show, by which `refprior.views.default_views` chooses.
    integer_labels : bool, default: False
        Whether labels were given as integers: predictions are then integers, not names.
    preparation : Columns or Backbone, optional
        What made the inputs of rows of a table or of photos; it becomes part of the predictor.
    test_groups : tuple of str
        Group of each test input, such as a hospital or a background.

    Raises
    ------
    DataError
        If a class has no inputs, a label is not a class, or a name is not printable.

    Examples
    --------
    >>> import refprior as rp
    >>> digits = rp.data.read("digits")
    >>> len(digits.train), len(digits.test)
    (1197, 600)
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples | None = None
    unlabeled: Tensor | None = None
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    validation: Examples | None = None
    features: tuple[str, ...] = ()
    kind: Kind | None = None
    integer_labels: bool = False
    preparation: Preparation | None = None
    test_groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.classes:
            if not isinstance(name, str) or not name.isprintable():
                raise DataError(f"{self.name}: the name of a class is {in_short(repr(name))}, expected printable text")
        for part, them in (("train", self.train), ("test", self.test), ("validation", self.validation)):
            if them is None:
                continue
            them.check_labels(f"{self.name} {part}", len(self.classes))
            counts = torch.bincount(them.labels, minlength=len(self.classes))
            if not counts.all() and part != "validation":
                empty = int(counts.argmin())
                raise DataError(f"{self.name}: class {empty} ({self.classes[empty]}) has no {part} inputs")
        inputs = len(self.train) + (0 if self.unlabeled is None else len(self.unlabeled))
        if self.names and len(self.names) != inputs:
            raise DataError(f"{self.name}: {len(self.names)} names for {inputs} inputs")
        tested = 0 if self.test is None else len(self.test)
        if self.test_groups and len(self.test_groups) != tested:
            raise DataError(f"{self.name}: expected one group per test input, got {len(self.test_groups)} for {tested}")


def data_set(
    name: str,
    classes: Sequence[str],
    train: tuple[Array, Array],
    test: tuple[Array, Array] | None,
    *,
    kind: Kind | None = None,
) -> DataSet:
    """Make a data set of arrays: images (n, channels, height, width) or vectors (n, features), and integer labels."""
    held = examples(f"{name} test", *test) if test is not None else None
    return DataSet(name, tuple(classes), examples(f"{name} train", *train), held, kind=kind)


def held_out(
    name: str,
    classes: Sequence[str],
    everything: tuple[np.ndarray, np.ndarray],
    test: int,
    *,
    kind: Kind | None = None,
) -> DataSet:
    """Make a data set and hold out `test` inputs, equally many per class and the same for every seed."""
    inputs, labels = everything
    rest, chosen = divided(labels, test)
    held = (inputs[chosen], labels[chosen]) if test else None
    return data_set(name, classes, (inputs[rest], labels[rest]), held, kind=kind)


def divided(labels: np.ndarray, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices to train and the `test` ones to test with, equally many per class and always the same."""
    chosen = per_class(labels, test, _TEST_SEED, "test")
    return without(len(labels), chosen), chosen


def subset(data: DataSet, members: Sequence[int], name: str | None = None) -> DataSet:
    """Keep the classes `members`, numbered 0, 1, … in the order given."""
    check_members(members, len(data.classes))
    classes = tuple(data.classes[m] for m in members)
    train = _subset(data.train, members)
    test, validation = (None if part is None else _subset(part, members) for part in (data.test, data.validation))
    title = name or f"{data.name}-{'-'.join(classes)}"
    kept = np.flatnonzero(np.isin(data.train.labels.numpy(), list(members)))
    names = (*(data.names[i] for i in kept), *data.names[len(data.train) :]) if data.names else ()
    tested = () if data.test is None else np.isin(data.test.labels.numpy(), list(members))
    return replace(
        data,
        name=title,
        classes=classes,
        train=train,
        test=test,
        validation=validation,
        groups={},
        names=names,
        test_groups=tuple(compress(data.test_groups, tested)),
    )


def check_members(members: Sequence[int], count: int) -> None:
    """Reject what are not different numbers of classes."""
    if len(set(members)) < len(members) or not set(members) <= set(range(count)):
        raise ValueError(f"classes {list(members)} must be different numbers of 0 … {count - 1}")


def inputs_of_other_classes(data: DataSet, members: Sequence[int], count: int, seed: int) -> Tensor:
    """Draw `count` training inputs of the classes that are not `members`."""
    others = np.flatnonzero(~np.isin(data.train.labels.numpy(), list(members)))
    if not 0 <= count <= len(others):
        raise ValueError(
            f"out_of_distribution must be at most {len(others)}, the inputs of the other classes, got {count}"
        )
    chosen = np.random.RandomState(seed + 3).permutation(others)[:count]
    return data.train.inputs[torch.from_numpy(np.sort(chosen))]


def _subset(part: Examples, members: Sequence[int]) -> Examples:
    position = torch.full((int(part.labels.max()) + 1,), -1)
    for new, old in enumerate(members):
        position[old : old + 1] = new
    labels = position[part.labels]
    return Examples(part.inputs[labels >= 0], labels[labels >= 0])


def examples(name: str, inputs: Array, labels: Array, classes: Sequence[str] | None = None) -> Examples:
    """Check inputs and labels, which an error calls `name`; labels that are names are counted as in `classes`."""
    return Examples(as_inputs(name, inputs), whole_labels(name, as_array(labels), classes))


def whole_labels(name: str, labels: np.ndarray, classes: Sequence[str] | None = None) -> Tensor:
    """Return the number of each label's class, -1 for None: (n,) -> (n,) int64. Errors call the labels `name`."""
    if labels.ndim != 1:
        raise ValueError(f"{name} labels must be a row of numbers, got {labels.shape}")
    if classes is not None and are_names(labels):
        numbers: dict[str | None, int] = {None: NO_LABEL, **{label: number for number, label in enumerate(classes)}}
        unknown = [label for label in labels.tolist() if label not in numbers]
        if unknown:
            raise ValueError(f"{name} label {unknown[0]!r} is none of the classes {in_short(', '.join(classes))}")
        return torch.tensor([numbers[label] for label in labels.tolist()], dtype=torch.int64)
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{name} labels must be whole numbers or names, got {labels.dtype}")
    return torch.from_numpy(labels.astype(np.int64))


def numbered(name: str, labels: np.ndarray) -> tuple[str, ...]:
    """Name classes by their numbers 0 … largest label; each needs an example, so there are no more than labels."""
    largest = int(labels.max()) if len(labels) else -1
    if largest >= len(labels):
        at = int(labels.argmax())
        raise ValueError(f"{name} label {largest} at index {at} needs {largest + 1} classes, of {len(labels)} examples")
    return tuple(str(c) for c in range(largest + 1))


def are_names(labels: np.ndarray) -> bool:
    """Whether labels are text, or text and None."""
    if labels.dtype == object:
        return labels.ndim == 1 and all(label is None or isinstance(label, str) for label in labels.tolist())
    return labels.dtype.kind == "U"


def as_inputs(name: str, inputs: Array) -> Tensor:
    values = as_array(inputs)
    if values.dtype == np.uint8:
        return torch.from_numpy(values.copy())
    if values.ndim == 2 and values.dtype.kind in "iu":
        return torch.from_numpy(values.astype(np.int64))
    if values.dtype.kind not in ("fb" if values.ndim == 2 else "f"):
        raise ValueError(f"{name} inputs must be uint8 or floats, got {values.dtype}; vectors may be any numbers")
    with np.errstate(over="ignore"):  # infinite then, and rejected below
        values = values.astype(np.float32)
    finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if not finite.all():
        raise ValueError(f"{name} input {int(np.argmin(finite))} is not finite ({(~finite).sum()} such inputs)")
    return torch.from_numpy(values)


def as_array(values: Any) -> np.ndarray:
    if hasattr(values, "toarray"):  # a sparse matrix
        check_memory(values.dtype.itemsize * math.prod(values.shape), f"a sparse matrix of {values.shape} made dense")
        return np.asarray(values.toarray())
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


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
        near = max(1, count // classes) * classes
        raise ValueError(f"{what} must be a multiple of the {classes} classes, for example {near}, got {count}")


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
