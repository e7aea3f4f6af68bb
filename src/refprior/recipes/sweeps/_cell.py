"""One run of a sweep: what it is, how it is trained, and the command line that does the same."""

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refprior._words import in_short
from refprior.recipes._named import Named, named, python_name
from refprior.recipes._own_data import OwnData
from refprior.training import Recipe, Record, log_to, train
from refprior.training.store import check_same_run, checkpoint_steps, read_header

Function = str | Callable[..., Recipe] | Recipe
_LONGEST_NAME = 100  # bytes; a file system allows 255


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    >>> from refprior.recipes import Cell
    >>> Cell("digits_ssl", {"method": "FixMatch"}, seed=2).name
    'method=FixMatch/seed-2'
    """

    recipe: Function
    settings: dict[str, str]
    seed: int
    own: OwnData | None = None

    @property
    def name(self) -> str:
        """Where the cell is in the sweep's folder: `labels=50,method=FixMatch/seed-0`."""
        return f"{folder_name(self.settings) or 'default'}/seed-{self.seed}"

    def named(self) -> Named:
        """Its recipe."""
        return named(self.recipe, self.settings, self.own, seed=self.seed)


@dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    >>> from refprior.recipes import Cell, Outcome
    >>> Outcome(Cell("digits_ssl", {"labels": "50"}, seed=0)).cell.name
    'labels=50/seed-0'
    """

    cell: Cell
    problem: str | None = None


@dataclass(frozen=True)
class Plan:
    """What all cells of a sweep share: the sweep's folder, the device, and where their records go besides."""

    out: Path
    device: str = "cpu"
    log: tuple[str, ...] = ()

    def folder(self, cell: Cell) -> Path:
        return self.out / cell.name


def train_cell(cell: Cell, plan: Plan, look: Callable[[], object] = lambda: None) -> Outcome:
    """Train a cell in this process, from its last checkpoint if there is one. look: called with every record."""
    recipe, origin = cell.named()
    try:
        with log_to(plan.folder(cell), *plan.log) as log:

            def watch(record: Record) -> None:
                look()
                log(record)

            train(recipe, plan.folder(cell), device=plan.device, watch=watch, origin=origin)
    except Exception as error:  # whatever it is, the other cells go on
        return Outcome(cell, in_short(error))
    return Outcome(cell)


def check_cell(cell: Cell, plan: Plan) -> None:
    """Refuse a cell in whose folder there is another run."""
    check_same_run(plan.folder(cell), cell.named().recipe)


def is_done(cell: Cell, plan: Plan) -> bool:
    """Whether all steps are trained, by what the folder says."""
    last = checkpoint_steps(plan.folder(cell))[:1]
    return bool(last) and last[0] == read_header(plan.folder(cell)).steps


def command(cell: Cell, plan: Plan, program: Sequence[str] = ("refprior",)) -> str:
    """The line for a shell that trains a cell as the sweep would."""
    if not isinstance(cell.recipe, str):
        raise ValueError(
            f"{python_name(cell.recipe)} is a Python object: a command line needs a recipe's name or FILE.py:FUNCTION"
        )
    own = () if cell.own is None else zip(("--data", "--source-data", "--kind"), cell.own, strict=True)
    words = [*program, "train", cell.recipe, "--seed", str(cell.seed)]
    words += [word for option, value in own if value is not None for word in (option, value)]
    words += ["--set", *(f"{name}={value}" for name, value in cell.settings.items())] if cell.settings else []
    words += ["--device", plan.device] if plan.device != "cpu" else []
    words += ["--log", *plan.log] if plan.log else []
    return shlex.join([*words, "--out", str(plan.folder(cell))])


def folder_name(settings: Mapping[str, Any], *before: str) -> str:
    """`labels=50,method=FixMatch`, after other words if wanted: a name for a folder, other settings another name.

    What a name should not hold is replaced, and a long one is cut; a hash of the whole then keeps it apart.
    """
    text = ",".join([*before, *(f"{name}={value}" for name, value in settings.items())])
    safe = re.sub(r"[^\w.,=:()+-]", "_", text.replace("/", ":"))
    if ":" not in text and safe.replace(":", "/") == text and len(text.encode()) <= _LONGEST_NAME:
        return safe
    cut = safe.encode()[:_LONGEST_NAME].decode(errors="ignore")
    return f"{cut}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
