"""`refprior status`: how far the cells of a sweep are, while others train them. Thin: parse, call, print."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refprior._words import counted
from refprior.cli._tables import print_table


def status(folder: Annotated[Path, Parameter(help="Folder of a sweep, a matrix or a run.")], /) -> None:
    """Show how far the cells of a sweep are: waiting, running, stopped, done, or failed and why.

    It reads what their folders say, on any machine that sees them, and disturbs nobody who trains there.
    """
    from refprior._progress import working
    from refprior.recipes import status as read_status

    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    with working(f"looking at {folder}"):
        cells = read_status(folder)
    print_table([["cell", "state", "step", "by, or why"], *([c.name, c.kind, c.where, c.said] for c in cells)], keys=4)
    kinds = Counter(cell.kind for cell in cells)
    print(f"{counted(len(cells), 'cell')}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
