"""Settings by dotted name: typed, copied, applied together, and refused in words."""

from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import refprior as rp
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.recipes import RECIPES, digits_ssl, named, override
from refprior.recipes._settings import parse
from refprior.recipes.sweeps._sweep import cells
from refprior.training import Origin
from refprior.views import CTAugment, FlipCrop, RandAugment


def settings_of(recipe: rp.Recipe, path: str) -> Any:
    """What recipe.json says of a setting."""
    found: Any = recipe.to_dict()
    for name in path.split("."):
        found = found[name]
    return found


def test_nested_settings_change_a_copy() -> None:
    before = digits_ssl()
    after = override(before, {"network.width": "7", "method.threshold": "0.5", "task.labels": "100"})
    assert [settings_of(after, p) for p in ("network.width", "method.threshold", "task.labels")] == [7, 0.5, 100]
    assert [settings_of(before, p) for p in ("network.width", "method.threshold", "task.labels")] == [16, None, 50]


@pytest.mark.parametrize("names", list(permutations(["steps", "optimizer.warmup", "strong", "strong.cutout"])))
def test_the_order_of_settings_never_matters(names: tuple[str, ...]) -> None:
    """Each alone would be refused, or mean something else: 100 steps are fewer than 200 of warm-up."""
    base = override(digits_ssl(), {"optimizer.warmup": 200})
    values = {"steps": "100", "optimizer.warmup": "0", "strong": "CTAugment", "strong.cutout": "8"}
    recipe = override(base, {name: values[name] for name in names})
    assert (recipe.steps, recipe.optimizer.warmup, recipe.strong) == (100, 0, CTAugment(cutout=8))


def test_parts_are_chosen_by_name_and_keep_what_they_cannot_do_without() -> None:
    recipe = override(digits_ssl(), {"network": "WideResNet", "network.depth": "10", "weak": "FlipCrop", "weak.pad": 1})
    assert settings_of(recipe, "network.type") == "refprior.networks.WideResNet"
    assert settings_of(recipe, "network.shape") == [1, 8, 8]
    assert settings_of(recipe, "network.depth") == 10
    assert recipe.weak == FlipCrop(pad=1)
    assert isinstance(recipe.network(), WideResNet)
    nested = override(recipe, {"strong": "RandAugment", "strong.weak.pad": "3"})
    assert nested.strong == RandAugment(weak=FlipCrop(pad=3))
    inputs = override(recipe, {"inputs": "PrincipalComponents", "inputs.count": "5"})
    assert inputs.inputs == rp.data.PrincipalComponents(count=5)


def test_presets_of_a_method_are_chosen_by_name() -> None:
    settings = {"method.order": "2", "method": "ReferencePrior.underspecified"}
    recipe, origin = rp.recipes.named("digits_ssl", settings)
    assert recipe.method == replace(rp.ReferencePrior.underspecified(), order=2)
    assert rp.Recipe.from_dict(recipe.to_dict()).method == recipe.method
    assert "--set method.order=2 method=ReferencePrior.underspecified" in str(origin.command)


def test_python_values_and_own_objects_are_taken_too() -> None:
    class Net(SmallCNN):
        pass

    recipe = override(digits_ssl(), {"steps": 7, "network": partial(Net, (1, 8, 8), 10), "method": rp.FixMatch(0.9)})
    assert (recipe.steps, recipe.method) == (7, rp.FixMatch(0.9))
    assert isinstance(recipe.network(), Net)
    assert isinstance(override(recipe, {"network.width": "4"}).network(), Net)
    with pytest.raises(ValueError, match=r"steps must be a whole number, got 2\.5"):
        override(recipe, {"steps": 2.5})


def test_parts_that_are_not_changed_stay_the_same_objects() -> None:
    """A factory of any form goes through untouched: keywords collected in **, a dataclass, a callable object."""

    def make(**sizes: int) -> SmallCNN:
        return SmallCNN((1, 8, 8), 10, **sizes)

    network = partial(make, hidden=32)
    recipe = override(replace(digits_ssl(), network=network), {"steps": 3})
    assert recipe.network is network
    assert settings_of(recipe, "network.hidden") == 32
    assert isinstance(recipe.network(), SmallCNN)


def test_a_new_first_stage_takes_the_settings_given_beside_it() -> None:
    two = named("fine_tuning", {"data": "digits"}).recipe
    stage = replace(two, start=None, head="same", steps=50)
    for settings in ({"steps": 5, "start": stage}, {"start": stage, "steps": 5}):
        changed = override(two, settings)
        assert changed.start is not None
        assert (changed.steps, changed.start.steps) == (5, 5)


