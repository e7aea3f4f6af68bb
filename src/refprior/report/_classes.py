"""Scores of every class, and which classes are taken for which: tables and figure."""

# C classes

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from torch import Tensor

from refprior._style import BLUE, INK
from refprior.posterior import per_class
from refprior.report._table import EMPTY, Group

_WRITTEN = 12  # classes up to which the counts stand in the figure
_NAMED = 20  # classes up to which each has its name at the axes
_LETTERS = 14  # of a name at an axis
_ON_DARK = "#fefefe"  # on dark blue, whatever the color of the page


def confusion_of(runs: Group) -> Tensor | None:
    """The confusion matrix of all seeds together; None if a run has none."""
    found = [run.evaluation.confusion for run in runs]
    return None if None in found else torch.tensor(found).sum(0)


def class_rows(counts: Tensor, classes: Sequence[str]) -> list[list[str]]:
    """Precision, recall, F1 and number of inputs of each class, and what it is most often taken for; the header first.

    >>> import torch
    >>> import refprior as rp
    >>> rp.report.class_rows(torch.tensor([[1, 3], [0, 2]]), ["cat", "dog"])[1]
    ['cat', '100.0', '25.0', '40.0', '4', 'dog (3)']
    """
    found = per_class(counts)
    shares = zip(*(values.tolist() for values in (found.precision, found.recall, found.f1)), strict=True)
    lines = [["class", "precision %", "recall %", "F1 %", "inputs", "most often taken for"]]
    for index, (name, scores) in enumerate(zip(classes, shares, strict=True)):
        numbers = (EMPTY if score != score else f"{100 * score:.1f}" for score in scores)
        lines.append([name, *numbers, f"{int(found.count[index]):,}", _mistaken(counts[index], index, classes)])
    return lines


def _mistaken(row: Tensor, index: int, classes: Sequence[str]) -> str:
    others = row.index_fill(0, torch.tensor(index), 0)
    number, other = int(others.max()), int(others.argmax())
    return f"{classes[other]} ({number:,})" if number else EMPTY


def confusion_rows(counts: Tensor, classes: Sequence[str]) -> list[list[str]]:
    """The whole matrix as a table, the header first; truth → prediction."""
    body = [[name, *(f"{number:,}" for number in row)] for name, row in zip(classes, counts.tolist(), strict=True)]
    return [["truth ↓, taken for →", *classes], *body]


def mistake_rows(counts: Tensor, classes: Sequence[str], most: int = 20) -> list[list[str]]:
    """The most frequent mistakes, where the whole matrix is too large to read; the header first."""
    wrong = counts.clone().fill_diagonal_(0).flatten()
    count = min(most, int((wrong > 0).sum()))
    places = wrong.sort(descending=True, stable=True).indices[:count].tolist()
    pairs = [(place, *divmod(place, len(classes))) for place in places]
    return [["truth", "taken for", "inputs"], *([classes[t], classes[p], f"{wrong[at]:,}"] for at, t, p in pairs)]


def draw_confusion(axes: Axes, counts: Tensor, classes: Sequence[str]) -> None:
    """Shares of each class, as shades of blue over the page; few classes have their counts and names too."""
    shares = (counts / counts.sum(1, keepdim=True).clamp_min(1)).numpy()
    shades = np.concatenate([np.broadcast_to(to_rgb(BLUE), (*shares.shape, 3)), shares[..., None]], axis=-1)
    axes.imshow(shades, interpolation="nearest")
    axes.grid(visible=False)
    axes.set(xlabel="taken for", ylabel="truth")
    if len(classes) <= _WRITTEN:
        size = 8 if int(counts.max()) < 1000 else 6
        for row, column in counts.nonzero().tolist():
            color = _ON_DARK if shares[row, column] > 0.7 else INK
            axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", fontsize=size, color=color)
    if len(classes) <= _NAMED:
        names = [name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…" for name in classes]
        upright = 0 if max(map(len, names)) <= 2 else 90
        axes.set_xticks(range(len(classes)), [n.replace("$", r"\$") for n in names], rotation=upright, fontsize=8)
        axes.set_yticks(range(len(classes)), [n.replace("$", r"\$") for n in names], fontsize=8)
