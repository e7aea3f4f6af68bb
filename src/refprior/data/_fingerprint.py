"""What identifies the data of a run: names, shapes and a hash of the content of every part.

A run folder keeps this record. A run goes on, and is evaluated, only with the data it was trained on.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from refprior.data._task import PARTS, Examples, Task

ImageType = Literal["uint8", "int64", "float16", "bfloat16", "float32", "float64"]
DTYPES: dict[ImageType, torch.dtype] = {
    "uint8": torch.uint8,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True)
class PartRecord:
    """One part of a task."""

    count: int
    sha256: str  # of its images, then of its labels


@dataclass(frozen=True)
class TaskRecord:
    """All that a run has to know of its data to predict, and to recognize them.

    >>> import refprior as rp
    >>> few, more = (rp.data.fingerprint(rp.data.FewLabels("digits", labels=n)()) for n in (50, 100))
    >>> few.differences(more)
    ['labeled: 50 → 100 inputs', 'unlabeled: 1147 → 1097 inputs']
    """

    name: str
    classes: tuple[str, ...]
    source_classes: tuple[str, ...]
    shape: tuple[int, ...]  # of one input
    dtype: ImageType
    parts: dict[str, PartRecord]
    features: tuple[str, ...] = ()  # names of the columns, where the inputs have such

    def differences(self, other: "TaskRecord") -> list[str]:
        """In words, how other data differ from these."""
        fields = ("classes", "source_classes", "shape", "dtype", "features")
        changes = [
            f"{name}: {getattr(self, name)} → {getattr(other, name)}"
            for name in fields
            if getattr(self, name) != getattr(other, name)
        ]
        return changes + [line for name in PARTS for line in _part_differences(name, self.parts, other.parts)]


def fingerprint(task: Task) -> TaskRecord:
    """The record of a task: names, shapes, and a hash of every part. MNIST takes a twentieth of a second.

    >>> import refprior as rp
    >>> record = rp.data.fingerprint(rp.data.FewLabels("digits", labels=50)())
    >>> record.parts["labeled"].count, len(record.parts["labeled"].sha256)
    (50, 64)
    """
    parts = {name: part for name in PARTS if (part := getattr(task, name)) is not None}
    return TaskRecord(
        name=task.name,
        classes=task.classes,
        source_classes=task.source_classes,
        shape=task.shape,
        dtype=next(name for name, dtype in DTYPES.items() if dtype == task.labeled.inputs.dtype),
        parts={name: part_record(part) for name, part in parts.items()},
        features=task.features,
    )


def check_same_data(known: TaskRecord, task: Task, where: str, remedy: str) -> None:
    """Refuse a task that is not the one of the record."""
    changes = known.differences(fingerprint(task))
    if changes:
        raise ValueError(f"{where} was trained on other data: {'; '.join(changes)} (there → now). {remedy}")


def part_record(part: Examples | Tensor) -> PartRecord:
    """How many inputs a part has, and a hash of its content."""
    digest = hashlib.sha256()
    for tensor in (part,) if isinstance(part, Tensor) else (part.inputs, part.labels):
        if tensor.numel():
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return PartRecord(len(part), digest.hexdigest())


def _part_differences(name: str, old: dict[str, PartRecord], new: dict[str, PartRecord]) -> list[str]:
    one, other = old.get(name), new.get(name)
    if one == other:
        return []
    if one is None or other is None or one.count != other.count:
        counts = (part.count if part is not None else 0 for part in (one, other))
        return ["{}: {} → {} inputs".format(name, *counts)]
    return [f"{name}: {one.count} input{'' if one.count == 1 else 's'} of other content"]
