"""`precision="auto"`: bf16 only where the machine has it and it is faster, decided once for a run."""

import signal
from pathlib import Path

import pytest
import torch

from refprior.training import Stopped, train
from refprior.training.loop import _precision
from refprior.training.loop._loop import begin, differentiate, draw
from refprior.training.loop._precision import faster_precision, has_bf16
from tests.training.interruption import assert_same_run, signal_at
from tests.training.recipes import CPU, convolutional, perceptron


def pretend(monkeypatch: pytest.MonkeyPatch, single: float, half: float, has: bool = True) -> None:
    """A machine that takes so long with each."""
    monkeypatch.setattr(_precision, "has_bf16", lambda device: has)
    monkeypatch.setattr(_precision, "_seconds", lambda particles, x, fast: half if fast else single)


@pytest.mark.parametrize(
    ("single", "half", "has", "expected"),
    [
        (1.0, 0.6, True, "bfloat16"),
        (1.0, 0.95, True, "float32"),  # not worth its digits
        (1.0, 8.8, True, "float32"),
        (1.0, 0.1, False, "float32"),
    ],
)
def test_the_faster_one_is_taken(
    single: float, half: float, has: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, single, half, has)
    found, asked = (train(perceptron(precision=p)).result.loss for p in ("auto", expected))
    assert found == asked


def test_timing_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of batch norm, gradients and generators stay as they were, and a real clock gives an answer."""
    monkeypatch.setattr(_precision, "has_bf16", lambda device: True)
    recipe = convolutional()
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    before = {name: tensor.clone() for name, tensor in state.particles.state_dict().items()}
    drawn = torch.get_rng_state()
    batch = draw(recipe, task, state)
    assert faster_precision(state.particles.train(), batch.labeled) in ("float32", "bfloat16")
    torch.testing.assert_close(state.particles.state_dict(), before, rtol=0, atol=0)
    assert all(p.grad is None for p in state.particles.parameters())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_run_keeps_its_precision_on_a_machine_that_would_choose_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = perceptron(precision="auto")
    pretend(monkeypatch, 1.0, 0.5)
    train(recipe, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "cut", watch=signal_at(5, signal.SIGTERM))
    pretend(monkeypatch, 1.0, 8.8, has=False)
    train(recipe, tmp_path / "cut")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    single = train(recipe, tmp_path / "single")
    assert single.result.loss == train(perceptron(precision="float32")).result.loss


def test_it_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def has_none(device: torch.device) -> bool:
        asked.append(device)
        return False

    monkeypatch.setattr(_precision, "has_bf16", has_none)
    recipe = perceptron(precision="auto")
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    for _ in range(3):
        differentiate(recipe, task, draw(recipe, task, state), state)
    assert len(asked) == 1


def test_what_has_no_instructions_for_it_is_not_timed() -> None:
    assert not has_bf16(torch.device("meta"))
