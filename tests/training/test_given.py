"""New labels weight particles: Bayes' law, in any order and over files, and labels that cannot be used."""

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from safetensors.torch import load_file, save_file

import refprior as rp
from refprior.posterior import Evidence
from refprior.training import Predictor, Run, export, load_predictor, train
from refprior.training.store import digest
from tests import records
from tests.ambiguous import LABELED, POOL, TEST, names, recipe

APART = (POOL.cues[:, 0] != POOL.cues[:, 1]).nonzero()[:, 0]  # where the cues disagree


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(recipe(), tmp_path_factory.mktemp("runs") / "run")


def accuracy(found: Predictor, cue: int) -> float:
    return float((found.predict(TEST.rows) == np.array(names(TEST.cues[:, cue]))).mean())


@pytest.mark.parametrize("cue", [0, 1])
def test_four_labels_choose_the_rule(run: Run, cue: int) -> None:
    before = run.predictor()
    after = before.given(POOL.rows[APART[:4]], names(POOL.cues[APART[:4], cue]))
    assert accuracy(before, 1) < 0.7
    assert accuracy(after, cue) > 0.93
    assert after.evidence is not None
    assert after.evidence.explained
    assert after.temperature == before.temperature


def test_weights_equal_bayes_law_in_plain_floats(run: Run) -> None:
    rows, labels, noise = POOL.rows[APART[:3]], POOL.cues[APART[:3], 1], 0.1
    p = run.log_probabilities(rows).exp().tolist()
    prior = [1 / len(p)] * len(p)
    joint = [
        prior[k] * math.prod((1 - noise) * p[k][i][y] + noise / 2 for i, y in enumerate(labels.tolist()))
        for k in range(len(p))
    ]
    mean = [[sum(prior[k] * p[k][i][y] for k in range(len(p))) for y in (0, 1)] for i in range(3)]
    average = math.prod((1 - noise) * mean[i][y] + noise / 2 for i, y in enumerate(labels.tolist()))
    selection = sum(joint) / (sum(joint) + average)
    expected = [selection * part / sum(joint) + (1 - selection) * own for part, own in zip(joint, prior, strict=True)]
    found = run.given(rows, names(labels), noise=noise)
    assert found.log_posterior.exp().tolist() == pytest.approx(expected, rel=1e-5)


def test_two_particles_of_known_confidence_have_the_odds_of_their_likelihoods(run: Run) -> None:
    found = run.given(POOL.rows[APART[:5]], names(POOL.cues[APART[:5], 0]), noise=0.2).evidence
    assert found is not None
    assert found.log_likelihood is not None
    log_p = run.log_probabilities(POOL.rows[APART[:5]]).double()
    own = log_p.gather(2, POOL.cues[APART[:5], :1].expand(8, 5, 1))[..., 0].exp()
    odds = (0.8 * own[0] + 0.1).prod() / (0.8 * own[1] + 0.1).prod()
    assert (found.log_selected[0] - found.log_selected[1]).exp().item() == pytest.approx(odds.item(), rel=1e-4)


def test_labels_in_any_order_and_number_of_calls_are_the_same(run: Run) -> None:
    rows, labels = POOL.rows[:12], names(POOL.cues[:12, 1])
    at_once = run.given(rows, labels)
    one_by_one = run.predictor()
    for i in torch.randperm(12, generator=torch.Generator().manual_seed(0)).tolist():
        one_by_one = one_by_one.given(rows[[i]], [labels[i]])
    assert one_by_one.evidence is not None
    assert at_once.evidence is not None
    torch.testing.assert_close(one_by_one.evidence.log_weights, at_once.evidence.log_weights, rtol=0, atol=1e-6)
    assert one_by_one.evidence.count == at_once.evidence.count == 12
    again = at_once.given(rows[3:5], labels[3:5])  # known labels count once
    twice = run.given(rows.repeat(2, 1), labels * 2)
    for same in (again, twice):
        assert same.evidence is not None
        assert same.evidence.count == 12
        assert torch.equal(same.log_posterior, at_once.log_posterior)


def test_without_labels_nothing_changes(run: Run) -> None:
    found = run.given(POOL.rows[:0], [])
    assert found.evidence is not None
    assert found.evidence.count == 0
    torch.testing.assert_close(found.log_posterior, run.predictor().log_posterior)
    one, two = run.given(POOL.rows[:1], ["yes"]), run.given(POOL.rows[:3], ["yes", None, None])
    assert one.evidence is not None
    assert two.evidence is not None
    assert two.evidence.count == 1
    torch.testing.assert_close(one.log_posterior, two.log_posterior)


