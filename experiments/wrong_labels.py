"""Wrong labels, imbalanced and foreign pools: which objective is best, and do particles know how good they are?

    python experiments/wrong_labels.py RESULTS.jsonl [--only PATTERN] [--seeds 5,6,7,8,9] [--minutes 60]

Each cell trains a recipe on few labels. Without folds, labels are ranked by the likelihood of particles that have
learned them. Cells that RESULTS.jsonl already holds are skipped, so that the same command continues. `--table` prints
the tables of the file. Seeds from 10 on are for choosing settings, by the validation part; 5 to 9 are for the final
comparison. (Seeds 0 to 2 were looked at before the class shares of the adaptive method were separated from the labels.)
"""

import argparse
import json
import math
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from sklearn import datasets
from sklearn.metrics import roc_auc_score

import refprior as rp
from refprior.data import DataSet, Examples, FewLabels
from refprior.posterior import label_posterior, predictive, score
from refprior.views import default_views

try:  # AGPL, for this comparison only: pip install cleanlab
    from cleanlab.rank import get_label_quality_scores  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    get_label_quality_scores = None

Cell = tuple[str, Callable[[int], dict[str, float]]]
EMBEDDINGS = Path(__file__).parents[2] / "shared/data/cifar10_effnetlite0_pca128.npz"


def vectors(
    parts: dict[str, tuple[np.ndarray, np.ndarray]], name: str, labels: int, seed: int, validation: int = 0
) -> rp.Recipe:
    """16 linear classifiers of vectors, a quarter of which leave out each label."""
    examples = {
        part: Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))
        for part, (x, y) in parts.items()
    }
    size, classes = examples["train"].inputs.shape[1], int(examples["train"].labels.max()) + 1
    names = tuple(map(str, range(classes)))
    data = DataSet(name, names, examples["train"], examples["test"], kind="vectors")
    weak, strong = default_views("vectors", (size,))
    return rp.Recipe(
        task=FewLabels(data, labels=labels - labels % classes, seed=seed, validation=validation),
        network=partial(rp.networks.Linear, shape=(min(size, 128),), classes=classes),
        method=rp.ReferencePrior(alpha=0.4, gamma=1.0, threshold=0.8, balance=1.0),
        inputs=rp.data.PrincipalComponents(min(size, 128), whitening=0, scaled="all", standardize=name != "embeddings"),
        particles=16,
        labeled_batch=32,
        unlabeled_batch=128,
        weak=weak,
        strong=strong,
        optimizer=rp.Optimizer(kind="adam", learning_rate=0.03),
        ema=0.99,
        seed=seed,
    )


def embeddings(labels: int, seed: int) -> rp.Recipe:
    """EfficientNet-Lite0 features of CIFAR-10."""
    with np.load(EMBEDDINGS) as file:
        parts = {part: (file[part], file[f"{part}_labels"]) for part in ("train", "test")}
    return vectors(parts, "embeddings", labels=labels, seed=seed, validation=1000)


