"""The images that the particles disagree about most, with their votes."""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure

from refprior.report._figures import plain
from refprior.training import Run


def uncertain_figure(run: Run, count: int = 12, columns: int = 4) -> Figure:
    """Images of the largest mutual information between label and particle; under each, what particles say.

    They are of the test part; of the validation part or else of the unlabelled pool if the task has none.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> len(rp.report.uncertain_figure(run, count=4).axes)
    4
    """
    part = run.task.validation if run.task.test is None else run.task.test
    images = run.task.unlabelled if part is None else part.images
    log_p = run.log_probabilities(images)  # (K, n, C)
    between = run.uncertainty(images).between
    chosen = between.topk(min(count, len(images))).indices
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.6 * lines), layout="constrained")
    for place, index in enumerate(chosen.tolist(), start=1):
        axes = figure.add_subplot(lines, columns, place)
        axes.imshow(picture(np.asarray(images[index].cpu())), cmap="gray", interpolation="nearest")
        votes = [run.task.classes[vote] for vote in log_p[:, index].argmax(-1).tolist()]
        truth = "" if part is None else f"truth {run.task.classes[int(part.labels[index])]}, "
        axes.set_title(plain(f"{truth}{between[index]:.2f} nats"), fontsize=9)
        axes.set_xlabel(plain(_counted(votes)), fontsize=8)
        axes.set(xticks=[], yticks=[])
    return figure


def _counted(votes: list[str]) -> str:
    """What the particles say, at most three classes, the most frequent first: `cat (3), dog (1)`."""
    return ", ".join(f"{name} ({number})" for name, number in Counter(votes).most_common(3))


def picture(image: np.ndarray) -> np.ndarray:
    """(channels, height, width) as matplotlib draws it: grey as a matrix, colours last; anything else as one row."""
    if image.ndim != 3 or len(image) not in (1, 3):
        return image.reshape(1, -1)
    return image[0] if len(image) == 1 else image.transpose(1, 2, 0)