def test_a_setting_that_only_the_last_stage_has_is_set_there() -> None:
    two = named("fine_tuning", {"data": "digits"}).recipe
    changed = override(replace(two, weak=FlipCrop()), {"weak.pad": "1"})
    assert changed.weak == FlipCrop(pad=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"method": "FixMatch", "method.alpha": "1"},
            "has no setting 'alpha'; .*known are: threshold, weight",
        ),
        ({"strong": "CTAugment", "strong.decai": "1"}, "did you mean 'strong.decay'"),
        ({"method": "Transfer", "method.target.alhpa": "1"}, "did you mean 'method.target.alpha'"),
        ({"method": "Transfer", "method.target": "FixMatch"}, "method.target must be ReferencePrior, got FixMatch"),
        ({"method.jensen": "no"}, "method.jensen must be true or false"),
        ({"task.data": 5}, "task.data must be text or DataSet, got 5"),
        ({"method.alpha": torch.tensor(0.1)}, "method.alpha must be a number, got tensor"),
    ],
    ids=str,
)
def test_mistakes_are_told_from_the_recipe_as_it_would_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        override(digits_ssl(), settings)


def test_numbers_of_numpy_and_paths_are_taken(tmp_path: Path) -> None:
    recipe = override(digits_ssl(), {"steps": np.int64(7), "ema": np.float32(0.5), "task.folder": tmp_path})
    assert (recipe.steps, recipe.ema, settings_of(recipe, "task.folder")) == (7, 0.5, str(tmp_path))


def test_shares_of_classes_are_set_and_read_back() -> None:
    recipe = named("digits_ssl", {"method.class_prior": "0.5,0.3,0.2", "method.balance": "1"}).recipe
    assert isinstance(recipe.method, rp.ReferencePrior)
    assert (recipe.method.class_prior, recipe.method.balance) == ((0.5, 0.3, 0.2), 1.0)
    assert rp.Recipe.from_json(recipe.to_json()).method == recipe.method
    assert named("digits_ssl", {"method.class_prior": "none"}).recipe.method == digits_ssl().method


def test_a_tuple_is_one_value_of_a_sweep_in_brackets() -> None:
    chosen = cells("digits_ssl", {"task.classes": "(3,5),(1,7)", "labels": "10", "network.classes": "2"}, [0])
    assert [cell.settings["task.classes"] for cell in chosen] == ["(3,5)", "(1,7)"]


