"""Clusters without labels: what particles agree on, with a source and without, and what a few answers make of it."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

import refprior as rp

Clusterer: Any = partial(rp.ReferencePriorClusterer, 3, particles=8, steps=60, random_state=0)


def groups(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    truth = np.arange(rows) % 3
    return random.randn(rows, 5) + 6 * np.eye(3, 5)[truth], truth


def test_groups_are_found_and_two_halves_of_the_particles_agree() -> None:
    X, truth = groups()
    found = Clusterer().fit(X)
    assert adjusted_rand_score(truth, found.labels_) > 0.9
    assert found.stability_ > 0.9
    assert np.array_equal(found.predict(X), found.labels_)
    assert np.array_equal(Clusterer().fit_predict(X), found.labels_)


def test_a_few_answers_name_the_clusters() -> None:
    X, truth = groups()
    names = np.array(["low", "mid", "top"])[truth]
    found = Clusterer().fit(X)
    with pytest.raises(NotFittedError, match="call answer"):
        found.classify(X)
    asked = found.suggest(budget=3)
    assert len(set(truth[asked])) == 3  # one of each
    assert (found.answer(asked, names[asked]).classify(X) == names).mean() > 0.9
    more = found.suggest(budget=3)
    assert not set(more) & set(asked)


def test_a_source_teaches_what_to_look_at() -> None:
    X, y = load_digits(return_X_y=True)
    low = y < 5
    settings: dict[str, Any] = {"particles": 16, "steps": 200, "random_state": 0}
    taught = rp.ReferencePriorClusterer(5, **settings).fit(X[~low], source=(X[low], y[low]))
    assert taught.run_.task.source is not None
    assert adjusted_rand_score(y[~low], taught.labels_) > 0.5
    other = rp.ReferencePriorClusterer(3, particles=4, steps=2).fit(X[~low], source=(X[low], y[low]))
    assert len(other.run_.task.source_classes) == 5  # a source may have more classes than there are clusters


def test_mistakes_are_one_line() -> None:
    X, truth = groups()
    with pytest.raises(ValueError, match="n_clusters=3 must be at most n_samples=2"):
        Clusterer().fit(X[:2])
    with pytest.raises(ValueError, match="n_clusters must be a whole number"):
        rp.ReferencePriorClusterer(0).fit(X)
    with pytest.raises(ValueError, match="X has 4 features"):
        Clusterer().fit(X, source=(X[:, :4], truth))
    with pytest.raises(ValueError, match="every row of the source needs a label, 300 have none"):
        Clusterer().fit(X, source=(X, np.full(300, -1)))
    with pytest.raises(NotFittedError):
        Clusterer().suggest()
    found = Clusterer(steps=2).fit(X)
    with pytest.raises(ValueError, match="at most 3 classes, one per cluster, got 4"):
        found.answer([0, 1, 2, 3], ["a", "b", "c", "d"])
