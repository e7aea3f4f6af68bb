"""Recipes: wrong ones are refused, and all read back from JSON as they were."""

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.data import FewLabels, Identity, Pair, PrincipalComponents, Standardize
from refprior.methods import FixMatch, InformationOnly, ReferencePrior, Supervised, Transfer, UnsupervisedTransfer
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.recipes import RECIPES
from refprior.training import Optimizer, Recipe, train
from refprior.training.recipe import custom_parts
from refprior.views import CTAugment, Distort, FlipCrop, RandAugment, Shift, Unchanged
from tests.training.recipes import (
    Own,
    Wants,
    colors,
    convolutional,
    first_stage,
    perceptron,
    second_stage,
    transferring,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"particles": 0}, "particles must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number of at least 1, got 2.5"),
        ({"skip_not_finite": -4}, "skip_not_finite must be a whole number of at least 0, got -4"),
        ({"seed": -5}, "seed must be a whole number of at least 0 and at most 4294967292, got -5"),
        ({"task": 3}, "task must be a function or a part of refprior, got 3"),
        ({"task": "digits"}, "task must be a function or a part of refprior, got 'digits'"),
        ({"inputs": FewLabels()}, "inputs must be "),
        ({"optimizer": "adam"}, "optimizer must be "),
        ({"ema": 1.0}, "ema must be at least 0 and below 1, got 1.0"),
        ({"method": ReferencePrior(order=13)}, "unlabeled_batch=12 is less than one tuple of 13 inputs"),
        ({"method": ReferencePrior}, "method is the class ReferencePrior: write ReferencePrior"),
        ({"network": colors()}, "network must be a function"),
        ({"method": lambda step: None}, "<lambda> is not a method: it does not declare its `needs`"),
        ({"precision": "half"}, "precision must be"),
        ({"readout": "labels"}, "readout must be"),
        ({"optimizer": Optimizer(warmup=12)}, "12 steps of warm-up do not fit a run of 12 steps"),
        ({"start": perceptron(particles=3)}, "the first stage has 3 particles, this one 2"),
        ({"head": "new"}, "head='new' is for a second stage"),
        ({"unlabeled_unit": "pairs"}, "unlabeled_unit must be"),
    ],
)
def test_a_bad_recipe_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perceptron(**changes)


def test_a_task_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"task must give a refprior\.data\.Task, got list"):
        perceptron(task=lambda: []).read_task()


def test_a_task_is_taken_as_it_is_or_from_a_function() -> None:
    task = colors()
    assert perceptron(task=task).read_task() is task
    assert perceptron(task=lambda: task).read_task() is task


