"""The choice of inputs, the report of a fit, and prediction sets."""

import logging
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

import refprior as rp
from refprior.data import Joined
from refprior.estimators import _choice, _report
from refprior.posterior import OutOfFold, conformal_sets, score_out_of_fold

X, TRUTH = load_digits(return_X_y=True)
GENERATOR = np.random.RandomState(0)
POOL = GENERATOR.permutation(len(X))[:600]
FEW = np.full(len(X), -1)
for digit in range(10):
    FEW[POOL[TRUTH[POOL] == digit][:6]] = digit
REST = np.setdiff1d(np.arange(len(X)), POOL)


def classifier(**settings: Any) -> rp.ReferencePriorClassifier:
    return rp.ReferencePriorClassifier(**{"particles": 8, "steps": 80, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted() -> rp.ReferencePriorClassifier:
    return classifier().fit(X[POOL], FEW[POOL])


def test_the_least_loss_is_chosen_and_every_candidate_can_be_fixed(fitted: rp.ReferencePriorClassifier) -> None:
    losses = fitted.report_.losses
    assert set(losses) == set(_choice.candidates(600, (64,)))
    assert losses[fitted.inputs_] == min(losses.values())
    same = classifier(inputs=fitted.inputs_).fit(X[POOL], FEW[POOL])
    assert same.inputs_ == fitted.inputs_
    assert np.array_equal(same.predict_proba(X[REST]), fitted.predict_proba(X[REST]))
    assert same.report_.losses == {fitted.inputs_: losses[fitted.inputs_]}
    with pytest.raises(ValueError, match="inputs"):
        classifier(inputs="magic").fit(X[POOL], FEW[POOL])


def test_particles_of_a_trial_have_not_learned_the_labels_that_they_left_out() -> None:
    y = np.where(GENERATOR.rand(600) < 0.5, TRUTH[POOL], -1)
    wrong = y.copy()
    known = np.flatnonzero(y >= 0)
    wrong[known[0]] = (y[known[0]] + 1) % 10
    found = [classifier(inputs="labels", steps=20).fit(X[POOL], labels).out_of_fold_ for labels in (y, wrong)]
    assert found[0].labels[0] != found[1].labels[0]
    # The folds of later labels move with a class's count, but the first label is left out by the same particles.
    assert np.abs(found[0].log_probabilities[0] - found[1].log_probabilities[0]).max() < 0.5


@pytest.mark.parametrize("folds", ["off", "auto"])
def test_a_label_does_not_reach_the_particles_that_left_it_out(folds: Any) -> None:
    y, row = FEW[POOL].copy(), int(np.flatnonzero(FEW[POOL] >= 0)[0])
    fitted = classifier(inputs="leaves", folds=folds)
    p = []
    for label in (y[row], (y[row] + 1) % 10):
        y[row] = label
        p.append(np.exp(fitted.fit(X[POOL], y)._cross[1].out_of_fold.log_probabilities[0]))
    assert np.abs(p[1] - p[0]).max() < 0.2
    assert p[1].argmax() != y[row]


def test_a_choice_needs_labels_to_leave_out_and_default_parts(caplog: pytest.LogCaptureFixture) -> None:
    single = np.full(600, -1)
    single[[int(np.flatnonzero(TRUTH[POOL] == digit)[0]) for digit in range(10)]] = np.arange(10)
    for settings, labels in (({}, single), ({"warm_start": True}, FEW[POOL]), ({"particles": 1}, FEW[POOL])):
        found = classifier(steps=2, **settings).fit(X[POOL], labels)
        assert (found.inputs_, found.report_.losses, found.report_.scores) == ("components", {}, None)
        with pytest.raises(ValueError, match="predict_set needs out-of-fold scores"):
            found.predict_set(X[:3])
    two = np.where(TRUTH[POOL] < 3, FEW[POOL], -1)
    for digit in range(3):
        two[np.flatnonzero(two == digit)[2:]] = -1
    assert list(classifier(steps=2).fit(X[POOL], two).report_.losses) == ["components"]  # six labels, eight folds
    network = classifier(steps=2, network=rp.networks.MLP).fit(X[POOL], FEW[POOL])
    assert list(network.report_.losses) == ["components"]


def test_a_warm_start_keeps_the_inputs_of_before() -> None:
    found = classifier(steps=8).fit(X[POOL], FEW[POOL])
    before = found.inputs_
    assert found.set_params(warm_start=True).fit(X[POOL], FEW[POOL]).inputs_ == before


def test_several_feature_spaces(tmp_path: Path) -> None:
    spaces = [X[POOL][:, :30], X[POOL][:, 30:]]
    found = classifier(inputs="leaves", steps=20).fit(spaces, FEW[POOL])
    together = found.predict_proba(X[REST])
    assert np.array_equal(found.predict_proba([X[REST][:, :30], X[REST][:, 30:]]), together)
    found.predictor_.save(tmp_path / "model")
    assert np.allclose(rp.load_predictor(tmp_path / "model").predict_proba(X[REST]), together, atol=1e-4)
    inputs = found.run_.recipe.inputs
    assert isinstance(inputs, Joined)
    assert [part.widths for part in inputs.parts] == [(30, 34), (30, 34)]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit([X[:5], X[:6]], FEW[:5])


def test_the_loss_is_at_the_best_temperature() -> None:
    log_p = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).double().log_softmax(-1)
    y = torch.multinomial(log_p.exp(), 1, generator=torch.Generator().manual_seed(1))[:, 0]

    def loss(values: torch.Tensor) -> float:
        return _choice.tempered_loss(OutOfFold(values.numpy(), y.numpy(), score_out_of_fold(values, y)))

    assert loss((5 * log_p).log_softmax(-1)) == pytest.approx(loss(log_p), abs=0.01)
    assert loss(log_p) <= float(-log_p[torch.arange(50), y].mean()) + 1e-9


def test_the_report_compares_with_baselines(fitted: rp.ReferencePriorClassifier) -> None:
    report = fitted.report_
    assert report.scores == fitted.out_of_fold_.scores
    assert set(report.baselines) == {"logistic regression", "random forest"}
    assert all(0.5 < found.accuracy < 1 and found.labels == 60 for found in report.baselines.values())
    assert f"Inputs: {fitted.inputs_}, nats" in str(report)
    assert "Predicted shares of the classes" in str(report)
    assert report.predicted_shares.sum() == pytest.approx(1)
    assert pickle.loads(pickle.dumps(fitted)).report_.losses == report.losses


def test_lost_classes_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    log_p = torch.tensor([[0.9, 0.1]]).log().expand(40, 2)
    scores = score_out_of_fold(log_p, torch.zeros(40).long())
    shares = np.array([0.5, 0.5]), np.array([0.98, 0.02])
    report = _report.FitReport("components", {}, scores, {"random forest": scores}, ("cat", "dog"), *shares)
    with caplog.at_level(logging.WARNING, "refprior"):
        report.warn()
    assert report.lost_classes == ("dog",)
    assert "class 'dog' has 50 % of the labels, and is predicted for 2.0 % of the pool" in caplog.text
    assert "Not scored: the labels were not divided into folds" in str(replace(report, scores=None))


def test_conformal_sets_by_brute_force() -> None:
    generator = torch.Generator().manual_seed(0)
    log_p = torch.randn(6, 30, 4, generator=generator).double().log_softmax(-1)
    held_out = torch.arange(6).unsqueeze(1) % 3 == torch.arange(25) % 3
    label = torch.rand(25, generator=generator).double().log()
    found = conformal_sets(log_p, label, held_out, torch.zeros(6).double(), 0.8)
    for x in range(30):
        for y in range(4):
            smaller = 0
            for i in range(25):
                p = torch.stack([log_p[k, x, y].exp() for k in range(6) if held_out[k, i]]).mean()
                smaller += int(1 - label[i].exp() < 1 - p)
            assert bool(found[x, y]) == (smaller < 0.8 * 26)


def test_conformal_sets_are_those_of_mapie() -> None:
    mapie = pytest.importorskip("mapie.classification")
    known, new, folds = POOL[:99], REST[:200], KFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(max_iter=1000)
    peer = mapie.CrossConformalClassifier(model, confidence_level=0.9, conformity_score="lac", cv=folds)
    peer.fit_conformalize(X[known] / 16, TRUTH[known])
    expected = peer.predict_set(X[new] / 16, agg_scores="crossval")[1][:, :, 0]

    held_out, log_p, label = np.zeros((5, 99), bool), np.zeros((5, 200, 10)), np.zeros(99)
    for fold, (learned, out) in enumerate(folds.split(known)):  # a particle is a model without one fold
        fitted = clone(model).fit(X[known[learned]] / 16, TRUTH[known[learned]])
        held_out[fold, out], log_p[fold] = True, fitted.predict_log_proba(X[new] / 16)
        label[out] = fitted.predict_log_proba(X[known[out]] / 16)[np.arange(len(out)), TRUTH[known[out]]]
    tensors = torch.from_numpy(log_p), torch.from_numpy(label), torch.from_numpy(held_out)
    found = conformal_sets(*tensors, torch.zeros(5).double(), 0.9).numpy()
    assert (found == expected).all()
    assert 1 < found.sum(1).mean() < 5


def test_prediction_sets_cover_and_grow_with_coverage(fitted: rp.ReferencePriorClassifier) -> None:
    sets = {coverage: fitted.predict_set(X[REST], coverage) for coverage in (0.6, 0.8, 0.9)}
    right = {coverage: found[np.arange(len(REST)), TRUTH[REST]].mean() for coverage, found in sets.items()}
    assert all(right[coverage] > coverage - 0.1 for coverage in sets)
    assert (sets[0.6] <= sets[0.8]).all()
    assert (sets[0.8] <= sets[0.9]).all()
    assert sets[0.9].sum(1).mean() < 4
    assert fitted.predict_set(X[:2], 0.99).all()  # 60 labels cannot say more
    with pytest.raises(ValueError, match="coverage"):
        fitted.predict_set(X[:2], 1.0)
