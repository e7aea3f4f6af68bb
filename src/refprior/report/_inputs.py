"""One input of any kind on a figure: a picture where there is something to see, else its values as text."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from refprior._kinds import noun
from refprior.report._figures import plain

_LINES, _WIDTH = 13, 28  # of text in a tile, and characters of a line


def draw_input(axes: Axes, given: Tensor, features: Sequence[str] = ()) -> None:
    """An image, the first values of a vector with the names of its features, or token ids."""
    values = np.asarray(given.detach().cpu().double() if given.is_floating_point() else given.cpu())
    axes.set(xticks=[], yticks=[])
    axes.spines[["top", "right"]].set_visible(True)  # a frame
    if noun(values.shape) == "image":
        axes.imshow(picture(values), cmap="gray", interpolation="nearest")
        return
    axes.set(xlim=(0, 1), ylim=(0, 1))
    text = "\n".join(_lines(values, features))
    axes.text(0.04, 0.96, plain(text), va="top", family="monospace", fontsize=6, linespacing=1.3)


def picture(image: np.ndarray) -> np.ndarray:
    """(1 or 3, height, width) as matplotlib draws it: gray as a matrix; colors last, floats of them from 0 to 1."""
    if len(image) == 1:
        return np.squeeze(image, 0)
    if image.dtype.kind == "f":
        image = (image - image.min()) / max(float(np.ptp(image)), 1e-12)
    return np.moveaxis(image, 0, 2)


def _lines(values: np.ndarray, features: Sequence[str]) -> list[str]:
    """At most as many lines as a tile has, the last of which says how much there is."""
    flat = values.reshape(-1)
    if values.ndim == 1 and values.dtype.kind in "iu" and not features:  # token ids: their order is what they say
        lines = textwrap.wrap(" ".join(map(str, flat[: _LINES * _WIDTH])), _WIDTH)
        total, most = f"{len(flat)} ids", _LINES
        return lines if len(lines) <= most else [*lines[: most - 1], f"… {total} in all"]
    lines = [f"{_name(i, features)} {_number(value)}" for i, value in enumerate(flat[:_LINES].tolist())]
    shape = "×".join(map(str, values.shape))
    return lines if len(flat) <= _LINES else [*lines[: _LINES - 1], f"… {shape} values in all"]


def _name(index: int, features: Sequence[str]) -> str:
    """A name of fixed width, so that the numbers stand below each other."""
    name, width = (features[index], 14) if features else (f"[{index}]", 4)
    return name.ljust(width) if len(name) <= width else f"{name[: width - 1]}…"


def _number(value: float) -> str:
    return f"{value:>9.4g}" if isinstance(value, float) else f"{value:>9}"
