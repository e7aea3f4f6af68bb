"""The inputs whose labels are asked for, on one picture."""

import textwrap

from matplotlib.figure import Figure

from refprior._style import styled
from refprior.labeling import Questions
from refprior.report._figures import plain
from refprior.report._inputs import draw_input
from refprior.training import Run

_LETTERS = 19  # of a name above its tile
_CLASSES = 300  # letters of the names of all classes


@styled
def questions_figure(run: Run, questions: Questions, columns: int = 5) -> Figure:
    """A numbered tile for each open question, in the order of the answers. Images are drawn, other inputs written.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> len(rp.report.questions_figure(run, rp.labeling.Questions(asked=(3, 7))).axes)
    2
    """
    chosen = questions.open
    if not chosen:
        raise ValueError("there is no open question to draw")
    columns = min(columns, len(chosen))
    lines = -(-len(chosen) // columns)
    wide = max(2, columns)
    asked = f"What are these? Classes: {textwrap.shorten(', '.join(run.task.classes), _CLASSES, placeholder=' …')}"
    title = textwrap.wrap(asked, 22 * wide)
    top, height = 0.35 + 0.17 * len(title), 2.0 * lines
    figure = Figure(figsize=(max(4.0, 1.8 * columns), height + top))
    figure.subplots_adjust(0.02, 0.1 / (height + top), 0.98, 1 - (top + 0.1) / (height + top), wspace=0.05, hspace=0.25)
    figure.suptitle(plain("\n".join(title)), fontsize=10)
    for place, index in enumerate(chosen, start=1):
        axes = figure.add_subplot(lines, columns, place)
        draw_input(axes, run.task.unlabeled[index], run.task.features)
        name = run.task.input_name(index)
        axes.set_title(plain(f"{place}. {name if len(name) <= _LETTERS else f'…{name[1 - _LETTERS :]}'}"), fontsize=8)
    return figure
