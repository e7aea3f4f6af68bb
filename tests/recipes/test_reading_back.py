"""A run of every named recipe, read back from its folder, predicts the same bits. Slow: each scores a whole part."""

from pathlib import Path

import pytest
import torch

import refprior as rp
from refprior.data import DataError
from refprior.recipes import RECIPES, named

SMALL = {"particles": 2, "steps": 1, "labeled_batch": 10, "unlabeled_batch": 4, "source_batch": 4, "snapshots": 0}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_run_of_every_recipe_reads_back(name: str, tmp_path: Path) -> None:
    recipe, origin = named(name, {**SMALL, "optimizer.warmup": 0, "precision": "float32"}, seed=1)
    try:
        trained = rp.train(recipe, tmp_path / "run", origin=origin)
    except (OSError, DataError) as error:
        pytest.skip(f"needs its data: {error}")
    loaded = rp.load(tmp_path / "run")
    images = trained.task.held_out.inputs[:50]
    for weights in ("ema", "raw"):
        one, other = (run.log_probabilities(images, ema=weights == "ema") for run in (trained, loaded))
        assert torch.equal(one, other)
    assert loaded.recipe.to_dict() == recipe.to_dict()
    assert loaded.task.classes == trained.task.classes
    assert loaded.result == trained.result
