"""Cells on a real Dask cluster of this machine, whose workers are killed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from refprior._files import holder
from refprior.recipes import Dask, status
from refprior.recipes.sweeps import Plan
from tests.cli.running import Program
from tests.recipes.sweeping import ENDLESS, cell, ended, has_records, kill_owner_of, owner_of, sweeping, wait_until

pytest.importorskip("distributed")

# The command `dask`, whose nannies fork workers from a process that has imported what takes seconds to import.
WORKERS = """
import dask
from distributed.utils import get_mp_context
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
get_mp_context().set_forkserver_preload(["distributed", "tests.cli.imported"])
from dask.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler that lets a task lose one worker, and two workers that nannies start again."""
    folder = tmp_path_factory.mktemp("dask")
    known = ("--scheduler-file", str(folder / "file.json"), "--no-dashboard")
    scheduler = [sys.executable, "-m", "dask", "scheduler", "--port", "0", "--host", "127.0.0.1", *known]
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(scheduler, cwd=folder, env=environment, stdout=log, stderr=log) as process,
        Program(WORKERS, "worker", "--nthreads", "1", "--nworkers", "2", *known, cwd=folder, session=True) as workers,
    ):
        try:
            wait_until((folder / "file.json").exists)
            yield json.loads((folder / "file.json").read_text())["address"].replace("tcp://", "dask://")
        finally:
            workers.terminate()  # first: their nannies would start others
            with suppress(subprocess.TimeoutExpired):
                workers.wait(10)
            process.kill()


def test_the_cell_of_a_killed_worker_goes_on_with_another(address: str, tmp_path: Path) -> None:
    with sweeping("--engine", address, folder=tmp_path) as sweep:
        kill_owner_of(cell(tmp_path, 0), sweep)
        code, said = ended(sweep)
        assert code == 0, said
        assert [state.kind for state in status(tmp_path / "sweep")] == ["done", "done"]


def test_a_cell_that_dask_gives_up_does_not_stop_the_others_and_a_stopped_sweep_stops_them(
    address: str, tmp_path: Path
) -> None:
    with sweeping("--engine", address, folder=tmp_path, settings=ENDLESS) as sweep:
        guilty, other = cell(tmp_path, 0, ENDLESS), cell(tmp_path, 1, ENDLESS)
        owner_of(other, sweep)
        for _ in range(2):
            kill_owner_of(guilty, sweep)
        assert "seed-0" in (line := sweep.first_line(sweep.err))
        assert "1/2" in line
        assert holder(other) is not None
        sweep.terminate()
        code, said = ended(sweep)
        last = "refprior: stopped after 1 of 2 cells; the same command resumes"
        assert (code, said.splitlines()) == (143, [line, last])
        wait_until(lambda: holder(other) is None, 30)
        assert has_records(other)
        assert [state.kind for state in status(tmp_path / "sweep")] == ["failed", "stopped"]


@pytest.mark.parametrize("address", ["dask://node7", "tcp://node7:8786", "dask://node7:port"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ValueError, match="the address must be dask://HOST:PORT, got"):
        Dask(address)


@pytest.mark.thorough
def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refprior.recipes.sweeps._dask._PATIENCE", 1)
    with pytest.raises(ValueError, match=r"no Dask scheduler responds at dask://127\.0\.0\.1:9 within 1 s"):
        list(Dask("dask://127.0.0.1:9")([], Plan(tmp_path)))
