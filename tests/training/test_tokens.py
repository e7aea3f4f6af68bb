"""Token ids: whole numbers reach an embedding as they are, and such runs are runs like all others."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from refprior.data import Identity, Standardize, Task, task_from_arrays
from refprior.networks import MLP
from refprior.report import uncertain_figure
from refprior.training import Recipe, load, read_trajectory, train
from refprior.views import DropTokens, SwapNoise, Unchanged
from tests.training.interruption import assert_same_run, interrupted_at
from tests.training.recipes import perceptron

WORDS, LENGTH = 40, 7


class Bag(nn.Module):
    """The mean of the embedded tokens, and a linear layer: (n, length) -> (n, 2)."""

    def __init__(self, words: int = WORDS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, ids: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.embedding(ids).mean(1))
        return outputs


def sentences(dtype: type = np.int32) -> Task:
    """Odd words are more frequent in class 1; 0 is the mask."""
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    odd = random.random((400, LENGTH)) < 0.1 + 0.8 * labels[:, None]
    ids: np.ndarray = (2 * random.integers(1, WORDS // 2, (400, LENGTH)) - odd).astype(dtype)
    return task_from_arrays((ids[:40], labels[:40]), ids[40:300], (ids[300:], labels[300:]))


def recipe(**changes: object) -> Recipe:
    drop = DropTokens(0.1, token=0)
    settings = {"task": sentences(), "network": Bag, "inputs": Identity(), "weak": Unchanged(), "strong": drop}
    return perceptron(**settings | {"particles": 4} | changes)


def test_ids_reach_the_embedding_and_are_learned_from() -> None:
    run = train(recipe(steps=150, weak=SwapNoise(0.1), labeled_batch=20))
    assert run.task.labeled.inputs.dtype == torch.int64
    assert run.normalizer(run.task.unlabeled).dtype == torch.int64
    assert run.evaluate().accuracy > 0.9


def test_a_run_on_ids_resumes_bit_for_bit_and_is_read_back(tmp_path: Path) -> None:
    whole = train(recipe(snapshots=2), tmp_path / "whole")
    interrupted_at(recipe(snapshots=2), tmp_path / "run", [5, 10])
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    ids = whole.task.held_out.inputs[:9]
    loaded = load(tmp_path / "run", network=Bag)
    for same in (ids, ids.numpy().astype(np.uint16), ids.tolist()):
        assert (loaded.predict_proba(same) == whole.predict_proba(ids)).all()
    with pytest.raises(ValueError, match=r"given inputs are torch\.float32, those of the training torch\.int64"):
        loaded.predict_proba(ids.float())
    assert torch.equal(read_trajectory(tmp_path / "run").probe.inputs[0], ids[0])
    assert len(uncertain_figure(whole, count=3).axes) == 3


@pytest.mark.parametrize(("task", "inputs"), [(sentences(), Standardize()), (sentences(np.uint8), Identity())])
def test_an_embedding_without_ids_is_told_what_it_needs(task: Task, inputs: Standardize | Identity) -> None:
    message = r"does not take inputs of \(7,\), which are floats: an embedding takes .* set inputs=Identity\(\)"
    with pytest.raises(ValueError, match=message):
        train(recipe(task=task, inputs=inputs, strong=Unchanged()))


def test_whole_numbers_as_they_are_are_not_for_linear_layers() -> None:
    with pytest.raises(ValueError, match=r"which are whole numbers: set inputs=Standardize\(\)"):
        train(recipe(network=partial(MLP, (LENGTH,), 2)))


def test_an_id_beyond_the_embedding_is_found_before_the_first_step() -> None:
    with pytest.raises(ValueError, match=r"the network does not take inputs of \(7,\): index out of range"):
        train(recipe(network=partial(Bag, WORDS - 2)))


def test_ids_are_dropped_at_the_rate_and_floats_are_rejected() -> None:
    ids = torch.arange(1, 20_001).reshape(1000, 20)
    seen = DropTokens(0.3, token=0)(ids, torch.Generator().manual_seed(0))
    assert seen.dtype == torch.int64
    assert (seen != ids).double().mean().item() == pytest.approx(0.3, abs=0.01)
    assert not seen[seen != ids].any()
    with pytest.raises(ValueError, match="this view takes token ids"):
        DropTokens()(ids.float(), torch.Generator())
    with pytest.raises(ValueError, match="token must be a whole number of at least 0, got -1"):
        DropTokens(token=-1)
