"""`refprior sweep`, `demo` and `status`: many runs of a recipe, and where they are trained."""

import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._words import counted
from refprior.cli._ending import FailedError
from refprior.cli._options import (
    Data,
    Device,
    KindOfData,
    Log,
    RecipeName,
    Set,
    SourceData,
    check_folder,
    check_sweep_folder,
    custom_data,
    whole,
    whole_numbers,
)
from refprior.cli._report import report
from refprior.cli._tables import print_table
from refprior.cli._train import say, show_custom_data

if TYPE_CHECKING:
    from refprior.recipes import Cell, Outcome
    from refprior.recipes.sweeps import Engine

_SLURM = ("partition", "time", "memory", "gpus", "cpus")  # options that only SLURM knows
_KNOWN = {"local": ("jobs", "retries"), "dask": (), "slurm": ("jobs", "retries", *_SLURM)}


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Options that select where and how the cells of a sweep are trained."""

    engine: Annotated[
        str,
        Parameter(help="Where to train the cells: local (processes of this machine), dask://HOST:PORT, or slurm."),
    ] = "local"
    jobs: Annotated[
        int | None,
        Parameter(
            converter=whole, help="Cells to train at the same time; they share the cores. Default: 1; SLURM: all."
        ),
    ] = None
    retries: Annotated[
        int | None,
        Parameter(converter=whole, help="Number of retries of a cell whose process was killed. Default: 2."),
    ] = None
    partition: Annotated[str | None, Parameter(help="SLURM partition.")] = None
    time: Annotated[str | None, Parameter(help="SLURM time limit per cell, such as 2:00:00.")] = None
    memory: Annotated[str | None, Parameter(help="SLURM memory per cell, such as 8G.")] = None
    gpus: Annotated[int | None, Parameter(converter=whole, help="SLURM GPUs per cell, which then trains on cuda.")] = (
        None
    )
    cpus: Annotated[int | None, Parameter(converter=whole, help="SLURM cores per cell. Default: 1.")] = None
    device: Device = "cpu"
    log: Log = None
    commands: Annotated[
        bool,
        Parameter(
            help="Print a command per cell instead of training: for GNU parallel, job arrays, Kubernetes.",
            negative=(),
        ),
    ] = False


def train_cells(cells: "Sequence[Cell]", out: Path, where: Where) -> "list[Outcome]":
    """Train all cells, printing a line as each ends; return those that failed."""
    from refprior._progress import live
    from refprior.recipes.sweeps import Plan, run_cells, running
    from refprior.training.loop import Stopped, terminable

    engine, plan = _engine(where), Plan(out, where.device, tuple(where.log or ()))
    check_sweep_folder(out)
    cells[0].named().recipe.read_task()  # missing data are reported once, not for each cell
    failed: list[Outcome] = []
    ended, left = 0, {cell.name: None for cell in cells}  # in their order

    def line() -> str:
        try:
            now = ", ".join(f"{cell.where or 'starting'} ({cell.name})" for cell in running(out, list(left)))
        except (OSError, ValueError):  # an unreadable folder is reported by its cell
            now = ""
        return f"{ended} of {len(cells)} done; {now or 'starting'}"

    try:
        with terminable(), live(line):  # the processes of the cells end with this one
            for ended, outcome in enumerate(run_cells(cells, plan, engine), start=1):
                del left[outcome.cell.name]
                failed += [outcome] if outcome.problem is not None else []
                say(f"{ended}/{len(cells)} {outcome.cell.name} {outcome.problem or 'done'}")
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal_number", signal.SIGINT)
        said = f"stopped after {ended} of {counted(len(cells), 'cell')}; the same command resumes"
        raise Stopped(said, number) from None
    return failed


def report_failed(failed: "Sequence[Outcome]", cells: "Sequence[Cell]") -> None:
    """List the failed cells at the end of the output."""
    for outcome in failed:
        say(f"failed: {outcome.cell.name} {outcome.problem}")
    if failed:
        raise FailedError(f"{len(failed)} of {counted(len(cells), 'cell')} failed; the same command retries them")


def print_commands(cells: "Sequence[Cell]", out: Path, where: Where) -> None:
    """Print one shell command per cell; the sweep's folder keeps their names for `refprior status`."""
    from refprior.recipes.sweeps import Plan, command, write_cells

    check_sweep_folder(out)
    plan = Plan(out, where.device, tuple(where.log or ()))
    lines = [command(cell, plan) for cell in cells]
    write_cells(out, (cell.name for cell in cells))
    print("\n".join(lines))