CASES: dict[str, Callable[[], Recipe]] = {
    **{f"recipe {name}": function for name, function in RECIPES.items()},
    "two stages": second_stage,
    "three stages": lambda: second_stage(start=second_stage(), head="probe"),
    "transfer": transferring,
    "a pair with settings": lambda: transferring(
        task=Pair(FewLabels("cifar10", labels=None, shrink=2), FewLabels("cifar10", labels=0, classes=(3, 1))),
        method=UnsupervisedTransfer(target=ReferencePrior(order=3, alpha=1 / 3), beta=0.1 + 0.2),
    ),
    "superclass": lambda: convolutional(task=FewLabels("cifar100", labels=50, classes="fish", imbalance=1.7)),
    "a file": lambda: convolutional(task=FewLabels("data/été.npz", labels=None, folder="somewhere else")),
    "components": lambda: convolutional(inputs=PrincipalComponents(count=7, whitening=1 / 7, scale=np.pi)),
    "pixels": lambda: convolutional(inputs=Standardize(center="pixel", scale=1e-3)),
    "identity": lambda: convolutional(inputs=Identity()),
    "nested views": lambda: convolutional(
        weak=FlipCrop(pad=3), strong=CTAugment(weak=FlipCrop(pad=1), cutout=4, decay=0.123456789)
    ),
    "no views": lambda: convolutional(weak=Unchanged(), strong=RandAugment(), method=FixMatch(threshold=0.7)),
    "a class as a network": lambda: convolutional(network=partial(WideResNet, (3, 32, 32), 10, momentum=1e-5)),
    "positional settings": lambda: convolutional(network=partial(SmallCNN, (1, 8, 8), 10, 4, 16)),
    "adam": lambda: convolutional(
        optimizer=Optimizer(kind="adam", learning_rate=5e-324, decay=1e6, schedule="constant")
    ),
    "no labels": lambda: convolutional(method=InformationOnly(order=1, trainable_prior=True), readout="consensus"),
    "numbers of numpy": lambda: convolutional(
        seed=np.int64(3),
        steps=np.int32(11),
        ema=np.float32(0.9),
        task=FewLabels("digits", labels=np.int64(20)),  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_recipe_reads_back_exactly(case: str) -> None:
    recipe = CASES[case]()
    again = Recipe.from_json(recipe.to_json())
    assert again.to_dict() == recipe.to_dict() == json.loads(recipe.to_json())
    assert again.to_json() == recipe.to_json()
    assert isinstance(again, Recipe)
    assert type(again.method) is type(recipe.method)
    assert again.method == recipe.method
    assert again.task == recipe.task
    assert again.optimizer == recipe.optimizer
    assert (again.start is None) == (recipe.start is None)


@given(
    st.floats(1e-300, 1e300), st.floats(0, 1, exclude_max=True), st.floats(0, 1), st.integers(0, 2**32 - 4), st.data()
)
@settings(max_examples=60, deadline=None)
def test_floats_read_back_to_the_last_bit(
    rate: float, ema: float, alpha: float, seed: int, data: st.DataObject
) -> None:
    recipe = perceptron(
        optimizer=Optimizer(learning_rate=rate, momentum=data.draw(st.floats(0, 1, exclude_max=True))),
        ema=ema,
        seed=seed,
        method=Transfer(target=ReferencePrior(alpha=alpha, tau=data.draw(st.floats(0.01, 0.99))), beta=alpha),
        inputs=PrincipalComponents(count=data.draw(st.integers(1, 64)), whitening=alpha, scale=rate),
        weak=Shift(pixels=data.draw(st.integers(0, 3))),
        strong=Distort(degrees=data.draw(st.floats(0, 45))),
        start=perceptron(ema=alpha / 2, method=Supervised()),
    )
    again = Recipe.from_json(recipe.to_json())
    assert again == replace(recipe, network=again.network, start=again.start)
    assert again.to_dict() == recipe.to_dict()


def test_positional_arguments_and_defaults_are_part_of_the_record() -> None:
    assert perceptron(network=partial(MLP, (1, 8, 8), classes=10)).to_dict()["network"] == {
        "type": "refprior.networks.MLP",
        "shape": [1, 8, 8],
        "classes": 10,
        "hidden": 32,
    }


def test_a_recipe_that_was_read_trains_to_the_same_bits() -> None:
    for recipe in (perceptron(), second_stage()):
        first, again = train(recipe), train(Recipe.from_json(recipe.to_json()))
        for name, tensor in first.ema.state_dict().items():
            assert tensor.equal(again.ema.state_dict()[name])


def test_own_parts_are_named_in_the_record_and_must_be_handed_in() -> None:
    method, task = Wants(FixMatch().needs), colors()
    recipe = perceptron(network=partial(Own, hidden=3), method=method, task=task, weak=lambda x, g: x)
    record = json.loads(recipe.to_json())
    source = record["network"].pop("source")
    assert len(source) == 16
    assert record["network"] == {"own": "tests.training.recipes.Own", "hidden": 3, "classes": 10}
    assert record["method"]["own"] == "tests.training.recipes.Wants"
    assert record["task"] == {"own": "refprior.data._task.Task"}
    assert record["weak"]["own"].endswith("<lambda>")
    parts = {"network": recipe.network, "method": method, "task": task, "weak": recipe.weak}
    assert Recipe.from_json(recipe.to_json(), **parts).to_dict() == recipe.to_dict()
    for name in parts:
        with pytest.raises(ValueError, match=rf"recipe\.{name} is the custom .*: pass {name}=…"):
            Recipe.from_json(recipe.to_json(), **{n: part for n, part in parts.items() if n != name})


class Sourced(Own):
    """A custom network with settings that are named like keys of its record."""

    def __init__(self, source: str, own: int = 3) -> None:
        super().__init__(hidden=own)


def test_settings_named_source_and_own_leave_the_identity_of_a_custom_part_alone() -> None:
    recipe = perceptron(network=partial(Sourced, source="camera"))
    record = json.loads(recipe.to_json())
    hashed = hashlib.sha256(inspect.getsource(Sourced).encode()).hexdigest()[:16]
    assert record["network"] == {
        "own": "tests.training.recipe.test_recipe.Sourced",
        "source": hashed,
        "setting source": "camera",
        "setting own": 3,
    }
    network = custom_parts(record, {"Sourced": Sourced})["network"]
    assert network.keywords == {"source": "camera", "own": 3}
    assert replace(recipe, network=network).to_dict() == record


def test_what_is_handed_in_stands_for_own_parts_of_earlier_stages_only() -> None:
    recipe = second_stage(task=colors(), start=first_stage(method=Wants(FixMatch().needs)))
    handed = {"task": recipe.task, "method": Wants(FixMatch().needs)}
    again = Recipe.from_json(recipe.to_json(), **handed)
    assert again.task is recipe.task
    assert again.start is not None
    assert again.start.to_dict() == first_stage(method=handed["method"]).to_dict()


@pytest.mark.parametrize("text", ["", "[]", "3", "null", "{", '{"steps": NaN', "[" * 100_000])
def test_text_that_is_no_recipe_is_rejected_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        Recipe.from_json(text)
