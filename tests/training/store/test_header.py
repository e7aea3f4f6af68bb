"""recipe.json: what it says, and which runs go on: the same recipe, the same data, the same network."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import refprior
from refprior.data import Examples, Task
from refprior.methods import FixMatch, ReferencePrior
from refprior.networks import MLP
from refprior.recipes import named
from refprior.report import summarize, write_report
from refprior.training import Origin, Recipe, Stopped, load, train
from refprior.training.store._header import differences, read_header
from tests import records
from tests.records import content, seal
from tests.training.interruption import assert_same_run, signal_at, stop
from tests.training.recipes import Own, colors, convolutional, perceptron, second_stage

SHORT = {"steps": "6", "unlabeled_batch": "8", "labeled_batch": "10", "evaluate_every": "3", "network.width": "4"}
ONE_LINE = r"\A[^\n]+\Z"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    recipe, origin = named("digits_ssl", {**SHORT, "labels": "60"}, seed=3)
    train(recipe, path, origin=origin)
    return path


def test_a_run_folder_can_be_read_without_the_program(finished: Path) -> None:
    assert sorted(p.name for p in finished.iterdir()) == ["checkpoints", "metrics.jsonl", "recipe.json"]
    header = json.loads((finished / "recipe.json").read_text())
    assert header.keys() == {"format", "recipe", "data", "tensors", "origin", "environments", "checksum"}
    assert header["format"] == 3
    arguments = {"seed": 3, "labels": 60}
    defaults = {"pretraining": "none"}
    origin = {"recipe": "digits_ssl", "arguments": arguments, "settings": SHORT, "defaults": defaults, "own": {}}
    assert header["origin"] == origin
    assert header["recipe"]["method"]["type"] == "refprior.methods.ReferencePrior"
    task = header["recipe"]["task"]
    assert {name: task[name] for name in ("type", "data", "labels", "seed", "validation")} == {
        "type": "refprior.data.FewLabels",
        "data": "digits",
        "labels": 60,
        "seed": 3,
        "validation": 300,
    }
    assert header["data"]["parts"]["labeled"]["count"] == 60
    assert re.fullmatch("[0-9a-f]{64}", header["data"]["parts"]["unlabeled"]["sha256"])
    assert header["tensors"]["9.weight"] == [10, 64]
    assert header["environments"][0]["packages"].keys() >= {"refprior", "torch", "numpy"}
    steps = [json.loads(line)["step"] for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert steps == [3, 6]


def test_the_run_folder_says_how_to_repeat_it(finished: Path) -> None:
    (environment,) = json.loads((finished / "recipe.json").read_text())["environments"]
    words = environment["repeat"].split()
    assert words[:5] == ["refprior", "train", "digits_ssl", "--seed", "3"]
    settings = dict(word.split("=") for word in words[words.index("--set") + 1 :])
    assert named("digits_ssl", settings, seed=3).recipe.to_dict() == read_header(finished).recipe
    assert settings["labels"] == "60"
    assert environment.keys() >= {"python", "packages", "machine", "threads", "started", "commit"}


def test_a_run_made_from_python_has_no_command_to_repeat_it(tmp_path: Path) -> None:
    train(perceptron(steps=1), tmp_path / "run")
    header = read_header(tmp_path / "run")
    assert header.origin is None
    assert header.environments[0]["repeat"] is None


def test_every_time_that_it_was_trained_adds_an_environment(tmp_path: Path) -> None:
    recipe, origin = named("digits_ssl", SHORT)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train(recipe, tmp_path / "run", origin=origin, watch=stop)
    assert len(read_header(tmp_path / "run").environments) == 2
    defaults = {"labels": 50, "seed": 0, "pretraining": "none"}
    assert read_header(tmp_path / "run").origin == origin == Origin("digits_ssl", {}, SHORT, defaults)


def test_differences_are_named_by_their_places() -> None:
    old, new = perceptron(), perceptron(method=ReferencePrior(alpha=0.2), weak=lambda x, g: x, start=perceptron())
    changes = differences(old.to_dict(), new.to_dict())
    assert changes[0] == "method.alpha: 0.1 → 0.2"
    assert any(change.startswith("weak.own: None → ") for change in changes)
    assert any(change.startswith("start: None → ") for change in changes)
    assert differences(old.to_dict(), json.loads(perceptron().to_json())) == []


def test_a_changed_recipe_is_shown_as_a_difference(tmp_path: Path) -> None:
    train(convolutional(), tmp_path / "run")
    with pytest.raises(ValueError, match=r"method.alpha: 0.1 → 0.2; ema: 0.99 → 0.5 \(there → now\)"):
        train(convolutional(method=ReferencePrior(alpha=0.2), ema=0.5), tmp_path / "run")


def with_part(task: Task, part: str, images: Tensor, labels: Tensor | None) -> Task:
    return replace(task, **{part: images if labels is None else Examples(images, labels)})  # type: ignore[arg-type]


def part_of(task: Task, part: str) -> tuple[Tensor, Tensor | None]:
    """Copies of the images and labels; the pool has no labels."""
    found = getattr(task, part)
    return (found.clone(), None) if isinstance(found, Tensor) else (found.inputs.clone(), found.labels.clone())


def changed_pixel(task: Task, part: str) -> Task:
    images, labels = part_of(task, part)
    images[3, 0, 1, 2] ^= 1
    return with_part(task, part, images, labels)


def changed_label(task: Task, part: str) -> Task:
    images, labels = part_of(task, part)
    assert labels is not None
    labels[-1] = 1 - labels[-1]
    return with_part(task, part, images, labels)


def added_image(task: Task, part: str) -> Task:
    images, labels = part_of(task, part)
    more = None if labels is None else torch.cat([labels, labels[:1]])
    return with_part(task, part, torch.cat([images, images[:1]]), more)


CHANGES: list[tuple[Callable[[Task, str], Task], str, str]] = [
    (changed_pixel, "labeled", "labeled: 8 inputs of other content"),
    (changed_pixel, "unlabeled", "unlabeled: 32 inputs of other content"),
    (changed_pixel, "test", "test: 20 inputs of other content"),
    (changed_label, "labeled", "labeled: 8 inputs of other content"),
    (changed_label, "test", "test: 20 inputs of other content"),
    (added_image, "labeled", "labeled: 8 → 9 inputs"),
    (added_image, "unlabeled", "unlabeled: 32 → 33 inputs"),
    (added_image, "test", "test: 20 → 21 inputs"),
]


def given_as(kind: str, task: Task) -> Recipe:
    """The task itself, or a function that returns it: neither says in its name what is in it."""
    give = {"task": task, "function": lambda: task}[kind]
    return perceptron(task=give, network=partial(MLP, (3, 8, 8), 2), method=FixMatch(), evaluate_every=4)


@pytest.fixture(scope="module", params=["task", "function"])
def interrupted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A run on data in memory that stopped at step 4 and saved there."""
    path = tmp_path_factory.mktemp("runs") / "run"
    with pytest.raises(KeyboardInterrupt):
        train(given_as(request.param, colors()), path, watch=lambda r: stop(r) if r.step == 8 else None, save_every=0)
    return request.param, path


