"""The record of a sweep beside its cells, and the state of each cell as its folder shows it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from refprior._files import holder, locked, read_record, write_record
from refprior._process import rank
from refprior._words import in_short
from refprior.training.store import RECIPE, checkpoint_steps, current_stage, last_record, read_header

SWEEP = "sweep.json"
_FORMAT = 1
Kind = Literal["waiting", "running", "stopped", "done", "failed"]


@dataclass(frozen=True)
class CellState:
    """The state of a cell."""

    name: str
    kind: Kind
    step: int | None = None
    steps: int | None = None
    said: str = ""  # the process that trains it, or why it failed
    stage: str = ""  # `start` in an earlier stage

    @property
    def where(self) -> str:
        """The step as text, such as ``step 120 of 600``."""
        if self.step is None:
            return ""
        return f"step {self.step} of {self.steps}{f' of {self.stage}/' if self.stage else ''}"


def status(folder: Path | str) -> list[CellState]:
    """Read the state of every cell of a sweep, or of a single run.

    Parameters
    ----------
    folder : path
        Folder of a sweep, a transfer matrix or a run. It may be on a file system shared with the machines that train.

    Returns
    -------
    list of CellState
        For each cell its ``name``, ``kind`` (waiting, running, stopped, done or failed), ``step``, ``steps``,
        ``where`` (the step as text) and ``said`` (the process that trains it, or why it failed).

    Raises
    ------
    ValueError
        If the folder holds neither a sweep nor a run.

    Examples
    --------
    >>> import refprior as rp
    >>> outcomes = rp.recipes.sweep("digits_ssl", "runs/one", settings={"steps": "2"}, seeds=[0])
    >>> [(cell.name, cell.kind, cell.where) for cell in rp.recipes.status("runs/one")]
    [('steps=2/seed-0', 'done', 'step 2 of 2')]
    """
    folder = Path(folder)
    found = [path.parent for path in sorted(folder.rglob(RECIPE)) if path.parent.name != "start"]
    names = read_cells(folder)
    names += [name for path in found if (name := path.relative_to(folder).as_posix()) not in names]
    if not names:
        raise ValueError(f"{folder} holds neither a sweep nor a run")
    return [_state(folder / name, name if name != "." else folder.absolute().name) for name in names]


def running(folder: Path, names: Iterable[str]) -> list[CellState]:
    """Return the states of the cells that are being trained now."""
    states = (_state(folder / name, name) for name in names)
    return [state for state in states if state.kind == "running"]


def _state(cell: Path, name: str) -> CellState:
    owner = holder(cell)  # first: what is written while we read is then newer, not older
    at = current_stage(cell)
    stage = at.relative_to(cell).as_posix().removeprefix(".")
    record = last_record(at)
    step, steps = (None, None) if record is None else (record.step, record.steps)
    saved = checkpoint_steps(cell)[:1]
    if owner is not None:
        return CellState(name, "running", step, steps, owner, stage)
    if saved and saved[0] == _steps(cell):
        return CellState(name, "done", saved[0], saved[0])
    problem = read_failure(cell)
    if problem is not None:
        return CellState(name, "failed", step, steps, problem, stage)
    return CellState(name, "stopped" if (cell / RECIPE).exists() else "waiting", step, steps, stage=stage)


def _steps(cell: Path) -> int | None:
    try:
        return read_header(cell).steps
    except (ValueError, OSError):
        return None


def write_cells(out: Path, names: Iterable[str]) -> None:
    """Add cells to the record of a sweep."""
    with locked(out, lambda owner: None):  # two sweeps of one folder may start at the same time
        known = read_cells(out)
        if new := [name for name in names if name not in set(known)]:
            write_record(out / SWEEP, _FORMAT, {"cells": [*known, *new]})


def read_cells(out: Path) -> list[str]:
    """Read the names of all cells of a sweep; none if the folder holds no sweep."""
    if not (out / SWEEP).exists():
        return []
    names = read_record(out / SWEEP, _FORMAT).get("cells")
    paths = [Path(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []
    inside = [path for path in paths if len(path.parts) == 2 and ".." not in path.parts and not path.is_absolute()]
    if not isinstance(names, list) or len(inside) < len(names):
        raise ValueError(f"{out / SWEEP} is not the record of a sweep: its cells must be names of folders in it")
    return names


def write_failure(cell: Path, problem: str) -> None:
    """Record beside a cell's folder why it failed; the folder itself may not exist."""
    with suppress(OSError):  # the disk may be what failed
        write_record(_failure(cell), _FORMAT, {"problem": problem})


def read_failure(cell: Path) -> str | None:
    """Read why a cell failed; None if it did not."""
    if not _failure(cell).exists():
        return None
    try:
        return in_short(read_record(_failure(cell), _FORMAT)["problem"])
    except (ValueError, KeyError, OSError) as error:
        return in_short(error)


def forget_failure(cell: Path) -> None:
    with suppress(OSError):
        _failure(cell).unlink()


@contextmanager
def noting_failure(folder: Path) -> Iterator[None]:
    """Record the failure of a run that is a cell of a sweep: schedulers start cells one by one, as commands."""
    cell = folder.absolute()
    try:
        listed = f"{cell.parent.name}/{cell.name}" in read_cells(cell.parent.parent)
    except (ValueError, OSError):  # a damaged record does not prevent training
        listed = False
    if rank() > 0 or not listed:  # only the first rank writes
        yield
        return
    forget_failure(folder)
    try:
        yield
    except Exception as error:
        write_failure(folder, in_short(error))
        raise


def _failure(cell: Path) -> Path:
    return cell.with_name(f"{cell.name}.failed.json")
