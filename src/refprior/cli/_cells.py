"""What the commands of many runs share: settings and seeds from text, where cells are trained, and how they ended."""

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._words import counted, printable
from refprior.cli._ending import FailedError
from refprior.cli._parameters import Device, Log, whole
from refprior.cli._paths import check_sweep_folder

if TYPE_CHECKING:
    from refprior.recipes import Cell, Outcome
    from refprior.recipes.sweeps import Engine

_SLURM = ("partition", "time", "memory", "gpus", "cpus")  # options that only SLURM knows
_KNOWN = {"local": ("jobs", "retries"), "dask": (), "slurm": ("jobs", "retries", *_SLURM)}


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Where and how the cells of a sweep are trained: options of the command line."""

    engine: Annotated[
        str,
        Parameter(help="What trains the cells: processes of this machine (local), dask://HOST:PORT, or slurm."),
    ] = "local"
    jobs: Annotated[
        int | None,
        Parameter(converter=whole, help="Cells at a time; the cores are shared between them. Default: 1; SLURM: all."),
    ] = None
    retries: Annotated[
        int | None,
        Parameter(converter=whole, help="How often a cell is sent again whose process was killed. Default: 2."),
    ] = None
    partition: Annotated[str | None, Parameter(help="SLURM's partition.")] = None
    time: Annotated[str | None, Parameter(help="SLURM's time limit for a cell, such as 2:00:00.")] = None
    memory: Annotated[str | None, Parameter(help="SLURM's memory for a cell, such as 8G.")] = None
    gpus: Annotated[
        int | None, Parameter(converter=whole, help="SLURM's GPUs for a cell, which then trains on cuda.")
    ] = None
    cpus: Annotated[int | None, Parameter(converter=whole, help="SLURM's cores for a cell. Default: 1.")] = None
    device: Device = "cpu"
    log: Log = None
    commands: Annotated[
        bool,
        Parameter(
            help="Train nothing; print a command per cell, for GNU parallel, a job array or Kubernetes.", negative=()
        ),
    ] = False


def whole_numbers(text: str) -> list[int]:
    """Seeds: 0,1,2."""
    if not all(number.strip().isdigit() for number in text.split(",")):
        raise ValueError(f"--seeds takes whole numbers separated by commas, got {text!r}")
    return [int(number) for number in text.split(",")]


def train_cells(cells: "Sequence[Cell]", out: Path, where: Where) -> "list[Outcome]":
    """Train all cells, one line for each as it ends; those that failed."""
    from refprior._progress import live
    from refprior.recipes.sweeps import Plan, run_cells, running
    from refprior.training.loop import Stopped, terminable

    engine, plan = _engine(where), Plan(out, where.device, tuple(where.log or ()))
    check_sweep_folder(out)
    cells[0].named().recipe.read_task()  # no data: one line, not one for each cell
    failed: list[Outcome] = []
    ended, left = 0, {cell.name: None for cell in cells}  # in their order

    def line() -> str:
        try:
            now = ", ".join(f"{cell.where or 'starting'} ({cell.name})" for cell in running(out, list(left)))
        except (OSError, ValueError):  # of a folder that cannot be read its cell will say so
            now = ""
        return f"{ended} of {len(cells)} done; {now or 'starting'}"

    try:
        with terminable(), live(line):  # the processes of the cells end with this one
            for ended, outcome in enumerate(run_cells(cells, plan, engine), start=1):
                del left[outcome.cell.name]
                failed += [outcome] if outcome.problem is not None else []
                _say(f"{ended}/{len(cells)} {outcome.cell.name} {outcome.problem or 'done'}")
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal_number", signal.SIGINT)
        said = f"stopped after {ended} of {counted(len(cells), 'cell')}; the same command goes on"
        raise Stopped(said, number) from None
    return failed


def refuse_failed(failed: "Sequence[Outcome]", cells: "Sequence[Cell]") -> None:
    """List the cells that failed, at the end where they are seen."""
    for outcome in failed:
        _say(f"failed: {outcome.cell.name} {outcome.problem}")
    if failed:
        raise FailedError(f"{len(failed)} of {counted(len(cells), 'cell')} failed; the same command tries them again")


def print_commands(cells: "Sequence[Cell]", out: Path, where: Where) -> None:
    """One line for a shell per cell; the sweep's folder keeps their names for `refprior status`."""
    from refprior.recipes.sweeps import Plan, command, write_cells

    check_sweep_folder(out)
    plan = Plan(out, where.device, tuple(where.log or ()))
    lines = [command(cell, plan) for cell in cells]
    write_cells(out, (cell.name for cell in cells))
    print("\n".join(lines))


def _engine(where: Where) -> "Engine":
    """What the options say, each refused where it would mean nothing."""
    from refprior.recipes import Dask, Local, Slurm

    given = {name: getattr(where, name) for name in _KNOWN["slurm"] if getattr(where, name) is not None}
    kind = "dask" if where.engine.startswith("dask://") else where.engine
    if kind not in _KNOWN:
        raise ValueError(f"--engine takes local, dask://HOST:PORT or slurm, got {where.engine!r}")
    for name in given:
        if name not in _KNOWN[kind]:
            raise ValueError(f"--{name} is not for --engine {where.engine}")
    if kind == "dask":
        return Dask(where.engine)
    return Slurm(**given) if kind == "slurm" else Local(**given)


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
