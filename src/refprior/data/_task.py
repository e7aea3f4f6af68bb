"""A task: which inputs are labeled, which are not, and which are held out for evaluation.

An input is an image, a row of a table, the features of another network or a sequence: a tensor of any shape. A run
folder keeps a record of its task, with a hash of every part: a run is resumed and evaluated only with its data.
"""

import hashlib
from copy import copy
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from refprior._files import Json
from refprior._html import shortened, table
from refprior._kinds import InputType, Kind, noun
from refprior._words import counted
from refprior.data._preparation import Preparation, preparation_record

PARTS = ("labeled", "unlabeled", "test", "validation", "source")
_MOST_SHARED = 0.01  # of the source's inputs may be in the target: data sets hold some images twice


@dataclass(frozen=True)
class PartRecord:
    """One part of a task."""

    count: int
    sha256: str  # of its inputs, then of its labels


@dataclass(frozen=True)
class TaskRecord:
    """What a run has to know of its data to predict with them and to recognize them.

    Attributes
    ----------
    name : str
        Name of the task.
    classes, source_classes : tuple of str
        Names of the classes, and of those of the source task.
    shape : tuple of int
        Shape of one input.
    dtype : str
        Type of the inputs, such as ``"uint8"``.
    parts : dict of str to PartRecord
        The number of inputs and the SHA-256 hash of each part.
    features : tuple of str
        Names of the columns of a table.
    integer_labels : bool
        Whether labels were given as integers, not as names.
    preparation : dict, optional
        What made the inputs of rows of a table or of photos, as a record.

    Examples
    --------
    >>> import refprior as rp
    >>> few, more = (rp.data.FewLabels("digits", labels=n)().fingerprint() for n in (50, 100))
    >>> few.differences(more)
    ['labeled: 50 → 100 inputs', 'unlabeled: 1147 → 1097 inputs']
    """

    name: str
    classes: tuple[str, ...]
    source_classes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: InputType
    parts: dict[str, PartRecord]
    features: tuple[str, ...] = ()
    integer_labels: bool = False
    preparation: Json | None = None

    def differences(self, other: "TaskRecord") -> list[str]:
        """Describe how other data differ from these, one line per difference.

        Parameters
        ----------
        other : TaskRecord
            The record to compare with.

        Returns
        -------
        list of str
            Empty if the data are the same.
        """
        changes = [
            f"{name}: {getattr(self, name)} → {getattr(other, name)}"
            for name in ("classes", "source_classes", "shape", "dtype", "features")
            if getattr(self, name) != getattr(other, name)
        ]
        for name in PARTS:
            here, there = self.parts.get(name), other.parts.get(name)
            counts = [0 if part is None else part.count for part in (here, there)]
            if counts[0] != counts[1] or (here is None) != (there is None):
                changes.append(f"{name}: {counts[0]} → {counts[1]} inputs")
            elif here != there:
                changes.append(f"{name}: {counted(counts[0], 'input')} of other content")
        return changes


def sha256_of(*tensors: Tensor) -> str:
    """Hash the content of tensors, one after the other."""
    digest = hashlib.sha256()
    for tensor in tensors:
        if tensor.numel():
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return digest.hexdigest()


