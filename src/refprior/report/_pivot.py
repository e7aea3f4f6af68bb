"""Runs → a table in the paper's layout: one row per method, one column per value of a setting."""

import re
import statistics
from collections.abc import Sequence

from refprior.report._table import EMPTY, Group, accuracies

# tab:cifar10_ssl, accuracy in per cent by the number of labels; * evaluated by its authors, (40) with 40 labels.
PAPER_CIFAR10 = {
    "Mixup": {"250": "52.57", "500": "63.86", "1000": "74.28"},
    "VAT": {"250": "63.97", "500": "73.89", "1000": "81.32"},
    "Mean Teacher": {"250": "52.68", "500": "57.99", "1000": "82.68"},
    "MixMatch": {"50": "64.21*", "100": "80.29*", "250": "88.91*", "500": "90.35*", "1000": "92.25*"},
    "FixMatch (RA)": {
        "50": "86.19 ± 3.37 (40)",
        "100": "90.12*",
        "250": "94.93 ± 0.65",
        "500": "93.91*",
        "1000": "94.3*",
    },
    "Deep Reference Prior": {
        "50": "85.45 ± 2.12",
        "100": "88.53 ± 0.67",
        "250": "92.13 ± 0.39",
        "500": "92.94 ± 0.22",
        "1000": "93.48 ± 0.24",
    },
}


def pivot(groups: Sequence[Group], column: str) -> list[list[str]]:
    """Accuracy of the EMA ensemble or of its consensus at the last step, mean ± standard deviation (seeds); the header
    first.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> rp.report.pivot(rp.report.group([rp.report.summarise("runs/a")]), "steps")[0]
    ['accuracy, % (steps →)', '5']
    """
    cells: dict[str, dict[str, str]] = {}
    first: dict[tuple[str, str], Group] = {}
    for runs in groups:
        row, value = _place(runs, column)
        other = first.setdefault((row, value), runs)
        if other is not runs:
            raise ValueError(
                f"{other[0].path} and {runs[0].path} are both {row} {column}={value}, but their recipes differ "
                "(made by different versions?): leave one out"
            )
        cells.setdefault(row, {})[value] = _cell(runs)
    values = sorted({value for line in cells.values() for value in line}, key=_order)
    if column == "labels" and any(row.startswith("cifar10") for row in cells):
        cells |= {f"paper, tab:cifar10_ssl: {method}": numbers for method, numbers in PAPER_CIFAR10.items()}
    body = [[row, *(line.get(value, EMPTY) for value in values)] for row, line in cells.items()]
    return [[f"accuracy, % ({column} →)", *values], *body]


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
