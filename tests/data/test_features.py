"""Bins, leaves and neighbors against brute force, and as parts of recipes and predictors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.ensemble import RandomTreesEmbedding

import refprior as rp
from refprior.data import Joined, NeighborMeans, Normalizer, PrincipalComponents, QuantileBins, TreeLeaves
from refprior.data import _features as features

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(300, 6, generator=GENERATOR)
X[:, 1], X[:, 2], X[:, 3] = (X[:, 1] > 0).float(), X[:, 2].round(), 5.0
NEW = torch.randn(20, 6, generator=GENERATOR)
COMPONENTS = PrincipalComponents(4, whitening=0, scaled="all")
ALL = (
    QuantileBins(12),
    TreeLeaves(8, trees=5),
    NeighborMeans(4),
    Joined((COMPONENTS, TreeLeaves(8, trees=5))),
    Joined((COMPONENTS, QuantileBins(3)), widths=(4, 2)),
)


def test_bins_are_values_if_they_are_few_and_thresholds_otherwise() -> None:
    bins = QuantileBins(12).fit([X]).bins
    assert bins is not None
    found = bins(X)
    for column, expected in ((0, 8), (1, 1), (2, len(X[:, 2].unique())), (3, 1)):
        assert int((bins.column == column).sum()) == expected
    for place, column in enumerate(bins.column.tolist()):
        inside = (X[:, column] > bins.lower[place]) & (X[:, column] <= bins.upper[place])
        assert torch.equal(found[:, place], inside * bins.scale[place])
    shares = (found[:, bins.column == 0] > 0).float().mean(0)
    assert torch.allclose(shares, torch.linspace(8 / 9, 1 / 9, 8), atol=0.01)
    variance = torch.stack([found[:, bins.column == column].var(0, correction=0).sum() for column in range(6)])
    assert torch.allclose(variance, torch.tensor([1.0, 1, 1, 0, 1, 1]), atol=1e-5)


def test_leaves_are_those_of_the_trees_and_equal_leaves_give_equal_features() -> None:
    trees = TreeLeaves(8, trees=5, depth=3).fit([X]).trees
    assert trees is not None
    expected = RandomTreesEmbedding(5, max_depth=3, random_state=0).fit(X.numpy()).apply(NEW.numpy())
    assert np.array_equal((trees.leaves(NEW) - trees.root).numpy(), expected)
    assert torch.allclose(trees(NEW), torch.stack([trees.vectors[leaf] for leaf in trees.leaves(NEW).T]).sum(0))


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_hops_take_means_over_the_nearest_other_inputs(hops: int) -> None:
    normalizer = NeighborMeans(4, neighbors=3, hops=hops, keep=0.4).fit([X])
    z = PrincipalComponents(4, whitening=0, scaled="all").fit([X])(X).double().numpy()
    squared = ((z[:, None] - z) ** 2).sum(2)
    np.fill_diagonal(squared, np.inf)
    weights = np.zeros_like(squared)
    for row, distance in zip(weights, squared, strict=True):
        near = distance.argsort()[:3]
        row[near] = np.exp(-4 * distance[near] / distance[near].max())
    weights /= weights.sum(1, keepdims=True)
    for _ in range(hops):
        z = 0.4 * z + 0.6 * weights @ z
    found = normalizer(X).double().numpy()
    assert np.allclose(found / found.std(), z / z.std(), atol=1e-4)
    assert np.isclose(np.sqrt(found.var(0).mean()), 1, atol=1e-3)


def test_rows_that_are_all_equal_have_no_neighbors() -> None:
    assert torch.equal(NeighborMeans(4).fit([torch.ones(9, 4)])(torch.ones(2, 4)), torch.zeros(2, 4))


def test_more_inputs_than_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "ANCHORS", 50)
    fitted = NeighborMeans(4).fit([X[:30], X])
    assert fitted.neighbors is not None
    assert 20 < len(fitted.neighbors.anchors) <= 50
    assert fitted(X).isfinite().all()


@pytest.mark.parametrize("inputs", ALL, ids=lambda inputs: type(inputs).__name__)
def test_fitted_transforms_are_tensors_and_have_one_scale(inputs: Any) -> None:
    fitted = inputs.fit([X])
    read = Normalizer.from_tensors(load(save({name: t.contiguous() for name, t in fitted.state_dict().items()})))
    assert torch.equal(read(NEW), fitted(NEW))
    assert torch.equal(read(NEW)[3:4], read(NEW[3:4])) or torch.allclose(read(NEW)[3:4], read(NEW[3:4]), atol=1e-5)
    assert fitted(X).shape == (300, inputs.count)
    assert fitted(X).mean().abs() < 0.1
    assert abs(fitted(X).var(0).mean() - 1) < 0.05


def test_parts_of_different_columns() -> None:
    inputs = Joined((COMPONENTS, QuantileBins(3)), widths=(4, 2))
    found = inputs.fit([X])(NEW)
    assert torch.allclose(found[:, :4], COMPONENTS.fit([X[:, :4]])(NEW[:, :4]))
    assert torch.allclose(found[:, 4:], QuantileBins(3).fit([X[:, 4:]])(NEW[:, 4:]))
    with pytest.raises(ValueError, match="one width per part, 1, got 2"):
        Joined((COMPONENTS,), widths=(4, 2))
    with pytest.raises(ValueError, match=r"\(4, 3\) do not add up to 6 columns"):
        Joined((COMPONENTS, COMPONENTS), widths=(4, 3)).fit([X])


@pytest.mark.parametrize("inputs", ALL, ids=lambda inputs: type(inputs).__name__)
def test_recipes_and_predictors_hold_them(inputs: Any, tmp_path: Path) -> None:
    y = np.where(np.arange(300) % 20 == 0, np.arange(300) // 20 % 2, -1)
    settings: dict[str, Any] = {"particles": 2, "steps": 2, "random_state": 0, "folds": "off"}
    fitted = rp.ReferencePriorClassifier(inputs=inputs, **settings).fit(X.numpy(), y)
    recipe = fitted.recipe(X.numpy(), y)
    again = rp.training.Recipe.from_dict(recipe.to_dict(), task=recipe.task)
    assert again.inputs == inputs
    run = rp.train(recipe, tmp_path / "run")
    assert np.allclose(rp.load(tmp_path / "run", task=recipe.task).predict_proba(NEW), run.predict_proba(NEW))
    fitted.predictor_.save(tmp_path / "model")
    read = rp.load_predictor(tmp_path / "model")
    assert np.array_equal(read.predict_proba(NEW), fitted.predictor_.predict_proba(NEW))
    rp.training.export(read, tmp_path / "model.pt2", "torch")
    graph = torch.export.load(tmp_path / "model.pt2").module()
    assert torch.allclose(graph(NEW), read.predict_proba(NEW), atol=1e-5)
