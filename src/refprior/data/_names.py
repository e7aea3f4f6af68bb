"""Labels as users have them, names or whole numbers, as the numbers of classes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from refprior._words import in_short

NO_LABEL = -1


def named_classes(labels: np.ndarray) -> tuple[str, ...] | None:
    """The classes of labels that are names, in their order; None for numbers: (n,) -> (C,)."""
    return tuple(sorted(set(labels.tolist()) - {None})) if _are_names(labels) else None


def whole_labels(name: str, labels: np.ndarray, classes: Sequence[str] | None = None) -> Tensor:
    """The number of each label's class; names are counted as in `classes`, and None is -1: (n,) -> (n,) int64.

    name: what an error calls them.
    """
    if labels.ndim != 1:
        raise ValueError(f"{name} labels must be a row of numbers, got {labels.shape}")
    if classes is not None and _are_names(labels):
        numbers: dict[str | None, int] = {None: NO_LABEL, **{label: number for number, label in enumerate(classes)}}
        unknown = [label for label in labels.tolist() if label not in numbers]
        if unknown:
            raise ValueError(f"{name} label {unknown[0]!r} is none of the classes {in_short(', '.join(classes))}")
        return torch.tensor([numbers[label] for label in labels.tolist()], dtype=torch.int64)
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{name} labels must be whole numbers or names, got {labels.dtype}")
    return torch.from_numpy(labels.astype(np.int64))


def _are_names(labels: np.ndarray) -> bool:
    """Whether labels are text, or text and None."""
    if labels.dtype == object:
        return labels.ndim == 1 and all(label is None or isinstance(label, str) for label in labels.tolist())
    return labels.dtype.kind == "U"
