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
import math
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch
from matplotlib.figure import Figure

import refprior as rp
from experiments.manifold_study import read_table
from refprior._files import write_bytes, write_figure
from refprior._style import CONDITIONAL, ENSEMBLE, MARGINAL, MARKERS, PARTICLE, SERIES, SOFT, styled
from refprior.data import Normalizer, PatchComponents
from refprior.methods import UnsupervisedTransfer
from refprior.report import PUBLISHED, Published
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

    def __hash__(self) -> int:
        return hash(self.name)

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


def grid(recipe: str, settings: Mapping[str, str], seeds: Sequence[int] = (0, 1, 2)) -> list[Cell]:
    """Return all combinations of comma-separated values."""
    values = [text.split(",") for text in settings.values()]
    return [
        Cell(recipe, dict(zip(settings, chosen, strict=True)), seed) for seed in seeds for chosen in product(*values)
    ]


def source_first(data: Literal["digits", "mnist"] = "digits", seed: int = 0) -> rp.Recipe:
    """Return `label_free_transfer` after as many steps on the labels of the source alone."""
    second = rp.recipes.label_free_transfer(data, seed=seed)
    nothing = UnsupervisedTransfer(rp.ReferencePrior(gamma=0), beta=0)  # of the target
    return replace(second, start=replace(second, method=nothing), head="same")


MNIST = {"steps": "500", "labels": "250"}
LABELS = {"steps": "500", "labels": "50,100,250,500,1000"}
PATCHES = {"labels": "250,1000"}
SEVEN_SIXTEENTHS = {"optimizer.schedule": "seven_sixteenths"}
TRICKS = {  # rows of tab:app:ablation2 by the name of the paper's row, without the mask's threshold
    "Deep Reference Prior": {},
    "No stop gradient to p_g1": {"method.stop_gradient": "false"},
    "No Jensen's inequality": {"method.jensen": "false"},
    "No masking": {"method.threshold": "none"},
    "No stop gradient, no masking": {"method.stop_gradient": "false", "method.threshold": "none"},
}
ABLATION = {  # columns: the recipe, and its settings with all three tricks
    "MNIST, 50 labels": ("mnist_ssl", {"labels": "50", "method.threshold": "0.95"}),
    "MNIST, 250 labels": ("mnist_ssl", {"labels": "250", "method.threshold": "0.95"}),
    "CIFAR-10 patches, 250 labels": ("cifar10_ssl_patches", {"method.balance": "0", "method.threshold": "0.6"}),
}
TASKS = "vehicles_1,vehicles_2,fish,people,aquatic_mammals"
HALF = {"data": "digits,mnist", "particles": "20", "steps": "500", "evaluate_every": "500"}
CASES = {  # names in the table, and settings beside HALF; with m = 64 source images in a step, 63/64 is 1 - 1/m
    "case 2, β = 0, the definition": {"method": "LabeledSource", "method.beta": "0"},
    "case 2, β = 0.95": {"method": "LabeledSource", "method.beta": "0.95"},
    "case 2, β = 1 − 1/m = 63/64": {"method": "LabeledSource", "method.beta": "0.984375"},
    "case 2, β = 0, m = 4": {"method": "LabeledSource", "source_batch": "4"},
    "case 1, β = 0": {"method": "UnlabeledSource", "method.beta": "0"},
    "case 1, β = 0.5": {"method": "UnlabeledSource", "method.beta": "0.5"},
    "case 1, β = 1, the definition": {"method": "UnlabeledSource", "method.beta": "1"},
    "eq: mnist_transfer without views": {"weak": "Unchanged", "strong": "Unchanged"},
    "eq: mnist_transfer": {},
}
SOURCE_FIRST = {
    "case 2, β = 0": {"method": "LabeledSource", "method.beta": "0"},
    "case 2, β = 0.95": {"method": "LabeledSource", "method.beta": "0.95"},
    "case 2, β = 63/64": {"method": "LabeledSource", "method.beta": "0.984375"},
    "case 1, β = 1": {"method": "UnlabeledSource", "method.beta": "1"},
}
ITEMS: dict[str, list[Cell]] = {
    "entropies": [
        cell
        for recipe in ("mnist_ssl", "fashion_ssl")
        for cell in grid(recipe, {"steps": "500", "evaluate_every": "50", "labels": "50,500"}, seeds=(0,))
    ],
    "order": grid("mnist_ssl", MNIST | {"method.order": "2,3,4,5"}),
    "particles": grid("mnist_ssl", MNIST | {"particles": "2,4,8,16"}),
    "ema": grid("mnist_ssl", LABELS) + grid("mnist_ssl", LABELS | SEVEN_SIXTEENTHS),
    "ablation": [
        cell for recipe, base in ABLATION.values() for trick in TRICKS.values() for cell in grid(recipe, base | trick)
    ],
    "order_patches": grid("cifar10_ssl_patches", {"method.order": "2,3,4,5"}),
    "particles_patches": grid("cifar10_ssl_patches", {"particles": "2,4,8,16"}),
    "ema_patches": grid("cifar10_ssl_patches", PATCHES) + grid("cifar10_ssl_patches", PATCHES | SEVEN_SIXTEENTHS),
    "cases": [
        *(cell for settings in CASES.values() for cell in grid("label_free_transfer", HALF | settings)),
        *(cell for settings in SOURCE_FIRST.values() for cell in grid("source_first", HALF | settings)),
    ],
    "faithful": grid(
        "label_free_transfer",
        {"faithful": "true", "precision": "bfloat16", "target": "high,low", "evaluate_every": "8192"},
        seeds=(0,),
    ),
    "cifar10": grid(
        "cifar10_ssl_medium",
        {"labels": "250,50", "method": "ReferencePrior,FixMatch,FreeMatch,Supervised"},
        seeds=(0, 1),
    ),
    "matrix": [
        *grid("cifar100_transfer_medium", {"target": TASKS, "approach": "supervised,semi_supervised"}, seeds=(0,)),
        *(
            cell
            for cell in grid(
                "cifar100_transfer_medium",
                {"target": TASKS, "source": TASKS, "approach": "transfer,fine_tuning"},
                seeds=(0,),
            )
            if cell.settings["source"] != cell.settings["target"]
        ),
    ],
}


