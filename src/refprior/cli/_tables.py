"""What several commands share: settings and seeds from text, cells trained one after another, tables."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refprior.recipes import Cell


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """A table, the header first."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    head, *body = rows
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left")
    for line in body:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def settings_of(assignments: Sequence[str] | None) -> dict[str, str]:
    """NAME=VALUE … as a dictionary."""
    settings: dict[str, str] = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--set takes NAME=VALUE, got {assignment!r}")
        if name in settings:
            raise ValueError(f"--set gives {name} twice: {settings[name]} and {value}")
        settings[name] = value
    return settings


def whole_numbers(text: str) -> list[int]:
    """Seeds: 0,1,2."""
    if not all(number.strip().isdigit() for number in text.split(",")):
        raise ValueError(f"--seeds takes whole numbers separated by commas, got {text!r}")
    return [int(number) for number in text.split(",")]


def train_cells(cells: "Sequence[Cell]", out: Path, jobs: int) -> int:
    """Train all cells, one line for each as it ends; how many of them failed."""
    from refprior.recipes._sweep import run_cells
    from refprior.training._stopping import Stopped, terminable

    if jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")
    problems = ended = 0
    try:
        with terminable():  # the processes of the cells end with this one
            for ended, outcome in enumerate(run_cells(cells, out, jobs), start=1):
                problems += outcome.problem is not None
                line = f"{ended}/{len(cells)} {outcome.cell.name} {outcome.problem or 'done'}"
                print(line, file=sys.stderr, flush=True)
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal_number", signal.SIGINT)
        raise Stopped(f"stopped after {ended} of {len(cells)} cells; the same command goes on", number) from None
    return problems


def refuse_failed(failed: int, cells: "Sequence[Cell]") -> None:
    if failed:
        raise ValueError(f"{failed} of {len(cells)} cells failed; the same command tries them again")
