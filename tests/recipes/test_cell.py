"""The commands of cells: run one by one they make the folders of the sweep."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from refprior.recipes import Cell, OwnData, digits_ssl, status, sweep
from refprior.recipes._cell import Plan, command
from tests.cli.running import COMMAND, environment, refprior
from tests.training.interruption import assert_same_run


def test_the_printed_commands_make_the_same_folders_as_the_sweep(tmp_path: Path) -> None:
    choice = ["--seeds", "0", "--set", "steps=3", "unlabelled_batch=8,16", "method.tau=1/3"]
    done = refprior("sweep", "digits_ssl", *choice, "--out", "it's one", "--commands", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert [state.kind for state in status(tmp_path / "it's one")] == ["waiting", "waiting"]
    for line in lines:
        assert line.startswith("refprior train digits_ssl --seed 0 --set steps=3 unlabelled_batch=")
        ours = line.replace("refprior", shlex.join(COMMAND), 1)
        subprocess.run(ours, shell=True, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    assert [state.kind for state in status(tmp_path / "it's one")] == ["done", "done"]
    settings = {"steps": "3", "unlabelled_batch": "8,16", "method.tau": "1/3"}
    for outcome in sweep("digits_ssl", tmp_path / "two", settings=settings, seeds=[0]):
        assert outcome.problem is None
        assert_same_run(tmp_path / "it's one" / outcome.cell.name, tmp_path / "two" / outcome.cell.name)


def test_a_command_says_everything_and_is_quoted() -> None:
    cell = Cell("my file.py:recipe", {"a": "x y", "b": "(1,2)"}, 3, OwnData("my data", None, "photos"))
    words = shlex.split(command(cell, Plan(Path("out"), "cuda", ("csv", "wandb"))))
    assert words == [
        *("refprior", "train", "my file.py:recipe", "--seed", "3", "--data", "my data", "--kind", "photos"),
        *("--set", "a=x y", "b=(1,2)", "--device", "cuda", "--log", "csv", "wandb", "--out", f"out/{cell.name}"),
    ]
    with pytest.raises(ValueError, match="digits_ssl is a function: a command line needs a recipe's name"):
        command(Cell(digits_ssl, {}, 0), Plan(Path("out")))


def test_a_failed_command_of_a_sweep_is_seen_from_elsewhere(tmp_path: Path) -> None:
    choice = ["--seeds", "0", "--set", "unlabelled_batch=100000"]
    done = refprior("sweep", "digits_ssl", *choice, "--out", "s", "--commands", cwd=tmp_path)
    (line,) = done.stdout.splitlines()
    ours = shlex.split(line.replace("refprior", shlex.join([sys.executable, "-m", "refprior"]), 1))
    failed = subprocess.run(ours, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert failed.returncode == 2
    (state,) = status(tmp_path / "s")
    assert (state.kind, f"refprior: {state.said}\n") == ("failed", failed.stderr)
