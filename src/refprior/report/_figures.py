"""The figures of a report: accuracy of particles and ensemble (fig:particle_accuracy_entropy left), the two entropies
(its right), the reliability diagram."""

import base64
import io
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from refprior._style import BLUE, CONDITIONAL, ENSEMBLE, INK, MARGINAL, PARTICLE, SOFT, as_variables, styled
from refprior.report._runs import Group

_WIDTH = 4.6  # of a panel, in inches
_COLUMNS = 4  # of panels on a sheet
_WRITTEN = 12  # classes up to which the counts stand in the figure
_NAMED = 20  # classes up to which each has its name at the axes
_LETTERS = 14  # of a name at an axis
_ON_DARK = "#fefefe"  # on dark blue, whatever the color of the page


@dataclass(frozen=True)
class Kind:
    """A kind of figure: title, explanation, how a group is drawn, and which groups have it."""

    title: str
    note: str
    draw: Callable[[Axes, Group], None]
    has: Callable[[Group], bool]
    same_range: bool = False
    height: float = 3.4  # of a panel, in inches
    margins: tuple[float, float] = (0.75, 0.5)  # left and below


@styled
def figures(groups: Sequence[Group]) -> dict[Kind, list[Figure]]:
    """Draw one small figure per group of every kind that these runs have, for a page to arrange."""
    found = {}
    for kind, shown in _shown(groups).items():
        found[kind] = [Figure(figsize=(_WIDTH, kind.height)) for _ in shown]
        for figure, runs in zip(found[kind], shown, strict=True):
            kind.draw(_axes(figure, kind, 1, 1, 1), runs)
        if kind.same_range:
            _same_range([axes for figure in found[kind] for axes in figure.axes])
    return found


@styled
def sheets(groups: Sequence[Group]) -> dict[str, Figure]:
    """Draw all groups of a kind on one figure, by title."""
    found = {}
    for kind, shown in _shown(groups).items():
        columns = min(_COLUMNS, len(shown))
        lines = -(-len(shown) // columns)
        found[kind.title] = figure = Figure(figsize=(_WIDTH * columns, kind.height * lines))
        for place, runs in enumerate(shown, start=1):
            kind.draw(_axes(figure, kind, lines, columns, place), runs)
        if kind.same_range:
            _same_range(figure.axes)
    return found


def as_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140)
    return buffer.getvalue()


