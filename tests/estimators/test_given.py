"""New labels of an estimator: they choose among the rules of the fit, and `suggest` asks for those that do."""

import logging
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone

import refprior as rp
from refprior.estimators import _preprocess
from refprior.networks import MLP
from tests.ambiguous import CLASSES, LABELED, POOL, TEST

X = torch.cat([LABELED.rows, POOL.rows]).numpy()
CUES = torch.cat([LABELED.cues, POOL.cues]).numpy()
NAMES = np.array(CLASSES)
Y = np.where(np.arange(len(X)) < len(LABELED.rows), NAMES[CUES[:, 0]], None)


def estimator(**changes: Any) -> rp.ReferencePriorClassifier:
    settings: dict[str, Any] = {
        "method": rp.ReferencePrior(alpha=1, order=2),
        "network": MLP,
        "views": (rp.views.Noise(0.1), rp.views.Corrupt(0.1, 0.3)),
        "inputs": rp.data.Standardize(),
        "particles": 8,
        "steps": 300,
        "labeled_batch": 64,
        "unlabeled_batch": 132,
        "learning_rate": 2e-3,
        "ema": 0.98,
        "random_state": 1,
    }
    return rp.ReferencePriorClassifier(**settings | changes)


@pytest.fixture(scope="module")
def trained() -> bytes:
    return pickle.dumps(estimator().fit(X, Y))


@pytest.fixture
def fitted(trained: bytes) -> rp.ReferencePriorClassifier:
    found: rp.ReferencePriorClassifier = pickle.loads(trained)
    return found


@pytest.mark.parametrize("cue", [0, 1])
def test_four_suggested_labels_choose_the_rule(fitted: rp.ReferencePriorClassifier, cue: int) -> None:
    truth = NAMES[TEST.cues[:, cue].numpy()]
    asked = fitted.suggest(X, 4)
    assert (asked >= len(LABELED.rows)).all()  # rows without a label
    assert (CUES[asked, 0] != CUES[asked, 1]).all()
    assert fitted.given(X[asked], NAMES[CUES[asked, cue]]) is fitted
    assert (fitted.predict(TEST.rows.numpy()) == truth).mean() > 0.9
    assert fitted.predictor_.evidence is not None
    assert fitted.predictor_.evidence.count == 4
    again: rp.ReferencePriorClassifier = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X[:9]), fitted.predict_proba(X[:9]))


def test_suggestions_end_when_one_rule_remains(
    fitted: rp.ReferencePriorClassifier, caplog: pytest.LogCaptureFixture
) -> None:
    asked = np.empty(0, np.int64)
    for _ in range(8):
        with caplog.at_level(logging.WARNING, "refprior"):
            new = fitted.suggest(X, 1)
        if not len(new):
            break
        assert not set(new) & set(asked)
        asked = np.concatenate([asked, new])
        fitted.given(X[new], NAMES[CUES[new, 1]])
    assert not len(new)
    assert caplog.messages[-1].startswith("one rule remains, with probability ")
    assert caplog.messages[-1].endswith("; about='inputs' suggests rows for the next fit")
    more = fitted.suggest(X, 5, about="inputs")
    assert len(more) == 5
    assert not set(more) & set(asked)


@pytest.mark.parametrize("about", ["rule", "inputs"])
def test_rows_that_were_given_are_not_suggested(fitted: rp.ReferencePriorClassifier, about: Any) -> None:
    rows = X[len(LABELED.rows) :][:6]
    fitted.given(rows[:3], NAMES[CUES[len(LABELED.rows) :][:3, 1]], noise=0.99)  # which decides nothing
    assert sorted(fitted.suggest(rows, 3, about=about)) == [3, 4, 5]


def test_rules_say_whether_the_labels_of_fit_are_ambiguous(fitted: rp.ReferencePriorClassifier) -> None:
    found = fitted.rules(X)
    assert found.labeled == len(LABELED.rows)
    assert found.ambiguous
    assert found.classes == CLASSES
    untrained = estimator(steps=1).fit(X, Y).rules(X)
    assert not untrained.ambiguous
    assert "groups of particles agree on only " in repr(untrained)


