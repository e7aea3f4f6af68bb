"""Runs on a CUDA device: saved, resumed, interrupted, stopped by numbers that are not finite, and used afterwards."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from refprior.labeling import predictor, suggest
from refprior.methods import Loss, Needs, ReferencePrior, Step
from refprior.training import NotFiniteError, Recipe, Stopped, export, load, load_predictor, train
from refprior.training.loop import _loop
from refprior.views import CTAugment
from tests.device.pretend import CUDA, pretend_cuda
from tests.training.interruption import assert_same_run, final_weights, metrics
from tests.training.recipes import ambiguous, convolutional, perceptron, second_stage, transferring


@pytest.fixture
def device() -> Iterator[str]:
    with pretend_cuda():
        yield "cuda"


def norm() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))


@dataclass(frozen=True)
class Breaks:
    """A loss that is not finite in some steps, and one that sends a signal in the middle of one."""

    at: tuple[int, ...] = ()
    signal_in: int | None = None
    sent: ClassVar[list[int]] = []
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __call__(self, step: Step) -> Loss:
        if step.number + 1 == self.signal_in and not self.sent:
            self.sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        step.memory["mean"] = 0.5 * step.memory.get("mean", step.log_prior.new_zeros(())) + 1
        loss = ReferencePrior()(step)
        factor = float("inf") if step.number + 1 in self.at else 1.0
        draw = torch.rand((), generator=step.generator, device=step.log_prior.device)
        return Loss(loss.total * (factor + 0.01 * draw), loss.terms)


def breaking(**changes: object) -> Recipe:
    """A run of 13 steps with records at 10 and 13, batch norm, a method with memory and a view that learns."""
    recipe = convolutional(
        network=norm, method=Breaks(), steps=13, strong=CTAugment(cutout=2, depth=1), evaluate_every=15, particles=2
    )
    return replace(recipe, **changes)  # type: ignore[arg-type]


def on_both(recipe: Recipe, tmp_path: Path) -> tuple[Path, Path]:
    train(recipe, tmp_path / "cpu")
    with pretend_cuda():
        train(recipe, tmp_path / "cuda", device="cuda")
    return tmp_path / "cpu", tmp_path / "cuda"


def assert_same_weights(one: Path, other: Path) -> None:
    """Of the CPU and of the device: all tensors but the device's own generator."""
    first, second = final_weights(one), final_weights(other)
    assert first.keys() == {name for name in second if name != "global.cuda"}
    assert [name for name, tensor in first.items() if not torch.equal(tensor, second[name])] == []
    assert metrics(one) == metrics(other)


@pytest.mark.thorough
def test_a_run_folder_is_that_of_the_cpu(tmp_path: Path) -> None:
    """Weights, records and the snapshots between records, in one stage and in two."""
    for recipe in (breaking(method=ReferencePrior(), snapshots=3), second_stage(snapshots=2)):
        cpu, cuda = on_both(recipe, tmp_path / str(recipe.steps))
        names = {path.relative_to(cpu) for path in cpu.rglob("*") if path.is_file()}
        assert names == {path.relative_to(cuda) for path in cuda.rglob("*") if path.is_file()}
        for path in (cpu / "film").rglob("*.safetensors"):
            assert path.read_bytes() == (cuda / path.relative_to(cpu)).read_bytes()
        assert_same_weights(cpu, cuda)


def test_steps_that_are_not_finite_are_skipped_as_on_the_cpu(tmp_path: Path) -> None:
    """They are found at the end of a block, which is then made again step by step."""
    cpu, cuda = on_both(breaking(method=Breaks((4, 5, 12)), skip_not_finite=3), tmp_path)
    assert [record["skipped"] for record in metrics(cuda)] == [2, 3]
    assert_same_weights(cpu, cuda)


def test_a_step_that_is_not_finite_stops_with_the_cpus_words_and_nothing_after_it_is_saved(tmp_path: Path) -> None:
    recipe = breaking(method=Breaks((12,)))
    messages = []
    for name in ("cpu", "cuda"):
        with pretend_cuda(), pytest.raises(NotFiniteError, match="step 12: the gradient is not finite") as error:
            train(recipe, tmp_path / name, device=name, save_every=0.0)
        messages.append(str(error.value).replace(f"/{name}/", "/"))
    assert messages[0] == messages[1]
    assert {path.name for path in (tmp_path / "cuda" / "checkpoints").glob("*.json")} == {
        "step-00000000.json",
        "step-00000010.json",
    }
    assert [record["step"] for record in metrics(tmp_path / "cuda")] == [10]


