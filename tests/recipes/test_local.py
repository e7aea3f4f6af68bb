"""Cells in processes of this machine, some of which are killed."""

import os
import re
import signal
from pathlib import Path

import pytest

from refprior.recipes import Cell, status
from refprior.recipes.sweeps._cell import Plan, train_cell
from refprior.training import load
from tests.recipes.sweeping import (
    ENDLESS,
    LONG,
    cell,
    ended,
    has_records,
    kill_owner_of,
    left_of,
    owner_of,
    processes_of,
    sweeping,
    wait_until,
)
from tests.training.interruption import assert_same_run

SETTINGS = dict(setting.split("=") for setting in LONG)


def test_a_cell_whose_process_is_killed_goes_on_in_another_and_ends_the_same(tmp_path: Path) -> None:
    with sweeping("--jobs", "2", folder=tmp_path) as sweep:
        other = owner_of(cell(tmp_path, 1), sweep)
        kill_owner_of(cell(tmp_path, 0), sweep)
        wait_until(lambda: has_records(cell(tmp_path, 0)))
        assert other in processes_of(sweep.pid)  # it takes nothing with it
        code, said = ended(sweep)
        assert code == 0, said
        assert re.search(r"seed-0: its process died of SIGKILL: .*; another process resumes it\n", said)
        assert said.count("another process resumes it") == 1
        assert re.search(r"2/2 .* done\n", said)
        assert not left_of(sweep.pid)
    undisturbed = Plan(tmp_path / "whole")
    assert train_cell(Cell("digits_ssl", SETTINGS, 0), undisturbed).problem is None
    assert_same_run(cell(tmp_path, 0), undisturbed.folder(Cell("digits_ssl", SETTINGS, 0)))


@pytest.mark.thorough
def test_a_cell_that_is_killed_too_often_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    with sweeping("--retries", "1", "--jobs", "1", folder=tmp_path) as sweep:
        kill_owner_of(cell(tmp_path, 0), sweep)
        wait_until(lambda: load(cell(tmp_path, 1)).step == 150 if has_records(cell(tmp_path, 1)) else False)
        kill_owner_of(cell(tmp_path, 0), sweep)  # its turn came again after the others
        code, said = ended(sweep)
        assert code == 1
        name = cell(tmp_path, 0).relative_to(tmp_path / "sweep")
        lines = said.strip().splitlines()
        assert lines[-2].startswith(
            f"failed: {name} its process died of SIGKILL 2 times: if memory ran out, lower --jobs"
        )
        assert lines[-1] == "refprior: 1 of 2 cells failed; the same command retries them"
        states = {state.name[-1]: state for state in status(tmp_path / "sweep")}
        assert (states["0"].kind, states["1"].kind) == ("failed", "done")
        assert states["0"].said.startswith("its process died of SIGKILL 2 times")
        assert (tmp_path / "sweep" / "report.html").exists()


def test_ctrl_c_in_a_terminal_saves_the_cells_and_says_one_line(tmp_path: Path) -> None:
    with sweeping("--jobs", "2", folder=tmp_path, settings=ENDLESS) as sweep:
        cells = [cell(tmp_path, seed, ENDLESS) for seed in (0, 1)]
        for one in cells:
            owner_of(one, sweep)
        os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: all processes hear it
        code, said = ended(sweep)
        assert code == 130
        assert said == "refprior: stopped after 0 of 2 cells; the same command resumes\n"
        assert not left_of(sweep.pid)
        assert all(load(one).step > 0 for one in cells)  # saved: no checkpoint was due yet
        assert [state.kind for state in status(tmp_path / "sweep")] == ["stopped", "stopped"]
