"""The classifier as it is used: what it learns from rows without labels, and in scikit-learn's company."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import refprior as rp
from refprior.estimators import _preprocess
from refprior.estimators._preprocess import COMPONENTS

Classifier: Any = partial(rp.ReferencePriorClassifier, particles=4, steps=60, random_state=0)


def groups(rows: int = 300, labels: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three groups in five dimensions, few labels, and the truth: (n, 5), (n,), (n,)."""
    random = np.random.RandomState(seed)
    truth = np.arange(rows) % 3
    X = random.randn(rows, 5) + 4 * np.eye(3, 5)[truth]
    return X, np.where(np.arange(rows) < labels, truth, -1), truth


def test_rows_without_labels_are_worth_having() -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(5).permutation(len(y))
    X, y = X[order], y[order]
    few = np.where(np.arange(len(y)) < 50, y, -1)
    ours = rp.ReferencePriorClassifier(random_state=0).fit(X[:1200], few[:1200])
    alone = rp.ReferencePriorClassifier(rp.Supervised(), random_state=0).fit(X[:1200], few[:1200])
    assert ours.score(X[1200:], y[1200:]) > alone.score(X[1200:], y[1200:]) + 0.03


def test_four_lines() -> None:
    X, y, truth = groups()
    clf = Classifier().fit(X, y)
    assert (clf.predict(X) == truth).mean() > 0.95
    p = clf.predict_proba(X)
    assert np.allclose(p.sum(1), 1, atol=1e-6)
    doubt = clf.uncertainty(X)
    assert np.allclose(doubt.total, doubt.within + doubt.between, atol=1e-5)
    asked = clf.suggest(X, budget=7)
    assert len(set(asked.tolist())) == 7
    assert clf.run_.history[-1].step == 60
    assert clf.rules(X).members == clf.run_.rules().members


def test_names_and_frames_and_their_columns(tmp_path: Any) -> None:
    X, y, truth = groups()
    names = np.array(["low", "mid", "top"], dtype=object)
    labels = [names[label] if label >= 0 else None for label in y]
    columns = [f"f{i}" for i in range(5)]
    plain = Classifier().fit(X, y).predict_proba(X)
    for frame in (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns)):
        clf = Classifier().fit(frame, labels)
        assert clf.classes_.tolist() == ["low", "mid", "top"]
        assert clf.feature_names_in_.tolist() == columns
        assert np.array_equal(clf.predict_proba(frame), plain)
        assert (clf.predict(frame) == names[truth]).mean() > 0.95
        clf.predictor_.save(tmp_path / type(frame).__module__)
        assert rp.load_predictor(tmp_path / type(frame).__module__).features == tuple(columns)
        with pytest.raises(ValueError, match="feature names should match"):
            clf.predict(pd.DataFrame(X, columns=columns[::-1]))


def test_sparse_rows_equal_dense_ones() -> None:
    X, y, _ = groups()
    dense = Classifier().fit(X, y).predict_proba(X)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        assert np.allclose(Classifier().fit(kind(X), y).predict_proba(kind(X)), dense)


def test_many_sparse_rows_are_projected_and_the_predictor_takes_them_raw(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    random = np.random.RandomState(0)
    truth = np.arange(200) % 2
    counts = random.poisson(0.05 + 2 * (np.arange(40) % 2 == truth[:, None]) * (np.arange(40) < 20), (200, 40))
    X, y = sparse.csr_matrix(counts.astype(float)), np.where(np.arange(200) < 8, truth, -1)
    dense = Classifier(inputs=rp.data.PrincipalComponents(10, whitening=0, scaled="all")).fit(counts.astype(float), y)
    monkeypatch.setattr(_preprocess, "_DENSE", 0)
    clf = Classifier(inputs=rp.data.PrincipalComponents(10, whitening=0, scaled="all")).fit(X, y)
    assert (clf.predict(X) == truth).mean() > 0.95
    assert (clf.predict(X) == dense.predict(counts.astype(float))).mean() > 0.97
    clf.predictor_.save(tmp_path / "model")
    again = rp.load_predictor(tmp_path / "model")
    assert again.shape == (40,)
    assert np.allclose(again.predict_proba(X), clf.predict_proba(X), atol=1e-6)
    assert np.allclose(again.predict_proba(counts.astype(np.float32)), clf.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("method", [rp.FixMatch(), rp.Supervised(), rp.ReferencePrior(order=3, threshold=0.8)], ids=str)
def test_any_method(method: Any) -> None:
    X, y, truth = groups()
    clf = Classifier(method).fit(X, y)
    assert clf.run_.recipe.method == method
    assert (clf.predict(X) == truth).mean() > 0.85


def test_any_network_and_views() -> None:
    X, y, truth = groups()
    views = rp.views.Unchanged(), rp.views.SwapNoise(0.2)
    for network in (rp.networks.MLP, lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))):
        clf = Classifier(network=network, views=views, learning_rate=0.01).fit(X, y)
        assert (clf.predict(X) == truth).mean() > 0.9
        assert (clf.run_.recipe.weak, clf.run_.recipe.strong) == views


