"""Many runs of one recipe: every combination of settings and seeds, one folder a cell, several at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from refprior.recipes._named import named
from refprior.training import train


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    recipe: str
    settings: dict[str, str]
    seed: int

    @property
    def name(self) -> str:
        """Where the cell lies in the sweep's folder: `labels=50,method=fixmatch/seed-0`."""
        chosen = ",".join(f"{name}={value}" for name, value in self.settings.items()).replace("/", ":")
        return f"{chosen or 'default'}/seed-{self.seed}"


@dataclass(frozen=True)
class Outcome:
    """How a cell ended."""

    cell: Cell
    problem: str | None = None


def cells(recipe: str, settings: dict[str, str], seeds: Sequence[int]) -> list[Cell]:
    """All combinations of the comma-separated values, each checked before anything is trained."""
    values = [[(name, value) for value in text.split(",")] for name, text in settings.items()]
    return _checked([Cell(recipe, dict(chosen), seed) for chosen in product(*values) for seed in seeds])


def matrix_cells(recipe: str, tasks: Sequence[str], settings: dict[str, str], seeds: Sequence[int]) -> list[Cell]:
    """fig:matrix: transfer and fine-tuning for every ordered pair of tasks, and every task alone, without a source."""
    if len(set(tasks)) < len(tasks) or len(tasks) < 2:
        raise ValueError(f"a matrix needs at least two different tasks, got {', '.join(tasks) or 'none'}")
    if taken := sorted({"source", "target", "method"} & set(settings)):
        raise ValueError(f"{', '.join(taken)} is what a matrix runs over: it cannot be set")
    pairs = [{"source": source, "target": target} for target in tasks for source in tasks if source != target]
    wanted = [{**pair, "method": method} for method in ("transfer", "fine_tuning") for pair in pairs]
    wanted += [{"target": task, "method": method} for method in ("supervised", "semi_supervised") for task in tasks]
    return _checked([Cell(recipe, {**cell, **settings}, seed) for cell in wanted for seed in seeds])


def _checked(chosen: list[Cell]) -> list[Cell]:
    """The cells, if each is a recipe and none stands there twice."""
    names = [cell.name for cell in chosen]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is asked for twice: repeat no seed and no value")
    for cell in chosen:
        named(cell.recipe, cell.settings, seed=cell.seed)
    return chosen


def run_cells(chosen: Sequence[Cell], out: Path, jobs: int) -> Iterator[Outcome]:
    """Train the cells, `jobs` at a time with torch's threads shared between them; outcomes as they come.

    A cell that is done is passed over, one that was interrupted goes on, one that fails does not stop the others.
    """
    import torch
    from joblib import Parallel, delayed

    threads = max(1, torch.get_num_threads() // jobs)
    work = (delayed(_run_cell)(cell, out, threads) for cell in chosen)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(work)


def _run_cell(cell: Cell, out: Path, threads: int) -> Outcome:
    import torch

    torch.set_num_threads(threads)
    recipe, origin = named(cell.recipe, cell.settings, seed=cell.seed)
    try:
        train(recipe, out / cell.name, origin=origin)
    except (ValueError, OSError, ArithmeticError) as error:
        return Outcome(cell, str(error))
    return Outcome(cell)
