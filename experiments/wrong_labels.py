"""Wrong labels: how well particles that hold labels out find them, and score themselves without a test set.

    python experiments/wrong_labels.py RESULTS.jsonl [--only PATTERN] [--seeds 10,11,12] [--minutes 60]

Each cell trains a recipe on few labels, a share of which is replaced by other classes. Without folds, labels are ranked
by the likelihood of particles that have learned them. Cells that RESULTS.jsonl already holds are skipped. `--table`
prints the table of the file. Seeds from 10 on are for choosing settings; 0 to 4 are for the final comparison.
"""

import argparse
import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import refprior as rp
from refprior.data import FewLabels
from refprior.posterior import label_posterior, predictive

Cell = tuple[str, Callable[[int], dict[str, float]]]
RECIPES: dict[str, Callable[..., rp.Recipe]] = {"mnist": rp.recipes.mnist_ssl, "digits": rp.recipes.digits_ssl}
METHODS: dict[str, rp.methods.Method | None] = {
    "reference prior": None,  # as the recipe has it
    "FixMatch": rp.FixMatch(),
    "FreeMatch": rp.methods.FreeMatch(),
    "SoftMatch": rp.methods.SoftMatch(),
    "supervised": rp.Supervised(),
}


def recipe_for(
    data: str, method: str, seed: int, *, labels: int, noise: float, folds: int | str, doubt: bool = False
) -> rp.Recipe:
    trained = {"steps": 400, "evaluate_every": 400, "folds": str(folds), "doubt_labels": doubt}
    recipe = rp.recipes.override(RECIPES[data](labels=labels, seed=seed), trained | {"task.label_noise": noise})
    chosen = METHODS[method]
    return recipe if chosen is None else replace(recipe, method=chosen)


def measure(recipe: rp.Recipe) -> dict[str, float]:
    """Train, find the wrong labels, and compare scores out of fold with those on the test part."""
    start = time.perf_counter()
    run = rp.train(recipe)
    assert isinstance(recipe.task, FewLabels)
    y, truth = run.task.labeled.labels, replace(recipe.task, label_noise=0.0)().labeled.labels
    test = run.evaluate()
    row = {
        "seconds": time.perf_counter() - start,
        "test": test.accuracy,
        "test particle": statistics.mean(test.particle_accuracies),
        "test NLL": test.negative_log_likelihood,
        "test ECE": test.calibration_error,
    }
    if recipe.folds == "off":
        log_p = predictive(run.log_probabilities(run.task.labeled.inputs), run.ema.log_prior.detach())
        right, rate = label_posterior(log_p, y)
        row["labels right"] = (log_p.argmax(-1) == truth).double().mean().item()
    else:
        found, quality = run.out_of_fold(), run.label_quality()
        right, rate = torch.from_numpy(quality.right), quality.error_rate
        guess = torch.from_numpy(found.log_probabilities.argmax(-1))
        low, high = found.scores.accuracy_interval
        row |= {
            "out of fold": found.scores.accuracy,
            "low": low,
            "high": high,
            "out of fold NLL": found.scores.negative_log_likelihood,
            "out of fold ECE": found.scores.calibration_error,
            "labels right": (guess == truth).double().mean().item(),
        }
    row["error rate"] = rate
    wrong = (y != truth).numpy()
    if wrong.any():
        first = right.argsort()[: wrong.sum()].numpy()
        surprise = -np.log(np.where(wrong, 1 - right.numpy(), right.numpy()).clip(1e-12))
        row |= {
            "AUROC": float(roc_auc_score(wrong, 1 - right.numpy())),
            "found": float(wrong[first].mean()),  # share of wrong ones among as many as are wrong
            "posterior NLL": float(surprise.mean()),
        }
    return row


def cells() -> Iterator[Cell]:
    """Yield the name of each cell of the table, and the function that measures it for a seed."""

    def cell(data: str, method: str, noise: float, folds: int | str, doubt: bool = False, labels: int = 100) -> Cell:
        def run(seed: int) -> dict[str, float]:
            return measure(recipe_for(data, method, seed, labels=labels, noise=noise, folds=folds, doubt=doubt))

        doubted = ", doubted" if doubt else ""
        return f"{data} {labels} labels, {100 * noise:.0f} % wrong, {method}, folds {folds}{doubted}", run

    for data in RECIPES:
        for noise in (0.2, 0.0, 0.4):
            for method in METHODS:
                for folds in (4, "off"):
                    yield cell(data, method, noise, folds)
                yield cell(data, method, noise, 4, doubt=True)


COLUMNS = ("test", "test particle", "out of fold", "labels right", "AUROC", "found", "error rate", "test ECE")


def show(path: Path) -> None:
    """Print mean and standard deviation over seeds, in percent."""
    rows = defaultdict(list)
    for line in path.read_text().splitlines():
        record = json.loads(line)
        rows[record["cell"]].append(record)
    print(f"{'cell':60} seeds", *(f"{name:>13}" for name in COLUMNS))
    for name, records in sorted(rows.items()):
        cells = []
        for column in COLUMNS:
            values = [100 * record[column] for record in records if column in record]
            spread = statistics.stdev(values) if len(values) > 1 else 0
            cells.append(f"{statistics.mean(values):6.1f} ± {spread:4.1f}" if values else f"{'–':>13}")
        print(f"{name:60} {len(records):5}", *cells)


def main() -> None:
    """Measure the missing cells, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        show(options.results)
        return
    torch.set_num_threads(1)
    written = options.results.read_text().splitlines() if options.results.exists() else []
    done = {(record["cell"], record["seed"]) for record in map(json.loads, written)}
    end = time.monotonic() + 60 * options.minutes
    for seed in map(int, options.seeds.split(",")):
        for name, run in cells():
            if (name, seed) in done or not re.search(options.only, name) or time.monotonic() > end:
                continue
            with options.results.open("a") as file:
                print(json.dumps({"cell": name, "seed": seed, **run(seed)}), file=file)


if __name__ == "__main__":
    main()
