"""The inputs that the particles disagree about most, with their votes."""

import textwrap
from collections import Counter

import torch
from matplotlib.figure import Figure

from refprior._style import SOFT, styled
from refprior.report._figures import plain
from refprior.report._inputs import draw_input
from refprior.training import Run


@styled
def uncertain_figure(run: Run, count: int = 12, columns: int = 4, among: int | None = None) -> Figure:
    """Inputs of the largest mutual information between label and particle: their truth, and the particles' votes.

    They are of the test part; of the validation part or else of the unlabeled pool if the task has none, or else
    labeled ones. Images are drawn; of other inputs, the first values are written.
    among: so many of the part at most are looked at, evenly taken from it; by default all.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> len(rp.report.uncertain_figure(run, count=4).axes)
    4
    """
    task = run.task
    part = task.validation if task.test is None else task.test
    if part is None and not len(task.unlabeled):
        part = task.labeled
    images = task.unlabeled if part is None else part.inputs
    looked_at = torch.arange(0, len(images), max(1, -(-len(images) // (among or len(images)))))
    images = images[looked_at]
    log_p = run.log_probabilities(images)  # (K, n, C)
    between = run.uncertainty(images).between
    chosen = between.topk(min(count, len(images))).indices
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.6 * lines + 0.5), layout="constrained")
    figure.suptitle(plain("\n".join(textwrap.wrap(_key(part is not None), 28 * columns))), fontsize=9, color=SOFT)
    for place, index in enumerate(chosen.tolist(), start=1):
        axes = figure.add_subplot(lines, columns, place)
        draw_input(axes, images[index], task.features)
        votes = [_output(run, vote) for vote in log_p[:, index].argmax(-1).tolist()]
        truth = "" if part is None else f"truth: {task.classes[int(part.labels[looked_at[index]])]}, "
        axes.set_title(plain(textwrap.fill(f"{truth}{between[index]:.2f} nats", 30)), fontsize=9)
        axes.set_xlabel(plain(textwrap.fill(f"votes: {_counted(votes)}", 34)), fontsize=8)
    return figure


def _key(known: bool) -> str:
    """What stands above and below a tile."""
    above = "the true class, and how much" if known else "how much"
    return f"Above: {above} the particles disagree (nats). Below: their votes, and how many particles say so."


def _output(run: Run, vote: int) -> str:
    """The name of an output; where clusters are the classes, it has none."""
    return f"output {vote}" if run.recipe.readout == "consensus" else run.task.classes[vote]


def _counted(votes: list[str]) -> str:
    """What the particles say, at most three classes, the most frequent first: `cat (3), dog (1)`."""
    return ", ".join(f"{name} ({number})" for name, number in Counter(votes).most_common(3))