def test_images_go_in_as_they_are() -> None:
    digits = load_digits()
    X = np.round(digits.images * 255 / 16).astype(np.uint8)[:400, None]
    y = np.where(np.arange(400) < 60, digits.target[:400], -1)
    clf = Classifier(steps=150).fit(X, y)
    assert clf.run_.data.dtype == "uint8"
    assert clf.score(X, digits.target[:400]) > 0.6
    with pytest.raises(ValueError, match=r"use X\[:, None\]"):
        Classifier().fit(digits.images[:400], y)


def test_token_ids_go_in_as_they_are() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(20, 8), nn.Linear(8, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.words(ids).mean(1))  # type: ignore[no-any-return]

    random = np.random.RandomState(0)
    truth = np.arange(200) % 2
    ids = random.randint(0, 10, (200, 12)) + 10 * truth[:, None]
    clf = Classifier(
        network=Bag,
        inputs=rp.data.Identity(),
        views=(rp.views.DropTokens(0.05), rp.views.DropTokens(0.2)),
        learning_rate=0.02,
    ).fit(ids, np.where(np.arange(200) < 10, truth, -1))
    assert (clf.predict(ids) == truth).mean() > 0.9
    with pytest.raises(ValueError, match="given inputs are 10 … 29, and the network does not take them all"):
        clf.predict(ids + 10)