def test_a_later_stage_shares_the_settings_that_must_fit() -> None:
    recipe = named("fine_tuning", {"data": "digits", "network": "MLP", "network.hidden": "5"}).recipe
    assert recipe.start is not None
    assert [settings_of(stage, "network.hidden") for stage in (recipe, recipe.start)] == [5, 5]
    assert isinstance(recipe.network(), MLP)


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("3", int, 3),
        ("1/3", float, 1 / 3),
        ("5e-4", float, 5e-4),
        ("none", float | None, None),
        ("0.5", float | None, 0.5),
        ("TRUE", bool, True),
        ("b", Literal["a", "b"], "b"),
        ("text", str, "text"),
        ("0.5,1/4, 2", tuple[float, ...] | None, (0.5, 0.25, 2.0)),
    ],
)
def test_values_are_read_by_type(text: str, hint: Any, expected: object) -> None:
    assert parse(text, hint, "x") == expected


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("method.alhpa", "1", "ReferencePrior has no setting 'alhpa'; did you mean 'method.alpha'"),
        ("method.alpha", "much", "alpha must be a number, got 'much'"),
        ("method.order", "2.5", "order must be a whole number, got '2.5'"),
        ("method.jensen", "maybe", "jensen must be true or false, got 'maybe'"),
        ("method.marginal_views", "both", "must be one of 'mixture', 'weak', got 'both'"),
        ("method.class_prior", "a,b", "class_prior must be numbers separated by commas or none, got 'a,b'"),
        ("steps.more", "1", "'steps' has no settings, so"),
        ("network.size", "1", "SmallCNN has no setting 'size'"),
        ("weak", "1", "weak cannot be '1'; known are: CTAugment"),
        ("method", "fixmatch", "method cannot be 'fixmatch'; did you mean 'FixMatch'"),
        ("method", "ReferencePrior.underspecifed", "did you mean 'ReferencePrior.underspecified'"),
        ("lables", "50", "no setting 'lables'; did you mean 'labels'"),
        ("alpha", "1", "no setting 'alpha'; did you mean 'method.alpha'"),
        ("width", "1", "no setting 'width'; did you mean 'network.width'"),
        ("nothing", "1", "known are: labels, seed, pretraining, task, network, method"),
        ("labels", "x", "labels must be a whole number"),
        ("optimizer.schedule", "linear", "schedule must be one of 'constant', 'cosine', 'seven_sixteenths'"),
    ],
)
def test_wrong_settings_are_refused_in_words(path: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        named("digits_ssl", {path: text})


def test_arguments_of_the_recipe_and_settings_inside_it() -> None:
    recipe, origin = named("digits_ssl", {"labels": "70", "method.alpha": "0.3", "network.width": "4"}, seed=2)
    assert settings_of(recipe, "task.labels") == 70
    assert settings_of(recipe, "task.seed") == 2
    assert settings_of(recipe, "method.alpha") == 0.3
    assert settings_of(recipe, "network.width") == 4
    assert origin == Origin(
        recipe="digits_ssl",
        arguments={"seed": 2, "labels": 70},
        settings={"method.alpha": "0.3", "network.width": "4"},
        defaults={"pretraining": "none"},
    )


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no recipe 'digit_ssl'; did you mean 'digits_ssl'.*mnist_ssl"):
        named("digit_ssl", {})


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_a_record_and_can_be_built(name: str) -> None:
    assert len((RECIPES[name].__doc__ or "").splitlines()[0]) > 20
    assert named(name, {}, seed=1).recipe.seed == 1


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("settings", [{}, {"steps": "2000", "ema": "0.1", "seed": "7"}])
def test_every_recipe_reads_back_exactly(name: str, settings: dict[str, str]) -> None:
    recipe = named(name, settings).recipe
    text = recipe.to_json()
    again = rp.Recipe.from_json(text)
    assert again.to_json() == text
    assert type(again.network()).__name__ == type(recipe.network()).__name__
    assert again.method == recipe.method
    assert again.task == recipe.task


def test_the_data_of_a_task_are_a_setting_too() -> None:
    recipe = override(digits_ssl(), {"task.data": "mnist"})
    assert settings_of(recipe, "task.data") == "mnist"
    pair = named("digits_transfer", {"task.source.data": "mine.npz"}).recipe
    assert settings_of(pair, "task.source.data") == "mine.npz"


def test_naming_the_part_that_is_there_keeps_its_settings() -> None:
    recipe = named("cifar10_ssl_small", {"method": "ReferencePrior"}).recipe
    assert recipe.to_dict() == named("cifar10_ssl_small", {}).recipe.to_dict()
    assert settings_of(named("cifar10_ssl_small", {"method": "FixMatch"}).recipe, "method.weight") == 1.0


def test_labels_are_in_all_wherever_they_are_set() -> None:
    first, second = named("digits_ssl", {"labels": "70"}).recipe, named("digits_ssl", {"task.labels": "70"}).recipe
    assert first.to_dict() == second.to_dict()
    assert len(first.read_task().labeled) == 70
    with pytest.raises(ValueError, match=r"labels must be a multiple of the 10 classes, for example \d+, got 7"):
        named("digits_ssl", {"labels": "7"})


def test_a_recipe_of_the_users_file_is_found_by_its_path(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import refprior as rp\n\n\ndef mine(width: int = 4, seed: int = 0) -> rp.Recipe:\n"
        "    return rp.recipes.override(rp.recipes.digits_ssl(seed=seed), {'network.width': width})\n"
    )
    recipe, origin = named(f"{file}:mine", {"width": "5", "steps": "3"}, seed=2)
    assert (settings_of(recipe, "network.width"), recipe.steps, recipe.seed) == (5, 3, 2)
    assert origin.changes == {"width": "5", "steps": "3"}
    with pytest.raises(ValueError, match=r"mine\.py has no function 'yours'"):
        named(f"{file}:yours", {})
    with pytest.raises(ValueError, match=r"absent\.py is not a file"):
        named("absent.py:mine", {})


@pytest.mark.parametrize(("choice", "expected"), [("a", "a"), ("c", None)])
def test_words_are_among_their_choices(choice: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="x must be one of 'a', 'b', got 'c'"):
            parse(choice, Literal["a", "b"], "x")
    else:
        assert parse(choice, Literal["a", "b"], "x") == expected