@pytest.mark.parametrize("source", ["predictor", "run"])
def test_what_was_given_is_saved_with_the_model(run: Run, source: str, tmp_path: Path) -> None:
    assert run.path is not None
    start = run if source == "predictor" else rp.load(run.path)  # a loaded run knows its labeled inputs too
    found = start.given(POOL.rows[APART[:2]], names(POOL.cues[APART[:2], 1]))
    found.save(tmp_path / "model")
    again = load_predictor(tmp_path / "model")
    assert torch.equal(again.log_posterior, found.log_posterior)
    assert repr(again.evidence) == repr(found.evidence)
    rest, labels = POOL.rows[APART[:5]], names(POOL.cues[APART[:5], 1])  # two of them were given before
    assert torch.equal(again.given(rest, labels).log_posterior, found.given(rest, labels).log_posterior)
    with pytest.raises(ValueError, match=r"two labels, '(no|yes)' and '(no|yes)'"):
        again.given(POOL.rows[APART[:1]], names(1 - POOL.cues[APART[:1], 1]))
    with pytest.raises(ValueError, match="1 of 2 inputs were labeled in training, the first is number 1: labels that"):
        again.given(torch.cat([POOL.rows[:1], LABELED.rows[7:8]]), ["no", "no"])
    assert "1 new label" not in again._repr_html_()
    assert "2 new labels: one particle is right with probability 0." in again._repr_html_()
    assert "<Evidence: 2 new labels" in repr(again)


def test_a_resumed_run_knows_its_labeled_inputs(run: Run, tmp_path: Path) -> None:
    short = recipe(steps=4, evaluate_every=4)
    train(short, tmp_path / "run")
    resumed = train(short, tmp_path / "run")
    assert run.labeled is not None
    for found in (resumed, rp.load(tmp_path / "run")):
        assert found.labeled is not None
        assert torch.equal(found.labeled, run.labeled)


