"""A function of parameters as the optimizer: schedule, exact resume, identity in recipe.json."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from refprior.recipes import override
from refprior.training import Optimizer, Recipe, load, train
from tests.training.interruption import assert_same_run, interrupted_at
from tests.training.recipes import perceptron


def rmsprop(parameters: list[Tensor], rate: float = 1e-3) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(parameters, lr=rate, momentum=0.9)


def adafactor(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adafactor(parameters, lr=1e-2)


class Counting(torch.optim.Optimizer):
    """Keeps numbers in its state and in its group, and a tensor in double precision."""

    def __init__(self, parameters: list[Tensor]) -> None:
        super().__init__(parameters, {"lr": 0.1, "total": 0.0, "calls": 0, "on": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["calls"] += 1
            group["total"] += 0.1
            for parameter in (p for p in group["params"] if p.grad is not None):
                state = self.state[parameter]
                state["count"] = state.get("count", 0) + 1
                state["scale"], state["nothing"] = state.get("scale", 1.0) * 0.99, None
                state["sum"] = state.get("sum", torch.zeros_like(parameter, dtype=torch.float64)) + parameter.grad / 3
                factor = group["lr"] * state["scale"] / (state["count"] + group["total"])
                parameter.sub_((factor * state["sum"]).float())


@pytest.mark.parametrize(
    "make", [rmsprop, partial(rmsprop, rate=1e-2), adafactor, Counting], ids=["function", "partial", "factors", "class"]
)
def test_a_custom_optimizer_resumes_bit_for_bit(make: Any, tmp_path: Path) -> None:
    recipe = perceptron(optimizer=make)
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [5, 10])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_its_learning_rate_is_constant_unless_a_schedule_is_given() -> None:
    rates = [record.learning_rate for record in train(perceptron(optimizer=rmsprop)).history]
    assert set(rates) == {1e-3}
    scheduled = perceptron(optimizer=Optimizer(kind=rmsprop, schedule="cosine", warmup=2))
    rates = [record.learning_rate for record in train(scheduled).history]
    expected = [1e-3 * scheduled.optimizer.factor(step - 1, 12) for step in (5, 10, 12)]
    assert rates == expected


def test_groups_keep_the_ratio_of_their_rates() -> None:
    def two(parameters: list[Tensor]) -> torch.optim.Optimizer:
        groups: list[dict[str, Any]] = [{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:]}]
        return torch.optim.SGD(groups, lr=1.0)

    optimizer = Optimizer(kind=two, schedule="cosine")
    parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
    built = two(parameters)  # type: ignore[arg-type]
    for group in built.param_groups:
        group["initial_lr"] = group["lr"]
    assert optimizer.set_rate(built, 50, 100) == pytest.approx(0.05)
    assert [group["lr"] for group in built.param_groups] == pytest.approx([0.05, 0.5])


def test_recipe_json_names_it_and_loading_needs_it_for_nothing_but_training(tmp_path: Path) -> None:
    recipe = perceptron(optimizer=rmsprop)
    run = train(recipe, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "recipe.json").read_text())["recipe"]["optimizer"]
    assert record["kind"]["own"] == "tests.training.test_custom_optimizer.rmsprop"
    inputs = run.task.unlabeled[:5]
    assert (load(tmp_path / "run").predict_proba(inputs) == run.predict_proba(inputs)).all()
    again = Recipe.from_dict(recipe.to_dict(), optimizer=recipe.optimizer)
    assert again.optimizer == recipe.optimizer
    with pytest.raises(ValueError, match="was made by another recipe: optimizer"):
        train(perceptron(optimizer=adafactor), tmp_path / "run")


def test_a_typed_recipe_accepts_a_function_and_holds_an_optimizer() -> None:
    optimizer: Optimizer = replace(perceptron(), optimizer=rmsprop).optimizer  # mypy checks both sides
    assert optimizer == Optimizer(kind=rmsprop, schedule="constant")


def test_settings_change_its_schedule() -> None:
    changed = override(perceptron(optimizer=rmsprop), {"optimizer.schedule": "cosine", "optimizer.warmup": "3"})
    assert changed.optimizer == Optimizer(kind=rmsprop, schedule="cosine", warmup=3)
    assert override(changed, {"optimizer.kind": "adam"}).optimizer.kind == "adam"


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="learning_rate has no effect on a custom optimizer: set it in the function"):
        Optimizer(kind=rmsprop, learning_rate=0.1)
    with pytest.raises(ValueError, match=r"optimizer must return a torch.optim.Optimizer, got a list"):
        train(perceptron(optimizer=list))
    with pytest.raises(ValueError, match="optimizer must be an Optimizer or a function of parameters, got 3"):
        replace(perceptron(), optimizer=3)  # type: ignore[arg-type]
