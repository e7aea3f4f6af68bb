"""Cross-conformal sets beside those of MAPIE (`pip install mapie`)."""

from typing import Any, Self

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import PredefinedSplit

from refprior.posterior import conformal_sets

GENERATOR = np.random.default_rng(0)
LABELS, NEW, FOLDS, CLASSES = 60, 200, 6, 3
TRUTH = GENERATOR.integers(0, CLASSES, LABELS + NEW)
LOGITS = GENERATOR.normal(size=(FOLDS, LABELS + NEW, CLASSES)) + 1.5 * np.eye(CLASSES)[TRUTH]
P = np.exp(LOGITS) / np.exp(LOGITS).sum(2, keepdims=True)  # of each fold's model, for every row
FOLD = np.arange(LABELS) % FOLDS


class Folded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The model of the fold that is missing in the training rows, which are given by their numbers."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        missing = np.setdiff1d(np.arange(FOLDS), FOLD[X[:, 0].astype(int)])
        self.fold_ = int(missing[0]) if len(missing) else 0
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(P[self.fold_, X[:, 0].astype(int)])

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_sets_are_those_of_mapie(coverage: float) -> None:
    mapie: Any = pytest.importorskip("mapie.classification")
    rows = np.arange(LABELS + NEW)[:, None]
    theirs = mapie.CrossConformalClassifier(
        Folded(), confidence_level=coverage, conformity_score="lac", cv=PredefinedSplit(FOLD)
    ).fit_conformalize(rows[:LABELS], TRUTH[:LABELS])
    _, expected = theirs.predict_set(rows[LABELS:], agg_scores="crossval")
    log_p = torch.from_numpy(np.log(P))
    held_out = torch.arange(FOLDS).unsqueeze(1) == torch.from_numpy(FOLD)
    own = log_p[torch.from_numpy(FOLD), torch.arange(LABELS), torch.from_numpy(TRUTH[:LABELS])]
    found = conformal_sets(log_p[:, LABELS:], own, held_out, torch.zeros(FOLDS).double(), coverage).numpy()
    assert np.array_equal(found, expected[:, :, 0])
    assert found[np.arange(NEW), TRUTH[LABELS:]].mean() > coverage - 0.05
