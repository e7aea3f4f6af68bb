"""Many runs of one recipe: every combination of settings and seeds, with one folder per cell."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from refprior import _process, methods
from refprior.recipes._cifar10 import ADAM, ADAM_METHODS
from refprior.recipes._custom_data import CustomData
from refprior.recipes._settings import function_of
from refprior.recipes.sweeps._cell import Cell, Function, Outcome, Plan
from refprior.recipes.sweeps._local import Local
from refprior.recipes.sweeps._status import forget_failure, write_cells, write_failure

_ADAM = {f"optimizer.{name}": str(getattr(ADAM, name)) for name in ("kind", "learning_rate", "decay", "schedule")}

Engine = Callable[[Sequence[Cell], Plan], Iterator[Outcome]]


def sweep(
    recipe: Function,
    out: Path | str,
    *,
    settings: Mapping[str, str] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int = 1,
    data: CustomData | None = None,
    engine: Engine | None = None,
    device: str = "cpu",
    log: Sequence[str] = (),
) -> list[Outcome]:
    """Train a recipe for every combination of settings and seeds.

    Each combination is a cell with its own run folder. The same call resumes a sweep: finished cells are not trained
    again.

    Parameters
    ----------
    recipe : str, function or Recipe
        The name of a recipe, ``"file.py:function"``, a function that returns a recipe, or a recipe. With a `Recipe`,
        or a function without ``seed``, the seeds change weights, batches and views, but not the choice of labeled
        inputs.
    out : path
        Folder of the sweep.
    settings : mapping, optional
        Comma-separated values by dotted name. ``method=all`` stands for every method that learns from few labels:
        with Adam where the original uses it, and with SelfMatch if the recipe takes ``pretraining``. Optimizer
        settings and ``pretraining`` given here apply to all methods.
    seeds : sequence of int, default: (0, 1, 2)
        One run per seed and combination.
    jobs : int, default: 1
        Number of cells trained at a time, each in a separate process.
    data : CustomData, optional
        Your data for all cells.
    engine : Local, Dask or Slurm, optional
        Where to train. Defaults to ``Local(jobs)``.
    device : str, default: "cpu"
        PyTorch device of each cell.
    log : sequence of str, optional
        Further logs of each cell: ``"csv"``, ``"tensorboard"``, ``"mlflow"`` or ``"wandb"``.

    Returns
    -------
    list of Outcome
        One per cell, in the order in which they end.

    Examples
    --------
    >>> import refprior as rp
    >>> settings = {"steps": "2", "method": "FixMatch,Supervised"}
    >>> outcomes = rp.recipes.sweep("digits_ssl", "runs/all", settings=settings, seeds=[0])
    >>> sorted(outcome.cell.name for outcome in outcomes)
    ['steps=2,method=FixMatch/seed-0', 'steps=2,method=Supervised/seed-0']
    """
    chosen = cells(recipe, settings or {}, seeds, data)
    return list(run_cells(chosen, Plan(Path(out), device, tuple(log)), engine or Local(jobs)))


def cells(
    recipe: Function, settings: Mapping[str, str], seeds: Sequence[int], data: CustomData | None = None
) -> list[Cell]:
    """Return all combinations of the comma-separated values, each checked before anything is trained."""
    values = [_choices(recipe, name, settings) for name in settings]
    combined = [{n: v for choice in chosen for n, v in choice.items()} for chosen in product(*values)]
    return _checked([Cell(recipe, combination, seed, data) for combination in combined for seed in seeds])


def _choices(recipe: Function, name: str, settings: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the values of one setting. ``method=all`` stands for every method that learns from few labels, with the
    settings that belong to it unless they are given."""
    if (name, settings[name]) != ("method", "all"):
        return [{name: value} for value in _values(str(settings[name]))]
    adam = {key: value for key, value in _ADAM.items() if key not in settings}
    alone = [{"method": method, **(adam if method in ADAM_METHODS else {})} for method in few_label_methods()]
    takes = inspect.signature(function_of(recipe)).parameters
    self_match = [{"method": "FixMatch", "pretraining": "contrastive"}]
    return alone + (self_match if "pretraining" in takes and "pretraining" not in settings else [])


def few_label_methods() -> list[str]:
    """Return the names of the methods that need labels of the task and no source."""
    made = {name: getattr(methods, name) for name in methods.__all__ if hasattr(getattr(methods, name), "needs")}
    needs = {name: make().needs for name, make in made.items() if name != "Method"}
    return [name for name, need in needs.items() if need.labels and not need.source]


def _values(text: str) -> list[str]:
    """Split comma-separated values; commas within brackets do not separate: `(3,5),(1,7)`."""
    return re.findall(r"(?:[^,(\[]|\([^)]*\)|\[[^\]]*\])+", text)


def matrix_cells(recipe: str, tasks: Sequence[str], settings: dict[str, str], seeds: Sequence[int]) -> list[Cell]:
    """Return the cells of fig:matrix: transfer and fine-tuning for all ordered pairs of tasks, and each task alone."""
    if len(set(tasks)) < len(tasks) or len(tasks) < 2:
        raise ValueError(f"a matrix needs at least two different tasks, got {', '.join(tasks) or 'none'}")
    if taken := sorted({"source", "target", "approach"} & set(settings)):
        raise ValueError(f"{', '.join(taken)} varies over the matrix and cannot be set")
    pairs = [{"source": source, "target": target} for target in tasks for source in tasks if source != target]
    wanted = [{**pair, "approach": approach} for approach in ("transfer", "fine_tuning") for pair in pairs]
    wanted += [{"target": task, "approach": name} for name in ("supervised", "semi_supervised") for task in tasks]
    return _checked([Cell(recipe, {**cell, **settings}, seed) for cell in wanted for seed in seeds])


def _checked(chosen: list[Cell]) -> list[Cell]:
    """Return the cells if each is a valid recipe, none repeats, and this is the only process."""
    if _process.world() > 1:
        raise ValueError(
            f"a sweep needs a single process, and this is one of {_process.world()} processes: start it without "
            "torchrun; --jobs and --engine train several cells at a time"
        )
    names = [cell.name for cell in chosen]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is repeated: give each seed and each value once")
    for cell in chosen:
        cell.named()
    return chosen


def run_cells(chosen: Sequence[Cell], plan: Plan, engine: Engine) -> Iterator[Outcome]:
    """Train the cells with an engine, yield outcomes as they come, and record failures for `status`.

    Finished cells are not trained again, interrupted cells resume, and a failed cell does not stop the others.
    """
    write_cells(plan.out, (cell.name for cell in chosen))
    for outcome in engine(chosen, plan):
        if outcome.problem is None:
            forget_failure(plan.folder(outcome.cell))
        else:
            write_failure(plan.folder(outcome.cell), outcome.problem)
        yield outcome
