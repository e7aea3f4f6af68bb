"""`refprior report` and `refprior embed`: HTML pages about runs."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refprior._words import printable
from refprior.cli._options import Custom, check_file, check_folder, custom_parts
from refprior.cli._tables import print_table


def report(
    folders: Annotated[list[Path], Parameter(help="Run folders, or folders of run folders.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, Parameter(help="Folder for the figures as PNG files.")] = None,
    columns: Annotated[
        str | None,
        Parameter(help="Setting whose values become columns, for example labels; rows are methods."),
    ] = None,
    style: Annotated[
        Literal["text", "markdown", "latex"], Parameter(name="--format", help="Format of the printed table.")
    ] = "text",
    custom: Custom = None,
) -> None:
    """Write a self-contained HTML report on runs and print its table.

    The report draws the accuracies and entropies of fig:particle_accuracy_entropy. Runs of cifar10_ssl are shown
    next to the paper's numbers (tab:cifar10_ssl, tab:app:ema, tab:app:order, tab:app:particles, tab:app:ablation2).
    """
    from refprior._progress import working
    from refprior.recipes import definitions
    from refprior.report import as_latex, as_markdown, pivot, rows, write_report

    check_file(out)
    if figures is not None:
        check_folder(figures)
    with working("reading runs") as progress:
        groups = write_report(folders, out, figures, columns, progress, definitions(custom) if custom else None)
    lines = pivot(groups, columns) if columns else rows(groups)
    if style == "text":
        print_table(lines if columns else few_side_by_side(lines))
    else:
        print(as_markdown(lines) if style == "markdown" else as_latex(lines))
    print(f"Report: {out}", file=sys.stderr if style != "text" else sys.stdout)


def few_side_by_side(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Transpose a table of at most four recipes so that it fits a terminal."""
    return list(zip(*rows, strict=True)) if len(rows) <= 5 else rows


def embed(
    folders: Annotated[list[Path], Parameter(help="Run folders; several share the same axes.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="HTML file to write. Default: embedding.html in the first run.")] = None,
    picture: Annotated[
        Path | None, Parameter(help="Also draw the start, middle and end of the first run into this .png file.")
    ] = None,
    animation: Annotated[Path | None, Parameter(help="Also animate the first run in this .gif file.")] = None,
    custom: Custom = None,
) -> None:
    """Write an interactive page of the particles in prediction space; it works offline."""
    from refprior._progress import working
    from refprior.report import summary, write_embedding
    from refprior.training import read_trajectory

    if not folders:
        raise ValueError("give at least one run folder")
    out = out or folders[0] / "embedding.html"
    if folders[0].is_dir():  # otherwise reading it reports the problem
        check_file(out, picture, animation)
    with working("reading snapshots") as progress:
        films = [read_trajectory(path, **custom_parts(path, custom)) for path in folders]
        seen = write_embedding(films, out, picture, animation, progress)
    text = printable(summary(seen))
    print(textwrap.fill(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)
    for path in filter(None, (out, picture, animation)):
        print(f"Written: {path} ({path.stat().st_size / 2**20:.1f} MB)")