def test_weights_that_become_infinite_are_found_in_their_step() -> None:
    recipe = breaking(method=ReferencePrior())
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, learning_rate=3e38))
    with pretend_cuda(), pytest.raises(NotFiniteError, match=r"step 1: the weights after it are not finite"):
        train(recipe, device="cuda")


@pytest.mark.thorough
def test_a_signal_within_a_block_returns_to_its_first_step_and_the_run_resumes_exactly(tmp_path: Path) -> None:
    recipe = breaking(method=Breaks(signal_in=12))
    Breaks.sent[:] = [1]
    with pretend_cuda():
        train(recipe, tmp_path / "whole", device="cuda")
        Breaks.sent.clear()
        with pytest.raises(Stopped, match=r"stopped at step 10 of 13 and saved"):
            train(recipe, tmp_path / "stopped", device="cuda")
        train(recipe, tmp_path / "stopped", device="cuda")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_resumed_run_waits_for_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The normalizer of a checkpoint is read to the CPU and must move to the device."""
    recipe, block = breaking(method=ReferencePrior()), _loop._block
    found: list[str] = []
    with pretend_cuda() as counts:
        with pytest.raises(KeyboardInterrupt):
            train(recipe, tmp_path / "run", device="cuda", watch=_interrupt, save_every=0.0)

        def counted(*arguments: object) -> object:
            counts.clear()
            done = block(*arguments)  # type: ignore[arg-type]
            found.append(str(counts))
            return done

        monkeypatch.setattr(_loop, "_block", counted)
        train(recipe, tmp_path / "run", device="cuda")
    assert len(found) > 1
    assert all(text.count("\n") == 0 and "bool(torch.stack(finite).all())" in text for text in found[1:]), found


def _interrupt(record: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.thorough
def test_a_run_is_evaluated_predicted_exported_and_asked_on_the_device(device: str, tmp_path: Path) -> None:
    recipe = perceptron(particles=4, folds="auto", steps=12)
    train(recipe, tmp_path / "run", device=device)
    run, host = load(tmp_path / "run", device=device), load(tmp_path / "run")
    assert run.ema.prior_logits.device == CUDA
    inputs = host.task.test.inputs[:20]  # type: ignore[union-attr]
    for one, other in (
        (run.predict_proba(inputs), host.predict_proba(inputs)),
        (run.uncertainty(inputs).within, host.uncertainty(inputs).within),
        (run.out_of_fold().log_probabilities, host.out_of_fold().log_probabilities),
        (run.label_quality().right, host.label_quality().right),
        (run.posterior(), host.posterior()),
    ):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert run.evaluate() == host.evaluate()
    model = run.predictor()
    model.save(tmp_path / "model")
    again = load_predictor(tmp_path / "model", device=device)
    np.testing.assert_array_equal(again.predict(inputs), host.predict(inputs))
    export(model, tmp_path / "model.pt2", kind="torch")
    questions = suggest(run, 4, about="inputs")
    assert questions.asked == suggest(host, 4, about="inputs").asked
    assert predictor(run, questions.answer([0, 1, 2, 3])).predict(inputs).shape == (20,)


def test_rules_and_new_labels_on_the_device(device: str) -> None:
    run = train(ambiguous(steps=30), device=device)
    x = np.random.default_rng(0).normal(size=(6, 2))
    assert run.rules().ambiguous in (True, False)
    assert run.given(x, ["no", "yes"] * 3).predict_proba(x).shape == (6, 2)


def test_a_consensus_on_the_device(device: str) -> None:
    recipe = transferring(steps=6, particles=4, readout="consensus")
    found = train(recipe, device=device).result.evaluation
    assert found is not None
    assert found.consensus is not None
    assert found == train(recipe).result.evaluation


@pytest.mark.parametrize(("inputs", "steps"), [("columns", 5), pytest.param(None, 20, marks=pytest.mark.thorough)])
def test_a_classifier_on_the_device(device: str, inputs: str | None, steps: int) -> None:
    from refprior.estimators import ReferencePriorClassifier

    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = np.where(np.arange(60) < 20, (x[:, 0] > 0).astype(int), -1)
    settings: dict[str, Any] = {"inputs": inputs, "steps": steps, "particles": 2, "random_state": 0}
    fitted = ReferencePriorClassifier(device=device, **settings).fit(x, y)
    plain = ReferencePriorClassifier(**settings).fit(x, y)
    np.testing.assert_array_equal(fitted.predict_proba(x), plain.predict_proba(x))