def test_the_seed_decides_and_nothing_else_is_touched() -> None:
    X, y, _ = groups()
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002 - the global generator is what must stay as it is
    before: Any = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    one, same, other = (Classifier(random_state=seed).fit(X, y).predict_proba(X) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert torch.equal(torch.get_rng_state(), before[0])
    after: Any = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(after[1], before[1][1])


def test_a_pickle_predicts_the_same_and_holds_no_data() -> None:
    X, y, _ = groups(rows=20_000)
    clf = Classifier(steps=5, inputs="components").fit(X, y)
    kept = pickle.dumps(clf)
    assert len(kept) < X.nbytes / 4
    again = pickle.loads(kept)
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    with pytest.raises(ValueError, match="are not stored"):
        _ = again.run_.task


def test_labels_that_arrive_later() -> None:
    X, y, truth = groups()
    clf = Classifier(warm_start=True, steps=5).fit(X, y)
    asked = clf.suggest(X, 20)
    y[asked] = truth[asked]
    assert (clf.set_params(steps=60).fit(X, y).predict(X) == truth).mean() > 0.95


def test_in_the_company_of_scikit_learn() -> None:
    X, y, truth = groups()
    search = GridSearchCV(Classifier(), {"particles": [1, 4], "method": [rp.FixMatch(), None]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8  # on rows that have a label; those without are left out
    piped = make_pipeline(StandardScaler(), Classifier(inputs="components")).fit(X * [1, 10, 100, 1000, 1], y)
    assert (piped.predict(X * [1, 10, 100, 1000, 1]) == truth).mean() > 0.95
    frozen = FrozenEstimator(Classifier().fit(X[:200], y[:200]))
    calibrated = CalibratedClassifierCV(frozen).fit(X[200:], truth[200:])
    assert (calibrated.predict(X) == truth).mean() > 0.9
    assert "ReferencePriorClassifier" in Classifier()._repr_html_()


def test_a_correction_for_classes_that_are_rarer_among_the_labels() -> None:
    X, _, truth = groups(600)
    chosen = np.concatenate([np.flatnonzero(truth == c)[:n] for c, n in ((0, 40), (1, 40), (2, 2))])
    y = np.full(600, -1)
    y[chosen] = truth[chosen]
    plain = Classifier(rp.Supervised()).fit(X, y)
    evened = Classifier(rp.Supervised(), class_prior="uniform").fit(X, y)
    rare = truth == 2
    assert evened.predict_proba(X)[rare, 2].mean() > plain.predict_proba(X)[rare, 2].mean()
    ratio = np.log((np.full(3, 1 / 3)) / (np.array([40, 40, 2]) / 82))
    p = plain.predict_proba(X) * np.exp(ratio)
    assert np.allclose(evened.predict_proba(X), p / p.sum(1, keepdims=True), atol=1e-5)
    shares = Classifier(class_prior=[2, 1, 1]).fit(X, y).run_.recipe.method.class_prior
    assert shares == pytest.approx((0.5, 0.25, 0.25))
    assert Classifier(class_prior="labels").fit(X, y).predictor_.log_prior_ratio.abs().max() < 1e-6


def test_units_that_differ_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    X, y, _ = groups()
    Classifier(steps=2).fit(X * [1, 1, 1, 1, 1e6], y)
    assert "put a StandardScaler before" in caplog.text


def test_the_recipe_can_be_trained_by_itself(tmp_path: Any) -> None:
    X, y, _ = groups()
    clf = Classifier()
    run = rp.train(clf.recipe(X, y), tmp_path / "run")
    assert np.array_equal(run.predict_proba(X), clf.fit(X, y).predictor_.predict_proba(X))
    assert COMPONENTS >= run.recipe.inputs.count == 5  # type: ignore[union-attr]


X, Y, TRUTH = groups()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.where(X > 3, np.nan, X), Y, "contains NaN"),
        (np.where(X > 3, np.inf, X), Y, "contains infinity"),
        (X[:0], Y[:0], "0 sample"),
        (X, np.where(Y == 2, 2, -1), "only one class, 2"),
        (X, np.array([None if label else "a" for label in Y]), "only one class, 'a'"),
        (X, np.full(300, -1), "no label in 300 rows"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (np.full((300, 5), "a"), Y, "could not convert string|dtype='numeric'"),
        (np.full((300, 5), np.datetime64("2026")), Y, "must be numeric, got dtype datetime64"),
        (X * 1e300, Y, "too large for float32"),
        (X, X[:, 0], "Unknown label type"),
        (X[:, :, None], Y, r"X\[:, None\]"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_bad_input_is_one_line(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        Classifier().fit(X, y)
    assert "Traceback" not in str(raised.value)


def test_before_and_after_fit() -> None:
    with pytest.raises(NotFittedError):
        Classifier().predict(X)
    clf = Classifier(steps=2).fit(X, Y)
    with pytest.raises(ValueError, match="X has 4 features, but ReferencePriorClassifier is expecting 5"):
        clf.predict(X[:, :4])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_prior": "even"}, "class_prior must be"),
        ({"class_prior": [0.5, 0.5]}, "3 shares above 0"),
        ({"class_prior": [1, 0, 1]}, "3 shares above 0"),
        ({"network": nn.Linear(5, 3)}, "function that returns a new network"),
        ({"particles": 0}, "particles must be a whole number of at least 1"),
        ({"steps": -1}, "steps must be a whole number"),
        ({"learning_rate": "a"}, "learning_rate must be above 0, got 'a'"),
    ],
    ids=str,
)
def test_wrong_settings_are_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Classifier(**settings).fit(X, Y)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_data_frame_of_mixed_columns(kind: str, tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    truth = np.array(["cat", "dog", "owl"])[np.arange(150) % 3]
    frame = pd.DataFrame(
        {
            "id": np.arange(150),
            "city": [None if random.rand() < 0.1 else {"cat": "Rome", "dog": "Oslo", "owl": "Lima"}[t] for t in truth],
            "weight": np.where(random.rand(150) < 0.2, np.nan, 1000 * random.randn(150)),
        }
    )
    X = frame if kind == "pandas" else pl.from_pandas(frame)
    y = np.array([label if row < 15 else None for row, label in enumerate(truth.tolist())], object)
    model = rp.ReferencePriorClassifier(steps=60, random_state=0).fit(X, y)
    assert (model.predict(X) == truth).mean() > 0.85
    assert model.feature_names_in_.tolist() == ["id", "city", "weight"]
    assert dict(model.preparation_.left_out) == {"id": "a different number in each row"}
    model.predictor_.save(tmp_path / "model")
    again = rp.load_predictor(tmp_path / "model")
    assert np.allclose(again.predict_proba(X[["weight", "city"]]), model.predict_proba(X), atol=1e-5)
    with pytest.raises(ValueError, match="X must be a data frame with the columns of the training"):
        model.predict(np.zeros((2, 3)))
