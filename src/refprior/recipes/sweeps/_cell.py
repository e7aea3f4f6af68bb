"""A cell of a sweep: how it is trained, and the command that does the same."""

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refprior._words import in_short
from refprior.recipes._custom_data import CustomData
from refprior.recipes._settings import Named, named, python_name
from refprior.training import Recipe, Record, log_to, train
from refprior.training.store import checkpoint_steps, read_header

Function = str | Callable[..., Recipe] | Recipe
_LONGEST_NAME = 100  # bytes; a file system allows 255


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    recipe: Function
    settings: dict[str, str]
    seed: int
    data: CustomData | None = None

    @property
    def name(self) -> str:
        """The cell's folder within the sweep, such as ``labels=50,method=FixMatch/seed-0``."""
        return f"{folder_name(self.settings) or 'default'}/seed-{self.seed}"

    def named(self) -> Named:
        """Return its recipe with the origin."""
        return named(self.recipe, self.settings, self.data, seed=self.seed)


@dataclass(frozen=True)
class Outcome:
    """The result of training a cell."""

    cell: Cell
    problem: str | None = None  # why it failed; None if it is done


@dataclass(frozen=True)
class Plan:
    """The folder, device and logs that all cells of a sweep share."""

    out: Path
    device: str = "cpu"
    log: tuple[str, ...] = ()

    def folder(self, cell: Cell) -> Path:
        return self.out / cell.name


def train_cell(cell: Cell, plan: Plan, look: Callable[[], object] = lambda: None) -> Outcome:
    """Train a cell in this process, from its last checkpoint if there is one; call `look` with every record."""
    recipe, origin = cell.named()
    try:
        with log_to(plan.folder(cell), *plan.log) as log:

            def watch(record: Record) -> None:
                look()
                log(record)

            train(recipe, plan.folder(cell), device=plan.device, watch=watch, origin=origin)
    except Exception as error:  # other cells continue whatever it is
        return Outcome(cell, in_short(error))
    return Outcome(cell)


def is_done(cell: Cell, plan: Plan) -> bool:
    """Return whether the folder holds the checkpoint of the last step."""
    last = checkpoint_steps(plan.folder(cell))[:1]
    return bool(last) and last[0] == read_header(plan.folder(cell)).steps


def command(cell: Cell, plan: Plan, program: Sequence[str] = ("refprior",)) -> str:
    """Return the shell command that trains a cell."""
    if not isinstance(cell.recipe, str):
        raise ValueError(
            f"{python_name(cell.recipe)} is a Python object: a command line needs a recipe's name or FILE.py:FUNCTION"
        )
    data = () if cell.data is None else zip(("--data", "--source-data", "--kind"), cell.data, strict=True)
    words = [*program, "train", cell.recipe, "--seed", str(cell.seed)]
    words += [word for option, value in data if value is not None for word in (option, value)]
    words += ["--set", *(f"{name}={value}" for name, value in cell.settings.items())] if cell.settings else []
    words += ["--device", plan.device] if plan.device != "cpu" else []
    words += ["--log", *plan.log] if plan.log else []
    return shlex.join([*words, "--out", str(plan.folder(cell))])


def folder_name(settings: Mapping[str, object], *before: str) -> str:
    """Return a folder name such as ``labels=50,method=FixMatch``, distinct for distinct settings.

    Characters that a file system may reject are replaced and long names are cut; a hash then keeps them distinct.
    """
    text = ",".join([*before, *(f"{name}={value}" for name, value in settings.items())])
    safe = re.sub(r"[^\w.,=:()+-]", "_", text.replace("/", ":"))
    if ":" not in text and safe.replace(":", "/") == text and len(text.encode()) <= _LONGEST_NAME:
        return safe
    cut = safe.encode()[:_LONGEST_NAME].decode(errors="ignore")
    return f"{cut}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