@cache
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


@cache
def commit() -> str:
    """Return the last commit that is on main, with a + if the library has changed since."""
    git = ["git", "-C", str(ROOT)]
    try:
        shared = subprocess.check_output([*git, "merge-base", "HEAD", "main"], text=True).strip()
    except (OSError, subprocess.CalledProcessError):  # not a clone
        return "unknown"
    changed = subprocess.run([*git, "diff", "--quiet", shared, "--", "src"], check=False).returncode
    return shared[:7] + "+" * changed


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


def fit_once() -> AbstractContextManager[object]:
    """Fit patches once for all cells with the same images: methods do not change them, and a fit takes a minute."""
    fit, known = PatchComponents.fit, dict[object, Normalizer]()

    def fitted(self: PatchComponents, parts: Sequence[torch.Tensor]) -> Normalizer:
        key = (self, *((len(part), part.sum(dtype=torch.int64).item()) for part in parts))
        if key not in known:
            known[key] = fit(self, parts)
        return known[key]

    return patch.object(PatchComponents, "fit", fitted)


def measure(items: Sequence[str], minutes: float) -> None:
    """Train the missing cells of items in their order, the first seed of all of them first."""
    torch.set_num_threads(1)
    commit()  # that of the code which runs, whatever is committed while it does
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
        if row["step"] < row["steps"]:
            return  # the time is over, or a signal came


# --- tables and figures


def rows_of(cells: Sequence[Cell]) -> list[Row]:
    """Return the finished cells among these."""
    found = [read(cell.recipe).get(cell.name) for cell in map(normal, cells)]
    return [row for row in found if row is not None and row["step"] == row["steps"]]


