"""What the classifier promises beyond scikit-learn's checks."""

import copy
import logging
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError
from torch import nn

import refprior as rp
from refprior.estimators import _classifier, _preprocess
from refprior.estimators._choice import Candidate

GENERATOR = np.random.default_rng(0)
X = np.concatenate([GENERATOR.normal(size=(30, 5)) + 3 * number for number in range(3)])
Y = np.repeat([0, 1, 2], 30)
FEW = np.where(np.arange(90) % 10 == 0, Y, -1)
IMAGES = GENERATOR.integers(0, 255, (20, 1, 8, 8)).astype(np.uint8)


def classifier(**settings: Any) -> rp.ReferencePriorClassifier:
    return rp.ReferencePriorClassifier(
        **{"inputs": "components", "particles": 3, "steps": 4, "random_state": 0, **settings}
    )


def test_warm_start_goes_on_from_the_particles_of_before() -> None:
    before = classifier(warm_start=True, steps=100).fit(X, FEW)
    probabilities = before.predict_proba(X)
    after = before.set_params(steps=1, learning_rate=1e-6).fit(X, Y)
    assert np.allclose(after.predict_proba(X), probabilities, atol=0.2)
    assert not np.allclose(classifier(steps=1, learning_rate=1e-6).fit(X, Y).predict_proba(X), probabilities, atol=0.2)


@pytest.mark.parametrize(
    ("inputs", "labels"), [(X[:, :3], Y), (X, np.arange(90) % 4), (X, np.array(["c", "b", "a"])[Y])]
)
def test_warm_start_begins_anew_with_other_features_or_classes(
    inputs: np.ndarray, labels: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    warm = classifier(warm_start=True).fit(X, FEW).fit(inputs, labels)
    assert "starts with new particles" in caplog.text
    assert np.array_equal(warm.predict_proba(inputs), classifier().fit(inputs, labels).predict_proba(inputs))


def test_warm_start_sees_rows_that_arrive_later_as_it_learned_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    far = np.concatenate([X[:60], 50 * X[:60, ::-1]])  # the components of all rows are others than those of the first
    labels = np.concatenate([FEW[:60], np.full(60, -1)])
    for container in (np.asarray, sparse.csr_array):
        rows = container(far)
        before = classifier(warm_start=True, steps=100, ema=0.0).fit(rows[:60], labels[:60])
        probabilities = before.predict_proba(rows[:60])
        after = before.set_params(steps=1, learning_rate=1e-6).fit(rows, labels)
        assert np.allclose(after.predict_proba(rows[:60]), probabilities, atol=1e-2)
        monkeypatch.setattr(_preprocess, "_DENSE", 0)  # sparse rows are projected


def test_the_rows_beside_a_row_do_not_matter() -> None:
    rows = GENERATOR.normal(size=(500, 40))
    fitted = classifier(particles=32).fit(rows, np.arange(500) % 3)
    probabilities, order = fitted.predict_proba(rows), GENERATOR.permutation(500)
    assert np.allclose(fitted.predict_proba(rows[order]), probabilities[order], rtol=1e-12, atol=0)
    assert np.allclose(fitted.predict_proba(rows[:1]), probabilities[:1], rtol=1e-12, atol=0)
    assert np.allclose(fitted.predictor_.predict_proba(rows), probabilities, rtol=1e-5)


@pytest.mark.parametrize("few", [0, 300], ids=["by disagreement", "typical"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_with_labels_are_not_asked_for(few: int, container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_classifier, "FEW_LABELS", few)
    labels = np.where(np.arange(90) % 2 == 0, Y, -1)
    fitted = classifier().fit(container(X), labels)
    asked = fitted.suggest(container(X.astype(np.float32)), 45)
    assert sorted(asked) == list(range(1, 90, 2))
    with pytest.raises(ValueError, match="1 to 45 inputs, got 46"):
        fitted.suggest(X, 46)
    with pytest.raises(ValueError, match="all 45 rows of X are labeled"):
        fitted.suggest(X[::2])


def test_vectors_are_not_images() -> None:
    with pytest.raises(ValueError, match=r"X has shape \(90, 5\), the training inputs had shape \(n, 1, 8, 8\)"):
        classifier(inputs=None).fit(IMAGES, np.arange(20) % 2).predict(X)
    with pytest.raises(ValueError, match=r"X has shape \(20, 1, 8, 8\), the training inputs had shape \(n, 5\)"):
        classifier().fit(X, FEW).predict(IMAGES)


@pytest.mark.parametrize("fits", [1, 2])
def test_a_pickle_does_not_hold_the_data(fits: int) -> None:
    rows = GENERATOR.normal(size=(20_000, 5))
    labels = np.where(np.arange(20_000) < 20, np.arange(20_000) % 2, -1)
    fitted = classifier(warm_start=True)
    for _ in range(fits):
        fitted.fit(rows, labels)
    assert len(pickle.dumps(fitted)) < 50_000
    for again in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert np.array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
        again.fit(rows, labels)  # goes on


def test_the_recipe_leaves_the_classifier_as_it_is() -> None:
    new, fitted = classifier(), classifier().fit(X, FEW)
    new.recipe(X, FEW)
    with pytest.raises(NotFittedError):
        new.predict(X)
    fitted.recipe(X[:, :2], np.arange(90) % 4)
    assert set(fitted.predict(X)) <= {0, 1, 2}


def test_a_fit_that_fails_leaves_the_classes() -> None:
    fitted = classifier().fit(X, FEW)
    with pytest.raises(ValueError, match="particles must be"):
        fitted.set_params(particles=0).fit(X, np.array(list("abc"))[Y])
    assert fitted.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.longdouble, bool])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_any_kind_of_number_is_fitted_and_predicted(kind: Any, container: Any) -> None:
    rows = container((10 * X).clip(0, 255).astype(kind))
    assert classifier().fit(rows, FEW).predict(rows).shape == (90,)


@pytest.mark.parametrize("times", [1, 3])
def test_images_of_floats_have_views(times: int) -> None:
    labels, images = np.arange(20) % 2, np.tile(IMAGES, (1, 1, times, times)) / 255
    assert classifier(inputs=None).fit(images, labels).predict(images).shape == (20,)
    with pytest.raises(ValueError, match="convert them"):
        classifier(inputs=None).fit(IMAGES / 255, labels).predict(IMAGES)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 4), nn.Linear(4, 2)

    def forward(self, ids: Any) -> Any:
        return self.head(self.embedding(ids).mean(1))


