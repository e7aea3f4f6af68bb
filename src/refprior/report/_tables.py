"""Runs → tables of text: all results, accuracies by a setting, and the scores of each class."""

# C classes

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Literal, get_args

import torch
from torch import Tensor

from refprior.posterior import Scores, per_class
from refprior.report._published import PUBLISHED, Source, find_published, on_other_data
from refprior.report._runs import EMPTY, Group, Summary, accuracies, group
from refprior.training import PartScores, Run
from refprior.training.loop import evaluate_consensus, output_confusion

Printed = Literal["accuracy", "ensemble", "raw", "particles", "consensus"]  # accuracies of `Published`
_HIGH = 25  # lines of a table, above which it scrolls
_DIGITS = {"NLL": 3, "ECE": 3}
_BESIDE: dict[str, Printed] = {
    "consensus, EMA %": "consensus",
    "ensemble, EMA %": "ensemble",
    "ensemble, raw %": "raw",
    "particle, raw %": "particles",
}


def results_table(runs: Sequence[Summary], column: str | None = None) -> list[list[str]]:
    """Tabulate the results of runs at their last step.

    Each row is a recipe, with mean ± standard deviation over its seeds. Columns that no run has a number for are left
    out. Accuracies that others published for the same recipe have separate columns.

    Parameters
    ----------
    runs : sequence of Summary
        Summaries of finished runs, from `summarize`.
    column : str, optional
        Name of a setting. The table then has one column per value of it, as in the paper: the accuracy of the EMA
        ensemble or of its consensus, mean ± standard deviation (number of seeds).

    Returns
    -------
    list of list of str
        The cells, the header first.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> runs = [rp.report.summarize("runs/a")]
    >>> rp.report.results_table(runs)[0][:3]
    ['recipe', 'seeds', 'ensemble, EMA %']
    >>> rp.report.results_table(runs, column="steps")[0]
    ['accuracy, % (steps →)', '5']
    """
    groups = group(runs)
    return rows(groups) if column is None else pivot(groups, column)


def _consensus(run: Summary, name: Literal["test", "stability"]) -> float | None:
    found = run.evaluation.consensus
    value = None if found is None else getattr(found, name)
    return None if value is None else 100 * value


def _outputs(
    run: Summary,
    weights: Literal["ema", "raw"],
    score: Callable[[Scores], float],
    *,
    part: Literal["test", "validation"] = "test",
) -> float | None:
    """Return a score of the outputs as classes; None if clusters are the classes."""
    found: PartScores | None = getattr(run.evaluation, part)
    return None if found is None or run.evaluation.consensus is not None else score(getattr(found, weights))


COLUMNS: dict[str, Callable[[Summary], float | None]] = {
    "out of fold, EMA %": lambda run: None if (s := run.evaluation.out_of_fold) is None else 100 * s.accuracy,
    "consensus, EMA %": lambda run: _consensus(run, "test"),
    "stability %": lambda run: _consensus(run, "stability"),
    "ensemble, EMA %": lambda run: _outputs(run, "ema", lambda s: 100 * s.accuracy),
    "ensemble, raw %": lambda run: _outputs(run, "raw", lambda s: 100 * s.accuracy),
    "particle, EMA %": lambda run: _outputs(run, "ema", lambda s: 100 * statistics.mean(s.particle_accuracies)),
    "validation, EMA %": lambda run: _outputs(run, "ema", lambda s: 100 * s.accuracy, part="validation"),
    "particle, raw %": lambda run: _outputs(run, "raw", lambda s: 100 * statistics.mean(s.particle_accuracies)),
    "NLL": lambda run: _outputs(run, "ema", lambda s: s.negative_log_likelihood),
    "ECE": lambda run: _outputs(run, "ema", lambda s: s.calibration_error),
    "seconds": lambda run: run.result.seconds,
}