def spread(cells: Sequence[Cell], value: Callable[[Row], float]) -> str:
    """Return mean ± standard deviation of the finished cells, and their number if some are missing."""
    values = [value(row) for row in rows_of(cells)]
    if not values:
        return "unfinished"
    shown = f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")
    return shown if len(values) == len(cells) else f"{shown} ({len(values)} of {len(cells)})"


def provenance(item: str) -> str:
    """Return what an item took, and how to go on."""
    cells = list({cell.name: cell for cell in map(normal, ITEMS[item])}.values())
    rows = rows_of(cells)
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    hours = sum(row["core_hours"] for row in rows)
    return (
        f"{len(rows)} of {len(cells)} runs are finished, {hours:.2f} core-hours, commits {commits or 'none'}: "
        f"`python -m experiments.paper train {item}`."
    )


def ema(row: Row) -> float:
    return float(row["test ema"])


def raw(row: Row) -> float:
    return float(row["test raw"])


def particle(row: Row) -> float:
    return float(statistics.mean(row["test ema particles"]))


def consensus(row: Row) -> float:
    return float(row["consensus"]["test"])


def effective(row: Row) -> float:
    """Return the effective number of particles at the end: of the source's posterior where the method weights by it."""
    return float(row["curve"][-1].get("source_weights", row["settings"]["particles"]))


def printed(table: str) -> dict[str, Published]:
    """Return the paper's rows of a table by their names."""
    return {row.name: row for row in PUBLISHED["cifar10_ssl"] if row.table == table and row.source == "paper"}


def prior() -> dict[int, Published]:
    """Return the paper's row of the reference prior in tab:cifar10_ssl and tab:app:ema by number of labels."""
    rows = PUBLISHED["cifar10_ssl"]
    return {r.labels: r for r in rows if (r.table, r.name) == ("tab:cifar10_ssl", "Deep Reference Prior")}


def by_setting(item: str, setting: str, name: str) -> list[list[str]]:
    """Return a table by one setting beside the paper's; `name` is what the paper's row is called."""
    paper = printed(f"tab:app:{item.removesuffix('_patches')}")
    body = []
    for value in dict.fromkeys(cell.settings[setting] for cell in ITEMS[item]):
        cells = [cell for cell in ITEMS[item] if cell.settings[setting] == value]
        body.append([value, paper[name.format(value)].raw, *(spread(cells, score) for score in (ema, raw, particle))])
    head = ["paper: CIFAR-10, 1000 labels", "here: EMA", "here: without EMA", "here: a particle, EMA"]
    return [[setting.removeprefix("method."), *head], *body]


def ablation_table() -> list[list[str]]:
    paper = printed("tab:app:ablation2")
    rows: list[list[str]] = []
    for name, trick in TRICKS.items():
        cells = [grid(recipe, base | trick) for recipe, base in ABLATION.values()]
        row = paper.get(name) if trick else prior()[250]
        rows.append([name, row.ensemble if row else "–", *(spread(these, ema) for these in cells)])
    return [["", "paper: CIFAR-10, 250 labels", *ABLATION], *rows]


def ema_table(item: str) -> list[list[str]]:
    head = ["labels", "paper: EMA", "without", "here, cosine: EMA", "without", "here, 7/16 of a cosine: EMA", "without"]
    body = []
    for labels, row in prior().items():
        cells = [cell for cell in ITEMS[item] if cell.settings["labels"] == str(labels)]
        if not cells:
            continue
        cosine = [cell for cell in cells if "optimizer.schedule" not in cell.settings]
        other = [cell for cell in cells if cell not in cosine]
        measured = [spread(these, score) for these in (cosine, other) for score in (ema, raw)]
        body.append([str(labels), row.ensemble, row.raw, *measured])
    return [head, *body]


def cases_table() -> list[list[str]]:
    head = [
        "objective",
        "digits: consensus",
        "effective particles of 20",
        "MNIST: consensus",
        "effective particles of 20",
    ]
    named = [("label_free_transfer", "", CASES), ("source_first", ", after 500 source steps", SOURCE_FIRST)]
    body = []
    for recipe, suffix, cases in named:
        for name, settings in cases.items():
            both = [grid(recipe, HALF | {"data": data} | settings) for data in ("digits", "mnist")]
            body.append([name + suffix, *(spread(cells, score) for cells in both for score in (consensus, effective))])
    return [head, *body]


