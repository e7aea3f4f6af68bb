"""Which classes are taken for which, and how good the predictions of each class are."""

# n examples, C classes

from dataclasses import dataclass

import torch
from torch import Tensor


def confusion(log_p: Tensor, y: Tensor) -> Tensor:
    """How many examples of each class (rows) are taken for each class (columns): (n, C), (n,) -> (C, C) whole numbers.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]]).log()  # three inputs
    >>> rp.posterior.confusion(log_p, torch.tensor([0, 0, 1]))
    tensor([[1, 1],
            [0, 1]])
    """
    classes = log_p.shape[-1]
    return torch.bincount(y * classes + log_p.argmax(-1), minlength=classes**2).reshape(classes, classes)


@dataclass(frozen=True, eq=False)
class PerClass:
    """Scores of every class; NaN where there is nothing to count.

    >>> import torch
    >>> import refprior as rp
    >>> rp.posterior.per_class(torch.tensor([[1, 1], [0, 1]])).count
    tensor([2, 1])
    """

    precision: Tensor  # (C,) of the examples taken for the class, the share that is of it
    recall: Tensor  # (C,) of the examples of the class, the share that is taken for it
    f1: Tensor  # (C,) harmonic mean of the two
    count: Tensor  # (C,) examples of the class


def per_class(counts: Tensor) -> PerClass:
    """Precision, recall and F1 of every class from a confusion matrix: (C, C) -> four times (C,).

    >>> import torch
    >>> import refprior as rp
    >>> rp.posterior.per_class(torch.tensor([[1, 1], [0, 1]])).precision
    tensor([1.0000, 0.5000])
    """
    right, taken, count = counts.diagonal(), counts.sum(0), counts.sum(1)
    return PerClass(right / taken, right / count, 2 * right / (taken + count), count)
