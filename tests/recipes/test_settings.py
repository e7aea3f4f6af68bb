"""Settings by dotted name: typed, copied, and refused in words."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pytest

from refprior.methods import ReferencePrior
from refprior.recipes import RECIPES, named
from refprior.recipes._settings import override, parse


@dataclass(frozen=True)
class Inner:
    flag: bool = False
    number: float | None = None
    choice: Literal["a", "b"] = "a"


def build(size: int, inner: Inner) -> int:
    return size


@dataclass(frozen=True)
class Outer:
    make: Any = field(default_factory=lambda: partial(build, size=1, inner=Inner()))
    count: int = 3


def test_nested_settings_change_a_copy() -> None:
    before = Outer()
    after = override(override(before, "make.inner.flag", "true"), "make.size", "7")
    assert after.make.keywords == {"size": 7, "inner": Inner(flag=True)}
    assert before.make.keywords == {"size": 1, "inner": Inner()}


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
    ],
)
def test_values_are_read_by_type(text: str, hint: Any, expected: object) -> None:
    assert parse(text, hint, "x") == expected


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("method.alhpa", "1", "ReferencePrior has no setting 'alhpa'; did you mean 'alpha'"),
        ("method.alpha", "much", "alpha must be a number, got 'much'"),
        ("method.order", "2.5", "order must be a whole number, got '2.5'"),
        ("method.jensen", "maybe", "jensen must be true or false, got 'maybe'"),
        ("method.marginal_views", "both", "must be one of 'mixture', 'weak', got 'both'"),
        ("steps.more", "1", "'steps' has no settings of its own"),
        ("network.size", "1", "SmallCNN has no setting 'size'"),
        ("weak", "1", "weak must be set from Python"),
        ("nothing", "1", "known are: task, network, method"),
        ("labels", "x", "labels must be a whole number"),
        ("optimiser.schedule", "linear", "schedule must be one of 'constant', 'cosine', 'seven_sixteenths'"),
    ],
)
def test_wrong_settings_are_refused_in_words(path: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        named("digits_ssl", {path: text})


def test_arguments_of_the_recipe_and_settings_inside_it() -> None:
    recipe, origin = named("digits_ssl", {"labels": "70", "method.alpha": "0.3", "network.width": "4"}, seed=2)
    assert recipe.task.keywords == {"labels": 7, "seed": 2}  # type: ignore[attr-defined]
    assert isinstance(recipe.method, ReferencePrior)
    assert recipe.method.alpha == 0.3
    assert recipe.network.keywords["width"] == 4  # type: ignore[attr-defined]
    assert origin == {
        "recipe": "digits_ssl",
        "arguments": {"seed": 2, "labels": 70},
        "settings": {"method.alpha": "0.3", "network.width": "4"},
    }


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no recipe 'digit_ssl'; did you mean 'digits_ssl'.*mnist_ssl"):
        named("digit_ssl", {})


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_a_record_and_can_be_built(name: str) -> None:
    assert len((RECIPES[name].__doc__ or "").splitlines()[0]) > 20
    assert named(name, {}, seed=1).recipe.seed == 1
