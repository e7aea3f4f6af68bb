"""A custom method and network have one identity, whether a script or the command line runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refprior.training.recipe._parts import identity
from tests.training.interruption import assert_same_run

MINE = """
import os
import signal
from dataclasses import dataclass, replace

from torch import nn

import refprior as rp


class Network(nn.Sequential):
    def __init__(self, hidden: int = 8) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, 10))


@dataclass(frozen=True)
class Fit:
    weight: float = 1.0
    needs = rp.Needs(views=())

    def __call__(self, step: rp.Step) -> rp.Loss:
        if str(step.number) == os.environ.get("STOP_AT"):
            os.kill(os.getpid(), signal.SIGTERM)
        (labeled,) = step.predict(step.batch.labeled)
        return rp.Loss.of(self.weight * rp.losses.supervised(labeled, step.batch.labels, step.log_prior).total)


def recipe() -> rp.Recipe:
    return replace(rp.recipes.digits_ssl(labels=50), network=Network, method=Fit(), steps=20, evaluate_every=10)


if __name__ == "__main__":
    rp.train(recipe(), "run")
"""
SCRIPT = ("mine.py",)
COMMAND = ("-m", "refprior", "train", "mine.py:recipe", "--out", "run")
MODULE = ("-m", "mine")


def run(arguments: tuple[str, ...], folder: Path, stop_at: str = "") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(MINE)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "STOP_AT": stop_at},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode == 0) is not bool(stop_at), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(SCRIPT, COMMAND, id="script", marks=pytest.mark.thorough),
        pytest.param(COMMAND, SCRIPT, id="command"),
        pytest.param(MODULE, COMMAND, id="module", marks=pytest.mark.thorough),
    ],
)
def test_either_resumes_what_the_other_began(first: tuple[str, ...], second: tuple[str, ...], tmp_path: Path) -> None:
    run(first, tmp_path / "whole")
    assert "stopped at step 7 of 20" in run(first, tmp_path / "cut", stop_at="7")
    run(second, tmp_path / "cut")
    assert_same_run(tmp_path / "whole" / "run", tmp_path / "cut" / "run")
    recipe = json.loads((tmp_path / "cut" / "run" / "recipe.json").read_text())["recipe"]
    assert (recipe["method"]["own"], recipe["network"]["own"]) == ("mine.Fit", "mine.Network")


def test_the_identity_of_an_imported_part_is_its_module_and_name() -> None:
    assert identity(Path) == f"{Path.__module__}.Path"
    assert identity(test_either_resumes_what_the_other_began).startswith("tests.training.test_identity.")
