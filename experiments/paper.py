"""Tables and figures of the paper at the size of two cores: train the missing cells, and draw what is there.

    python -m experiments.paper train ITEM … [--minutes M]   # in order of priority; without an item, all of them
    python -m experiments.paper tables                       # writes the tables and figures into docs
    python -m experiments.paper status                       # finished cells and their core-hours

A cell is a recipe with settings and a seed. Finished cells are lines of results/RECIPE.jsonl with their commit, steps
and core-hours. Unfinished ones are run folders in runs/paper, which the same command resumes. Items share cells.
"""

import argparse
import hashlib
import json
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch

import refprior as rp
from refprior._style import CONDITIONAL, ENSEMBLE, MARGINAL, PARTICLE, styled
from refprior._files import write_bytes
from refprior.methods import UnsupervisedTransfer
from refprior.training import Evaluation, Record, Stopped
from refprior.training.store import read_history

ROOT = Path(__file__).parents[1]
RESULTS, RUNS, DOCS = ROOT / "results", ROOT / "runs/paper", ROOT / "docs"
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A recipe with settings and a seed."""

    recipe: str
    settings: dict[str, str] = field(default_factory=dict)
    seed: int = 0

    @property
    def name(self) -> str:
        return " ".join([self.recipe, *(f"{k}={v}" for k, v in sorted(self.settings.items())), f"seed={self.seed}"])

    def named(self) -> tuple[rp.Recipe, rp.training.Origin]:
        """Return the recipe with its settings; a recipe that refprior does not have is a function of this program."""
        known = self.recipe in rp.recipes.RECIPES
        return rp.recipes.named(self.recipe if known else globals()[self.recipe], self.settings, seed=self.seed)

    @property
    def folder(self) -> Path:
        return RUNS / f"{self.recipe}-{hashlib.sha256(self.name.encode()).hexdigest()[:12]}"


def grid(recipe: str, seeds: Sequence[int] = (0, 1, 2), **settings: str) -> list[Cell]:
    """Return all combinations of comma-separated values; `__` in a name stands for a dot."""
    names = [name.replace("__", ".") for name in settings]
    values = [text.split(",") for text in settings.values()]
    return [
        Cell(recipe, dict(zip(names, chosen, strict=True)), seed) for seed in seeds for chosen in product(*values)
    ]


def mnist(**settings: str) -> list[Cell]:
    """Return cells of `mnist_ssl` with half of its steps."""
    return grid("mnist_ssl", **{"steps": "500", **settings})


LABELS = "50,100,250,500,1000"
HALF = {"data": "digits,mnist", "particles": "20", "steps": "500", "evaluate_every": "500"}


def cases(recipe: str = "label_free_transfer", **settings: str) -> list[Cell]:
    """Return cells of the two cases of the theory, and of the objective that the paper trained."""
    return grid(recipe, **{**HALF, **settings})


def source_first(data: Literal["digits", "mnist"] = "digits", seed: int = 0) -> rp.Recipe:
    """Return `label_free_transfer` after 300 steps on the labels of the source alone."""
    second = rp.recipes.label_free_transfer(data, seed=seed)
    nothing = UnsupervisedTransfer(rp.ReferencePrior(gamma=0), beta=0)  # of the target
    return replace(second, start=replace(second, method=nothing, steps=300, evaluate_every=300), head="same")


LABELED = {"method": "LabeledSource", "method__beta": "0,0.95,0.984375"}  # the last: 1 - 1/m, m = 64 source images
ITEMS: dict[str, list[Cell]] = {
    "entropies": grid("mnist_ssl", seeds=(0,), steps="500", evaluate_every="50", labels="50,500"),
    "cases": [
        *cases(**LABELED),
        *cases(method="LabeledSource", source_batch="4"),
        *cases(method="UnlabeledSource", method__beta="0,0.5,1"),
        *cases(),
        *cases(weak="Unchanged", strong="Unchanged"),
        *cases("source_first", **LABELED),
        *cases("source_first", method="UnlabeledSource", method__beta="1"),
    ],
    "faithful": grid(
        "label_free_transfer", seeds=(0,), faithful="true", precision="bfloat16", target="high,low", evaluate_every="8192"
    ),
    "order": mnist(labels="250", method__order="2,3,4,5"),
    "particles": mnist(labels="250", particles="2,4,8,16"),
    "ema": [*mnist(labels=LABELS), *mnist(labels=LABELS, optimizer__schedule="seven_sixteenths")],
}


def normal(cell: Cell) -> Cell:
    """Return the cell without settings that are the recipe's own, so that items share cells."""
    wanted, kept = cell.named()[0].to_dict(), dict(cell.settings)
    for name in cell.settings:
        less = replace(cell, settings={k: v for k, v in kept.items() if k != name})
        try:
            if less.named()[0].to_dict() == wanted:
                kept = less.settings
        except ValueError:  # the other settings need this one
            continue
    return replace(cell, settings=kept)