@pytest.mark.parametrize(("change", "part", "message"), CHANGES)
def test_a_run_does_not_go_on_with_other_data(
    interrupted: tuple[str, Path], change: Callable[[Task, str], Task], part: str, message: str
) -> None:
    kind, path = interrupted
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != ".lock"}
    with pytest.raises(ValueError, match=rf"was trained on other data: {message} \(there → now\)"):
        train(given_as(kind, change(colors(), part)), path)
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != ".lock"} == before


def test_a_run_does_not_go_on_with_other_classes_or_a_part_more(interrupted: tuple[str, Path]) -> None:
    kind, path = interrupted
    task = colors()
    with pytest.raises(ValueError, match=r"classes: \('0', '1'\) → \('red', 'blue'\)"):
        train(given_as(kind, replace(task, classes=("red", "blue"))), path)
    with pytest.raises(ValueError, match=r"other data: validation: 0 → 20 inputs \(there → now\)"):
        train(given_as(kind, replace(task, validation=task.test)), path)


def test_a_run_goes_on_with_equal_data(interrupted: tuple[str, Path], tmp_path: Path) -> None:
    kind, path = interrupted
    for file in path.rglob("*"):
        if file.is_file():
            copy = tmp_path / "copy" / file.relative_to(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    train(given_as(kind, colors()), tmp_path / "copy")
    train(given_as(kind, colors()), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "copy")


def test_a_run_does_not_go_on_with_another_network_of_the_same_name(tmp_path: Path) -> None:
    def network(width: int) -> Callable[[], nn.Module]:
        def make() -> nn.Module:
            return Own(hidden=width)

        return make

    with pytest.raises(KeyboardInterrupt):
        train(perceptron(network=network(6)), tmp_path / "run", watch=stop)
    message = r"trained with another network: body\.weight: \(6, 64\) → \(5, 64\); body\.bias: \(6,\) → \(5,\); "
    with pytest.raises(ValueError, match=message):
        train(perceptron(network=network(5)), tmp_path / "run")
    train(perceptron(network=network(6)), tmp_path / "run")


EARLIER: dict[str, Any] = {
    "origin": None,
    "recipe": {"task": "refprior.data._digits.digits", "steps": 6, "seed": 0, "labeled": 10, "unlabeled": 8},
    "environments": [],
}


@pytest.mark.parametrize(
    "record", [EARLIER, {**EARLIER, "format": 1}, {**EARLIER, "format": 2}, {**EARLIER, "format": 4}]
)
def test_a_folder_of_another_format_is_rejected_in_one_line(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "recipe.json").write_text(json.dumps(record))
    found = f"format {record['format']}" if "format" in record else "an earlier format"
    actions: list[Callable[[], object]] = [
        lambda: train(perceptron(), path),
        lambda: load(path),
        lambda: summarize(path),
        lambda: write_report([path], tmp_path / "report.html"),
    ]
    for action in actions:
        with pytest.raises(ValueError, match=ONE_LINE) as caught:
            action()
        assert f"recipe.json has {found}, this version of refprior reads format 3" in str(caught.value)
    assert [p.name for p in path.iterdir() if p.name != ".lock"] == ["recipe.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": None},
        {"recipe": []},
        {"data": None},
        {"data": {"name": 3}},
        {"tensors": {"a": "b"}},
        {"origin": 3},
        {"environments": {}},
        {"recipe": {}},
        {"recipe": {"steps": "6", "seed": 0}},
    ],
    ids=str,
)
def test_a_header_that_is_none_is_rejected_in_one_line(finished: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    seal(tmp_path / "recipe.json", {**content(finished / "recipe.json"), **change})
    with pytest.raises(ValueError, match=r"\A[^\n]*recipe\.json is not the record of a run[^\n]*\Z"):
        read_header(tmp_path)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "recipe.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"recipe\.json"):
        read_header(tmp_path)


def test_each_stage_has_its_own_record(tmp_path: Path) -> None:
    train(second_stage(), tmp_path / "run")
    whole, first = read_header(tmp_path / "run"), read_header(tmp_path / "run" / "start")
    assert whole.recipe["start"] == first.recipe
    assert whole.tensors["9.weight"] == (4, 64)
    assert first.tensors["9.weight"] == (3, 64)
    assert len(whole.data.classes) == 4
    assert len(first.data.classes) == 3


@pytest.mark.thorough
def test_the_environment_names_the_sources_and_only_a_commit_of_their_own(finished: Path, tmp_path: Path) -> None:
    (environment,) = json.loads((finished / "recipe.json").read_text())["environments"]
    assert re.fullmatch("[0-9a-f]{16}", environment["sources"])
    assert environment["instructions"] == torch.backends.cpu.get_cpu_capability()
    package = tmp_path / "project" / "site-packages" / "refprior"
    shutil.copytree(Path(refprior.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(tmp_path / "project"), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-qm", "someone's project", "--allow-empty"], check=True)
    script = (
        "from refprior.training.store._header import environment as e; f = e(None); print(f['commit'], f['sources'])"
    )
    found = {}
    for name in ("before", "after"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = done.stdout.split()
        (package / "_checks.py").write_text((package / "_checks.py").read_text() + "\n")
    assert found["before"] == ["None", environment["sources"]]
    assert found["after"][1] != environment["sources"]


def test_what_changed_since_is_said_when_a_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Stopped):
        train(perceptron(steps=4, evaluate_every=1), tmp_path / "run", watch=signal_at(2))
    header = tmp_path / "run" / "recipe.json"
    (environment,) = records.content(header)["environments"]
    records.change(header, environments=[{**environment, "threads": 77}])
    train(perceptron(steps=4, evaluate_every=1), tmp_path / "run")
    threads = torch.get_num_threads()
    assert f"resumes with threads: 77 → {threads} (then → now): the last bits may differ" in caplog.text
    caplog.clear()
    train(perceptron(steps=4, evaluate_every=1), tmp_path / "run")
    assert "the last bits" not in caplog.text