def fingerprints(inputs: Tensor) -> Tensor:
    """Hash each input by its bytes to 64 bits: (n, *shape) -> (n,) int64."""
    values = inputs.detach().cpu()
    values = values + 0 if values.is_floating_point() else values  # -0 is 0
    rows = np.ascontiguousarray(values.numpy())
    found = [hashlib.blake2b(row.data, digest_size=8).digest() for row in rows]
    return torch.tensor([int.from_bytes(mark, "little", signed=True) for mark in found], dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and their labels.

    Parameters
    ----------
    inputs : Tensor, (n, ...)
        uint8, int64 or floating point.
    labels : Tensor, (n,)
        The class of each input, int64.

    Raises
    ------
    ValueError
        If there are not as many labels as inputs.

    See Also
    --------
    examples_from_dataset : Read the items of a torch ``Dataset``.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import Examples
    >>> len(Examples(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 1])))
    3
    """

    inputs: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise ValueError(f"expected one label per input, got {len(self.labels)} for {len(self.inputs)}")

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Tensor) -> "Examples":
        return Examples(self.inputs[index], self.labels[index])

    def check_labels(self, name: str, classes: int) -> None:
        """Check that every label is the number of a class.

        Parameters
        ----------
        name : str
            What an error calls these examples.
        classes : int
            Number of classes.

        Raises
        ------
        ValueError
            For the first label outside 0 … classes - 1.
        """
        check_labels(name, self.labels, classes)

    def sha256(self) -> str:
        """Hash the content of inputs and labels.

        Returns
        -------
        str
            The SHA-256 hash in hexadecimal.
        """
        return sha256_of(self.inputs, self.labels)

    def to(self, device: torch.device) -> "Examples":
        """Move inputs and labels to a device.

        Parameters
        ----------
        device : torch.device
            Where to move them.

        Returns
        -------
        Examples
            The same examples on that device.
        """
        return Examples(self.inputs.to(device), self.labels.to(device))


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Everything a run may know of its data.

    The unlabeled pool has no labels, so that nothing can use them by accident.

    Parameters
    ----------
    name : str
        Name of the task.
    classes : tuple of str
        Names of the classes.
    labeled : Examples
        The labeled inputs: at least one of each class, or none at all.
    unlabeled : Tensor, (n, ...)
        The unlabeled inputs.
    test, validation : Examples, optional
        Held-out parts to evaluate on; to choose settings, use the validation part.
    source : Examples, optional
        Labeled inputs of another task to transfer from. See `with_source`.
    source_classes : tuple of str
        Names of the source's classes.
    names, labeled_names : tuple of str
        Names of the unlabeled and of the labeled inputs, such as files or rows, with their texts if they have any.
    features : tuple of str
        Names of the columns of a table.
    kind : {"digits", "photos", "objects", "vectors", "tokens"}, optional
        What the inputs show, by which `refprior.views.default_views` chooses.
    integer_labels : bool, default: False
        Whether labels were given as integers: predictions are then integers, not names.
    preparation : Columns or Backbone, optional
        What made the inputs of rows of a table or of photos; it becomes part of the predictor.
    test_groups : tuple of str
        Group of each test input, such as a hospital or a background. `Run.rules` compares the rules in each group.

    Raises
    ------
    ValueError
        If parts differ in shape or type, a label is not a class, or a class has no label.

    See Also
    --------
    FewLabels : Make a task of a data set, a file or a folder.
    task_from_arrays : Make a task of arrays, tensors or torch data sets.

    Examples
    --------
    >>> import refprior as rp
    >>> task = rp.data.FewLabels("digits", labels=50)()
    >>> len(task.classes), len(task.labeled), task.shape
    (10, 50, (1, 8, 8))
    """

    name: str
    classes: tuple[str, ...]
    labeled: Examples
    unlabeled: Tensor
    test: Examples | None = None
    validation: Examples | None = None
    source: Examples | None = None
    source_classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    labeled_names: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    kind: Kind | None = None
    integer_labels: bool = False
    preparation: Preparation | None = None
    test_groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kind = self.labeled.inputs.dtype
        if kind not in (torch.uint8, torch.int64) and not kind.is_floating_point:
            raise ValueError(f"inputs must be uint8, int64 or floats, got {kind}")
        parts = {"labeled": self.labeled, "test": self.test, "validation": self.validation, "source": self.source}
        for name, part in parts.items():
            if part is not None:
                self._check_inputs(name, part.inputs)
                part.check_labels(name, len(self.source_classes if name == "source" else self.classes))
        if self.test is not None and not len(self.test):
            raise ValueError(f"the test part of task {self.name!r} is empty: leave it out, test=None")
        if not len(self.labeled) and not len(self.unlabeled):
            raise ValueError(f"task {self.name!r} has neither labeled nor unlabeled inputs")
        missing = set(range(len(self.classes))) - set(self.labeled.labels.tolist())
        if missing and len(self.labeled):  # no labels at all is a task for methods that need none
            raise ValueError(f"need a label of each class, missing {sorted(missing)} of {len(self.classes)}")
        if len(self.unlabeled):
            self._check_inputs("unlabeled", self.unlabeled)
        for name, names, inputs in (
            ("unlabeled", self.names, self.unlabeled),
            ("labeled", self.labeled_names, self.labeled.inputs),
        ):
            if names and len(names) != len(inputs):
                raise ValueError(f"{len(names)} names for {len(inputs)} {name} inputs")
        tested = 0 if self.test is None else len(self.test)
        if self.test_groups and len(self.test_groups) != tested:
            raise ValueError(f"expected one group per test input, got {len(self.test_groups)} for {tested}")
        if self.features and self.shape != (len(self.features),):
            raise ValueError(f"{len(self.features)} names of features for inputs of {self.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.labeled.inputs.shape[1:])

    @property
    def training_inputs(self) -> list[Tensor]:
        """All inputs that training may use: labeled, unlabeled, source."""
        return [self.labeled.inputs, self.unlabeled, *([self.source.inputs] if self.source is not None else [])]

    @property
    def held_out(self) -> Examples:
        """The part that scores are measured on: the test part, or else the validation part."""
        part = self.validation if self.test is None else self.test
        if part is None:
            raise ValueError(f"task {self.name!r} has neither a test nor a validation part: nothing to measure with")
        return part

    def with_source(self, source: "Task") -> "Task":
        """Add the labeled inputs of another task, to transfer from.

        Parameters
        ----------
        source : Task
            A task with inputs of the same shape and type.

        Returns
        -------
        Task
            This task with the source's labeled inputs and classes.

        Raises
        ------
        ValueError
            If the source has no labels, or more than 1 % of its inputs are in this task too.

        Examples
        --------
        >>> import refprior as rp
        >>> low = rp.data.FewLabels("digits", labels=None, classes=(0, 1))()
        >>> high = rp.data.FewLabels("digits", labels=20, classes=(2, 3))()
        >>> high.with_source(low).name
        'digits-0-1-to-digits-2-3'
        """
        if not len(source.labeled):
            raise ValueError(f"the source task {source.name!r} has no labeled inputs")
        joined = replace(
            self, name=f"{source.name}-to-{self.name}", source=source.labeled, source_classes=source.classes
        )
        parts = [part for part in (self.labeled, self.test, self.validation) if part is not None]
        mine = torch.cat([self.unlabeled, *(part.inputs for part in parts)])
        shared = {i for i, _ in duplicates(source.labeled.inputs, mine)}
        if len(shared) > _MOST_SHARED * len(source.labeled):
            raise ValueError(
                f"source and target overlap: {len(shared)} of {len(source.labeled)} source inputs are in both; "
                "choose tasks of different classes"
            )
        return joined

    def fingerprint(self) -> TaskRecord:
        """Record the names, the shapes and a hash of every part, by which a run recognizes its data.

        Returns
        -------
        TaskRecord
            The record; its ``differences`` compare it with another.
        """
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
            integer_labels=self.integer_labels,
            preparation=preparation_record(self.preparation),
        )

    def input_name(self, index: int) -> str:
        """Name an unlabeled input.

        Parameters
        ----------
        index : int
            Its index in the pool.

        Returns
        -------
        str
            Its entry in ``names``, or else "image 7" or "input 7".
        """
        return self.names[index] if self.names else f"{noun(self.shape)} {index}"

    def to(self, device: torch.device) -> "Task":
        """Move all inputs and labels to a device.

        Parameters
        ----------
        device : torch.device
            Where to move them.

        Returns
        -------
        Task
            The same task on that device.
        """
        moved = copy(self)
        for name in PARTS:
            part = getattr(self, name)
            object.__setattr__(moved, name, part.to(device) if part is not None else None)
        return moved

    def _repr_html_(self) -> str:
        parts = {name: getattr(self, name) for name in PARTS}
        counts = {name: f"{len(part):,}" for name, part in parts.items() if part is not None}
        shape = " × ".join(map(str, self.shape))
        kind = str(self.labeled.inputs.dtype).removeprefix("torch.")
        return table(f"Task {self.name}", {"classes": shortened(self.classes), "inputs": f"{shape}, {kind}", **counts})

    def _check_inputs(self, name: str, inputs: Tensor) -> None:
        """Reject inputs of another shape or type than the labeled ones."""
        if tuple(inputs.shape[1:]) != self.shape:
            raise ValueError(f"{name} inputs are {tuple(inputs.shape[1:])}, labeled {self.shape}")
        if inputs.dtype != self.labeled.inputs.dtype:
            raise ValueError(f"{name} inputs are {inputs.dtype}, labeled {self.labeled.inputs.dtype}")


def duplicates(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    """Find inputs that are in both of two parts.

    Parameters
    ----------
    first, second : Tensor, (n, ...) and (m, ...)
        Inputs to compare, number by number.

    Returns
    -------
    list of (int, int)
        Index pairs (i, j) with ``first[i]`` equal to ``second[j]``.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> inputs = torch.arange(5).reshape(5, 1)
    >>> rp.data.duplicates(inputs, inputs[3:])
    [(3, 0), (4, 1)]
    """
    where: dict[bytes, list[int]] = {}
    for j, values in enumerate(second.cpu().numpy()):
        where.setdefault(values.tobytes(), []).append(j)
    return [(i, j) for i, values in enumerate(first.cpu().numpy()) for j in where.get(values.tobytes(), [])]


def check_labels(name: str, labels: Tensor, classes: int) -> None:
    """Raise for the first label that is not the number of a class."""
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        first = int(outside.nonzero()[0])
        raise ValueError(f"{name} label {int(labels[first])} at index {first} is outside 0 … {classes - 1}")