def test_token_ids_have_views() -> None:
    ids, labels = GENERATOR.integers(0, 20, (20, 7)), np.arange(20) % 2
    fitted = classifier(network=Words, inputs=rp.data.Identity()).fit(ids, labels)
    assert fitted.predict(ids).shape == (20,)
    with pytest.raises(ValueError, match="index out of range"):
        classifier(network=Words, inputs=rp.data.Identity()).fit(ids - 1, labels)


def test_whole_numbers_are_tokens_only_as_they_are() -> None:
    rows = np.arange(8).reshape(4, 2)
    task = rp.data.task_from_arrays((rows, np.array([0, 1, 0, 1])), unlabeled=rows)
    assert task.unlabeled.dtype == torch.int64
    recipe = classifier()._recipe_for(task, Candidate(rp.data.Standardize(), views=None), seed=0)
    assert isinstance(recipe.weak, rp.views.Noise)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": rp.views.Noise()}, r"views must be \(weak, strong\), got Noise"),
        ({"views": (rp.views.Noise(),) * 3}, r"views must be \(weak, strong\)"),
        ({"inputs": rp.data.Standardize}, "inputs must be a transform"),
        ({"labeled_batch": "a"}, "labeled_batch must be a whole number of at least 1, got 'a'"),
        ({"unlabeled_batch": 0}, "unlabeled_batch must be a whole number of at least 1, got 0"),
        ({"class_prior": {0: 1.0}}, "class_prior must be 3 shares above 0, one per class, got {0: 1.0}"),
        ({"class_prior": [1, 1]}, r"class_prior must be 3 shares above 0, one per class, got \[1, 1\]"),
        ({"class_prior": "balanced"}, "class_prior must be 'labels' or 'uniform', got 'balanced'"),
        ({"device": None}, "device 'None' cannot be used here"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        classifier(**settings).fit(X, FEW)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, None], r"X is \(90, 1, 5\), expected .*: use X\[:, None\]"),
        (X[:, None, None, None], r"X is \(90, 1, 1, 1, 5\), expected \(n, features\)"),
        (np.where(X > 1, 1e39, X), "too large for float32: 1e.39"),
    ],
    ids=["sequences", "five dimensions", "huge"],
)
def test_rows_that_cannot_be_taken(rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier().fit(rows, FEW)


def test_rows_to_suggest_are_counted_in_whole_numbers() -> None:
    with pytest.raises(ValueError, match=r"budget must be a whole number of at least 1, got 2\.5"):
        classifier().fit(X, FEW).suggest(X, 2.5)  # type: ignore[arg-type]


def test_score_looks_at_labeled_rows() -> None:
    fitted = classifier(steps=100).fit(X, FEW)
    right = np.mean(fitted.predict(X)[FEW >= 0] == FEW[FEW >= 0])
    missing = pd.Series(FEW).astype("Int64").where(FEW >= 0)
    assert fitted.score(X, FEW) == fitted.score(X, missing) == fitted.score(X, np.where(FEW < 0, np.nan, FEW)) == right
    with pytest.raises(ValueError, match="y has no label in 90 rows"):
        fitted.score(X, np.full(90, -1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.score(X, FEW[:5])
    with pytest.raises(NotFittedError):
        classifier().score(X, Y)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (X, ""),
        (np.c_[X, np.full(90, 0.1)], ""),
        (np.c_[X, np.linspace(0, 1e-33, 90)], ""),
        (1e30 * X, ""),
        (X * [1, 1, 1, 1, 1e4], "small ones hardly count"),
        (
            X + np.array([0, 0, 0, 1e9, 0]),
            "feature 3 of X is near 1e.09 with a spread of 2",
        ),
    ],
    ids=["one scale", "a constant", "a dead feature", "huge", "units", "an offset"],
)
def test_scales_that_do_harm_are_said(rows: np.ndarray, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), np.errstate(all="raise"):
        classifier(inputs=None, steps=1).fit(rows, FEW)
    assert len([record for record in caplog.records if record.module == "_preprocess"]) == bool(said)
    assert re.search(said, caplog.text)


@pytest.mark.parametrize("changed", [{"standardize": True}, {"unit_length": True}, {"whitening": 0.5}], ids=str)
def test_large_sparse_rows_are_projected_plainly_or_not_at_all(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_preprocess, "_DENSE", 0)
    inputs = rp.data.PrincipalComponents(**{"count": 3, "whitening": 0, **changed})
    with pytest.raises(ValueError, match=r"needs inputs=PrincipalComponents\(…, whitening=0\), got"):
        classifier(inputs=inputs).fit(sparse.csr_array(X), FEW)


def test_large_sparse_rows_that_are_all_the_same_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_preprocess, "_DENSE", 0)
    with pytest.raises(ValueError, match="are all rows equal"):
        classifier().fit(sparse.csr_array((90, 5)), FEW)


