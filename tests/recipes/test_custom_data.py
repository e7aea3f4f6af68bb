"""Recipes for the user's own data: every recipe takes them, and its network, views and batches follow."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import refprior as rp
from refprior.data import PatchComponents
from refprior.networks import MLP
from refprior.recipes import RECIPES, CustomData, named, with_data
from refprior.recipes._custom_data import resized_view
from refprior.training.recipe._parts import take_apart
from refprior.views import CTAugment, Distort, FlipCrop, RandAugment, Unchanged, default_views

FEW_LABELS = tuple(name for name in rp.recipes.RECIPES if name.endswith("_ssl") or name.startswith("cifar10_ssl"))
TRANSFER = tuple(name for name in rp.recipes.RECIPES if "transfer" in name or name == "fine_tuning")
SHORT = {"steps": "2", "evaluate_every": "2", "particles": "2", "optimizer.warmup": "0", "precision": "float32"}
SHORT |= {"labeled_batch": "8", "source_batch": "8"}
SMALL = {  # networks and inputs that are computed fast
    "cifar10_ssl": {"network.depth": "10"},
    "cifar100_transfer": {"network.depth": "10"},
    "cifar10_ssl_patches": {"inputs.filters": "20"},
    "cifar10_ssl_medium": {"network.depth": "10"},
    "label_free_transfer": {"data": "digits"},
}


def pictures(root: Path, names: tuple[str, ...], seed: int, pool: int = 9) -> str:
    random = np.random.RandomState(seed)
    for number in range(6 * len(names) + pool):
        place = root / (names[number % len(names)] if number < 6 * len(names) else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.randint(0, 256, (20, 26, 3)).astype(np.uint8)).save(place / f"{number}.png")
    return str(root)


@pytest.fixture
def photos(tmp_path: Path) -> str:
    return pictures(tmp_path / "photos", ("ape", "bee", "cat"), 0)


@pytest.fixture
def drawings(tmp_path: Path) -> str:
    return pictures(tmp_path / "drawings", ("dog", "eel"), 1, pool=0)


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    labels = np.where(np.arange(60) < 20, np.arange(60) % 4, -1)
    np.savez(tmp_path / "rows.npz", inputs=np.random.RandomState(0).randn(60, 5), labels=labels)
    return str(tmp_path / "rows.npz")


def of_network(recipe: rp.Recipe, name: str) -> Any:
    return take_apart(recipe.network).settings[name]


def test_every_recipe_is_one_of_these() -> None:
    assert {*FEW_LABELS, *TRANSFER, "mnist_manifold"} == set(RECIPES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name == "cifar10_ssl_patches" else [])
        for name in (*FEW_LABELS, "mnist_manifold")
    ],
)
def test_every_semi_supervised_recipe_trains_on_a_folder_and_is_read_back(
    name: str, photos: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, origin = named(name, {**SHORT, **SMALL.get(name, {}), "task.test": "6"}, CustomData(photos), seed=1)
    assert of_network(recipe, "classes") == 3
    run = rp.train(recipe, tmp_path / "run", origin=origin)
    assert run.data.classes == ("ape", "bee", "cat")
    assert run.task.test is not None
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = rp.load(tmp_path / "run")
    assert torch.equal(loaded.log_probabilities(run.task.test.inputs), run.log_probabilities(run.task.test.inputs))
    assert len(loaded.task.unlabeled) == len(run.task.unlabeled)
    assert rp.train(recipe, tmp_path / "run", origin=origin).step == 2  # goes on with it: it is complete


@pytest.mark.parametrize("name", TRANSFER)
def test_every_transfer_recipe_takes_a_source_and_a_target(name: str, photos: str, drawings: str) -> None:
    recipe = named(name, {**SHORT, **SMALL.get(name, {})}, CustomData(photos, drawings), seed=1).recipe
    run = rp.train(recipe)
    assert run.data.classes == ("ape", "bee", "cat")
    if name == "fine_tuning":
        assert recipe.start is not None
        assert (of_network(recipe, "classes"), of_network(recipe.start, "classes")) == (3, 2)
    else:
        assert run.data.source_classes == ("dog", "eel")
        assert of_network(recipe, "classes") == 5  # unequal numbers of classes: outputs of their own


@pytest.mark.parametrize("name", TRANSFER)
def test_source_and_target_may_be_classes_of_the_same_data(name: str, photos: str) -> None:
    settings = {**SHORT, **SMALL.get(name, {}), "source_classes": "0", "target_classes": "2,1"}
    recipe, origin = named(name, settings, CustomData(photos))
    assert rp.train(recipe).data.classes == ("cat", "bee")
    assert origin.command is not None
    assert f"--data {photos} --set " in origin.command
    assert "target_classes=2,1" in origin.command


def test_a_source_of_as_many_classes_shares_the_outputs_unless_the_recipe_keeps_them_apart(photos: str) -> None:
    settings = {"source_classes": "0", "target_classes": "1"}
    shared = named("label_free_transfer", settings, CustomData(photos)).recipe
    apart = named("label_free_transfer", {**settings, "separate_heads": "true"}, CustomData(photos)).recipe
    assert (of_network(shared, "classes"), of_network(apart, "classes")) == (1, 2)


def test_classes_of_the_named_data_sets_can_be_chosen() -> None:
    recipe = named("label_free_transfer", {"data": "digits", "source_classes": "0,2,4,6,8"}).recipe
    assert (recipe.task.source.classes, recipe.task.target.classes) == ((0, 2, 4, 6, 8), (1, 3, 5, 7, 9))  # type: ignore[union-attr]
    unequal = named("label_free_transfer", {"data": "digits", "source_classes": "0,2", "target_classes": "1,3,5"})
    assert of_network(unequal.recipe, "classes") == 5
    with pytest.raises(ValueError, match=r"source_classes \(0, 1\) and target_classes \(1, 2\) overlap"):
        named("label_free_transfer", {"source_classes": "0,1", "target_classes": "1,2"})


@pytest.mark.parametrize("name", [*FEW_LABELS, *TRANSFER])
def test_vectors_go_through_every_recipe(name: str, vectors: str) -> None:
    classes = {"source_classes": "0,1", "target_classes": "2,3"} if name in TRANSFER else {}
    recipe = named(name, {**SHORT, **classes}, CustomData(vectors)).recipe
    assert take_apart(recipe.network).make is MLP
    assert rp.train(recipe).result.step == 2


def test_patches_and_their_view_follow_the_size_of_images(photos: str) -> None:
    small = named("cifar10_ssl_patches", {"task.size": "6,16"}, CustomData(photos), seed=1).recipe
    assert isinstance(small.inputs, PatchComponents)
    assert (small.inputs.size, small.inputs.view) == (6, small.strong)
    assert small.strong == default_views("photos", (3, 6, 16))[1]
    assert of_network(small, "shape") == (128,)


def test_images_of_a_folder_have_the_size_of_the_recipe_or_the_one_that_is_set(photos: str) -> None:
    assert of_network(named("mnist_ssl", {}, CustomData(photos)).recipe, "shape") == (3, 28, 28)
    assert of_network(named("label_free_transfer", {"data": "digits"}, CustomData(photos, photos)).recipe, "shape") == (
        64,
    )
    wide = named("cifar10_ssl_small", {"task.size": "16,48", "task.color": "false"}, CustomData(photos)).recipe
    assert of_network(wide, "shape") == (1, 16, 48)
    assert wide.strong == RandAugment(weak=FlipCrop(pad=2), cutout=8)
    as_it_is = named("mnist_ssl", {"task.size": "none"}, CustomData(photos)).recipe
    assert of_network(as_it_is, "shape") == (3, 20, 26)


def test_views_stay_those_of_the_recipe_unless_the_data_are_of_another_kind(photos: str) -> None:
    plain, declared = (with_data(rp.recipes.mnist_ssl(), photos, kind=kind) for kind in (None, "photos"))
    assert isinstance(plain.weak, Distort)
    assert declared.weak == FlipCrop(pad=3)
    digits = with_data(rp.recipes.cifar10_ssl_small(), "digits", labels=50)  # which knows its kind
    assert isinstance(digits.strong, Distort)
    faithful = named("label_free_transfer", {"faithful": "true"}, CustomData(photos, photos, "photos")).recipe
    assert faithful.weak == faithful.strong == Unchanged()


def test_labels_are_all_or_as_many_as_are_set(photos: str) -> None:
    everything = with_data(rp.recipes.mnist_ssl(labels=50), photos).read_task()
    assert (len(everything.labeled), len(everything.unlabeled), everything.test) == (18, 9, None)
    some = named("mnist_ssl", {"labels": "6"}, CustomData(photos)).recipe.read_task()
    assert (len(some.labeled), len(some.unlabeled)) == (6, 21)


def test_batches_fit_the_pool_and_a_pool_is_made_of_labeled_images_if_need_be(photos: str, drawings: str) -> None:
    assert with_data(rp.recipes.mnist_ssl(), photos).unlabeled_batch == 9
    recipe = with_data(rp.recipes.mnist_ssl(), drawings)
    assert (recipe.unlabeled_batch, len(recipe.read_task().unlabeled)) == (12, 12)
    assert named("mnist_ssl", {"unlabeled_batch": "4"}, CustomData(photos)).recipe.unlabeled_batch == 4


@pytest.mark.parametrize(
    ("name", "settings", "own", "message"),
    [
        ("mnist_ssl", {}, CustomData("gone"), "no data set '.*gone': give digits, mnist"),
        ("mnist_ssl", {}, CustomData("digits", "mnist"), "this recipe has no source to transfer from"),
        ("mnist_ssl", {"source_classes": "0"}, CustomData("digits"), "this recipe has no source to transfer from"),
        ("digits_transfer", {}, CustomData("digits"), r"this recipe transfers: give a source \(--source-data"),
        ("label_free_transfer", {"labels": "5"}, CustomData("digits", "digits"), "uses no labels of its target"),
        ("mnist_ssl", {"target_classes": "0,10"}, CustomData("digits"), r"classes \[0, 10\] must be different numbers"),
        ("mnist_ssl", {"target_classes": "a"}, CustomData("digits"), "target_classes must be whole numbers"),
        ("mnist_ssl", {}, CustomData("digits", kind="tokens"), "no recipe has a network for tokens"),
        ("mnist_ssl", {}, CustomData("digits", kind="faces"), "kind must be 'digits', 'photos'"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_one_line(name: str, settings: dict[str, str], own: CustomData, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        named(name, settings, own)
    assert "\n" not in str(error.value)


def test_source_and_target_must_be_alike(photos: str, vectors: str) -> None:
    with pytest.raises(ValueError, match=r"source inputs have shape \(5,\), target inputs \(3, 8, 8\)"):
        named("digits_transfer", {}, CustomData(photos, vectors))


def test_a_task_of_the_users_own_cannot_be_replaced() -> None:
    recipe = rp.recipes.digits_ssl()
    own = rp.Recipe(task=recipe.read_task, network=recipe.network, method=recipe.method)
    with pytest.raises(ValueError, match="its data cannot be replaced"):
        with_data(own, "digits")


def test_lengths_in_pixels_follow_another_size() -> None:
    strong = RandAugment(weak=FlipCrop(pad=4), cutout=16)
    assert resized_view(strong, 2.0) == RandAugment(weak=FlipCrop(pad=8), cutout=32)
    assert resized_view(strong, 1.0) == strong
    assert resized_view(Distort(pixels=2, cutout=0), 0.1) == Distort(pixels=1, cutout=0)
    assert resized_view(CTAugment(cutout=8), 0.5).cutout == 4
    assert resized_view(Unchanged(), 3.0) == Unchanged()
