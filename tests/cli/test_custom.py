"""`--custom FILE.py`: commands on runs with a custom network, method, inputs and view, trained by the command line."""

import csv
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import refprior as rp
from refprior.cli import main

SOURCE = '''
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

import refprior as rp


class Network(nn.Module):
    def __init__(self, classes: int, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x)


@dataclass(frozen=True)
class Half:
    """A custom method around one of refprior."""

    inner: rp.methods.Supervised = rp.methods.Supervised()
    weight: float = 1.0

    @property
    def needs(self):
        return self.inner.needs

    def __call__(self, step):
        return self.inner(step)


@dataclass(frozen=True)
class Scale:
    """Custom inputs."""

    factor: float = 2.0

    def fit(self, parts):
        return rp.data.Standardize().fit(parts)


def weak(inputs, generator, scale=1):
    return scale * inputs


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.5)


def recipe(labels: int = 50, seed: int = 0) -> rp.Recipe:
    small = rp.recipes.override(rp.recipes.digits_ssl(labels=labels, seed=seed), {"steps": 2, "unlabeled_batch": 8})
    return replace(
        small,
        network=partial(Network, classes=10, width=5),
        method=Half(weight=0.5),
        inputs=Scale(3.0),
        weak=partial(weak, scale=2),
        optimizer=momentum,
    )
'''


def succeed(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def rejected(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mine.py, inputs, and a run of its recipe trained by the command line."""
    folder = tmp_path_factory.mktemp("custom")
    (folder / "mine.py").write_text(SOURCE)
    succeed("train", f"{folder / 'mine.py'}:recipe", "--out", str(folder / "run"))
    np.savez(folder / "new.npz", images=np.zeros((3, 8, 8), np.uint8))
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "run", "new.npz", "--out", "found.csv"],
        ["export", "run", "--out", "model.pt2", "--format", "torch"],
        ["evaluate", "run"],
        ["suggest", "run", "--budget", "2"],
        ["embed", "run"],
        ["report", "run"],
    ],
)
def test_commands_take_the_file(
    trained: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained)
    if command[0] not in ("embed", "report"):  # which need the network for a part of the page only
        assert "or --custom FILE.py" in rejected(capsys, *command)
    succeed(*command, "--custom", "mine.py")
    if command[0] == "report":
        assert "<h2>Examples</h2>" in Path("report.html").read_text()
    assert "has changed since the training" not in capsys.readouterr().err


def test_answers_continue_a_custom_run(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained)
    succeed("suggest", "run", "--budget", "2", "--custom", "mine.py")
    succeed("answer", "run", "3", "5", "--train", "next", "--set", "steps=3", "--custom", "mine.py")
    record = json.loads((trained / "next" / "recipe.json").read_text())["recipe"]
    assert record["network"]["width"] == 5
    assert record["method"]["weight"] == 0.5
    assert record["inputs"]["factor"] == 3.0


def test_a_saved_predictor(trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(trained)
    from refprior.recipes import definitions

    run = rp.load("run", **rp.training.custom_parts("run", definitions("mine.py")))
    run.predictor().save("model")
    assert "network is the custom" in rejected(capsys, "predict", "model", "new.npz")
    succeed("predict", "model", "new.npz", "--out", "saved.csv", "--custom", "mine.py")
    with (trained / "saved.csv").open(newline="") as file:
        found = [row["class"] for row in csv.DictReader(file)]
    assert found == run.predictor().predict(np.zeros((3, 1, 8, 8), np.uint8)).tolist()


def test_only_what_the_file_defines_is_called(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record cannot name what the file merely imports."""
    (tmp_path / "other.py").write_text("from os import system as Network\n")
    command = ["predict", str(trained / "run"), str(trained / "new.npz"), "--custom", str(tmp_path / "other.py")]
    assert "the file defines no class or function 'Network'" in rejected(capsys, *command)
    assert "is not a file" in rejected(capsys, *command[:-1], str(tmp_path / "absent.py"))


def test_an_edited_file_is_warned_about(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(SOURCE.replace("nn.ReLU()", "nn.Tanh()"))
    succeed("predict", str(trained / "run"), str(trained / "new.npz"), "--custom", str(tmp_path / "mine.py"))
    assert "the code of network has changed since the training" in capsys.readouterr().err


def test_a_run_from_python_is_the_same(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.syspath_prepend(trained)
    rp.train(importlib.import_module("mine").recipe(), "python")
    succeed("predict", "python", "new.npz", "--out", "python.csv", "--custom", "mine.py")
    succeed("predict", "run", "new.npz", "--out", "shell.csv", "--custom", "mine.py")
    assert "has changed since the training" not in capsys.readouterr().err
    assert Path("python.csv").read_text() == Path("shell.csv").read_text()