@styled
def as_image(figure: Figure, alt: str) -> str:
    """Return an <img> element with an embedded SVG, in the colors of a light or a dark page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    content = base64.b64encode(as_variables(buffer.getvalue()).encode()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{content}">'


def plain(text: str) -> str:
    """Escape dollars, between which matplotlib would read a formula."""
    return text.replace("$", r"\$")


def _shown(groups: Sequence[Group]) -> dict[Kind, list[Group]]:
    """Return the groups that each kind is drawn for; kinds without groups are left out."""
    found = {kind: [g for g in groups if kind.has(g)] for kind in KINDS}
    return {kind: shown for kind, shown in found.items() if shown}


def _axes(figure: Figure, kind: Kind, lines: int, columns: int, place: int) -> Axes:
    """Add the axes of a panel with fixed margins: measuring all labels of many panels takes minutes."""
    aside, below = kind.margins
    left, bottom = (place - 1) % columns * _WIDTH + aside, (lines - 1 - (place - 1) // columns) * kind.height + below
    width, height = _WIDTH - aside - 0.15, kind.height - below - 0.6
    across, down = _WIDTH * columns, kind.height * lines
    return figure.add_axes((left / across, bottom / down, width / across, height / down))


def _title(axes: Axes, text: str) -> None:
    """Set a title of at most three lines."""
    axes.set_title(plain(textwrap.fill(text, 48, max_lines=3, placeholder=" …")), fontsize=9)


def _accuracy(axes: Axes, runs: Group) -> None:
    run = runs[0]
    part = _part(runs)
    scores_by_step = {step: getattr(e, part).ema for step, e in run.evaluations.items()}
    steps, found = list(scores_by_step), list(scores_by_step.values())
    particles = [[100 * a for a in scores.particle_accuracies] for scores in found]
    marker = "-" if len(steps) > 1 else "o"  # a single value would be no line
    for k, line in enumerate(zip(*particles, strict=True)):
        axes.plot(steps, line, marker, color=PARTICLE, lw=0.9, alpha=0.8, label="single particles" if k == 0 else None)
    ensemble = [100 * scores.accuracy for scores in found]
    axes.plot(steps, ensemble, marker, color=ENSEMBLE, lw=2.2, label="their ensemble")
    _title(axes, f"{run.label}, seed {run.seed}")
    axes.set(xlabel="step", ylabel=f"{part} accuracy, EMA (%)")
    axes.legend(loc="lower right")


def _entropies(axes: Axes, runs: Group) -> None:
    for number, run in enumerate(runs):
        steps = [r.step for r in run.records]
        for key, color, dash, label in (
            ("marginal_entropy", MARGINAL, "-", "$h_y$: of the mixture"),
            ("conditional_entropy", CONDITIONAL, "--", "$h_{yw}$: of single particles (bound)"),
        ):
            values = [math.nan if (value := r.terms.get(key)) is None else value for r in run.records]
            marker = "" if len(steps) > 1 else "o"
            axes.plot(steps, values, color=color, ls=dash, marker=marker, lw=1, label=label if number == 0 else None)
    _title(axes, f"{runs[0].label}, {len(runs)} seed{'' if len(runs) == 1 else 's'}")
    axes.set(xlabel="step", ylabel="entropy (nats)")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    axes.legend(loc="upper right")


def _reliability(axes: Axes, runs: Group) -> None:
    part = _part(runs)
    diagrams = [getattr(run.evaluation, part).ema.reliability for run in runs]
    counts = [sum(c) for c in zip(*(d.counts for d in diagrams), strict=True)]

    def pooled(key: Literal["confidence", "accuracy"]) -> list[float]:
        sums = (sum(d.counts[i] * getattr(d, key)[i] for d in diagrams) for i in range(len(counts)))
        return [total / count for total, count in zip(sums, counts, strict=True) if count]

    largest = max(counts)
    sizes = [20 + 180 * count / largest for count in counts if count]
    axes.plot([0, 1], [0, 1], color=SOFT, lw=1, ls=":", label="perfect calibration")
    axes.scatter(pooled("confidence"), pooled("accuracy"), s=sizes, color=ENSEMBLE, alpha=0.7, label="ensemble")
    _title(axes, runs[0].label)
    axes.set(xlabel="confidence of the ensemble", ylabel=f"{part} accuracy", xlim=(0, 1.05), ylim=(0, 1.05))
    for handle in axes.legend(loc="lower right").legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([40])  # not as large as the largest circle


def _confusion(axes: Axes, runs: Group) -> None:
    counts = confusion_of(runs)
    assert counts is not None  # only then it is drawn
    draw_confusion(axes, counts, runs[0].classes)
    _title(axes, f"{runs[0].label}, {_part(runs)} part")


def _same_range(every: Sequence[Axes]) -> None:
    low = min(axes.get_ylim()[0] for axes in every)
    for axes in every:
        axes.set_ylim(low, 100)


def _part(runs: Group) -> Literal["test", "validation"]:
    """Return the part to draw: the test part, or the validation part of runs without one."""
    return "validation" if any(run.evaluation.test is None for run in runs) else "test"


def _named(runs: Group) -> bool:
    """Return whether outputs have an accuracy: not if clusters are the classes, nor without a part to measure it."""
    found = [run.evaluation for run in runs]
    return found[0].consensus is None and all(getattr(e, _part(runs)) is not None for e in found)


def confusion_of(runs: Group) -> Tensor | None:
    """Return the confusion matrix of all seeds together; None if a run has none."""
    found = [run.evaluation.confusion for run in runs]
    return None if None in found else torch.tensor(found).sum(0)


def draw_confusion(axes: Axes, counts: Tensor, classes: Sequence[str]) -> None:
    """Draw shares of each class as shades of blue; few classes also have their counts and names."""
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
        axes.set_xticks(range(len(classes)), list(map(plain, names)), rotation=upright, fontsize=8)
        axes.set_yticks(range(len(classes)), list(map(plain, names)), fontsize=8)


KINDS = (
    Kind(
        "Particles and ensemble",
        "Accuracy of single particles (thin) and of their ensemble (thick) while they train, of the first seed.",
        _accuracy,
        _named,
        same_range=True,
    ),
    Kind(
        "The two entropies",
        "In nats per tuple of unlabeled inputs. h_y is the entropy of the mixture of all particles, h_yw (dashed) the "
        "mean entropy of single particles; their difference is the information that labels carry about the particle, "
        "which is never negative. Methods with strong views train on an upper bound of h_yw, which also counts how far "
        "the weak and the strong view of an input disagree: this is what is drawn, and why h_yw can lie above h_y.",
        _entropies,
        lambda runs: "marginal_entropy" in runs[0].result.terms,
    ),
    Kind(
        "Calibration",
        "Accuracy against confidence, all seeds together; larger circles hold more inputs. Below the diagonal, the "
        "ensemble is more confident than it is right.",
        _reliability,
        _named,
    ),
    Kind(
        "Confusion",
        "What the inputs of each class (rows) are taken for (columns) by the EMA ensemble or its consensus at the last "
        "step, all seeds together. The shade is the share of the class.",
        _confusion,
        lambda runs: confusion_of(runs) is not None,
        height=4.6,
        margins=(1.1, 1.05),
    ),
)