def medium_table() -> list[list[str]]:
    names = {"ReferencePrior": "Deep Reference Prior", "FixMatch": "FixMatch (RA)"}
    paper = {(r.name, r.labels): r.ensemble for r in PUBLISHED["cifar10_ssl"] if r.table == "tab:cifar10_ssl"}
    body = []
    for method in ("Supervised", "FixMatch", "FreeMatch", "ReferencePrior"):
        line = [method]
        for labels in (250, 50):
            cells = [
                c for c in ITEMS["cifar10"] if (c.settings["method"], c.settings["labels"]) == (method, str(labels))
            ]
            line += [paper.get((names.get(method, ""), labels), "–"), spread(cells, ema)]
        body.append(line)
    return [["method", "paper, 250 labels", "here", "paper, 50 labels", "here"], *body]


def matrix_table() -> list[list[str]]:
    tasks, body = TASKS.split(","), []
    rows = [("supervised", ""), ("semi_supervised", "")]
    rows += [(approach, source) for approach in ("transfer", "fine_tuning") for source in tasks]
    for approach, source in rows:
        wanted = {"approach": approach} | ({"source": source} if source else {})
        cells = [[c for c in ITEMS["matrix"] if c.settings == wanted | {"target": task}] for task in tasks]
        name = approach + (f", from {source}" if source else "")
        body.append([name, *(spread(these, ema) if these else "–" for these in cells)])
    return [["target →", *tasks], *body]


def faithful_table() -> list[list[str]]:
    """Return the consensus at the last evaluation, also of runs that are not finished."""
    body = []
    for cell, row in zip(ITEMS["faithful"], PUBLISHED["label_free_transfer"], strict=True):
        found = read(cell.recipe).get(normal(cell).name)
        scored = [point for point in found["curve"] if "consensus" in point] if found else []
        last = f"{scored[-1]['consensus']['test']:.1f} at step {scored[-1]['step']:,}" if scored else "unfinished"
        body.append([row.name.partition(", ")[2], row.consensus, last])
    return [["classes", "paper", "here, of 1,048,576 steps"], *body]


@styled
def entropies() -> Figure:
    """Draw both entropies with few and many labels over training, as fig:particle_accuracy_entropy, and accuracies."""
    figure = Figure(figsize=(10.2, 3.2), layout="constrained")
    accuracies, *panels = figure.subplots(1, 3)
    for cell in ITEMS["entropies"]:
        few = cell.settings["labels"] == "50"
        axes = panels[cell.recipe == "fashion_ssl"]
        for row in rows_of([cell]):
            steps = [point["step"] for point in row["curve"]]
            for name, color, symbol in (
                ("marginal_entropy", MARGINAL, "H(y | x)"),
                ("conditional_entropy", CONDITIONAL, "H(y | x, w)"),
            ):
                values = [point[name] for point in row["curve"]]
                label = f"{symbol}, {cell.settings['labels']} labels"
                axes.plot(steps, values, "-" if few else "--", color=color, label=label)
            if few and cell.recipe == "mnist_ssl":
                scored = [point for point in row["curve"] if "test ema" in point]
                at = [point["step"] for point in scored]
                for k, each in enumerate(zip(*(point["test raw particles"] for point in scored), strict=True)):
                    accuracies.plot(at, each, color=PARTICLE, lw=0.8, label="each particle" if k == 0 else None)
                accuracies.plot(at, [point["test ema"] for point in scored], color=ENSEMBLE, label="ensemble, EMA")
    accuracies.set(xlabel="step", ylabel="accuracy on the test part, %", title="MNIST, 50 labels", ylim=(70, 100))
    for axes, title in zip(panels, ("MNIST", "Fashion-MNIST"), strict=True):
        axes.set(xlabel="step", ylabel="nats per tuple of two images", ylim=(0, 4.6), title=title)
    for axes in figure.axes:
        if axes.lines:
            axes.legend()
        else:
            axes.text(0.5, 0.5, "unfinished", transform=axes.transAxes, ha="center", color=SOFT)
    return figure


