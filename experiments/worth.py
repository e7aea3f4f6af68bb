"""What particles are for: labels with mistakes, a pool with foreign inputs, which labels to ask for, when to abstain.

    python -m experiments.worth mistakes --data embeddings
    python -m experiments.worth foreign --data embeddings
    python -m experiments.worth ask --data embeddings
    python -m experiments.worth abstain --data embeddings
    python -m experiments.worth calibrate --data embeddings --labels 25

Each prints a table over several draws of the labels: the reference prior beside an ensemble of as many networks trained
by FixMatch in the same estimator, and logistic regression; `calibrate` is about what a temperature mends. Accuracies
are of a test part that nothing was chosen by.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from benchmarks.embeddings import methods
from scipy import sparse

import refprior as rp
from experiments.vectors import Vectors, read
from refprior.data import Examples

MISTAKES = 0.2  # share of the labels
COMPARED = ("logistic regression", "FixMatch", "α = 0", "reference prior")
HELD_OUT = 200  # rows with labels that only set a temperature
COVERAGE = (0.5, 0.7, 0.9, 1.0)
FIRST, MORE, ROUNDS = 2, 10, 4  # labels per class to begin with, then so many at a time


def mistakes(data: Vectors, labels: int, draws: int) -> None:
    """A fifth of the labels are wrong: each is another class, drawn at random."""
    for name in COMPARED:
        found = []
        for seed in range(draws):
            y = data.few(labels, seed)
            found.append(_accuracy(name, data, data.pool, _mistaken(y, seed)))
        _line(f"{MISTAKES:.0%} wrong labels", labels, name, found)


def foreign(data: Vectors, labels: int, draws: int) -> None:
    """Half of the classes are the task; the pool holds as many rows of the others."""
    classes = np.unique(data.pool_labels)
    members = classes[: len(classes) // 2]
    own, test = (np.isin(y, members) for y in (data.pool_labels, data.test_labels))
    task = Vectors(data.pool[own], data.pool_labels[own], data.test[test], data.test_labels[test])
    others = np.flatnonzero(~own)
    for name in COMPARED:
        clean, mixed = [], []
        for seed in range(draws):
            y = task.few(labels, seed)
            added = data.pool[np.random.RandomState(seed).permutation(others)[: len(y)]]
            rows = _stacked(task.pool, added)
            clean.append(_accuracy(name, task, task.pool, y))
            mixed.append(_accuracy(name, task, rows, np.concatenate([y, np.full(added.shape[0], -1)])))
        _line("own pool", labels, name, clean)
        _line("half of the pool foreign", labels, name, mixed)


def ask(data: Vectors, labels: int, draws: int) -> None:
    """Labels asked for in rounds: at random, where entropy or disagreement is large, and by `suggest`."""
    del labels
    for name, choose in CHOICES.items():
        curves = []
        for seed in range(draws):
            y, random = data.few(FIRST, seed), np.random.RandomState(seed)
            curve = []
            for _ in range(ROUNDS + 1):
                model = rp.ReferencePriorClassifier(random_state=seed).fit(data.pool, y)
                curve.append(100 * model.score(data.test, data.test_labels))
                free = np.flatnonzero(y < 0)
                chosen = free[choose(model, data.pool[free], random)]
                y[chosen] = data.pool_labels[chosen]
            curves.append(curve)
        first = FIRST * len(np.unique(data.pool_labels))
        for step, accuracies in enumerate(np.transpose(curves)):
            _line("labels asked for", first + step * MORE, name, accuracies.tolist())


def abstain(data: Vectors, labels: int, draws: int) -> None:
    """Accuracy on the share of test rows of which the ensemble is surest, by three orders."""
    truth = data.test_labels
    for name in ("FixMatch", "reference prior"):
        kept: dict[str, list[list[float]]] = {"largest probability": [], "between": [], "total": []}
        for seed in range(draws):
            model = methods()[name][0](data.pool, data.few(labels, seed))
            p, doubt = model.predict_proba(data.test), model.uncertainty(data.test)
            orders = {"largest probability": -p.max(1), "between": doubt.between, "total": doubt.total}
            right = model.classes_[p.argmax(1)] == truth
            for order, values in orders.items():
                surest = right[np.argsort(np.asarray(values), kind="stable")]
                kept[order].append([100 * surest[: round(share * len(surest))].mean() for share in COVERAGE])
        for order, found in kept.items():
            cells = " | ".join(f"{value:.1f}" for value in np.mean(found, 0))
            print(f"| {labels} | {name}, by {order} | {cells} |", flush=True)


def calibrate(data: Vectors, labels: int, draws: int) -> None:
    """Negative log-likelihood and calibration error before and after a temperature from rows held out for it."""
    for name in ("FixMatch", "reference prior"):
        found = []
        for seed in range(draws):
            y = data.few(labels, seed)
            held = np.random.RandomState(seed + 200).permutation(np.flatnonzero(y < 0))[:HELD_OUT]
            rest = np.setdiff1d(np.arange(len(y)), held)
            predictor = methods()[name][0](data.pool[rest], y[rest]).predictor_
            part = Examples(torch.as_tensor(data.pool[held]), torch.from_numpy(data.pool_labels[held]))
            found.append([value for p in (predictor, predictor.calibrated(part)) for value in _calibration(p, data)])
        cells = " | ".join(f"{value:.3f}" for value in np.mean(found, 0))
        print(f"| {labels} | {name} | {cells} |", flush=True)


def _calibration(predictor: rp.Predictor, data: Vectors) -> tuple[float, float]:
    log_p, truth = torch.as_tensor(predictor.predict_proba(data.test)).log(), torch.from_numpy(data.test_labels)
    loss = rp.posterior.negative_log_likelihood(log_p, truth).mean().item()
    return loss, rp.posterior.expected_calibration_error(log_p, truth).item()


def _accuracy(name: str, data: Vectors, rows: Any, y: np.ndarray) -> float:
    """Of a method on the test part; logistic regression sees the labeled rows only."""
    fit, raw = methods()[name]
    if not raw:
        known = y >= 0
        rows, y = rows[known], y[known]
    model = fit(rows, y)
    return 100 * float((model.predict(data.test) == data.test_labels).mean())


def _stacked(first: Any, second: Any) -> Any:
    return sparse.vstack([first, second]).tocsr() if hasattr(first, "tocsr") else np.vstack([first, second])


def _mistaken(y: np.ndarray, seed: int) -> np.ndarray:
    """The labels with a share of them moved to another class."""
    random, known, wrong = np.random.RandomState(seed + 100), np.flatnonzero(y >= 0), y.copy()
    classes = int(y.max()) + 1
    chosen = random.permutation(known)[: round(MISTAKES * len(known))]
    wrong[chosen] = (y[chosen] + random.randint(1, classes, len(chosen))) % classes
    return wrong


def _random(model: Any, rows: Any, random: np.random.RandomState) -> np.ndarray:
    return random.permutation(rows.shape[0])[:MORE]


def _entropy(model: Any, rows: Any, random: np.random.RandomState) -> np.ndarray:
    return np.asarray(model.uncertainty(rows).total.argsort()[::-1][:MORE])


def _informative(model: Any, rows: Any, random: np.random.RandomState) -> np.ndarray:
    return np.asarray(rp.labeling.most_informative(torch.as_tensor(model.predictor_.log_probabilities(rows)), MORE))


def _suggested(model: Any, rows: Any, random: np.random.RandomState) -> np.ndarray:
    return np.asarray(model.suggest(rows, MORE))


CHOICES = {"random": _random, "entropy": _entropy, "disagreement": _informative, "suggest": _suggested}


def _line(what: str, labels: int, name: str, found: list[float]) -> None:
    print(f"| {what} | {labels} | {name} | {np.mean(found):.1f} ± {np.std(found, ddof=1):.1f} |", flush=True)


EXPERIMENTS: dict[str, Callable[[Vectors, int, int], None]] = {
    "mistakes": mistakes,
    "foreign": foreign,
    "ask": ask,
    "abstain": abstain,
    "calibrate": calibrate,
}


def main() -> None:
    chosen = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen.add_argument("experiment", choices=sorted(EXPERIMENTS))
    chosen.add_argument("--data", default="embeddings")
    chosen.add_argument("--labels", type=int, default=10, help="per class")
    chosen.add_argument("--draws", type=int, default=5)
    options = chosen.parse_args()
    torch.set_num_threads(1)
    EXPERIMENTS[options.experiment](read(options.data), options.labels, options.draws)


if __name__ == "__main__":
    main()
