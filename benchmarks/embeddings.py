"""The estimator beside what scikit-learn has for few labels: `python -m benchmarks.embeddings`, four kinds of vectors.

Accuracy, negative log-likelihood and calibration error on a test part that chose no setting, over several draws of the
labels, and the processor time of a fit. `--data digits` chooses one kind, `--labels 4 25` the labels per class, and
`--draws` their number. First come the seconds of a fit of 30,000 × 64; `--quick` ends there. Missing data are left out,
with a line that says how to get them.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from experiments.vectors import Vectors, read
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import refprior as rp
from refprior.estimators._choice import METHOD
from refprior.estimators._preprocess import COMPONENTS

Fit = Callable[[np.ndarray, np.ndarray], Any]


def main() -> None:
    chosen = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen.add_argument("--data", nargs="+", default=["embeddings", "digits", "satellite", "texts"])
    chosen.add_argument("--labels", nargs="+", type=int, default=[4, 10, 25, 100], help="per class")
    chosen.add_argument("--draws", type=int, default=5)
    chosen.add_argument("--quick", action="store_true", help="only the seconds of one fit of 30,000 x 64")
    options = chosen.parse_args()
    torch.set_num_threads(1)
    print_speed(1 if options.quick else 3)
    if options.quick:
        return
    print("\n| data | labels per class | method | accuracy | nll | ece | seconds |\n|---|---|---|---|---|---|---|")
    for name in options.data:
        try:
            data = read(name)
        except FileNotFoundError as missing:
            print(f"{name} left out: {missing}")
            continue
        for labels in options.labels:
            if labels * 2 <= np.bincount(data.pool_labels).min():
                compare(name, data, labels, options.draws)


def print_speed(fits: int) -> None:
    """Processor seconds of fits of components, K = 32: 30,000 rows of 64 numbers around ten centers, 100 labels."""
    random = np.random.RandomState(0)
    truth = np.arange(30_000) % 10
    X = (random.randn(10, 64)[truth] + random.randn(30_000, 64)).astype(np.float32)
    y = np.where(np.arange(30_000) < 100, truth, -1)
    rp.ReferencePriorClassifier(inputs="components", steps=1).fit(X, y)  # what is loaded once
    for seed in range(fits):
        started = time.process_time()
        rp.ReferencePriorClassifier(inputs="components", random_state=seed).fit(X, y)
        print(f"30,000 x 64: {time.process_time() - started:.2f} processor seconds")


def compare(name: str, data: Vectors, labels: int, draws: int) -> None:
    """A line per method, the means over draws of the labels."""
    rows, test = _components(data)
    for method, (fit, raw) in methods().items():
        found = []
        for seed in range(draws):
            y = data.few(labels, seed)
            started = time.process_time()
            model = fit(data.pool if raw else rows, y)
            seconds = time.process_time() - started
            p = _log_probabilities(model, data.test if raw else test)
            truth = torch.from_numpy(data.test_labels)
            found.append(
                [
                    100 * rp.posterior.accuracy(p, truth).mean().item(),
                    rp.posterior.negative_log_likelihood(p, truth).mean().item(),
                    rp.posterior.expected_calibration_error(p, truth).item(),
                    seconds,
                ]
            )
        mean, spread = np.mean(found, 0), np.std(found, 0, ddof=1)
        cells = f"{mean[0]:.1f} ± {spread[0]:.1f} | {mean[1]:.2f} | {mean[2]:.3f} | {mean[3]:.1f}"
        print(f"| {name} | {labels} | {method} | {cells} |", flush=True)


def _log_probabilities(model: Any, rows: Any) -> torch.Tensor:
    """Of any model, at least 1e-12; equal ones where label spreading reaches a row from no label: (n, D) -> (n, C)."""
    p = torch.from_numpy(model.predict_proba(rows))
    return torch.where(p.isnan(), 1 / p.shape[1], p).clamp(min=1e-12).log()


def methods() -> dict[str, tuple[Fit, bool]]:
    """How each is fitted to rows and labels (−1: none), and whether it takes the rows as they are."""
    return {
        "logistic regression": (supervised(_logistic), False),
        "nearest neighbors": (supervised(_neighbors), False),
        "label spreading": (_spread, False),
        "self-training": (lambda X, y: SelfTrainingClassifier(LogisticRegression(max_iter=500)).fit(X, y), False),
        "FixMatch": (lambda X, y: rp.ReferencePriorClassifier(rp.FixMatch(), random_state=0).fit(X, y), True),
        "α = 0": (without_disagreement, True),
        "reference prior": (
            lambda X, y: rp.ReferencePriorClassifier(inputs="components", random_state=0).fit(X, y),
            True,
        ),
    }


def supervised(search: Callable[[int], Any]) -> Fit:
    """A model that sees the labeled rows only; its setting is chosen by cross-validation among them."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        known = y >= 0
        return search(int(np.bincount(y[known]).min())).fit(X[known], y[known])

    return fit


def without_disagreement(X: Any, y: np.ndarray) -> Any:
    """The reference prior's estimator with α = 0: particles are confident, and nothing makes them differ."""
    return rp.ReferencePriorClassifier(replace(METHOD, alpha=0.0), random_state=0).fit(X, y)


def _spread(X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of rows that no label reaches
        return LabelSpreading("knn", n_neighbors=10).fit(X, y)


def _logistic(fewest: int) -> Any:
    model = LogisticRegression(max_iter=500)
    return GridSearchCV(model, {"C": np.logspace(-3, 2, 6)}, cv=_folds(fewest), scoring="neg_log_loss")


def _neighbors(fewest: int) -> Any:
    counts = [k for k in (1, 3, 5, 10) if k <= fewest] or [1]
    return GridSearchCV(KNeighborsClassifier(weights="distance"), {"n_neighbors": counts}, cv=_folds(fewest))


def _folds(fewest: int) -> StratifiedKFold:
    return StratifiedKFold(max(2, min(5, fewest)), shuffle=True, random_state=0)


def _components(data: Vectors) -> tuple[np.ndarray, np.ndarray]:
    """What the other methods see: the same number of components, at one scale."""
    count = min(COMPONENTS, data.pool.shape[1])
    found = PCA(count, svd_solver="arpack" if sparse.issparse(data.pool) else "full", random_state=0).fit(data.pool)
    scale = np.sqrt(found.explained_variance_.mean())
    return found.transform(data.pool) / scale, found.transform(data.test) / scale


if __name__ == "__main__":
    main()
