"""The commands of cells: run one by one they make the folders of the sweep."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from refprior.recipes import Cell, CustomData, digits_ssl, status, sweep
from refprior.recipes.sweeps._cell import Plan, command, folder_name
from tests.cli.running import refprior
from tests.cli.workers import STARTS, forked
from tests.training.interruption import assert_same_run

WORDS = r"""refprior() { printf '%s\0' "$@"; }; """  # what a shell makes of a command


def test_the_printed_commands_make_the_same_folders_as_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that fails is seen from elsewhere, with its reason."""
    monkeypatch.setattr(f"{STARTS}.fork_exec", forked)
    choice = ["--seeds", "0", "--set", "steps=3", "unlabeled_batch=8,100000", "method.tau=1/3"]
    done = refprior("sweep", "digits_ssl", *choice, "--out", "it's one", "--commands", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [state.kind for state in status(tmp_path / "it's one")] == ["waiting", "waiting"]
    ended = []
    for line in done.stdout.splitlines():
        assert line.startswith("refprior train digits_ssl --seed 0 --set steps=3 unlabeled_batch=")
        words = subprocess.run(["sh", "-c", WORDS + line], capture_output=True, text=True, check=True).stdout
        ended.append(refprior(*words.split("\0")[:-1], cwd=tmp_path))
    assert [command.returncode for command in ended] == [0, 2]
    good, bad = status(tmp_path / "it's one")
    assert (good.kind, bad.kind, f"refprior: {bad.said}\n") == ("done", "failed", ended[1].stderr)
    settings = {"steps": "3", "unlabeled_batch": "8", "method.tau": "1/3"}
    (outcome,) = sweep("digits_ssl", tmp_path / "two", settings=settings, seeds=[0])
    assert outcome.problem is None
    assert_same_run(tmp_path / "it's one" / outcome.cell.name, tmp_path / "two" / outcome.cell.name)


def test_a_command_says_everything_and_is_quoted() -> None:
    cell = Cell("my file.py:recipe", {"a": "x y", "b": "(1,2)"}, 3, CustomData("my data", None, "photos"))
    words = shlex.split(command(cell, Plan(Path("out"), "cuda", ("csv", "wandb"))))
    assert words == [
        *("refprior", "train", "my file.py:recipe", "--seed", "3", "--data", "my data", "--kind", "photos"),
        *("--set", "a=x y", "b=(1,2)", "--device", "cuda", "--log", "csv", "wandb", "--out", f"out/{cell.name}"),
    ]
    with pytest.raises(ValueError, match="digits_ssl is a Python object: a command line needs a recipe's name"):
        command(Cell(digits_ssl, {}, 0), Plan(Path("out")))


def test_a_name_says_the_settings() -> None:
    assert folder_name({"labels": "100", "method": "FixMatch"}, "digits_ssl") == "digits_ssl,labels=100,method=FixMatch"
    assert folder_name({"method.tau": "1/3"}) == "method.tau=1:3"
    assert folder_name({}, "digits_ssl") == "digits_ssl"
    assert Cell("digits_ssl", {}, 0).name == "default/seed-0"


def test_what_a_name_should_not_hold_is_replaced() -> None:
    one, other = (folder_name({"data": f"a{c}b\n'*"}) for c in "?!")
    assert re.fullmatch(r"data=a_b___-[0-9a-f]{8}", one)
    assert one != other


def test_a_long_name_is_cut_and_kept_apart() -> None:
    one, other = (folder_name({"data": 300 * "ü" + c}) for c in "ab")
    assert one != other
    assert max(len(one.encode()), len(other.encode())) < 120
