"""What the commands of many runs share: settings and seeds from text, and cells trained one after another."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refprior._checks import whole_number
from refprior._words import counted, printable
from refprior.cli._paths import check_sweep_folder

if TYPE_CHECKING:
    from refprior.recipes import Cell


def settings_of(assignments: Sequence[str] | None) -> dict[str, str]:
    """NAME=VALUE … as a dictionary."""
    settings: dict[str, str] = {}
    if assignments is not None and not assignments:
        raise ValueError("--set takes NAME=VALUE, got nothing")
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

    whole_number("jobs", jobs, at_least=1)
    check_sweep_folder(out)
    cells[0].named().recipe.read_task()  # no data: one line, not one for each cell
    problems = ended = 0
    try:
        with terminable():  # the processes of the cells end with this one
            for ended, outcome in enumerate(run_cells(cells, out, jobs), start=1):
                problems += outcome.problem is not None
                line = f"{ended}/{len(cells)} {outcome.cell.name} {outcome.problem or 'done'}"
                print(printable(line), file=sys.stderr, flush=True)
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal_number", signal.SIGINT)
        said = f"stopped after {ended} of {counted(len(cells), 'cell')}; the same command goes on"
        raise Stopped(said, number) from None
    return problems


def refuse_failed(failed: int, cells: "Sequence[Cell]") -> None:
    if failed:
        said = f"{failed} of {counted(len(cells), 'cell')} failed; the same command tries them again"
        raise ValueError(said)
