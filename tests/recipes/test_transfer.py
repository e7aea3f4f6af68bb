"""Recipes of transfer: what they are made of, and what they refuse. The digits run them for real."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from refprior.data import FewLabels, Identity
from refprior.information import conditional_entropy, marginal_entropy, tuples, uniform
from refprior.methods import ReferencePrior, Supervised, Transfer, UnsupervisedTransfer
from refprior.methods._reference_prior import information_of_views
from refprior.networks import MLP
from refprior.recipes import named
from refprior.recipes.sweeps._sweep import matrix_cells
from refprior.report import group, rows, summarize
from refprior.report._figures import sheets
from refprior.training import Optimizer, train
from refprior.views import RandAugment, Unchanged


def test_label_free_transfer_runs_and_tells_classes_apart() -> None:
    recipe = named("label_free_transfer", {"data": "digits"}, seed=0).recipe
    run = train(replace(recipe, steps=150, evaluate_every=150))
    assert len(run.task.labeled) == 0
    assert run.task.classes == ("5", "6", "7", "8", "9")
    found = run.result.evaluation
    assert found is not None
    assert found.consensus is not None
    assert found.consensus.test is not None
    assert found.consensus.test > 0.7  # chance is 0.2, matched a little more


def test_halves_can_be_turned_around() -> None:
    recipe = named("label_free_transfer", {"data": "digits", "target": "low"}, seed=0).recipe
    task = recipe.read_task()
    assert task.classes == ("0", "1", "2", "3", "4")
    assert task.source_classes == ("5", "6", "7", "8", "9")


def test_ten_classes_are_taught_by_ten_of_another_data_set() -> None:
    recipe = named("label_free_transfer", {"target": "all"}, seed=0).recipe
    try:
        task = recipe.read_task()
    except FileNotFoundError as error:
        pytest.skip(f"needs MNIST and Fashion-MNIST: {error}")
    assert (len(task.classes), task.classes[0], task.source_classes[0]) == (10, "0", "T-shirt/top")
    assert len(task.unlabeled) == 60_000


def test_all_digits_have_no_teacher() -> None:
    with pytest.raises(ValueError, match="target 'all' has no source for digits; use one of mnist"):
        named("label_free_transfer", {"data": "digits", "target": "all"}, seed=0)


def test_without_a_source_beta_must_be_one() -> None:
    recipe = named("label_free_transfer", {"data": "digits"}, seed=0).recipe
    target = FewLabels("digits", labels=0, classes=(0, 1, 2, 3, 4))
    alone = replace(recipe, task=target, inputs=Identity(), steps=1, evaluate_every=1, particles=2)
    alone = replace(alone, network=partial(MLP, (1, 8, 8), 5))
    with pytest.raises(ValueError, match="UnsupervisedTransfer needs inputs of a source task"):
        train(alone)
    evaluation = train(replace(alone, method=UnsupervisedTransfer(beta=1.0))).result.evaluation
    assert evaluation is not None
    assert evaluation.consensus is not None


@pytest.mark.parametrize("baseline", ["new", "same", "probe", "scratch"])
def test_fine_tuning_learns_the_target(baseline: str, tmp_path: Path) -> None:
    settings = {"data": "digits", "baseline": baseline, "labels": "100"}
    recipe = named("fine_tuning", settings, seed=0).recipe
    assert (recipe.start is None) == (baseline == "scratch")
    if recipe.start is not None:
        recipe = replace(recipe, start=replace(recipe.start, steps=100))
    run = train(replace(recipe, steps=200, evaluate_every=200), tmp_path / "run")
    assert run.evaluate().accuracy > 0.75


def test_full_size_cells_have_the_papers_numbers() -> None:
    recipe = named("cifar100_transfer", {}, seed=0).recipe
    assert (recipe.particles, recipe.steps, recipe.labeled_batch, recipe.unlabeled_batch) == (4, 200 * 1024, 64, 448)
    assert recipe.method == Transfer(ReferencePrior(gamma=0.5, threshold=0.95), beta=0.5)
    assert (recipe.unlabeled_unit, recipe.tuples) == ("tuples", 448)
    alone = named("cifar100_transfer", {"approach": "semi_supervised"}, seed=0).recipe
    assert alone.method == recipe.method.target
    small = named("cifar100_transfer_small", {}, seed=0).recipe  # what was measured
    assert (small.method, small.tuples) == (Transfer(ReferencePrior(), beta=0.5), 32)
    assert small.strong == RandAugment()
    tuned = named("cifar100_transfer", {"approach": "fine_tuning"}, seed=0).recipe
    assert tuned.start is not None
    assert (tuned.head, tuned.method, tuned.start.method) == ("new", Supervised(), Supervised())
    only = named("cifar100_transfer_small", {"approach": "source_only"}, seed=0).recipe
    assert only.method == UnsupervisedTransfer(ReferencePrior(gamma=0), beta=0)


@pytest.mark.parametrize(("approach", "outputs"), [("transfer", 10), ("fine_tuning", 5), ("semi_supervised", 5)])
def test_medium_transfer_has_outputs_for_both_tasks(approach: str, outputs: int) -> None:
    network = named("cifar100_transfer_medium", {"approach": approach}, seed=0).recipe.network
    assert isinstance(network, partial)
    assert network.keywords["classes"] == outputs


def test_the_faithful_recipe_has_the_papers_settings(tmp_path: Path) -> None:
    """Appendix: Setup, and Unsupervised transfer learning on MNIST. It runs; a real run has a million steps."""
    recipe = named("label_free_transfer", {"faithful": "true"}, seed=0).recipe
    assert (recipe.particles, recipe.steps, recipe.method.needs.tuple_size) == (50, 1024 * 1024, 2)
    assert recipe.network.keywords == {"shape": (1, 28, 28), "classes": 5, "hidden": 32}  # type: ignore[attr-defined]
    assert recipe.weak == recipe.strong == Unchanged()
    assert recipe.optimizer == Optimizer(learning_rate=0.001, decay=1e-5, schedule="constant", momentum=0.9)
    assert (recipe.ema, recipe.labeled_batch, recipe.tuples) == (0, 64, 448)
    assert isinstance(recipe.method, UnsupervisedTransfer)
    assert (recipe.method.beta, recipe.method.target.alpha, recipe.method.target.information_weight) == (0.5, 0.1, 0.5)
    settings = {"faithful": "true", "data": "digits", "steps": "3", "evaluate_every": "3", "unlabeled_batch": "32"}
    run = train(named("label_free_transfer", settings, seed=0).recipe)
    assert run.step == 3
    assert run.result.evaluation is not None
    assert run.result.evaluation.consensus is not None


def test_without_views_the_bound_is_the_entropy_itself() -> None:
    """τ = 0 and equal views: γ (α h_y - h_yw) of the predictions, with their full gradient."""
    recipe = named("label_free_transfer", {"faithful": "true"}, seed=0).recipe
    assert isinstance(recipe.method, UnsupervisedTransfer)
    logits = torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    log_p = logits.log_softmax(-1)
    prior, grouped = uniform(3, log_p), tuples(log_p, 2)
    loss = information_of_views(log_p.detach(), log_p, prior, recipe.method.target).total
    expected = -0.5 * (0.1 * marginal_entropy(grouped, prior) - conditional_entropy(grouped, prior)).mean()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        torch.autograd.grad(loss, logits, retain_graph=True), torch.autograd.grad(expected, logits)
    )


def test_a_matrix_has_every_ordered_pair_and_every_task_alone() -> None:
    cells = matrix_cells("cifar100_transfer_small", ["fish", "people", "vehicles_1"], {}, [0, 1])
    assert len(cells) == 2 * (2 * 6 + 2 * 3)
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names)
    assert "source=fish,target=people,approach=transfer/seed-1" in names
    assert "target=vehicles_1,approach=semi_supervised/seed-0" in names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "fish", "target": "fish"}, "source and target are both fish"),
        ({"source": "fihs"}, "there is no superclass 'fihs'; did you mean 'fish'"),
        ({"method.beta": "2"}, "beta must be at least 0 and at most 1, got 2"),
    ],
)
def test_bad_pairs_are_rejected_before_training(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        named("cifar100_transfer_small", settings, seed=0)


def test_bad_matrices_and_labels_are_rejected() -> None:
    with pytest.raises(ValueError, match="at least two different tasks, got fish, fish"):
        matrix_cells("cifar100_transfer_small", ["fish", "fish"], {}, [0])
    with pytest.raises(ValueError, match=r"labels must be a multiple of the 5 classes, for example \d+, got 7"):
        named("fine_tuning", {"labels": "7"}, seed=0)


def test_settings_reach_all_stages_so_that_they_still_fit() -> None:
    recipe = named(
        "fine_tuning", {"data": "digits", "particles": "2", "network.hidden": "16", "steps": "7"}, seed=0
    ).recipe
    assert recipe.start is not None
    assert (recipe.particles, recipe.start.particles) == (2, 2)
    assert (recipe.steps, recipe.start.steps, recipe.head) == (7, 7, "new")
    only = named("fine_tuning", {"data": "digits", "start.steps": "9"}, seed=0).recipe
    assert only.start is not None
    assert (only.start.steps, only.steps) == (9, 500)


def test_a_matrix_rejects_its_own_axes_and_repeated_seeds() -> None:
    with pytest.raises(ValueError, match="approach varies over the matrix"):
        matrix_cells("cifar100_transfer_small", ["fish", "people"], {"approach": "supervised"}, [0])
    with pytest.raises(ValueError, match="seed-0 is repeated"):
        matrix_cells("cifar100_transfer_small", ["fish", "people"], {}, [0, 0])


def test_three_particles_have_no_halves_and_the_table_says_nothing_of_them(tmp_path: Path) -> None:
    recipe, origin = named("label_free_transfer", {"data": "digits", "particles": "3", "steps": "3"}, seed=0)
    train(replace(recipe, evaluate_every=3), tmp_path / "run", origin=origin)
    head, line = rows(group([summarize(tmp_path / "run")]))
    assert "consensus, EMA %" in head
    assert "stability %" not in head
    assert len(head) == len(line)
    assert list(sheets(group([summarize(tmp_path / "run")]))) == ["The two entropies", "Confusion"]
