"""Figures of inputs, one tile each: those to label next, and those that the particles disagree about most."""

import base64
import io
import logging
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from refprior._kinds import noun
from refprior._style import SOFT, styled
from refprior.data import Answered, Columns, DataError, FewLabels, Task
from refprior.data.files import look, read_images
from refprior.data.sources import is_folder
from refprior.labeling import Questions
from refprior.posterior import LabelQuality
from refprior.report._figures import plain
from refprior.training import Run

log = logging.getLogger("refprior")
_PHOTO = 256  # pixels of the longer side of a photo
_LINES, _WIDTH = 13, 28  # of text in a tile, and characters of a line
_NAME = 19  # characters of a name above its tile
_CLASSES = 300  # characters of the names of all classes


@styled
def uncertain_figure(run: Run, count: int = 12, columns: int = 4, among: int | None = None) -> Figure:
    """Draw the inputs that the particles disagree about most, with the particles' votes.

    These have the largest mutual information between label and particle. They come from the test part; if the task has
    none, from the validation part, the unlabeled pool, or the labeled inputs. Images are drawn; other inputs are
    written as values.

    Parameters
    ----------
    run : Run
        The run whose particles vote.
    count : int, default: 12
        Number of inputs.
    columns : int, default: 4
        Tiles in a row.
    among : int, optional
        Search at most this many inputs, evenly taken from the part. By default all.

    Returns
    -------
    matplotlib.figure.Figure
        One tile per input, titled with its true class if known.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> len(rp.report.uncertain_figure(run, count=4).axes)
    4
    """
    chosen = most_uncertain(run, count, among)
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.6 * lines + 0.5), layout="constrained")
    above = "how much" if chosen[0].truth is None else "the true class, and how much"
    key = f"Above: {above} the particles disagree (nats). Below: their votes, and how many particles say so."
    figure.suptitle(plain("\n".join(textwrap.wrap(key, 28 * columns))), fontsize=9, color=SOFT)
    for place, found in enumerate(chosen, start=1):
        axes = figure.add_subplot(lines, columns, place)
        draw_input(axes, found.given, run.task.features)
        counted = ", ".join(f"{output} ({number})" for output, number in found.votes[:3])
        truth = "" if found.truth is None else f"truth: {found.truth}, "
        axes.set_title(plain(textwrap.fill(f"{truth}{found.nats:.2f} nats", 30)), fontsize=9)
        axes.set_xlabel(plain(textwrap.fill(f"votes: {counted}", 34)), fontsize=8)
    return figure


class Uncertain(NamedTuple):
    """An input that the particles disagree about."""

    given: Tensor
    votes: list[tuple[str, int]]  # outputs and how many particles say so, most first
    truth: str | None  # its class, if known
    nats: float  # mutual information between label and particle