def test_checkpoints_and_models_without_fingerprints_still_load(run: Run, tmp_path: Path) -> None:
    train(recipe(steps=2, evaluate_every=2), tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*.safetensors"):
        kept = {name: t for name, t in load_file(path).items() if not name.startswith("fingerprints.")}
        save_file(kept, path)
        records.change(path.with_suffix(".json"), size=path.stat().st_size, sha256=digest(path))
    old = rp.load(tmp_path / "run", task=recipe().task, network=recipe().network, method=recipe().method)
    assert old.labeled is None
    assert old.given(LABELED.rows[:1], ["no"]).evidence is not None
    assert train(recipe(steps=2, evaluate_every=2), tmp_path / "run").labeled is not None
    found = replace(run.predictor(), labeled=None)
    found.save(tmp_path / "model")
    assert load_predictor(tmp_path / "model").labeled is None


def test_inputs_of_every_kind_are_the_same_inputs(run: Run) -> None:
    rows, labels = POOL.rows[:3], names(POOL.cues[:3, 1])
    found = run.given(rows, labels)
    for same in (rows.numpy(), rows.double().numpy(), rows.tolist(), pandas.DataFrame(rows.numpy())):
        other = found.given(same, np.array(labels))
        assert other.evidence is not None
        assert other.evidence.count == 3


def test_integer_labels_are_given_as_integers() -> None:
    task = rp.data.task_from_arrays((LABELED.rows.numpy(), LABELED.cues[:, 0].numpy()), POOL.rows.numpy())
    found = train(recipe(task=task, steps=2, evaluate_every=2)).predictor()
    for labels in (found.predict(TEST.rows[:4]), torch.tensor([0, 1, 0, 1]), [0, 1, 1, 0], pandas.Series([0, 1, 1, 0])):
        assert found.given(TEST.rows[:4], labels).evidence is not None
    with pytest.raises(ValueError, match="y has labels that are no classes: -1, 5; the classes are 0, 1"):
        found.given(TEST.rows[:3], [5, 0, -1])


@pytest.mark.parametrize(
    ("rows", "labels", "noise", "words"),
    [
        (POOL.rows[:2], ["no", "cow"], 0.05, "y has labels that are no classes: cow; the classes are no, yes"),
        (POOL.rows[:2], ["no"], 0.05, "X has 2 inputs and y 1 labels: give one label per input"),
        (POOL.rows[:2], [["no", "no"]], 0.05, r"y must be one label per input, got the shape \(1, 2\)"),
        (POOL.rows[:1], ["no"], 1.5, r"noise must be at least 0 and at most 1, got 1\.5"),
        (POOL.rows[:1], ["no"], math.nan, "noise must be at least 0 and at most 1, got nan"),
        (POOL.rows[[0, 1, 0]], ["no", "no", "yes"], 0.05, "input 2 is given with two labels, 'no' and 'yes'"),
        (POOL.rows[:1, :5], ["no"], 0.05, "given inputs have 5 features, those of the training 24"),
        (LABELED.rows[:3], ["no"] * 3, 0.05, "3 of 3 inputs were labeled in training, the first is number 0"),
    ],
)
def test_labels_that_cannot_be_used_are_rejected(run: Run, rows: Any, labels: Any, noise: float, words: str) -> None:
    with pytest.raises(ValueError, match=rf"\A[^\n]*{words}[^\n]*\Z"):
        run.given(rows, labels, noise=noise)


def test_labels_that_no_particle_explains_are_said(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    same = (POOL.cues[:, 0] == POOL.cues[:, 1]).nonzero()[:4, 0]
    with caplog.at_level(logging.WARNING, "refprior"):
        found = run.given(POOL.rows[same], names(1 - POOL.cues[same, 0]))
    assert found.evidence is not None
    assert not found.evidence.explained
    (record,) = caplog.records
    assert record.getMessage().startswith("the 4 new labels are less likely if one particle is right (-")
    assert record.getMessage().endswith(
        "than by chance (-2.8 nats): the right rule is probably not among the particles; train with these labels"
    )
    assert "less likely" in found._repr_html_()


def test_graphs_use_the_weights_of_the_labels(run: Run, tmp_path: Path) -> None:
    found = run.given(POOL.rows[APART[:4]], names(POOL.cues[APART[:4], 1]))
    export(found, tmp_path / "model.pt2", "torch")
    graph = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(graph(TEST.rows), found.predict_proba(TEST.rows))


DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "noise": ({"noise": 2.0}, "noise must be at least 0 and at most 1"),
    "count": ({"count": -1}, "count must be a whole number of at least 0"),
    "half": ({"count": 1.5}, "Expected `int`"),
    "chance": ({"log_chance": 3.0}, "log_chance must be at most 0"),
    "particles": ({"evidence.log_prior": torch.zeros(3).log_softmax(0)}, "log_likelihood must be 3 finite numbers"),
    "likelihood": ({"evidence.log_likelihood": torch.full((8,), math.nan)}, "log_likelihood must be 8 finite numbers"),
    "prior": ({"evidence.log_prior": torch.full((8,), math.nan)}, "log_prior must be one number per particle"),
    "weights": ({"evidence.log_prior": torch.zeros(8)}, "the weights of log_prior must add up to 1, got 8"),
    "no prior": ({"evidence.log_prior": None}, "log_prior"),
    "labeled": ({"labeled": torch.zeros(4)}, r"labeled must be \(b,\) int64"),
    "new labels": ({"new_labels": torch.zeros(4, 3).long()}, r"new_labels must be \(m, 2\) int64"),
    "class": ({"new_labels": torch.full((1, 2), 7)}, "new_labels has a class that is not 0 … 1"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_evidence_is_rejected_in_one_line(run: Run, name: str, tmp_path: Path) -> None:
    run.given(POOL.rows[:2], ["no", "yes"]).save(tmp_path / "model")
    changes, words = DAMAGES[name]
    file, record = tmp_path / "model" / "model.safetensors", tmp_path / "model" / "predictor.json"
    tensors = load_file(file) | {key: value for key, value in changes.items() if isinstance(value, torch.Tensor)}
    save_file({key: value for key, value in tensors.items() if changes.get(key, 0) is not None}, file)
    numbers = {key: value for key, value in changes.items() if isinstance(value, float | int)}
    evidence = records.content(record)["evidence"] | numbers
    records.change(record, evidence=evidence, size=file.stat().st_size, sha256=digest(file))
    with pytest.raises(ValueError, match=rf"\A[^\n]*model[^\n]*{words}[^\n]*\Z"):
        load_predictor(tmp_path / "model")


def test_evidence_of_other_particles_is_rejected(run: Run) -> None:
    with pytest.raises(ValueError, match="the evidence is of 3 particles, the predictor has 8"):
        replace(run.predictor(), evidence=Evidence(torch.zeros(3).log_softmax(0)))
