"""What the clusterer promises beyond scikit-learn's checks."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import refprior as rp

GENERATOR = np.random.default_rng(0)
X = np.concatenate([GENERATOR.normal(size=(30, 5)) + 3 * number for number in range(3)])
IMAGES = GENERATOR.integers(0, 255, (20, 1, 8, 8)).astype(np.uint8)


def clusterer(**settings: Any) -> rp.ReferencePriorClusterer:
    return rp.ReferencePriorClusterer(**{"n_clusters": 3, "particles": 4, "steps": 5, "random_state": 0, **settings})


def test_fewer_classes_than_clusters_name_all_clusters() -> None:
    named = clusterer().fit(X).answer([0, 80], ["low", "high"])
    assert set(named.classify(X)) == {"low", "high"}
    assert named.classify(X[[0, 80]]).tolist() == ["low", "high"]


def test_answers_add_up_and_the_last_counts() -> None:
    named = clusterer().fit(X).answer([0], [7]).answer([80], [7]).answer([80], [9])
    assert named.classes_.tolist() == [7, 9]
    assert named.classify(X[[0, 80]]).tolist() == [7, 9]
    assert not {0, 80} & set(named.suggest(20))


def test_a_new_fit_forgets_the_answers() -> None:
    fitted = clusterer().fit(X).answer([0, 80], ["a", "b"]).fit(X)
    with pytest.raises(NotFittedError, match="no classes yet"):
        fitted.classify(X)
    assert fitted.answer([40], ["c"]).classes_.tolist() == ["c"]


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        ([0, 1, 2, 3], list("abcd"), "at most 3 classes, one per cluster, got 4"),
        ([0, 1], ["a"], "1 labels for 2 rows"),
        ([0, 1], ["a", None], "1 labels for 2 rows"),
        ([90], ["a"], r"0 … 89, got \[90\]"),
        ([-1], ["a"], "0 … 89"),
        ([0.7], ["a"], "list of indices"),
        (0, "a", "list of indices"),
        ([], [], "list of indices"),
        ([0, 1], ["a", 2], "all names or all numbers"),
    ],
    ids=str,
)
def test_a_wrong_answer_changes_nothing(rows: Any, labels: Any, message: str) -> None:
    fitted = clusterer().fit(X).answer([5], ["a"])
    with pytest.raises(ValueError, match=message):
        fitted.answer(rows, labels)
    assert fitted.classes_.tolist() == ["a"]


def test_an_unstable_run_starts_again_and_the_most_stable_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [clusterer(restarts=0).fit(X), clusterer(restarts=0, steps=60).fit(X)]
    assert [len(found.stabilities_) for found in alone] == [1, 1]
    found = clusterer(restarts=3).fit(X)
    assert found.stabilities_[0] == alone[0].stability_
    assert found.stability_ == max(found.stabilities_)
    stable = [value >= 0.75 for value in found.stabilities_]
    assert not any(stable[:-1])
    assert stable[-1] or len(stable) == 4
    seed = alone[0].run_.recipe.seed + int(np.argmax(found.stabilities_))
    assert found.run_.recipe.seed == seed
    monkeypatch.setattr("refprior.estimators._clusterer.STABLE", 1.1)
    assert len(clusterer(restarts=1).fit(X).stabilities_) == 2
    with pytest.raises(ValueError, match="restarts"):
        clusterer(restarts=-1).fit(X)


def test_what_needs_a_fit_says_so() -> None:
    new = clusterer()
    new.recipe(X)
    for call in (lambda: new.predict(X), new.suggest, lambda: new.answer([0], [1]), lambda: new.classify(X)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


def test_images_of_other_numbers_are_rejected() -> None:
    fitted = clusterer().fit(IMAGES)
    with pytest.raises(ValueError, match="convert them"):
        fitted.predict(IMAGES / 255)
    with pytest.raises(ValueError, match="the source is float64 and X is uint8"):
        clusterer().fit(IMAGES, source=(IMAGES / 255, np.arange(20) % 2))


def test_a_source_is_a_pair() -> None:
    with pytest.raises(ValueError, match="source must be"):
        clusterer().fit(X, source=X)  # type: ignore[arg-type]


def test_large_sparse_rows_are_rejected_before_any_work() -> None:
    rows: Any = sparse.csr_array((10_000, 30_000))
    with pytest.raises(ValueError, match="TruncatedSVD first"):
        clusterer(inputs="not looked at").fit(rows)