@pytest.mark.parametrize("about", ["rule", "inputs"])
def test_equal_rows_are_suggested_once(fitted: rp.ReferencePriorClassifier, about: Any) -> None:
    rows = np.repeat(X[len(LABELED.rows) :][:8], 5, axis=0)
    asked = fitted.suggest(rows, 8, about=about)
    assert sorted(asked // 5) == [*range(8)]
    fitted.given(rows[asked[:2]], ["no", "yes"])
    assert not set(fitted.suggest(rows, 6, about=about) // 5) & set(asked[:2] // 5)


def test_rules_are_compared_in_groups_of_test_rows(fitted: rp.ReferencePriorClassifier) -> None:
    truth, conflict = NAMES[TEST.cues[:, 1].numpy()], (TEST.cues[:, 0] != TEST.cues[:, 1]).numpy()
    y = truth.astype(object)
    y[~conflict & (truth == "yes")] = None
    found = fitted.rules(X, test=(TEST.rows.numpy(), y, conflict))
    assert found.groups == ("False", "True")
    assert found.accuracies is not None
    by_shape = [min(row) > 0.9 for row in found.accuracies.tolist()]
    assert any(by_shape)
    assert not all(by_shape)  # another rule follows the other cue
    assert "worst group %" in repr(found)
    assert found.worst_groups[0] == (found.groups[int(found.accuracies[0].argmin())], found.accuracies[0].min().item())
    with pytest.raises(ValueError, match="no classes: cow"):
        fitted.rules(X, test=(X[:1], ["cow"], [0]))
    with pytest.raises(ValueError, match="test needs a label and a group of each input, got 2 and 1 for 2"):
        fitted.rules(X, test=(X[:2], ["no", "yes"], [0]))


def test_a_row_with_a_negative_zero_is_the_same_row() -> None:
    rows = X.copy()
    rows[:, 0] = 0
    found = estimator(steps=2).fit(rows, Y)
    rows[:, 0] = -0.0
    unlabeled = rows[len(LABELED.rows) :][:4]
    few = np.concatenate([rows[:3], unlabeled])
    assert sorted(found.suggest(few, 4, about="inputs")) == [3, 4, 5, 6]
    assert sorted(found.given(unlabeled[:1] + 0.0, ["no"]).suggest(few, 3, about="inputs")) == [4, 5, 6]


def test_a_new_fit_forgets_what_was_given(fitted: rp.ReferencePriorClassifier) -> None:
    asked = fitted.suggest(X, 2)
    fitted.given(X[asked], NAMES[CUES[asked, 1]])
    short = fitted.set_params(steps=2, warm_start=True).fit(X, Y)
    assert short.predictor_.evidence is None
    assert clone(fitted).get_params().keys() == fitted.get_params().keys()


def test_rows_without_a_label_are_left_out(fitted: rp.ReferencePriorClassifier) -> None:
    rows = X[len(LABELED.rows) :][:3]
    fitted.given(rows, np.array(["no", None, np.nan], object))
    assert fitted.predictor_.evidence is not None
    assert fitted.predictor_.evidence.count == 1
    fitted.given(rows, np.array(["no", "yes", None], object))  # the first is known
    assert fitted.predictor_.evidence.count == 2


def test_labels_that_cannot_be_used_are_rejected(fitted: rp.ReferencePriorClassifier) -> None:
    rows = X[len(LABELED.rows) :]
    with pytest.raises(ValueError, match="1 of 1 inputs were labeled in training"):
        fitted.given(X[:1], ["no"])
    with pytest.raises(ValueError, match="1 of 3 inputs were labeled in training, the first is number 2"):
        fitted.given(np.concatenate([rows[:2], X[:1]]), np.array([None, "no", "yes"], object))
    with pytest.raises(ValueError, match="input 2 is given with two labels, 'no' and 'yes'"):
        fitted.given(rows[[1, 0, 0]], np.array([None, "no", "yes"], object))
    with pytest.raises(ValueError, match="no classes: cow; the classes are no, yes"):
        fitted.given(rows[:1], ["cow"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.given(rows[:2], ["no"])
    with pytest.raises(ValueError, match="about must be 'auto', 'rule' or 'inputs'"):
        fitted.suggest(X, about="rules")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="can ask about the rule with labels of 1 to 1000 different inputs, got 1001"):
        fitted.suggest(X, 1001, about="rule")


@pytest.mark.parametrize("large", [False, True])
def test_sparse_rows_and_integer_labels_are_known_again(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(_preprocess, "_DENSE", 1)  # rows are projected before the run
    rows, labels = sparse.csr_matrix(np.maximum(X, 0)), np.where(np.arange(len(X)) < 400, CUES[:, 0], -1)
    found = rp.ReferencePriorClassifier(steps=3, random_state=0).fit(rows, labels)
    with pytest.raises(ValueError, match="2 of 3 inputs were labeled in training, the first is number 0"):
        found.given(rows[[3, 5, 700]], [0, 0, 1])
    found.given(rows[700:703], np.array([1.0, np.nan, 0.0]))
    assert found.predictor_.evidence is not None
    assert found.predictor_.evidence.count == 2
    assert not {3, 5, 700, 702} & {*found.suggest(rows[:703], 301, about="inputs").tolist()}
    assert found.predictor_.predict(rows[:2]).dtype.kind == "i"


def test_an_ordinary_fit_suggests_what_it_did() -> None:
    labels = np.where(np.arange(len(X)) < 400, CUES[:, 0], -1)
    found = rp.ReferencePriorClassifier(steps=3, random_state=0).fit(X, labels)
    np.testing.assert_array_equal(found.suggest(X, 6), found.suggest(X, 6, about="inputs"))
