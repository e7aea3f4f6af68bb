"""The images whose labels are asked for, on one picture."""

import textwrap

import numpy as np
from matplotlib.figure import Figure

from refprior.labelling import Questions
from refprior.report._figures import plain
from refprior.report._uncertain import picture
from refprior.training import Run


def questions_figure(run: Run, questions: Questions, columns: int = 5) -> Figure:
    """A numbered tile for each open question, in the order of the answers.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> len(rp.report.questions_figure(run, rp.labelling.Questions(asked=(3, 7))).axes)
    2
    """
    chosen = questions.open
    columns = min(columns, len(chosen))
    lines = -(-len(chosen) // columns)
    height = 2.0 * lines + 0.6
    figure = Figure(figsize=(max(4.0, 1.8 * columns), height))
    figure.subplots_adjust(0.02, 0.1 / height, 0.98, 1 - 0.8 / height, wspace=0.05, hspace=0.25)
    asked = f"What are these? Classes: {', '.join(run.task.classes)}"
    figure.suptitle(plain(textwrap.fill(asked, 30 * max(2, columns))), fontsize=10)
    for place, index in enumerate(chosen, start=1):
        axes = figure.add_subplot(lines, columns, place)
        image = np.asarray(run.task.unlabelled[index].cpu())
        axes.imshow(picture(image), cmap="gray", interpolation="nearest")
        axes.set_title(f"{place}. image {index}", fontsize=9)
        axes.set(xticks=[], yticks=[])
    return figure