def table(read: Callable[..., tuple[np.ndarray, np.ndarray]], labels: int, seed: int) -> rp.Recipe:
    """A small table of scikit-learn; a third of the rows are the test part."""
    x, y = read(return_X_y=True)
    test, train = np.split(np.random.RandomState(0).permutation(len(y)), [len(y) // 3])
    parts = {"train": (x[train], y[train]), "test": (x[test], y[test])}
    return replace(vectors(parts, read.__name__, labels, seed), unlabeled_batch=32)


RECIPES: dict[str, Callable[..., rp.Recipe]] = {
    "mnist": rp.recipes.mnist_ssl,
    "digits": rp.recipes.digits_ssl,
    "fashion": rp.recipes.fashion_ssl,
    "patches": rp.recipes.cifar10_ssl_patches,
    "embeddings": embeddings,
    "iris": partial(table, datasets.load_iris),
    "wine": partial(table, datasets.load_wine),
    "breast cancer": partial(table, datasets.load_breast_cancer),
}
FOREIGN = {"mnist": 29_000, "digits": 420, "fashion": 29_000, "embeddings": 24_000}  # of classes 5–9, as many as of 0–4
METHODS: dict[str, rp.methods.Method | None] = {
    "reference prior": None,  # as the recipe has it
    "adaptive reference prior": rp.methods.AdaptiveReferencePrior(),
    "adaptive without agreement": rp.methods.AdaptiveReferencePrior(agreement=False),
    "adaptive by the mixture": rp.methods.AdaptiveReferencePrior(teacher="mixture"),
    "adaptive with final α 0.1": rp.methods.AdaptiveReferencePrior(final_alpha=0.1),
    "adaptive with count 0.1": rp.methods.AdaptiveReferencePrior(count=0.1),
    "adaptive without agreement and with count 0.1": rp.methods.AdaptiveReferencePrior(agreement=False, count=0.1),
    "FixMatch": rp.FixMatch(),
    "FreeMatch": rp.methods.FreeMatch(),
    "SoftMatch": rp.methods.SoftMatch(),
    "supervised": rp.Supervised(),
}
COLUMNS: dict[str, tuple[dict[str, Any], int]] = {  # what is changed, and the number of labels
    "0 % wrong": ({}, 50),
    "10 % wrong": ({"task.label_noise": 0.1}, 50),
    "20 % wrong": ({"task.label_noise": 0.2}, 50),
    "40 % wrong": ({"task.label_noise": 0.4}, 50),
    "imbalance 10": ({"task.imbalance": 10.0}, 50),
    "imbalance 100": ({"task.imbalance": 100.0}, 50),
    "half foreign": ({"task.classes": (0, 1, 2, 3, 4), "network.classes": 5}, 25),
    "20 labels": ({}, 20),
    "250 labels": ({}, 250),
}


def recipe_for(
    data: str, method: str, seed: int, *, labels: int, column: str, folds: int | str, doubt: bool = False
) -> rp.Recipe:
    trained = {"steps": 400, "evaluate_every": 400, "folds": str(folds), "doubt_labels": doubt}
    changed = dict(COLUMNS[column][0])
    if column == "half foreign":
        changed |= {"task.out_of_distribution": FOREIGN[data], "task.labels": labels}
        changed |= {"task.validation": 150 if data == "digits" else 500}
        labels = 50
    recipe = RECIPES[data](labels=labels, seed=seed)
    recipe = rp.recipes.override(recipe, trained | changed)
    chosen = METHODS[method]
    return recipe if chosen is None else replace(recipe, method=chosen)


def measure(recipe: rp.Recipe) -> dict[str, float]:
    """Train, find the wrong labels, and compare scores out of fold with those on the test part."""
    start = time.process_time()
    run = rp.train(recipe)
    assert isinstance(recipe.task, FewLabels)
    y, truth = run.task.labeled.labels, replace(recipe.task, label_noise=0.0)().labeled.labels
    row = {"core seconds": time.process_time() - start, "temperature": run.temperature}
    for name, part in {"test": run.task.test, "validation": run.task.validation}.items():
        if part is None:
            continue
        log_p, weights = run.log_probabilities(part.inputs), run.ema.log_prior.detach()
        scores, bare = (score(log_p, part.labels, weights, temperature=at) for at in (run.temperature, 1.0))
        row |= {
            name: scores.accuracy,
            f"{name} particle": statistics.mean(scores.particle_accuracies),
            f"{name} NLL": scores.negative_log_likelihood,
            f"{name} NLL at 1": bare.negative_log_likelihood,
            f"{name} ECE": scores.calibration_error,
            f"{name} ECE at 1": bare.calibration_error,
        }
        if recipe.folds != "off" and int(recipe.folds) < recipe.particles:
            weighted = run.evaluate(part, weighting="likelihood")
            row |= {f"{name} weighted": weighted.accuracy, f"{name} weighted NLL": weighted.negative_log_likelihood}
    if recipe.folds == "off":
        mixed = predictive(run.log_probabilities(run.task.labeled.inputs), run.ema.log_prior.detach())
        right, rate = label_posterior(mixed, y)
        p = mixed.double().softmax(-1).numpy()
        row["labels right"] = (mixed.argmax(-1) == truth).double().mean().item()
    else:
        found, quality = run.out_of_fold(), run.label_quality()
        right, rate = torch.from_numpy(quality.right), quality.error_rate
        p = torch.from_numpy(found.log_probabilities).double().softmax(-1).numpy()
        guess = torch.from_numpy(p.argmax(-1))
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
        if get_label_quality_scores is not None:  # confident learning, of the same predictions
            row["AUROC cleanlab"] = float(roc_auc_score(wrong, -get_label_quality_scores(y.numpy(), p)))
        row |= {
            "AUROC": float(roc_auc_score(wrong, 1 - right.numpy())),
            "found": float(wrong[first].mean()),  # share of wrong ones among as many as are wrong
            "posterior NLL": float(surprise.mean()),
        }
    return row


COMPARED = ("adaptive reference prior", "FreeMatch", "SoftMatch", "reference prior")
FIRST = (  # most informative first; each tier is finished for all seeds before the next
    (("digits", "20 % wrong"), ("embeddings", "20 % wrong"), ("mnist", "20 % wrong"), ("digits", "half foreign")),
    (("digits", "0 % wrong"), ("digits", "imbalance 100"), ("embeddings", "0 % wrong"), ("embeddings", "half foreign")),
    (("embeddings", "imbalance 100"), ("embeddings", "40 % wrong"), ("digits", "40 % wrong"), ("mnist", "0 % wrong")),
)


def tiers() -> Iterator[list[Cell]]:
    """Yield groups of cells: the name of each, and the function that measures it for a seed."""

    def cell(data: str, method: str, column: str, folds: int | str, doubt: bool = False, labels: int = 0) -> Cell:
        labels = labels or COLUMNS[column][1]

        def run(seed: int) -> dict[str, float]:
            return measure(recipe_for(data, method, seed, labels=labels, column=column, folds=folds, doubt=doubt))

        doubted = ", doubted" if doubt else ""
        return f"{data} {labels} labels, {column}, {method}, folds {folds}{doubted}", run

    there = [data for data in RECIPES if data != "embeddings" or EMBEDDINGS.exists()]
    done = []
    for tier in FIRST:
        kept = [where for where in tier if where[0] in there]
        done += kept
        for methods in (COMPARED[:3], COMPARED[3:]):
            yield [cell(data, method, column, 4, doubt=True) for data, column in kept for method in methods]
        if tier is FIRST[0]:  # out of fold against the test part, on small tables
            tables = ("iris", "wine", "breast cancer")
            yield [cell(data, "adaptive reference prior", "0 % wrong", 4, doubt=True) for data in tables]
    rest = [(data, column) for column in COLUMNS for data in there[:5] if (data, column) not in done]
    rest.sort(key=lambda where: where[0] == "patches")  # three minutes per run
    for where in rest:
        if where != ("patches", "half foreign"):
            yield [cell(where[0], method, where[1], 4, doubt=True) for method in COMPARED]
    for data in ("mnist", "digits"):
        for column in ("20 % wrong", "0 % wrong", "40 % wrong"):
            for method in METHODS:
                for folds in (4, "off"):
                    yield [cell(data, method, column, folds, labels=100)]
                yield [cell(data, method, column, 4, doubt=True, labels=100)]
    variants = [name for name in METHODS if name.startswith("adaptive") and name != COMPARED[0]]
    yield [cell(data, method, column, 4, doubt=True) for data, column in done for method in variants]


SHOWN = ("test", "test particle", "out of fold", "labels right", "AUROC", "AUROC cleanlab", "found", "error rate")


def read(path: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Return the rows of the file by cell and seed."""
    rows: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)
    for line in path.read_text().splitlines():
        record = json.loads(line)
        rows[record["cell"]][record["seed"]] = record
    return rows


def interval(values: list[float]) -> str:
    """Format the mean with the half-width of its 95 % t-interval."""
    if len(values) < 2:
        return f"{statistics.mean(values):.1f}"
    half = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.1f} ± {half:.1f}"


def show_comparison(rows: dict[str, dict[int, dict[str, float]]], seeds: set[int], part: str) -> None:
    """Print each column of the comparison, with paired differences to the first method; (n) counts seeds below five."""
    ours = COMPARED[0]
    found: dict[str, dict[str, dict[int, dict[str, float]]]] = defaultdict(dict)
    for name, records in rows.items():
        match = re.fullmatch(r"(.+), (.+), folds 4, doubted", name)
        used = {seed: record for seed, record in records.items() if seed in seeds and part in record}
        if match and used:
            found[match[1]][match[2]] = used
    print(
        f"{part}, % (mean ± standard deviation), how far it is behind {ours} (paired, 95 % interval), "
        "NLL at the temperature and at 1"
    )
    gaps: dict[str, list[float]] = defaultdict(list)
    for column, methods in sorted(found.items()):
        for method in dict.fromkeys((*COMPARED, *methods)):
            records = methods.get(method, {})
            if not records:
                if method in COMPARED and ours in methods and len(methods) > 1:
                    print(f"{column:36} {method:26} unfinished")
                continue
            values = [100 * r[part] for r in records.values()]
            common = sorted(set(records) & set(methods.get(ours, {})))
            gap = [100 * (methods[ours][seed][part] - records[seed][part]) for seed in common]
            if method != ours and gap:
                gaps[method].append(statistics.mean(gap))
            nll = [[r[f"{part} {name}"] for r in records.values()] for name in ("NLL", "NLL at 1")]
            spread = statistics.stdev(values) if len(values) > 1 else 0
            shown = f"{statistics.mean(values):5.1f} ± {spread:3.1f}" + (
                "" if len(values) >= 5 else f" ({len(values)})"
            )
            ahead = interval(gap) if method != ours and gap else ""
            losses = " ".join(f"{statistics.mean(values):.3f}" for values in nll)
            print(f"{column:36} {method:26} {shown:16} {ahead:14} {losses}")
    for method, values in gaps.items():
        print(f"{ours} - {method}, mean over {len(values)} columns: {interval(values)}")


def show_out_of_fold(rows: dict[str, dict[int, dict[str, float]]], seeds: set[int]) -> None:
    """Print the error of the out-of-fold accuracy where no label is wrong."""
    print(
        "out of fold - test, points: mean and mean of absolute values, against the ensemble and a particle each; "
        "share of intervals that hold each"
    )
    errors: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for name, records in rows.items():
        if " wrong" in name and ", 0 % wrong" not in name:
            continue
        for seed, r in records.items():
            if seed in seeds and "out of fold" in r:
                gaps = [100 * (r["out of fold"] - r[key]) for key in ("test", "test particle")]
                held = [100.0 * (r["low"] <= r[key] <= r["high"]) for key in ("test", "test particle")]
                errors[name].append((*gaps, *map(abs, gaps), *held))
    for name, values in sorted(errors.items()):
        print(f"{name:76} {len(values):3}", *(f"{statistics.mean(v):6.1f}" for v in zip(*values, strict=True)))
    every = [row for values in errors.values() for row in values]
    if every:
        print(f"{'all':76} {len(every):3}", *(f"{statistics.mean(v):6.1f}" for v in zip(*every, strict=True)))


def show(path: Path, seeds: set[int]) -> None:
    """Print the comparison on the part of these seeds, all cells in percent, and the error out of fold."""
    rows = read(path)
    show_comparison(rows, seeds, "validation" if min(seeds) >= 10 else "test")
    print()
    show_out_of_fold(rows, seeds)
    print(f"\n{'cell':76} seeds", *(f"{name:>14}" for name in SHOWN))
    for name, records in sorted(rows.items()):
        cells = []
        for column in SHOWN:
            values = [100 * r[column] for seed, r in records.items() if column in r and seed in seeds]
            spread = statistics.stdev(values) if len(values) > 1 else 0
            cells.append(f"{statistics.mean(values):7.1f} ± {spread:4.1f}" if values else f"{'–':>14}")
        print(f"{name:76} {len(set(records) & seeds):5}", *cells)


def main() -> None:
    """Measure the missing cells, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", default="5,6,7,8,9")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    seeds = list(map(int, options.seeds.split(",")))
    if options.table:
        show(options.results, set(seeds))
        return
    torch.set_num_threads(1)
    written = read(options.results) if options.results.exists() else {}
    for cells in tiers():
        for seed in seeds:
            for name, run in cells:
                if seed in written.get(name, {}) or not re.search(options.only, name):
                    continue
                if time.process_time() > 60 * options.minutes:
                    return
                row = run(seed)
                written.setdefault(name, {})[seed] = row
                with options.results.open("a") as file:
                    print(json.dumps({"cell": name, "seed": seed, **row}, ensure_ascii=False), file=file)


if __name__ == "__main__":
    main()
