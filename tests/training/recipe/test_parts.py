"""Reading a record resolves only names that refprior publishes: nothing else is imported or called."""

import builtins
import json
import os
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior import _files
from refprior.data import FewLabels
from refprior.networks import MLP
from refprior.training import Recipe, load, train
from refprior.training.recipe._parts import Part, public_name, published, put_together, take_apart, to_plain
from refprior.views import Shift, Unchanged
from tests.records import content, seal
from tests.training.recipes import Own, colors, learning_view, perceptron, second_stage, transferring

RECORD: dict[str, Any] = json.loads(perceptron().to_json())
CANARY = "this"  # prints when it is imported, and nothing else imports it


def with_part(field: str, value: Any) -> dict[str, Any]:
    return {**deepcopy(RECORD), field: value}


def nested(depth: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"type": "refprior.views.CTAugment", "weak": value}
    return value


def stages(depth: int) -> Any:
    value = None
    for _ in range(depth):
        value = {**RECORD, "start": value}
    return value


CRAFTED: dict[str, tuple[dict[str, Any], str]] = {
    "os.system": (with_part("task", {"type": "os.system", "command": "touch canary"}), "names 'os.system'"),
    "os.system as network": (with_part("network", {"type": "os.system", "command": "touch canary"}), "'os.system'"),
    "builtins.eval": (with_part("method", {"type": "builtins.eval", "source": "open('canary', 'w')"}), "builtins.eval"),
    "eval": (with_part("method", {"type": "eval"}), "names 'eval'"),
    "a function of ours": (
        with_part("weak", {"type": "refprior._files.write_text", "path": "canary", "text": "x"}),
        "names 'refprior._files.write_text'",
    ),
    "a private name": (with_part("task", {"type": "refprior.data._few_labels.FewLabels"}), "not part of refprior.data"),
    "a function": (with_part("weak", {"type": "refprior.views.default_views"}), "not part of refprior.views"),
    "a module": (with_part("method", {"type": CANARY}), "names 'this'"),
    "a dunder": (with_part("method", {"type": "refprior.methods.__class__"}), "names 'refprior.methods.__class__'"),
    "a loader": (with_part("task", {"type": "refprior.data.__loader__.exec_module"}), "not part of refprior.data"),
    "a path": (with_part("network", {"type": "../../canary.py:Net"}), r"names '\.\./\.\./canary\.py:Net'"),
    "a path of the package": (with_part("network", {"type": "refprior.networks./canary.py"}), "not part of"),
    "another room": (with_part("task", {"type": "refprior.networks.MLP", "shape": [1], "classes": 2}), "refprior.data"),
    "another room inside": (
        with_part("strong", {"type": "refprior.views.CTAugment", "weak": {"type": "refprior.data.FewLabels"}}),
        r"recipe\.strong\.weak names 'refprior\.data\.FewLabels'",
    ),
    "inputs as a task": (with_part("task", {"type": "refprior.data.Standardize"}), "task must be a function"),
    "a task as inputs": (with_part("inputs", {"type": "refprior.data.FewLabels"}), "inputs must be"),
    "an unknown setting": (with_part("weak", {"type": "refprior.views.Shift", "color": 3}), "no setting 'color'"),
    "a dunder as a setting": (with_part("weak", {"type": "refprior.views.Shift", "__class__": 3}), "'__class__'"),
    "a setting where there is none": (with_part("weak", {"type": "refprior.views.Unchanged", "images": 3}), "'images'"),
    "a missing setting": (with_part("network", {"type": "refprior.networks.MLP", "shape": [64]}), "lacks .*'classes'"),
    "an unknown field": (with_part("hook", {"type": "os.system"}), "Recipe has no setting 'hook'"),
    "a missing field": ({n: v for n, v in RECORD.items() if n != "method"}, "Recipe lacks the setting 'method'"),
    "no type": (with_part("method", {"order": 2}), "recipe.method names None"),
    "a type that is a list": (with_part("method", {"type": ["refprior.methods.FixMatch"]}), "recipe.method names"),
    "a list of parts": (with_part("method", [{"type": "refprior.methods.FixMatch"}]), "recipe.method must name a part"),
    "a number": (with_part("method", 3), "recipe.method must name a part of refprior.methods, got 3"),
    "a word": (with_part("network", "MLP"), "recipe.network must name a part of refprior.networks, got 'MLP'"),
    "nothing": (with_part("weak", None), "recipe.weak must name a part of refprior.views, got None"),
    "a part as a number": (with_part("steps", {"type": "refprior.methods.FixMatch"}), "recipe.steps must be a number"),
    "a list as a number": (with_part("seed", [1]), "recipe.seed must be a number or a word, got list"),
    "a word as a number": (with_part("steps", "12"), "steps must be a whole number"),
    "a stage that is a list": (with_part("start", [1]), "recipe.start must be a dictionary of settings, got list"),
    "a bad stage": (with_part("start", with_part("task", {"type": "os.system"})), "start.task names 'os.system'"),
    "own that is no word": (with_part("method", {"own": {"own": 3}}), "recipe.method"),
    "own in two lines": (with_part("method", {"own": "one\ntwo"}), "recipe.method"),
    "classes that are a number": (with_part("task", {"type": "refprior.data.FewLabels", "classes": 5}), "recipe.task"),
    "deep lists": (with_part("task", nested(400, "list")), "nested"),
    "deep parts": (with_part("strong", nested(300, "part")), "nested"),
    "deep inside a part": (with_part("weak", {"type": "refprior.views.Shift", "pixels": nested(400, "list")}), "deep"),
    "many stages": (stages(300), "nested"),
}  # fmt: skip


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is imported, no file appears, and none of these functions is called."""

    def refuse(*arguments: Any, **settings: Any) -> None:
        raise AssertionError("called")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", refuse)
    monkeypatch.setattr(builtins, "eval", refuse)
    monkeypatch.setattr(_files, "write_text", refuse)
    assert CANARY not in sys.modules
    modules = set(sys.modules)
    yield
    assert set(sys.modules) == modules
    assert not list(tmp_path.rglob("*canary*"))


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_record_is_rejected_in_one_line(case: str, watched: None) -> None:
    record, message = CRAFTED[case]
    with pytest.raises(ValueError, match=message) as caught:
        Recipe.from_dict(record)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
    with pytest.raises(ValueError, match=message):
        Recipe.from_json(json.dumps(record))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    train(perceptron(steps=2), path)
    return path


@pytest.mark.parametrize("case", [case for case in CRAFTED if case not in ("own that is no word", "own in two lines")])
def test_a_run_folder_with_a_crafted_recipe_is_rejected(
    case: str, finished: Path, tmp_path: Path, watched: None
) -> None:
    crafted = tmp_path / "crafted"
    crafted.mkdir()
    seal(crafted / "recipe.json", {**content(finished / "recipe.json"), "recipe": CRAFTED[case][0]})
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        load(crafted)
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        train(perceptron(steps=2), crafted)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a record can be changed."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def changed(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = deepcopy(record)
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return copy


RECORDS: list[Any] = [
    json.loads(r.to_json())
    for r in (perceptron(), second_stage(), transferring(), learning_view(task=FewLabels("cifar100", classes="fish")))
]
NAMES = st.sampled_from([*published(), "os.system", "refprior", "digits", "adam"])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | NAMES
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("type"), inner)
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_record_is_read_or_rejected(data: st.DataObject) -> None:
    record = data.draw(st.sampled_from(RECORDS))
    for _ in range(data.draw(st.integers(1, 3))):
        record = changed(record, data.draw(st.sampled_from(list(places(record)))), data.draw(VALUES))
    problem = ""
    try:
        Recipe.from_dict(record)
    except ValueError as error:
        problem = str(error)
    assert len(problem.splitlines()) <= 1


def test_every_published_name_is_its_own_and_can_be_found_under_it() -> None:
    import refprior

    names = published()
    assert {"refprior.data.FewLabels", "refprior.views.Unchanged", "refprior.training.Optimizer"} <= names.keys()
    for name, make in names.items():
        _, room, last = name.split(".")
        assert getattr(getattr(refprior, room), last) is make
        assert public_name(make) == name
    assert public_name(Own) is None


@pytest.mark.parametrize(
    ("value", "make", "count"),
    [
        (Shift(pixels=2), Shift, 1),
        (partial(MLP, (1, 8, 8), classes=10), MLP, 3),
        (Own, Own, 2),
        (Unchanged(), Unchanged, 0),
        (colors, colors, 0),
    ],
)
def test_taking_apart_and_putting_together_give_the_same(value: Any, make: Callable[..., Any], count: int) -> None:
    part = take_apart(value)
    assert isinstance(part, Part)
    assert part.make is make
    assert len(part.settings) == count
    again = put_together(part)
    assert to_plain(take_apart(again)) == to_plain(part)
    assert type(again) is type(value) or isinstance(again, partial)


def test_numbers_words_and_ranges_stay_plain() -> None:
    assert to_plain(take_apart((1, [2.5, "three"], range(2), None, True))) == [1, [2.5, "three"], [0, 1], None, True]
    assert to_plain(float("nan")) == {"own": "builtins.float"}  # JSON has no such number
