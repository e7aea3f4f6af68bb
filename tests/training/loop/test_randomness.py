"""The global generators of torch, numpy and Python belong to a run while it trains, and to its checkpoint."""

# ruff: noqa: NPY002

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refprior.data import Task
from refprior.training import Evaluation, Recipe, train
from refprior.training.loop._evaluate import evaluate_all
from refprior.training.loop._randomness import load_randomness, own_randomness, randomness_state
from tests.training.interruption import assert_same_run, interrupted_at
from tests.training.recipes import CPU, convolutional, perceptron


def draw() -> tuple[float, float, float, float, float]:
    return random.random(), random.gauss(), float(np.random.rand()), float(np.random.randn()), float(torch.rand(()))


def test_every_generator_goes_on_where_it_was() -> None:
    draw()  # the second of each pair of normal numbers is remembered
    state = randomness_state(CPU)
    first = [draw() for _ in range(3)]
    load_randomness(state, CPU)
    assert [draw() for _ in range(3)] == first


def test_a_run_gives_the_generators_back_and_repeats_itself() -> None:
    before = randomness_state(CPU)
    with own_randomness(5, CPU):
        first = draw()
    assert all(tensor.equal(before[name]) for name, tensor in randomness_state(CPU).items())
    with own_randomness(5, CPU):
        assert draw() == first
    with own_randomness(6, CPU):
        assert draw() != first


def noisy(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A view that draws from everything but the generator that it is given."""
    noise = random.random() + random.gauss() + float(np.random.rand() + np.random.randn()) + float(torch.rand(()))
    return (images.float() + 5 * noise).clamp(0, 255).to(images.dtype)


def test_a_view_that_draws_from_the_global_generators_resumes_bit_for_bit(tmp_path: Path) -> None:
    recipe = convolutional(weak=noisy, strong=noisy, evaluate_every=1)
    train(recipe, tmp_path / "whole")
    random.seed(77)
    interrupted_at(recipe, tmp_path / "stopped", [2, 5])
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_what_draws_while_data_are_read_or_scores_are_made_does_not_change_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is imported at that moment may draw, in one process and not in the next."""
    train(perceptron(), tmp_path / "one")
    read = Recipe.read_task

    def reading(recipe: Recipe) -> Task:
        random.random()
        return read(recipe)

    def evaluating(*arguments: Any, **options: Any) -> Evaluation:
        random.random()
        np.random.random()
        return evaluate_all(*arguments, **options)

    monkeypatch.setattr(Recipe, "read_task", reading)
    monkeypatch.setattr("refprior.training.loop._loop.evaluate_all", evaluating)
    train(perceptron(), tmp_path / "two")
    assert_same_run(tmp_path / "one", tmp_path / "two")
