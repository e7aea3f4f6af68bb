"""The estimate before a run: sizes that are right, and times that were measured."""

from pathlib import Path

import pytest

from refprior.methods import Supervised
from refprior.training import estimate_cost, train
from refprior.training._estimate import CostEstimate
from tests.training.recipes import CPU, convolutional, perceptron


def test_sizes_are_those_of_the_run(tmp_path: Path) -> None:
    recipe = perceptron(steps=3, evaluate_every=2)
    found = estimate_cost(recipe, CPU, steps=2)
    assert found.parameters == 64 * 32 + 32 + 32 * 10 + 10
    assert (found.particles, found.steps, found.evaluations) == (2, 3, 2)
    assert found.step_seconds > 0
    assert found.evaluation_seconds > 0
    train(recipe, tmp_path / "run")
    (*_, file) = sorted((tmp_path / "run" / "checkpoints").glob("*.safetensors"))
    assert found.state_bytes == pytest.approx(file.stat().st_size, rel=0.1)


def test_the_total_is_of_all_steps_and_evaluations() -> None:
    times = CostEstimate(
        parameters=1, particles=1, state_bytes=1, step_seconds=2.0, evaluation_seconds=3.0, steps=10, evaluations=4
    )
    assert times.total_seconds == 32


def test_what_cannot_be_trained_is_not_estimated() -> None:
    with pytest.raises(ValueError, match="a step takes 1000 unlabeled inputs"):
        estimate_cost(convolutional(unlabeled_batch=1000), CPU)
    assert estimate_cost(convolutional(unlabeled_batch=1000, method=Supervised()), CPU, steps=1).step_seconds > 0
