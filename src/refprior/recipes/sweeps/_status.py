"""How far the cells of a sweep are, by what their folders say: from any machine that sees them, while others train."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from refprior._files import holder
from refprior.recipes.sweeps._record import read_cells, read_failure
from refprior.training.store import RECIPE, checkpoint_steps, current_stage, last_record, read_header

Kind = Literal["waiting", "running", "stopped", "done", "failed"]


@dataclass(frozen=True)
class CellState:
    """How far a cell is.

    >>> from refprior.recipes import CellState
    >>> CellState("labels=50/seed-0", "running", 120, 600, "process 7 on node1").where
    'step 120 of 600'
    """

    name: str
    kind: Kind
    step: int | None = None
    steps: int | None = None
    said: str = ""  # who trains it, or why it failed
    stage: str = ""  # `start` if it is still at an earlier stage

    @property
    def where(self) -> str:
        """In words."""
        if self.step is None:
            return ""
        return f"step {self.step} of {self.steps}{f' of {self.stage}/' if self.stage else ''}"


def status(folder: Path | str) -> list[CellState]:
    """How far the cells of a sweep are, or a single run: waiting, running, stopped, done or failed.

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
    """Of these cells of a sweep, those that somebody trains now."""
    states = (_state(folder / name, name) for name in names)
    return [state for state in states if state.kind == "running"]


def _state(cell: Path, name: str) -> CellState:
    owner = holder(cell)  # before all else: what is written while we read is newer, not older
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