def rows(groups: Sequence[Group]) -> list[list[str]]:
    """Return the cells of the table of results, the header first, without columns that no run has a number for.

    Published accuracies have separate columns after ours of the same kind: `paper: ensemble, EMA %`.
    """
    columns: dict[str, list[str]] = {}
    for name in COLUMNS:
        columns[name] = [_cell(name, g) for g in groups]
        if name in _BESIDE:
            for source in get_args(Source):
                columns[f"{source}: {name}"] = [_printed(g, source, _BESIDE[name]) for g in groups]
    columns = {name: cells for name, cells in columns.items() if any(cell != EMPTY for cell in cells)}
    head = ["recipe", "seeds", *columns]
    counts = Counter(g[0].label for g in groups)
    labels = [run.label if counts[run.label] == 1 else f"{run.label} ({run.path})" for run, *_ in groups]
    return [head, *([labels[i], str(len(g)), *(c[i] for c in columns.values())] for i, g in enumerate(groups))]


def _cell(name: str, runs: Group) -> str:
    values = [value for run in runs if (value := COLUMNS[name](run)) is not None]
    digits = _DIGITS.get(name, 1)
    if len(values) < len(runs):
        return EMPTY
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def _printed(runs: Group, source: Source, field: Printed) -> str:
    """Return the accuracy that a source printed for runs like these."""
    found = find_published(runs[0], source)
    return EMPTY if found is None else getattr(found, field) or EMPTY


_Cells = dict[tuple[str, str], str]  # by row and value of the setting


def pivot(groups: Sequence[Group], column: str) -> list[list[str]]:
    """Return the cells of a table with one column per value of a setting, the header first.

    Accuracy of the EMA ensemble or of its consensus at the last step, mean ± standard deviation (seeds). Accuracies
    that the paper printed have separate columns; by labels, methods that were not run here have separate rows.
    """
    ours, paper, released = _Cells(), _Cells(), _Cells()
    first: dict[tuple[str, str], Group] = {}
    for runs in groups:
        row, value = _place(runs, column)
        other = first.setdefault((row, value), runs)
        if other is not runs:
            raise ValueError(
                f"{other[0].path} and {runs[0].path} are both {row} {column}={value}, but their recipes differ "
                "(made by different versions?): leave one out"
            )
        ours[row, value] = _accuracy_cell(runs)
        paper[row, value] = _printed(runs, "paper", "accuracy")
        released[row, value] = _printed(runs, "authors' log", "accuracy")
    values = sorted({value for _, value in ours}, key=_order)
    if column == "labels":
        paper |= _not_run(groups)
    lines = dict.fromkeys(row for row, _ in [*ours, *paper])
    titles = {"": ours, ", paper": paper, ", authors' log": released}
    columns = {
        f"{value}{title}": [table.get((row, value), EMPTY) for row in lines]
        for value in values
        for title, table in titles.items()
        if table is ours or any(table.get((row, value), EMPTY) != EMPTY for row in lines)
    }
    body = [[row, *(cells[i] for cells in columns.values())] for i, row in enumerate(lines)]
    return [[f"accuracy, % ({column} →)", *columns], *body]