def most_uncertain(run: Run, count: int, among: int | None = None) -> list[Uncertain]:
    """Find the inputs with the largest mutual information between label and particle, among some or all of a part.

    They come from the first that exists: the test part, the validation part, the pool, the labeled inputs.
    """
    task = run.task
    part = task.validation if task.test is None else task.test
    if part is None and not len(task.unlabeled):
        part = task.labeled
    inputs = task.unlabeled if part is None else part.inputs
    looked_at = torch.arange(0, len(inputs), max(1, -(-len(inputs) // (among or len(inputs)))))
    inputs = inputs[looked_at]
    log_p, between = run.log_probabilities(inputs), run.uncertainty(inputs).between
    outputs = task.classes
    if run.recipe.readout == "consensus":  # clusters are the classes, and outputs have no names
        outputs = tuple(f"output {c + 1}" for c in range(log_p.shape[-1]))
    return [
        Uncertain(
            inputs[index],
            Counter(outputs[y] for y in log_p[:, index].argmax(-1).tolist()).most_common(),
            None if part is None else task.classes[int(part.labels[looked_at[index]])],
            float(between[index]),
        )
        for index in between.topk(min(count, len(inputs))).indices.tolist()
    ]


@styled
def labels_figure(run: Run, quality: LabelQuality) -> Figure:
    """Draw the eight labels that are least probable to be right."""
    chosen, columns = quality.order[:8], 4
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.6 * lines), layout="constrained")
    for place, i in enumerate(chosen.tolist(), start=1):
        axes = figure.add_subplot(lines, columns, place)
        draw_input(axes, labeled_picture(run, i), run.task.features)
        name = short_name(run.task, quality.names[i]) if quality.names else quality.index[i]
        axes.set_title(plain(textwrap.fill(f"{name}: {quality.given[i]}?", 30)), fontsize=9)
        below = f"right with probability {quality.right[i]:.2f}, suggested: {quality.suggested[i]}"
        axes.set_xlabel(plain(textwrap.fill(below, 30)), fontsize=8)
    return figure


@styled
def questions_figure(run: Run, questions: Questions, columns: int = 5) -> Figure:
    """Draw a numbered tile for each open question, in the order of the answers."""
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
        draw_input(axes, pool_picture(run, index), run.task.features)
        name = pool_name(run, index)
        axes.set_title(plain(f"{place}. {name if len(name) <= _NAME else f'…{name[1 - _NAME :]}'}"), fontsize=8)
    return figure


def pool_picture(run: Run, index: int) -> Tensor | str:
    """Return an unlabeled input as people look at it: a text, a photo from its file, or else the input itself."""
    return _picture(run, run.task.names[index] if run.task.names else "", run.task.unlabeled[index])


def labeled_picture(run: Run, index: int) -> Tensor | str:
    """Return a labeled input as people look at it."""
    names = run.task.labeled_names
    return _picture(run, names[index] if names else "", run.task.labeled.inputs[index])


def _picture(run: Run, name: str, given: Tensor) -> Tensor | str:
    source = run.recipe.task
    if _has_texts(run.task):
        return name.partition(": ")[2]
    while isinstance(source, Answered):
        source = source.task
    place = source.data if isinstance(source, FewLabels) else None
    if name and is_folder(place):
        file = Path(str(place)) / name
        try:
            height, width, _ = look(file, None)
            share = min(1.0, _PHOTO / max(height, width))
            return read_images([file], (max(1, round(share * height)), max(1, round(share * width))))[0]
        except (DataError, OSError):
            log.warning("%s cannot be read any more", file)
    return given


def pool_name(run: Run, index: int) -> str:
    """Name an unlabeled input as `Task.input_name`, without its text."""
    return short_name(run.task, run.task.input_name(index))


def short_name(task: Task, name: str) -> str:
    """Return the name of an input without its text."""
    return name.partition(": ")[0] if _has_texts(task) else name


def _has_texts(task: Task) -> bool:
    """Return whether the inputs were made of texts, which are in their names."""
    return bool(task.names) and isinstance(task.preparation, Columns) and not task.features


def draw_input(axes: Axes, given: Tensor | str, features: Sequence[str] = ()) -> None:
    """Draw an image, or write a text, the first values of a vector with its feature names, or token ids."""
    axes.set(xticks=[], yticks=[])
    axes.spines[["top", "right"]].set_visible(True)  # a frame
    if isinstance(given, str):
        lines = textwrap.wrap(given, _WIDTH, max_lines=_LINES, placeholder=" …")
    else:
        values = np.asarray(given.detach().cpu().double() if given.is_floating_point() else given.cpu())
        if noun(values.shape) == "image":
            axes.imshow(picture(values), cmap="gray", interpolation="nearest")
            return
        lines = _lines(values, features)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    text = "\n".join(lines)
    axes.text(0.04, 0.96, plain(text), va="top", family="monospace", fontsize=6, linespacing=1.3)


def picture(image: np.ndarray) -> np.ndarray:
    """Convert (1 or 3, height, width) to matplotlib's layout: gray as a matrix; colors last, floats from 0 to 1."""
    if len(image) == 1:
        return np.squeeze(image, 0)
    if image.dtype.kind == "f":
        image = (image - image.min()) / max(float(np.ptp(image)), 1e-12)
    return np.moveaxis(image, 0, 2)


def picture_url(image: np.ndarray, smallest: int = 96) -> str:
    """Encode an image (1 or 3, height, width) as a PNG data URL; floats are scaled to their range.

    The longer side of a small image is enlarged to at least `smallest` pixels.
    """
    if image.dtype != np.uint8:
        image = 255 * (image - image.min()) / max(float(np.ptp(image)), 1e-12)
    pixels = np.round(image).astype(np.uint8)
    drawn = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, 2))
    factor = max(1, -(-smallest // max(drawn.size)))
    buffer = io.BytesIO()
    drawn.resize((factor * drawn.width, factor * drawn.height), Image.Resampling.NEAREST).save(buffer, "png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _lines(values: np.ndarray, features: Sequence[str]) -> list[str]:
    """Return at most as many lines as a tile has; the last one states the total if some are left out."""
    flat = values.reshape(-1)
    if values.ndim == 1 and values.dtype.kind in "iu" and not features:  # token ids, in order
        lines = textwrap.wrap(" ".join(map(str, flat[: _LINES * _WIDTH])), _WIDTH)
        total, most = f"{len(flat)} ids", _LINES
        return lines if len(lines) <= most else [*lines[: most - 1], f"… {total} in all"]
    lines = [f"{_name(i, features)} {_number(value)}" for i, value in enumerate(flat[:_LINES].tolist())]
    shape = "×".join(map(str, values.shape))
    return lines if len(flat) <= _LINES else [*lines[: _LINES - 1], f"… {shape} values in all"]


def _name(index: int, features: Sequence[str]) -> str:
    """Pad or cut a name to a fixed width, so that the numbers are aligned."""
    name, width = (features[index], 14) if features else (f"[{index}]", 4)
    return name.ljust(width) if len(name) <= width else f"{name[: width - 1]}…"


def _number(value: float) -> str:
    return f"{value:>9.4g}" if isinstance(value, float) else f"{value:>9}"