# --- measuring


def read(recipe: str) -> dict[str, Row]:
    """Return the measured cells of a recipe by name; `step` of those that are not finished is below `steps`."""
    path = RESULTS / f"{recipe}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {Cell(row["recipe"], row["settings"], row["seed"]).name: row for row in rows}


def write(row: Row) -> None:
    """Replace the row of a cell, or add it."""
    cell = Cell(row["recipe"], row["settings"], row["seed"])
    rows = read(cell.recipe) | {cell.name: row}
    lines = [json.dumps(r, ensure_ascii=False) + "\n" for r in rows.values()]
    write_bytes(RESULTS / f"{cell.recipe}.jsonl", "".join(lines).encode())


def commit() -> str:
    """Return the commit of the code, with a + if the library has changes."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.check_output([*git, "rev-parse", "--short=7", "HEAD"], text=True).strip()
    return head + ("+" if subprocess.check_output([*git, "status", "--porcelain", "src"]) else "")


def train(cell: Cell, end: float) -> Row:
    """Train a cell until it is finished or the time is over."""
    recipe, origin = cell.named()
    spent, began = cell.folder.with_suffix(".seconds"), time.process_time()
    before = float(spent.read_text()) if spent.exists() else 0.0

    def watch(record: Record) -> None:
        if time.monotonic() > end:
            signal.raise_signal(signal.SIGTERM)  # `rp.train` saves and raises Stopped

    with suppress(Stopped):
        rp.train(recipe, cell.folder, watch=watch, origin=origin)
    seconds = before + time.process_time() - began
    write_bytes(spent, str(seconds).encode())
    records = read_history(cell.folder)
    evaluations = [r.evaluation for r in records if r.evaluation is not None]
    return {
        "recipe": cell.recipe,
        "settings": cell.settings,
        "seed": cell.seed,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "steps": recipe.steps,
        "step": records[-1].step if records else 0,
        "core_hours": round(seconds / 3600, 4),
        **(scores(evaluations[-1]) if evaluations else {}),
        "curve": curve(records),
    }


def scores(evaluation: Evaluation) -> Row:
    """Return an evaluation in percent."""
    found: Row = {}
    if evaluation.consensus is not None:
        found["consensus"] = {name: percent(value) for name, value in vars(evaluation.consensus).items()}
    for part in ("test", "validation"):
        both = getattr(evaluation, part)
        for weights in ("ema", "raw") if both is not None else ():
            s = getattr(both, weights)
            found[f"{part} {weights}"] = percent(s.accuracy)
            found[f"{part} {weights} particles"] = [percent(a) for a in s.particle_accuracies]
        if both is not None:
            found[f"{part} NLL"] = round(both.ema.negative_log_likelihood, 4)
            found[f"{part} ECE"] = round(both.ema.calibration_error, 4)
    return found


def percent(value: float | None) -> float | None:
    return None if value is None else round(100 * value, 2)


IN_CURVES = ("test ema", "test raw particles", "consensus")


def curve(records: Sequence[Record]) -> list[Row]:
    """Return about twenty points of training: the terms of the loss, and accuracies where there are some."""
    every = -(-len(records) // 20)
    return [
        {"step": r.step, **{k: None if v is None else round(v, 4) for k, v in r.terms.items()}}
        | {k: v for k, v in (scores(r.evaluation) if r.evaluation else {}).items() if k in IN_CURVES}
        for i, r in enumerate(records)
        if i % every == 0 or r.evaluation is not None
    ]


def measure(items: Sequence[str], minutes: float) -> None:
    """Train the missing cells of items in their order, the first seed of all of them first."""
    torch.set_num_threads(1)
    end = time.monotonic() + 60 * minutes
    for cell in sorted((normal(cell) for item in items for cell in ITEMS[item]), key=lambda cell: cell.seed):
        if (known := read(cell.recipe).get(cell.name)) and known["step"] == known["steps"]:
            continue
        if time.monotonic() > end:
            return
        try:
            write(row := train(cell, end))
        except (ArithmeticError, ValueError) as error:  # the other cells do not depend on it
            print(f"{cell.name}: {error}", flush=True)
            continue
        accuracy = row["consensus"]["test"] if "consensus" in row else row.get("test ema")
        print(f"{cell.name}: step {row['step']}, {accuracy} %, {row['core_hours']} core-hours", flush=True)



def main() -> None:
    """Train, draw or count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "tables", "status"))
    parser.add_argument("items", nargs="*", metavar="ITEM", help=", ".join(ITEMS))
    parser.add_argument("--minutes", type=float, default=60, help="time after which training stops (default: 60)")
    options = parser.parse_args()
    if unknown := [item for item in options.items if item not in ITEMS]:
        parser.error(f"there is no item {unknown[0]}; there are {', '.join(ITEMS)}")
    if options.what == "train":
        measure(options.items or list(ITEMS), options.minutes)


if __name__ == "__main__":
    main()