def _not_run(groups: Sequence[Group]) -> _Cells:
    """Return the accuracies of methods in the paper's table without a run here, by the number of labels."""
    run = {found.name for runs in groups if (found := find_published(runs[0], "paper"))}
    return {
        (f"{row.table}: {row.name}", str(row.labels)): row.accuracy
        for recipe in dict.fromkeys(runs[0].recipe for runs in groups if not on_other_data(runs[0]))
        for row in PUBLISHED.get(recipe, ())
        if row.source == "paper" and not row.ablation and row.name not in run
    }


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format a table as Markdown.

    Parameters
    ----------
    rows : sequence of sequence of str
        The cells, the header first.

    Returns
    -------
    str
        The table; cells are escaped.

    Examples
    --------
    >>> import refprior as rp
    >>> print(rp.report.as_markdown([["method", "accuracy"], ["FixMatch", "95.7"]]))
    | method | accuracy |
    | --- | --- |
    | FixMatch | 95.7 |
    """
    head, *body = [[_markdown(cell) for cell in line] for line in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body])


def as_latex(rows: Sequence[Sequence[str]]) -> str:
    """Format a table for LaTeX with booktabs.

    Parameters
    ----------
    rows : sequence of sequence of str
        The cells, the header first.

    Returns
    -------
    str
        A tabular environment; cells are escaped.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.report.as_latex([["method", "accuracy"], ["FixMatch", "95.7"]]).splitlines()[4]
    'FixMatch & 95.7 \\\\\\\\'
    """
    head, *body = [[" ".join(cell.split()).translate(_LATEX) for cell in line] for line in rows]
    lines = [" & ".join(line) + r" \\" for line in body]
    columns = "l" + "r" * (len(head) - 1)
    top = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    return "\n".join([*top, *lines, r"\bottomrule", r"\end{tabular}"])


def _markdown(cell: str) -> str:
    """Escape a cell for Markdown and HTML; an underscore within a word is safe."""
    escaped = re.sub(r"[\\|*`~\[\]]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", " ".join(cell.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_LATEX = str.maketrans(
    {
        **{c: f"\\{c}" for c in "%_&$#{}"},
        **{c: f"{{{c}}}" for c in "[]*"},  # after the end of a row these would belong to it
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "→": r"$\to$",
        "–": "--",
    }
)


def _place(runs: Group, column: str) -> tuple[str, str]:
    """Return the row and the column of a group."""
    first = runs[0]
    chosen = {name: value for name, value in first.settings.items() if name != column}
    value = first.setting(column)
    if value is None:
        known = ", ".join(dict.fromkeys([*first.settings, *first.defaults])) or "nothing"
        raise ValueError(f"{first.path} has no setting {column!r}: --columns takes {known}, or names like method.alpha")
    return " ".join([runs[0].recipe, *(f"{name}={text}" for name, text in sorted(chosen.items()))]), value


def _accuracy_cell(runs: Group) -> str:
    values = accuracies(runs)
    if not values:
        return EMPTY
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread} ({len(values)})"


def _order(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value


def run_confusion(run: Run) -> Tensor | None:
    """Return the confusion matrix of a run's EMA ensemble or consensus on its test or validation part; None without."""
    if run.recipe.readout == "consensus":
        return evaluate_consensus(run.ema, run.normalizer, run.task)[1]
    return output_confusion(run.ema, run.normalizer, run.task)


def class_rows(counts: Tensor, classes: Sequence[str]) -> list[list[str]]:
    """Return precision, recall, F1, count and most frequent confusion of each class, the header first."""
    found = per_class(counts)
    shares = zip(*(values.tolist() for values in (found.precision, found.recall, found.f1)), strict=True)
    lines = [["class", "precision %", "recall %", "F1 %", "inputs", "most often taken for"]]
    for index, (name, scores) in enumerate(zip(classes, shares, strict=True)):
        numbers = (EMPTY if score != score else f"{100 * score:.1f}" for score in scores)
        others = counts[index].index_fill(0, torch.tensor(index), 0)
        number, other = int(others.max()), int(others.argmax())
        mistaken = f"{classes[other]} ({number:,})" if number else EMPTY
        lines.append([name, *numbers, f"{int(found.count[index]):,}", mistaken])
    return lines


def confusion_rows(counts: Tensor, classes: Sequence[str]) -> list[list[str]]:
    """Return the whole confusion matrix as a table, the header first."""
    body = [[name, *(f"{number:,}" for number in row)] for name, row in zip(classes, counts.tolist(), strict=True)]
    return [["truth ↓, taken for →", *classes], *body]


def mistake_rows(counts: Tensor, classes: Sequence[str], most: int = 20) -> list[list[str]]:
    """Return the most frequent mistakes, for matrices too large to read; the header first."""
    wrong = counts.clone().fill_diagonal_(0).flatten()
    count = min(most, int((wrong > 0).sum()))
    places = wrong.sort(descending=True, stable=True).indices[:count].tolist()
    pairs = [(place, *divmod(place, len(classes))) for place in places]
    return [["truth", "taken for", "inputs"], *([classes[t], classes[p], f"{wrong[at]:,}"] for at, t, p in pairs)]


def as_html(cells: Sequence[Sequence[str]], kind: str = "") -> str:
    """Format a table for a page, the header first; cells are escaped. kind: further classes of style."""
    head, *body = cells
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body]
    return (
        f"<div class='wide{kind}{' high' if len(cells) > _HIGH else ''}'><table>" + "\n".join(lines) + "</table></div>"
    )


def note(text: str) -> str:
    """Format a paragraph in soft letters."""
    return f"<p class='note'>{escape(text)}</p>"
