"""Training in memory or in a folder: the same bits, by seed; complete runs are left alone."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from refprior.data import PrincipalComponents, task_from_arrays
from refprior.methods import FixMatch, InformationOnly, Method, ReferencePrior, Supervised, Transfer
from refprior.networks import MLP
from refprior.recipes import digits_ssl, override
from refprior.training import Recipe, Record, Run, train
from refprior.training.store._checkpoint import checkpoint_steps
from refprior.views import Noise
from tests.training.interruption import assert_same_run, interrupted_at, metrics, stop
from tests.training.recipes import (
    DIGITS,
    Dropped,
    ambiguous,
    convolutional,
    perceptron,
    second_stage,
    transferring,
    two_cues,
)


def assert_same_weights(one: Run, other: Run) -> None:
    for name in ("ema", "particles"):
        expected = getattr(other, name).state_dict()
        for key, tensor in getattr(one, name).state_dict().items():
            assert tensor.equal(expected[key])


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    first, again, other = (train(perceptron(seed=s)) for s in (0, 0, 1))
    assert_same_weights(first, again)
    assert not first.ema.network.get_parameter("1.weight").equal(other.ema.network.get_parameter("1.weight"))


@pytest.mark.parametrize(
    "recipe",
    [convolutional(), perceptron(network=Dropped), second_stage(), transferring()],
    ids=["networks", "global randomness", "stages", "transfer"],
)
def test_a_run_without_a_folder_has_the_same_weights(recipe: Recipe, tmp_path: Path) -> None:
    alone, written = train(recipe), train(recipe, tmp_path / "run")
    assert_same_weights(alone, written)
    assert [replace(r, seconds=0) for r in alone.history] == [replace(r, seconds=0) for r in written.history]
    assert alone.path is None
    assert written.path == tmp_path / "run"


def test_a_run_neither_reads_nor_changes_the_global_generator() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = train(perceptron(network=Dropped))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert_same_weights(first, train(perceptron(network=Dropped)))


def test_a_watcher_sees_every_record_as_it_is_made(tmp_path: Path) -> None:
    for out in (None, tmp_path / "run"):
        seen: list[Record] = []
        run = train(perceptron(), out, watch=seen.append)
        assert tuple(seen) == run.history


def test_a_complete_run_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = train(convolutional(), tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file() and p.name != ".lock"}
    again = train(convolutional(), tmp_path / "run")
    assert "is complete: all 9 steps are done" in caplog.text
    assert again.result == first.result
    assert again.history == first.history
    assert_same_weights(first, again)
    assert {p: p.read_bytes() for p in before} == before


def test_fresh_moves_the_old_run_aside(tmp_path: Path) -> None:
    train(convolutional(), tmp_path / "run")
    kept = metrics(tmp_path / "run")
    changed = convolutional(steps=5)
    train(changed, tmp_path / "run", fresh=True)
    train(changed, tmp_path / "run", fresh=True)
    assert metrics(tmp_path / "run.old-1") == kept
    assert len(metrics(tmp_path / "run.old-2")) == len(metrics(tmp_path / "run")) == 5


def test_how_often_to_save_must_be_a_number(tmp_path: Path) -> None:
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="save_every must be at least 0, got"):
            train(perceptron(), tmp_path / "run", save_every=wrong)
    assert not (tmp_path / "run").exists()


def test_checkpoints_come_as_often_as_they_are_asked_for(tmp_path: Path) -> None:
    train(perceptron(), tmp_path / "often", save_every=0)
    assert checkpoint_steps(tmp_path / "often") == [12, 11]
    train(perceptron(), tmp_path / "seldom", save_every=1000)
    assert checkpoint_steps(tmp_path / "seldom") == [12, 0]


def test_numbers_of_numpy_are_written_as_any_others(tmp_path: Path) -> None:
    task = replace(DIGITS, labels=np.int64(20))  # type: ignore[arg-type]
    recipe = perceptron(steps=np.int64(2), seed=np.int32(1), task=task)
    run = train(recipe, tmp_path / "run")
    assert run.result.step == 2
    train(perceptron(steps=2, seed=1, task=replace(DIGITS, labels=20)), tmp_path / "run")


@pytest.mark.parametrize(
    ("method", "labels", "warned"),
    [
        (ReferencePrior(), 33, True),
        (ReferencePrior(), 30, False),
        (ReferencePrior(class_prior=(10, 1)), 33, False),
        (Transfer(ReferencePrior(), beta=1), 33, True),
        (FixMatch(), 33, False),
    ],
    ids=str,
)
def test_labels_far_from_balanced_are_reported(
    method: Method, labels: int, warned: bool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Only to a method that takes shares of classes and was told none; in memory and in a folder."""
    inputs = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    task = task_from_arrays((inputs[: labels + 3], np.array([0] * labels + [1] * 3)), inputs)
    recipe = Recipe(task=task, network=partial(nn.Linear, 4, 2), method=method, steps=1, unlabeled_batch=8)
    for folder in (None, tmp_path / "run"):
        caplog.clear()
        train(recipe, folder)
        said = [record.getMessage() for record in caplog.records]
        expected = "33 labels of class '0' but 3 of '1', and the method takes all classes to be equally frequent"
        assert any(expected in line and line.endswith("class_prior") for line in said) is warned, said


