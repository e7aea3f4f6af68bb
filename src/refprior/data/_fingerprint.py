"""The record by which a run recognizes its data: names, shapes, and a hash of the content of every part.

A run folder keeps this record. A run is resumed and evaluated only with the data it was trained on.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from refprior._kinds import InputType
from refprior._words import counted

PARTS = ("labeled", "unlabeled", "test", "validation", "source")


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