def test_folds_find_the_rows_with_wrong_labels() -> None:
    names = np.array(["a", "b", "c"])
    y = names[Y].astype(object)
    y[np.arange(90) % 3 != 1] = None
    y[31], y[70] = "c", "a"
    fitted = classifier(steps=200, folds="auto").fit(X, y)
    quality = fitted.label_quality_
    assert quality.index.tolist() == list(range(1, 90, 3))
    assert set(quality.index[quality.order[:2]]) == {31, 70}
    assert (quality.right < 0.5).sum() == 2
    assert quality.given[quality.index == 70] == "a"
    assert quality.suggested[quality.index == 70] == "c"
    assert 0.6 < fitted.out_of_fold_.scores.accuracy <= 28 / 30
    assert not hasattr(fitted.set_params(folds="off").fit(X, y), "label_quality_")


@pytest.mark.parametrize("method", [None, rp.methods.SoftMatch(), rp.ReferencePrior(alpha=0.0, balance=1.0)])
def test_random_labels_are_predicted_by_chance_out_of_fold(method: rp.methods.Method | None) -> None:
    """Particles do not teach each other labels through the pool: of ten classes, one guess in ten is right."""
    random = np.random.default_rng(0)
    y = np.append(random.permutation(50) % 10, np.full(250, -1))
    fitted = classifier(method=method, particles=8, steps=200, folds="auto").fit(random.normal(size=(300, 64)), y)
    assert fitted.out_of_fold_.scores.accuracy <= 0.24  # three standard deviations of 50 guesses


def test_folds_start_with_new_particles_in_every_fit(caplog: pytest.LogCaptureFixture) -> None:
    warm = classifier(warm_start=True, folds=3).fit(X, FEW).fit(X, Y)
    assert "labels may move to other folds: warm_start starts with new particles" in caplog.text
    assert np.array_equal(warm.predict_proba(X), classifier(folds=3).fit(X, Y).predict_proba(X))