@styled
def distinguishable() -> Figure:
    """Draw how many models n samples can tell apart, exp(I): of a coin, and of networks on MNIST 3 against 5."""
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    coin, networks = figure.subplots(1, 2)
    lines = [json.loads(line) for line in (ROOT / "experiments/asymptopia.jsonl").read_text().splitlines()]
    tosses = [r for r in lines if "n" in r and r["n"] <= 150]  # beyond, the number of atoms is not certified
    n = [r["n"] for r in tosses]
    coin.plot(n, [r["atoms"] for r in tosses], "o-", ms=3, color=PARTICLE, label="atoms of the prior (certified)")
    coin.plot(n, [math.exp(r["information"]) for r in tosses], "s--", ms=3, color=ENSEMBLE, label="exp(I): told apart")
    coin.set(xscale="log", yscale="log", xlabel="tosses n", title="a coin")
    coin.set_xticks(n, [str(x) if x in (5, 10, 20, 50, 100) else "" for x in n])
    coin.set_yticks([3, 5, 10, 20], ["3", "5", "10", "20"])
    coin.legend()
    found = read_table(DOCS / "experiments.md")
    orders = sorted({r.order for r in found})
    for count, color, mark in zip((10, 30, 100, 1000), SERIES, MARKERS, strict=False):
        told = [math.exp(r.information) for order in orders for r in found if (r.particles, r.order) == (count, order)]
        networks.plot(orders, told, f"{mark}-", ms=3, color=color, label=f"K = {count}")
    networks.plot(orders, [2**order for order in orders], ":", color=SOFT, label="2ⁿ, all labelings")
    networks.set(yscale="log", xlabel="order n", ylabel="exp(I)", title="networks, MNIST 3 against 5", xticks=orders)
    networks.set_yticks([2**order for order in orders], [str(2**order) for order in orders])
    networks.legend()
    for axes in (coin, networks):
        axes.minorticks_off()
    return figure


TABLES: dict[str, Callable[[], list[list[str]]]] = {
    "order": partial(by_setting, "order", "method.order", "order {}"),
    "order_patches": partial(by_setting, "order_patches", "method.order", "order {}"),
    "particles": partial(by_setting, "particles", "particles", "{} particles"),
    "particles_patches": partial(by_setting, "particles_patches", "particles", "{} particles"),
    "ema": partial(ema_table, "ema"),
    "ema_patches": partial(ema_table, "ema_patches"),
    "ablation": ablation_table,
    "cases": cases_table,
    "faithful": faithful_table,
    "cifar10": medium_table,
    "matrix": matrix_table,
}
FIGURES = {"entropies_labels.png": entropies, "distinguishable.png": distinguishable}


def section(item: str) -> str:
    """Return what the page says about an item: its table, unless nothing of it is finished, and what it took."""
    measured = any(normal(cell).name in read(cell.recipe) for cell in ITEMS[item])
    return (f"{rp.report.as_markdown(TABLES[item]())}\n\n" if measured else "") + provenance(item)


def write_tables() -> None:
    """Put the tables between their marks in docs/results.md, and write the figures."""
    page = DOCS / "results.md"
    text = page.read_text()
    for item in TABLES:
        begin, end = f"<!-- {item}: python -m experiments.paper tables -->\n", f"<!-- end of {item} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}{section(item)}\n{end}{rest.split(end)[1]}"
    write_bytes(page, text.encode())
    for name, draw in FIGURES.items():
        write_figure(DOCS / "figures" / name, draw())


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
        with fit_once():
            measure(options.items or list(ITEMS), options.minutes)
    elif options.what == "tables":
        write_tables()
    else:
        for item in options.items or ITEMS:
            print(f"{item:12}", provenance(item))


if __name__ == "__main__":
    main()
