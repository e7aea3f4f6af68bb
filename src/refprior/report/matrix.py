"""Transfer between all pairs of tasks: the paper's fig:matrix from run folders, and a ranking of sources."""

# T tasks; matrices (T, T): one row per target, one column per source

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from scipy.stats import spearmanr

from refprior._style import AROUND, INK, styled
from refprior.posterior import transferability
from refprior.report._figures import plain
from refprior.report._runs import EMPTY, Group, accuracies, find_runs, group, summarize_finished
from refprior.training import load

PAIRS = {"transfer": "reference prior", "fine_tuning": "fine-tuning"}
ALONE = {"supervised": "supervised", "semi_supervised": "reference prior, no source"}


@dataclass(frozen=True)
class Matrix:
    """Accuracies in percent, means over seeds; NaN where there is no run."""

    tasks: tuple[str, ...]
    pairs: dict[str, np.ndarray]  # method -> (T, T), row target, column source
    alone: dict[str, np.ndarray]  # method -> (T,)

    def wins(self, other: np.ndarray, method: str = "transfer") -> tuple[int, int]:
        """Count the cells in which `method` beats (T, T) or (T, 1) values, and the cells that both have."""
        mine = self.pairs[method]
        both = ~np.isnan(mine) & ~np.isnan(np.broadcast_to(other, mine.shape))
        return int((both & (mine > other)).sum()), int(both.sum())


def read_matrix(folders: Sequence[Path], tasks: Sequence[str]) -> Matrix:
    """Read the finished cells from run folders, means over seeds; raise if runs of a cell differ otherwise."""
    cells: dict[tuple[str, str, str], Group] = {}
    for runs in group(summarize_finished(find_runs(folders))):
        given = runs[0].settings
        key = (given.get("approach", "transfer"), given.get("source", ""), given.get("target", ""))
        other = cells.setdefault(key, runs)
        if other is not runs:
            raise ValueError(
                f"{other[0].path} and {runs[0].path} are one cell with different settings: keep them in two folders"
            )
    place = {task: i for i, task in enumerate(tasks)}
    pairs = {method: np.full((len(tasks), len(tasks)), math.nan) for method in PAIRS}
    alone = {method: np.full(len(tasks), math.nan) for method in ALONE}
    for (method, source, target), runs in cells.items():
        values = accuracies(runs)
        if not values:
            continue
        if method in pairs and {source, target} <= set(place):
            pairs[method][place[target], place[source]] = np.mean(values)
        elif method in alone and target in place:
            alone[method][place[target]] = np.mean(values)
    return Matrix(tuple(tasks), pairs, alone)


def from_median(values: np.ndarray) -> np.ndarray:
    """Return the distance of each cell from the median of its row: (T, T) -> (T, T)."""
    medians = [[np.median(row[~np.isnan(row)]) if not np.isnan(row).all() else math.nan] for row in values]
    distance: np.ndarray = values - np.array(medians)
    return distance


def ranking(matrix: Matrix) -> list[tuple[str, float, int]]:
    """Rank the sources, best first.

    Each has the mean distance of its cells from the median of the row, in points, and the number of targets for which
    it is the best source.
    """
    values, distance = matrix.pairs["transfer"], from_median(matrix.pairs["transfer"])
    filled = ~np.isnan(values)
    best = [int(np.nanargmax(row)) for row, some in zip(values, filled.any(1), strict=True) if some]
    lines = [
        (task, float(distance[filled[:, i], i].mean()), best.count(i))
        for i, task in enumerate(matrix.tasks)
        if filled[:, i].any()
    ]
    return sorted(lines, key=lambda line: -line[1])


def before_training(path: Path) -> float:
    """Compute `transferability` of the first stage of a fine-tuning run for the labeled inputs of its second."""
    if not (path / "start").is_dir():
        raise ValueError(f"{path} has no first stage: there is no source to judge")
    source, labeled = load(path / "start"), load(path).task.labeled
    classes = int(labeled.labels.max()) + 1
    log_p = source.log_probabilities(labeled.inputs)
    return float(transferability(log_p, labeled.labels, classes, source.ema.log_prior.detach()))


