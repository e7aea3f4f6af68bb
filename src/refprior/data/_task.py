"""A task: which inputs are labeled, which are not, and which are kept apart to measure with.

An input is an image, a row of a table, the features of another network or a sequence: a tensor of any shape.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from refprior._html import shortened, table
from refprior._kinds import InputType, Kind, noun
from refprior._process import check_memory
from refprior.data._fingerprint import PARTS, PartRecord, TaskRecord, sha256_of
from refprior.data._names import NO_LABEL, named_classes, whole_labels

Array = np.ndarray | Tensor


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and their labels.

    >>> import torch
    >>> from refprior.data import Examples
    >>> len(Examples(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 1])))
    3
    """

    inputs: Tensor  # (n, *shape), uint8, int64 or floating point
    labels: Tensor  # (n,) int64

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise ValueError(f"as many labels as inputs are needed: {len(self.labels)} for {len(self.inputs)}")

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Tensor) -> "Examples":
        return Examples(self.inputs[index], self.labels[index])

    def check_labels(self, name: str, classes: int) -> None:
        """Raise ValueError for the first label outside 0 … classes - 1; `name` is what the error calls the part."""
        check_labels(name, self.labels, classes)

    def sha256(self) -> str:
        """Return the SHA-256 hash of the inputs and labels, in hexadecimal."""
        return sha256_of(self.inputs, self.labels)

    def to(self, device: torch.device) -> "Examples":
        return Examples(self.inputs.to(device), self.labels.to(device))


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Everything a run may know of its data. The unlabeled pool has no labels, so that nothing can peek.

    >>> import refprior as rp
    >>> task = rp.data.FewLabels("digits", labels=50)()
    >>> len(task.classes), len(task.labeled), task.shape
    (10, 50, (1, 8, 8))
    """

    name: str
    classes: tuple[str, ...]
    labeled: Examples
    unlabeled: Tensor  # (n, *shape)
    test: Examples | None = None
    validation: Examples | None = None
    source: Examples | None = None  # of another task, to transfer from; labels 0 … source classes - 1
    source_classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of the unlabeled inputs, where they have any: files
    features: tuple[str, ...] = ()  # of the values of a vector, where they have names: columns
    kind: Kind | None = None  # what the inputs show, by which `rp.views.default_views` chooses; None: unknown

    def __post_init__(self) -> None:
        kind = self.labeled.inputs.dtype
        if kind not in (torch.uint8, torch.int64) and not kind.is_floating_point:
            raise ValueError(f"inputs must be uint8, int64 or floats, got {kind}")
        parts = {"labeled": self.labeled, "test": self.test, "validation": self.validation}
        for name, part in parts.items():
            if part is not None:
                self.check_inputs(name, part.inputs)
                check_labels(name, part.labels, len(self.classes))
        if self.test is not None and not len(self.test):
            raise ValueError(f"the test part of task {self.name!r} is empty: leave it out, test=None")
        if not len(self.labeled) and not len(self.unlabeled):
            raise ValueError(f"task {self.name!r} has neither labeled nor unlabeled inputs")
        if self.source is not None:
            self.check_inputs("source", self.source.inputs)
            check_labels("source", self.source.labels, len(self.source_classes))
        missing = set(range(len(self.classes))) - set(self.labeled.labels.tolist())
        if missing and len(self.labeled):  # none at all is a task for methods that need none
            raise ValueError(f"need a label of each class, missing {sorted(missing)} of {len(self.classes)}")
        if len(self.unlabeled):
            self.check_inputs("unlabeled", self.unlabeled)
        if self.names and len(self.names) != len(self.unlabeled):
            raise ValueError(f"{len(self.names)} names for {len(self.unlabeled)} unlabeled inputs")
        if self.features and self.shape != (len(self.features),):
            raise ValueError(f"{len(self.features)} names of features for inputs of {self.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return tuple(self.labeled.inputs.shape[1:])

    @property
    def training_inputs(self) -> list[Tensor]:
        """All inputs that training may look at: labeled, unlabeled, source."""
        return [self.labeled.inputs, self.unlabeled, *([self.source.inputs] if self.source is not None else [])]

    def fingerprint(self) -> TaskRecord:
        """Return the names, shapes and a hash of every part, by which a run recognizes its data."""
        parts = {name: part for name in PARTS if (part := getattr(self, name)) is not None}
        return TaskRecord(
            name=self.name,
            classes=self.classes,
            source_classes=self.source_classes,
            shape=self.shape,
            dtype=cast(InputType, str(self.labeled.inputs.dtype).removeprefix("torch.")),
            parts={
                name: PartRecord(len(part), sha256_of(part) if isinstance(part, Tensor) else part.sha256())
                for name, part in parts.items()
            },
            features=self.features,
        )

    def input_name(self, index: int) -> str:
        """Return the name of an unlabeled input, or its noun and index if it has none."""
        return self.names[index] if self.names else f"{noun(self.shape)} {index}"

    def _repr_html_(self) -> str:
        parts = {name: getattr(self, name) for name in PARTS}
        counts = {name: f"{len(part):,}" for name, part in parts.items() if part is not None}
        shape = " × ".join(map(str, self.shape))
        kind = str(self.labeled.inputs.dtype).removeprefix("torch.")
        return table(f"Task {self.name}", {"classes": shortened(self.classes), "inputs": f"{shape}, {kind}", **counts})

    @property
    def held_out(self) -> Examples:
        """What a score is measured on: the test part, or the validation part of a task without one."""
        part = self.validation if self.test is None else self.test
        if part is None:
            raise ValueError(f"task {self.name!r} has neither a test nor a validation part: nothing to measure with")
        return part

    def to(self, device: torch.device) -> "Task":
        """The same task with its inputs on another device."""
        moved = copy(self)
        for name in PARTS:
            part = getattr(self, name)
            object.__setattr__(moved, name, part.to(device) if part is not None else None)
        return moved

    def check_inputs(self, name: str, inputs: Tensor) -> None:
        """Refuse inputs of another shape or type than the labeled ones."""
        if tuple(inputs.shape[1:]) != self.shape:
            raise ValueError(f"{name} inputs are {tuple(inputs.shape[1:])}, labeled {self.shape}")
        if inputs.dtype != self.labeled.inputs.dtype:
            raise ValueError(f"{name} inputs are {inputs.dtype}, labeled {self.labeled.inputs.dtype}")


def task_from_arrays(
    labeled: tuple[Array, Array],
    unlabeled: Array,
    test: tuple[Array, Array] | None = None,
    *,
    validation: tuple[Array, Array] | None = None,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
    names: Sequence[str] = (),
    features: Sequence[str] = (),
) -> Task:
    """A task from your own arrays or tensors: inputs, and labels that are whole numbers 0, 1, … or names.

    Inputs are images (n, channels, height, width), uint8 or float; vectors (n, features) of any numbers; or floats of
    any other shape. Whole numbers of vectors are kept as they are, and become floats when they are normalized; with
    `inputs=Identity()` they stay whole, as token ids for an `nn.Embedding`. Sparse matrices become dense. Labeled
    inputs whose label is -1, or None among names, have none: they are the last of the pool.

    The test and validation parts are only measured with; without them a run reports its loss and its terms. names: of
    the unlabeled inputs, by which `refprior suggest` asks about them. features: of the values of a vector.

    >>> import numpy as np
    >>> import refprior as rp
    >>> images, labels = np.random.rand(60, 1, 8, 8), np.arange(60) % 3
    >>> known, rest, test = slice(0, 9), slice(9, 40), slice(40, 60)
    >>> task = rp.data.task_from_arrays(
    ...     (images[known], labels[known]), images[rest], (images[test], labels[test]), classes=["a", "b", "c"]
    ... )
    >>> len(task.labeled), len(task.unlabeled)
    (9, 31)
    """
    found = named_classes(_array(labeled[1])) if classes is None else tuple(classes)
    known, pool = _with_labels(examples("labeled", *labeled, found), _inputs("unlabeled", unlabeled))
    _check_shape(known.inputs)
    known_as = found if found is not None else numbered("labeled", known.labels.numpy())
    return Task(
        name=name,
        classes=known_as,
        labeled=known,
        unlabeled=pool,
        test=examples("test", *test, known_as) if test is not None else None,
        validation=examples("validation", *validation, known_as) if validation is not None else None,
        names=tuple(names),
        features=tuple(features),
    )


def examples(name: str, inputs: Array, labels: Array, classes: Sequence[str] | None = None) -> Examples:
    """Checked inputs and labels; `name` is what an error calls them. classes: those of labels that are names."""
    return Examples(_inputs(name, inputs), whole_labels(name, _array(labels), classes))


def _with_labels(given: Examples, pool: Tensor) -> tuple[Examples, Tensor]:
    """The inputs that have a label, and the pool with those that have none."""
    without = given.labels == NO_LABEL
    if not without.any():
        return given, pool
    return given[~without], torch.cat([pool, given.inputs[without]]) if len(pool) else given.inputs[without]


def _inputs(name: str, inputs: Array) -> Tensor:
    values = _array(inputs)
    if values.dtype == np.uint8:
        return torch.from_numpy(values.copy())
    if values.ndim == 2 and values.dtype.kind in "iu":
        return torch.from_numpy(values.astype(np.int64))
    if values.dtype.kind not in ("fb" if values.ndim == 2 else "f"):
        raise ValueError(f"{name} inputs must be uint8 or floats, got {values.dtype}; vectors may be any numbers")
    with np.errstate(over="ignore"):  # infinite then, and refused
        values = values.astype(np.float32)
    finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if not finite.all():
        raise ValueError(f"{name} input {int(np.argmin(finite))} is not finite ({(~finite).sum()} such inputs)")
    return torch.from_numpy(values)


def _check_shape(inputs: Tensor) -> None:
    """Refuse what is an image without its channels in their place."""
    shape, remedy = tuple(inputs.shape), "images are (n, channels, height, width): use"
    if len(shape) < 2 or 0 in shape[1:]:
        raise ValueError(f"labeled inputs are {shape}, expected (n, features) or (n, channels, height, width)")
    if len(shape) == 3 and (inputs.dtype == torch.uint8 or shape[1] == shape[2]):
        raise ValueError(
            f"labeled inputs are {shape}, {remedy} x[:, None]; sequences with as many steps as features "
            "are a refprior.data.Task of your own"
        )
    last = (1, 3, 4) if inputs.dtype == torch.uint8 else (1, 3)  # 4: with transparency
    if len(shape) == 4 and shape[3] in last and min(shape[1:3]) > max(3, shape[3]):
        raise ValueError(f"labeled inputs are {shape}, {remedy} np.moveaxis(x, -1, 1)")


def _array(values: Any) -> np.ndarray:
    if hasattr(values, "toarray"):  # a sparse matrix
        check_memory(values.dtype.itemsize * math.prod(values.shape), f"a sparse matrix of {values.shape} made dense")
        return np.asarray(values.toarray())
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def check_labels(name: str, labels: Tensor, classes: int) -> None:
    """Raise for the first label that is not the number of a class."""
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        first = int(outside.nonzero()[0])
        raise ValueError(f"{name} label {int(labels[first])} at index {first} is outside 0 … {classes - 1}")


def numbered(name: str, labels: np.ndarray) -> tuple[str, ...]:
    """Classes named by their numbers 0 … largest label; each needs an example, so there are no more than labels."""
    largest = int(labels.max()) if len(labels) else -1
    if largest >= len(labels):
        at = int(labels.argmax())
        raise ValueError(f"{name} label {largest} at index {at} needs {largest + 1} classes, of {len(labels)} examples")
    return tuple(str(c) for c in range(largest + 1))
