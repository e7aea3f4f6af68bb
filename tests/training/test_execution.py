"""Networks that cannot be vectorized: they train, resume and predict like all others, one after another."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from refprior.data import Task, task_from_arrays
from refprior.training import Recipe, load, train
from refprior.views import Noise, Unchanged
from tests.training.interruption import assert_same_run, interrupted_at
from tests.training.recipes import perceptron


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.LSTM(3, 6, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.dropout(self.body(x)[0][:, -1]))
        return outputs


class Pair(Recurrent):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x), x  # type: ignore[return-value]


class Deciding(Recurrent):
    """Decides by what it sees; no vmap can do that."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(x[:, -1])
        return 2 * outputs if outputs.mean() > 0 else outputs


def sequences() -> Task:
    """Walks (n, steps, features) that drift up or down."""
    random, labels = np.random.default_rng(0), np.arange(200) % 2
    walks = random.normal(0, 1, (200, 9, 3)).cumsum(1) + (2 * labels - 1)[:, None, None] * np.arange(9)[:, None]
    return task_from_arrays((walks[:10], labels[:10]), walks[10:120], (walks[120:], labels[120:]))


def recipe(**changes: object) -> Recipe:
    settings = {"task": sequences(), "network": Recurrent, "weak": Unchanged(), "strong": Noise(0.2)}
    return perceptron(**settings | changes)


def test_an_lstm_trains_with_one_warning_and_resumes_bit_for_bit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = train(recipe(), tmp_path / "whole")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("particles run one after another, because torch.vmap cannot run their network (")
    interrupted_at(recipe(), tmp_path / "run", [5, 10])
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    walks = whole.task.held_out.inputs
    assert (load(tmp_path / "run", network=Recurrent).predict_proba(walks) == whole.predict_proba(walks)).all()


def test_a_network_that_decides_by_the_data_trains_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    run = train(recipe(network=Deciding, steps=60))
    assert run.evaluate().accuracy > 0.9
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("particles run one after another, because torch.vmap cannot run their network (vmap: ")
    assert run.ema.execution == "loop"


def test_who_asks_for_the_loop_hears_nothing_and_gets_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = train(recipe(execution="loop", steps=5), tmp_path / "run")
    again = load(tmp_path / "run", network=Recurrent)
    again.predict_proba(asked.task.unlabeled)
    assert not caplog.records
    assert again.recipe.execution == again.ema.execution == "loop"
    fallen = train(recipe(steps=5))
    assert torch.equal(fallen.particles.prior_logits, asked.particles.prior_logits)
    assert (fallen.predict_proba(asked.task.unlabeled) == asked.predict_proba(asked.task.unlabeled)).all()


def test_who_insists_on_vmap_is_told_that_it_cannot() -> None:
    with pytest.raises(ValueError, match=r"the network does not take inputs of \(9, 3\): Batching rule"):
        train(recipe(execution="vectorized"))


def test_a_network_that_returns_a_tuple_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"must return logits, a tensor \(n, classes\), it returned a tuple\Z"):
        train(recipe(network=Pair))


def test_the_execution_is_a_setting() -> None:
    assert Recipe.from_json(perceptron(execution="loop").to_json()).execution == "loop"
    with pytest.raises(ValueError, match="execution must be 'auto', 'vectorized', 'loop' or 'recomputed', got 'fast'"):
        perceptron(execution="fast")