def agreement(before: np.ndarray, after: np.ndarray) -> float:
    """Average over targets the rank correlation of two scores of their sources: (T, T), (T, T).

    Targets with fewer than three sources, or with equal sources, are left out; NaN if none is left.
    """
    both = ~np.isnan(before) & ~np.isnan(after)
    rows = [(b[some], a[some]) for b, a, some in zip(before, after, both, strict=True) if some.sum() > 2]
    ranks = [spearmanr(b, a).statistic for b, a in rows if np.ptp(b) and np.ptp(a)]
    return float(np.mean(ranks)) if ranks else math.nan


def matrix_rows(matrix: Matrix) -> list[list[str]]:
    """Return all numbers as a table: one row per method and source, one column per target; the header first."""
    lines = [["accuracy, % (target →)", *matrix.tasks]]
    for method, name in PAIRS.items():
        for i, source in enumerate(matrix.tasks):
            lines.append([f"{name}, from {source}", *(_number(v) for v in matrix.pairs[method][:, i])])
    return [*lines, *([name, *(_number(v) for v in matrix.alone[method])] for method, name in ALONE.items())]


def rows_matrix(rows: Sequence[Sequence[str]]) -> Matrix:
    """Read the matrix from the table of `matrix_rows`."""
    (_, *tasks), *lines = rows
    found = {name: np.array([math.nan if cell == EMPTY else float(cell) for cell in cells]) for name, *cells in lines}
    pairs = {m: np.stack([found[f"{name}, from {task}"] for task in tasks], axis=1) for m, name in PAIRS.items()}
    return Matrix(tuple(tasks), pairs, {method: found[name] for method, name in ALONE.items()})


@styled
def matrix_figure(matrix: Matrix) -> Figure:
    """Draw heat maps of accuracies by target and source, next to the accuracies without a source.

    The color is the distance from the median of the target's row, on one scale for all.
    """
    size = len(matrix.tasks)
    figure = Figure(figsize=(3.2 + 1.5 * size, 2.2 + 0.55 * size), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True, width_ratios=[size, size, len(ALONE)])
    distances = [from_median(values) for values in matrix.pairs.values()]
    limit = max(1.0, *(float(np.nanmax(np.abs(d), initial=0.0)) for d in distances))
    for axes, (method, name), distance in zip(panels, PAIRS.items(), distances, strict=False):
        shades = _cells(axes, matrix.pairs[method], distance, limit, list(matrix.tasks))
        axes.set(xlabel="source", title=name)
    alone = np.array([matrix.alone[method] for method in ALONE]).T
    _cells(panels[-1], alone, np.full(alone.shape, math.nan), limit, list(ALONE.values()))
    panels[-1].set(title="without a source")
    panels[0].set(ylabel="target", yticks=range(size), yticklabels=list(map(plain, matrix.tasks)))
    figure.colorbar(shades, ax=panels, label="points from the median of the row", shrink=0.8, pad=0.01)
    figure.suptitle("Accuracy on the target, %", fontsize=10)
    return figure


def _cells(axes: Axes, values: np.ndarray, distance: np.ndarray, limit: float, columns: Sequence[str]) -> AxesImage:
    """Draw numbers on their shades; names of columns are upright to avoid overlaps."""
    scale = LinearSegmentedColormap.from_list("around", AROUND)
    drawn = axes.imshow(np.ma.masked_invalid(distance), cmap=scale, vmin=-limit, vmax=limit, aspect="auto")
    for row, column in np.ndindex(*values.shape):
        dark = abs(distance[row, column]) > 0.7 * limit  # false for NaN
        color = "white" if dark else INK
        axes.text(column, row, _number(float(values[row, column])), ha="center", va="center", color=color)
    axes.set_xticks(range(len(columns)), list(map(plain, columns)), rotation=90)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    return drawn


def _number(value: float) -> str:
    return EMPTY if math.isnan(value) else f"{value:.1f}"