def test_labels_that_admit_several_rules_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = ambiguous(evaluate_every=20)
    interrupted_at(recipe, tmp_path / "run", [20, 60])
    assert [message for message in caplog.messages if "rules" in message] == [
        "4 rules fit the 40 labels and disagree on 24 % of the pool: the labels may not determine the task; "
        f"see run.rules(), or ask: refprior suggest {tmp_path / 'run'} --about rule"
    ]
    caplog.clear()
    train(recipe, tmp_path / "run")
    assert "is complete" in caplog.text
    assert "rules" not in caplog.text


class Draw(nn.Module):
    """Draws a number in each forward pass, also in evaluation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        np.random.rand()  # noqa: NPY002
        return x


class Drawing(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(Draw(), nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))


def test_searching_rules_leaves_global_generators_alone(caplog: pytest.LogCaptureFixture) -> None:
    np.random.seed(3)  # noqa: NPY002
    train(ambiguous(network=Drawing))
    assert "rules fit the 40 labels" in caplog.text
    after = np.random.rand()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    assert after == np.random.rand()  # noqa: NPY002


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(override(digits_ssl(), {"steps": 300}), marks=pytest.mark.thorough),
        override(digits_ssl(), {"steps": 5}),
        override(digits_ssl(), {"steps": 300, "method": "Supervised"}),
        ambiguous(steps=5),
        ambiguous(particles=1),
        ambiguous(readout="consensus", method=InformationOnly()),
        ambiguous(task=replace(two_cues(), unlabeled=two_cues().unlabeled[:0]), method=Supervised()),
        ambiguous(task=replace(two_cues(), labeled=two_cues().labeled[torch.arange(0)]), method=InformationOnly()),
    ],
    ids=["digits", "digits, 5 steps", "ensemble", "5 steps", "one particle", "consensus", "no pool", "no labels"],
)
def test_other_runs_report_no_rules(recipe: Recipe, caplog: pytest.LogCaptureFixture) -> None:
    train(recipe)
    assert caplog.messages == []


def test_a_resumed_run_does_not_fit_its_inputs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = perceptron(
        inputs=PrincipalComponents(8), network=partial(MLP, (8,), 10), weak=Noise(), strong=Noise(), steps=12
    )
    train(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", save_every=0.0, watch=stop)
    fitted: list[int] = []
    fit = PrincipalComponents.fit

    def counted(self: PrincipalComponents, parts: Any) -> Any:
        fitted.append(1)
        return fit(self, parts)

    monkeypatch.setattr(PrincipalComponents, "fit", counted)
    train(recipe, tmp_path / "run")
    assert fitted == []
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    with pytest.raises(ValueError, match="was made by another recipe"):
        train(replace(recipe, inputs=PrincipalComponents(8, scale=2.0)), tmp_path / "run")
    assert fitted == [1]
