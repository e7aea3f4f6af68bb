"""How far cells are, as their folders say, while others train them."""

import json
import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from refprior.recipes import Cell, digits_ssl, status, sweep
from refprior.recipes.sweeps._cell import Plan, train_cell
from refprior.recipes.sweeps._status import noting_failure, read_cells, write_cells, write_failure
from refprior.training import train
from tests.cli.running import refprior
from tests.cli.workers import STARTS, forked
from tests.recipes.sweeping import ENDLESS, cell, ended, owner_of, sweeping
from tests.training.interruption import stop
from tests.training.recipes import perceptron

CELL = Cell("digits_ssl", {"steps": "2"}, 0)


def test_every_state_is_seen_while_another_process_trains(tmp_path: Path) -> None:
    train_cell(replace(CELL, seed=7), Plan(tmp_path / "sweep"))
    with sweeping("--jobs", "1", folder=tmp_path, settings=ENDLESS, seeds="0,1,2") as running:
        owner = owner_of(cell(tmp_path, 0, ENDLESS), running)
        write_failure(cell(tmp_path, 1, ENDLESS), "memory ran out")
        one, two, three, old = status(tmp_path / "sweep")
        table = refprior("status", "sweep", cwd=tmp_path)
        running.terminate()
        ended(running)
        assert (one.kind, one.said) == ("running", f"process {owner} on {platform.node()}")
        assert one.step is not None
        assert one.step >= 10
        assert one.steps == 1_000_000
        assert (two.kind, two.said) == ("failed", "memory ran out")
        assert (three.kind, three.where) == ("waiting", "")
        assert (old.name, old.kind, old.where) == ("steps=2/seed-7", "done", "step 2 of 2")
        assert table.returncode == 0, table.stderr
        assert f"process {owner} on {platform.node()}" in table.stdout
        assert table.stdout.strip().splitlines()[-1] == "4 cells: 1 running, 1 failed, 1 waiting, 1 done"
        assert status(tmp_path / "sweep")[0].kind == "stopped"


def test_a_run_at_its_first_stage_says_so(tmp_path: Path) -> None:
    recipe = perceptron(steps=20, start=perceptron(steps=30))
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", watch=stop)
    (state,) = status(tmp_path)
    assert (state.name, state.kind, state.where) == ("run", "stopped", "step 5 of 30 of start/")
    (alone,) = status(tmp_path / "run")
    assert alone.where == state.where
    train(recipe, tmp_path / "run")
    assert status(tmp_path)[0].kind == "done"


def test_a_failure_is_forgotten_when_the_cell_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{STARTS}.fork_exec", forked)
    sweep(digits_ssl, tmp_path, settings={"steps": "2", "unlabeled_batch": "100000"}, seeds=[0])
    (state,) = status(tmp_path)
    assert state.kind == "failed"
    assert "a step takes 100000 unlabeled inputs" in state.said
    write_cells(tmp_path, [CELL.name])
    write_failure(tmp_path / CELL.name, "of an earlier time")
    sweep("digits_ssl", tmp_path, settings={"steps": "2"}, seeds=[0])
    assert [path.name for path in tmp_path.glob("*/*.failed.json")] == ["seed-0.failed.json"]
    assert status(tmp_path)[1].kind == "done"


def test_a_command_notes_its_failure_only_in_a_sweep(tmp_path: Path) -> None:
    for known in (False, True):
        if known:
            write_cells(tmp_path, ["a/seed-0"])
        with pytest.raises(ValueError, match="wrong"), noting_failure(tmp_path / "a" / "seed-0"):
            raise ValueError("wrong")
        assert (tmp_path / "a" / "seed-0.failed.json").exists() is known


def test_the_cells_of_two_sweeps_in_one_folder_are_both_known(tmp_path: Path) -> None:
    write_cells(tmp_path, ["a/seed-0", "b/seed-0"])
    write_cells(tmp_path, ["b/seed-0", "c/seed-0"])
    assert read_cells(tmp_path) == ["a/seed-0", "b/seed-0", "c/seed-0"]
    assert sorted(os.listdir(tmp_path)) == ["sweep.json"]


@pytest.mark.parametrize("name", ["../a/seed-0", "/etc/seed-0", "a", "a/../b"])
def test_a_record_cannot_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    write_cells(tmp_path, [name])
    with pytest.raises(ValueError, match=r"sweep\.json is not the record of a sweep"):
        status(tmp_path)


def test_what_is_no_sweep_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds neither a sweep nor a run"):
        status(tmp_path)
    (tmp_path / "sweep.json").write_text(json.dumps({"cells": []}))
    with pytest.raises(ValueError, match=r"sweep\.json has an earlier format"):
        status(tmp_path)
