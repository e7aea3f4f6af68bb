"""The figures of a report: accuracy of particles and ensemble, the two entropies, the reliability diagram."""

import base64
import io
import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refprior.report._table import Group, Summary

_PARTICLE, _ENSEMBLE = "#9bb8d3", "#b03a2e"
_MARGINAL, _CONDITIONAL = "#1f6f8b", "#d9822b"


def accuracy_figure(groups: Sequence[Group]) -> Figure:
    """Accuracy of single particles and of the ensemble (fig:particle_accuracy_entropy left), the first seed of each."""
    figure = _new(len(groups))
    for axes, runs in zip(figure.axes, groups, strict=True):
        _accuracy(axes, runs[0])
    _same_range(figure)
    return figure


def entropy_figure(groups: Sequence[Group]) -> Figure | None:
    """The two entropy terms over time (fig:particle_accuracy_entropy right); none where no run has them."""
    with_entropies = [g for g in groups if "marginal_entropy" in g[0].result.terms]
    if not with_entropies:
        return None
    figure = _new(len(with_entropies))
    for axes, runs in zip(figure.axes, with_entropies, strict=True):
        _entropies(axes, runs)
    return figure


def reliability_figure(groups: Sequence[Group]) -> Figure:
    """Accuracy against confidence on the test part, all seeds together; the diagonal is perfect calibration."""
    figure = _new(len(groups))
    for axes, runs in zip(figure.axes, groups, strict=True):
        _reliability(axes, runs)
    return figure


def all_figures(groups: Sequence[Group]) -> dict[str, Figure]:
    """Every figure that these runs have, by title. Where clusters are the classes, outputs alone have no accuracy."""
    named = [g for g in groups if g[0].evaluation.consensus is None]
    figures = {
        "Particles and ensemble": accuracy_figure(named) if named else None,
        "The two entropies": entropy_figure(groups),
        "Calibration": reliability_figure(named) if named else None,
    }
    return {title: figure for title, figure in figures.items() if figure is not None}


def as_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140)
    return buffer.getvalue()


def as_image(figure: Figure, alt: str) -> str:
    """An <img> element that carries its own picture."""
    return f'<img alt="{alt}" src="data:image/png;base64,{base64.b64encode(as_png(figure)).decode()}">'


def _new(panels: int) -> Figure:
    figure = Figure(figsize=(4.6 * panels, 3.4), layout="constrained")
    for panel in range(panels):
        axes = figure.add_subplot(1, panels, panel + 1)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure


def _accuracy(axes: Axes, run: Summary) -> None:
    evaluations = run.evaluations
    steps = list(evaluations)
    particles = [[100 * a for a in e.test.ema.particles] for e in evaluations.values()]
    for k, line in enumerate(zip(*particles, strict=True)):
        axes.plot(steps, line, color=_PARTICLE, lw=1, label="particles" if k == 0 else None)
    ensemble = [100 * e.test.ema.accuracy for e in evaluations.values()]
    axes.plot(steps, ensemble, color=_ENSEMBLE, lw=2, label="ensemble")
    axes.set(title=f"{run.label}, seed {run.seed}", xlabel="step", ylabel="test accuracy, EMA (%)")
    axes.legend(frameon=False, loc="lower right")


def _entropies(axes: Axes, runs: Group) -> None:
    for number, run in enumerate(runs):
        steps = [r.step for r in run.records]
        for key, colour, label in (
            ("marginal_entropy", _MARGINAL, "$h_y$: of the mixture"),
            ("conditional_entropy", _CONDITIONAL, "$h_{yw}$: mean of particles (bound)"),
        ):
            values = [math.nan if (value := r.terms.get(key)) is None else value for r in run.records]
            axes.plot(steps, values, color=colour, lw=1, alpha=0.8, label=label if number == 0 else None)
    axes.set(title=f"{runs[0].label}, {len(runs)} seeds", xlabel="step", ylabel="entropy (nats)")
    axes.legend(frameon=False)


def _reliability(axes: Axes, runs: Group) -> None:
    diagrams = [run.evaluation.test.ema.reliability for run in runs]
    counts = [sum(c) for c in zip(*(d.counts for d in diagrams), strict=True)]

    def pooled(key: Literal["confidence", "accuracy"]) -> list[float]:
        sums = (sum(d.counts[i] * getattr(d, key)[i] for d in diagrams) for i in range(len(counts)))
        return [total / count for total, count in zip(sums, counts, strict=True) if count]

    largest = max(counts)
    sizes = [20 + 180 * count / largest for count in counts if count]
    axes.plot([0, 1], [0, 1], color="grey", lw=1, ls="--")
    axes.scatter(pooled("confidence"), pooled("accuracy"), s=sizes, color=_ENSEMBLE, alpha=0.7)
    axes.set(
        title=runs[0].label, xlabel="confidence of the ensemble", ylabel="accuracy", xlim=(0, 1.05), ylim=(0, 1.05)
    )


def _same_range(figure: Figure) -> None:
    low = min(axes.get_ylim()[0] for axes in figure.axes)
    for axes in figure.axes:
        axes.set_ylim(low, 100)
