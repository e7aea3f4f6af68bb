"""How the defaults of `ReferencePriorClassifier` for vectors were chosen: one setting at a time, on validation rows.

    python -m experiments.vector_defaults
    python -m experiments.vector_defaults --folds

Validation rows are a third of the pool of experiments/vectors.py (5,000 at most); no test row is touched. Accuracy in
per cent over two draws of the labels, 4 and 25 per class, on each kind of data that is on this machine. With --folds:
accuracy on the validation rows and out of fold, for the methods that are candidates for a fit with folds.
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import refprior as rp
from experiments.vectors import Vectors, for_validation, read
from refprior.estimators._choice import METHOD
from refprior.estimators._preprocess import COMPONENTS

SEEDS, LABELS = (10, 11), (4, 25)
DATA = ("embeddings", "digits", "satellite", "texts")


def variants(features: int) -> dict[str, dict[str, Any]]:
    """What is changed of the estimator's settings, by name."""
    few = min(COMPONENTS, features)
    components = rp.data.PrincipalComponents(few, whitening=0, scaled="all")
    return {
        "the defaults": {},
        "64 components": {"inputs": replace(components, count=min(64, features))},
        "the first component has the scale": {"inputs": replace(components, scaled="first")},
        "inputs of length 1": {"inputs": replace(components, unit_length=True)},
        "half whitened": {"inputs": replace(components, whitening=0.5)},
        "weak view unchanged": {"views": (rp.views.Unchanged(), rp.views.Corrupt())},
        "noise of 0.25": {"views": (rp.views.Noise(0.25), rp.views.Corrupt(noise=0.25))},
        "noise of 1.25": {"views": (rp.views.Noise(1.25), rp.views.Corrupt(noise=1.25))},
        "α = 0.1": {"method": replace(METHOD, alpha=0.1)},
        "α = 1": {"method": replace(METHOD, alpha=1.0)},
        "γ = 3": {"method": replace(METHOD, gamma=3.0)},
        "no threshold": {"method": replace(METHOD, threshold=None)},
        "no balance": {"method": replace(METHOD, balance=0.0)},
        "order 1": {"method": replace(METHOD, order=1, gamma=2.0)},
        "FixMatch": {"method": rp.FixMatch()},
        "FixMatch, threshold 0.5": {"method": rp.FixMatch(threshold=0.5)},
        "supervised": {"method": rp.Supervised()},
    }


FOLDED: dict[str, rp.methods.Method] = {
    "`ReferencePrior`, α = 0.4": METHOD,
    "`ReferencePrior`, α = 0.1": replace(METHOD, alpha=0.1),
    "`ReferencePrior`, α = 0": replace(METHOD, alpha=0.0),
    "`FreeMatch`": rp.methods.FreeMatch(),
    "`AdaptiveReferencePrior`": rp.methods.AdaptiveReferencePrior(),
}


def main() -> None:
    chosen = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    chosen.add_argument("--folds", action="store_true")
    options = chosen.parse_args()
    torch.set_num_threads(1)
    sets: dict[str, Vectors] = {}
    for name in options.data:
        try:
            sets[name] = for_validation(read(name))
        except FileNotFoundError as missing:
            print(f"{name} left out: {missing}")
    print("| setting | " + " | ".join(f"{name}, {labels}" for name in sets for labels in LABELS) + " |")
    print("|---|" + "---|" * len(sets) * len(LABELS))
    if options.folds:
        for name, method in FOLDED.items():
            pairs = [_with_folds(data, labels, method) for data in sets.values() for labels in LABELS]
            print(f"| {name} | " + " | ".join(f"{test:.1f}, {out:.1f}" for test, out in pairs) + " |", flush=True)
        return
    for number, setting in enumerate(variants(1)):
        cells = [_accuracy(data, labels, number) for data in sets.values() for labels in LABELS]
        print(f"| {setting} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |", flush=True)


def _accuracy(data: Vectors, labels: int, number: int) -> float:
    """The mean over draws of the labels of one of the variants."""
    settings = list(variants(data.pool.shape[1]).values())[number]
    found = []
    for seed in SEEDS:
        model = rp.ReferencePriorClassifier(**settings, random_state=seed).fit(data.pool, data.few(labels, seed))
        found.append(100 * model.score(data.test, data.test_labels))
    return float(np.mean(found))


def _with_folds(data: Vectors, labels: int, method: rp.methods.Method) -> tuple[float, float]:
    """The mean accuracy over draws of the labels, on validation rows and out of fold."""
    found = []
    for seed in SEEDS:
        model = rp.ReferencePriorClassifier(method, inputs="components", folds="auto", random_state=seed)
        model.fit(data.pool, data.few(labels, seed))
        assert model.out_of_fold_ is not None
        found.append((100 * model.score(data.test, data.test_labels), 100 * model.out_of_fold_.scores.accuracy))
    test, out = np.mean(found, axis=0)
    return float(test), float(out)


if __name__ == "__main__":
    main()