def _engine(where: Where) -> "Engine":
    """Return the engine of the options; reject options that the engine does not have."""
    from refprior.recipes import Dask, Local, Slurm

    given = {name: getattr(where, name) for name in _KNOWN["slurm"] if getattr(where, name) is not None}
    kind = "dask" if where.engine.startswith("dask://") else where.engine
    if kind not in _KNOWN:
        raise ValueError(f"--engine takes local, dask://HOST:PORT or slurm, got {where.engine!r}")
    for name in given:
        if name not in _KNOWN[kind]:
            raise ValueError(f"--{name} does not apply to --engine {where.engine}")
    if kind == "dask":
        return Dask(where.engine)
    return Slurm(**given) if kind == "slurm" else Local(**given)


def sweep(
    recipe: RecipeName,
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder of the sweep, with one run folder per cell.")],
    seeds: Annotated[str, Parameter(help="Comma-separated seeds.")] = "0,1,2",
    data: Data = None,
    source_data: SourceData = None,
    kind: KindOfData = None,
    set_: Set = None,
    where: Where = Where(),
) -> None:
    """Train a recipe for every combination of settings and seeds.

    Settings take comma-separated values: --set labels=50,100 method=FixMatch,Supervised. The same command resumes an
    interrupted sweep; finished cells are not trained again.
    """
    from refprior.recipes.sweeps import cells

    custom = custom_data(data, source_data, kind)
    chosen = cells(recipe, set_ or {}, whole_numbers(seeds), custom)
    if custom is not None:
        show_custom_data(custom, chosen[0].named().recipe)
    if where.commands:
        return print_commands(chosen, out, where)
    return _train_and_report(chosen, out, where)


def demo(
    *,
    out: Annotated[Path, Parameter(help="Folder of the runs and the report; gets a number if it exists.")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, Parameter(converter=whole, help="Number of seeds.")] = 3,
    set_: Set = None,
) -> None:
    """Compare the reference prior with supervised learning on 8×8 digits with 5 labels per class."""
    import torch

    from refprior.recipes.sweeps import cells

    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    check_folder(out)
    settings = set_ or {}
    if "method" in settings:
        raise ValueError("the demo compares two fixed methods; for others: refprior sweep digits_ssl --set method=…")
    chosen = cells("digits_ssl", {**settings, "method": "Supervised,ReferencePrior"}, range(seeds))
    jobs = min(torch.get_num_threads(), len(chosen))
    torch.set_num_threads(1)  # networks this small lose more time to thread start-up than a second core saves
    number, folder = 1, out
    while folder.exists():
        number += 1
        folder = out.with_name(f"{out.name}-{number}")
    _train_and_report(chosen, folder, Where(jobs=jobs))


def _train_and_report(cells: "Sequence[Cell]", out: Path, where: Where) -> None:
    failed = train_cells(cells, out, where)
    if len(failed) < len(cells):
        report([out], out=out / "report.html")
    report_failed(failed, cells)


def status(folder: Annotated[Path, Parameter(help="Folder of a sweep, a transfer matrix or a run.")], /) -> None:
    """Show the state of every cell of a sweep: waiting, running, stopped, done, or failed with the reason.

    Reads only the run folders, from any machine that can access them; training is not disturbed.
    """
    from refprior._progress import working
    from refprior.recipes import status as read_status

    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    with working(f"reading {folder}"):
        cells = read_status(folder)
    rows = [[cell.name, cell.kind, cell.where, cell.said] for cell in cells]
    print_table([["cell", "state", "step", "process or error"], *rows], keys=4)
    kinds = Counter(cell.kind for cell in cells)
    print(f"{counted(len(cells), 'cell')}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
