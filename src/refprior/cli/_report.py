"""`refprior report`: runs as a page, and as a table on the terminal."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refprior.cli._paths import check_file, check_folder
from refprior.cli._tables import print_table


def report(
    folders: Annotated[list[Path], Parameter(help="Run folders, or folders of run folders.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, Parameter(help="Folder for the figures as PNG files too.")] = None,
    columns: Annotated[
        str | None, Parameter(help="A setting, for example labels: one row per method, one column per value of it.")
    ] = None,
    style: Annotated[
        Literal["text", "markdown", "latex"], Parameter(name="--format", help="How to print the table.")
    ] = "text",
) -> None:
    """Write one self-contained HTML page about runs, and print their table.

    It draws the accuracies and entropies of the paper's fig:particle_accuracy_entropy. Runs of cifar10_ssl stand beside
    what the paper printed (tab:cifar10_ssl, tab:app:ema, tab:app:order, tab:app:particles, tab:app:ablation2).
    """
    from refprior._progress import working
    from refprior.report import as_latex, as_markdown, pivot, rows, write_report

    check_file(out)
    if figures is not None:
        check_folder(figures)
    with working("reading runs") as tell:
        groups = write_report(folders, out, figures, columns, tell)
    lines = pivot(groups, columns) if columns else rows(groups)
    if style == "text":
        print_table(lines if columns else few_side_by_side(lines))
    else:
        print(as_markdown(lines) if style == "markdown" else as_latex(lines))
    print(f"Report: {out}", file=sys.stderr if style != "text" else sys.stdout)


def few_side_by_side(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """A few recipes side by side, so that the table fits a terminal; many below each other."""
    return list(zip(*rows, strict=True)) if len(rows) <= 5 else rows
