"""Runs → a table in the paper's layout: one row per method, one column per value of a setting."""

import re
import statistics
from collections.abc import Sequence

from refprior.report._published import PUBLISHED, Source, find_published
from refprior.report._table import EMPTY, Group, accuracies

_Cells = dict[tuple[str, str], str]  # by row and by value of the setting


def pivot(groups: Sequence[Group], column: str) -> list[list[str]]:
    """Accuracy of the EMA ensemble or of its consensus at the last step, mean ± standard deviation (seeds); the header
    first. What the paper printed for the same has columns of its own, and by labels the methods that were not run here
    have rows of their own.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> rp.report.pivot(rp.report.group([rp.report.summarize("runs/a")]), "steps")[0]
    ['accuracy, % (steps →)', '5']
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
        ours[row, value] = _cell(runs)
        paper[row, value] = _printed(runs, "paper")
        released[row, value] = _printed(runs, "authors' log")
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


def _printed(runs: Group, source: Source) -> str:
    found = find_published(runs[0], source)
    return (found.ensemble or EMPTY) if found is not None else EMPTY


def _not_run(groups: Sequence[Group]) -> _Cells:
    """Methods of the paper's table that no run here is for, by the number of labels."""
    run = {found.name for runs in groups if (found := find_published(runs[0], "paper"))}
    return {
        (f"{row.table}: {row.name}", str(row.labels)): row.ensemble
        for recipe in dict.fromkeys(runs[0].recipe for runs in groups)
        for row in PUBLISHED.get(recipe, ())
        if row.source == "paper" and not row.ablation and row.name not in run
    }


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown, the header first.

    >>> import refprior as rp
    >>> print(rp.report.as_markdown([["method", "accuracy"], ["FixMatch", "95.7"]]))
    | method | accuracy |
    | --- | --- |
    | FixMatch | 95.7 |
    """
    head, *body = [[_markdown(cell) for cell in line] for line in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body])


def as_latex(rows: Sequence[Sequence[str]]) -> str:
    """A table for LaTeX with booktabs, the header first.

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
    """A cell as it is: nothing in it is a mark of Markdown or HTML. An underscore within a word is none."""
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
    """The row and the column of a group."""
    first = runs[0]
    chosen = {name: value for name, value in first.settings.items() if name != column}
    value = first.setting(column)
    if value is None:
        known = ", ".join(dict.fromkeys([*first.settings, *first.defaults])) or "nothing"
        raise ValueError(f"{first.path} has no setting {column!r}: --columns takes {known}, or names like method.alpha")
    return " ".join([runs[0].recipe, *(f"{name}={text}" for name, text in sorted(chosen.items()))]), value


def _cell(runs: Group) -> str:
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
