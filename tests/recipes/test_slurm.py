"""Cells as a job array of a real SLURM on one node; skipped where there is none."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from refprior.recipes import Cell, Slurm, status
from refprior.recipes.sweeps._cell import Plan
from refprior.recipes.sweeps._slurm import array_script
from tests.recipes.sweeping import ended, kill_owner_of, sweeping

STARTER = Path(__file__).parents[3] / "shared" / "slurm" / "start"
_PORT = 16817  # of the scheduler that it starts


def answers() -> bool:
    return shutil.which("sinfo") is not None and subprocess.run(["sinfo"], capture_output=True).returncode == 0


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A SLURM that answers: one that runs, or one of our own."""
    if answers():
        yield
        return
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", _PORT)) == 0
    if not STARTER.exists() or shutil.which("slurmctld") is None or os.geteuid() != 0 or taken:
        pytest.skip("no SLURM here")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)  # munge is another user
    subprocess.run([str(STARTER), str(folder)], check=True, capture_output=True, timeout=120)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    yield
    subprocess.run([str(STARTER), str(folder), "stop"], check=True, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("slurm")
def test_a_killed_task_is_sent_again_and_a_mistake_is_not(tmp_path: Path) -> None:
    settings = ("steps=150", "evaluate_every=150", "unlabeled_batch=64,100000")
    options = ["--engine", "slurm", "--time", "10", "--memory", "1M", "--retries", "1"]
    with sweeping(*options, folder=tmp_path, settings=settings, seeds="0") as sweep:
        kill_owner_of(tmp_path / "sweep" / "steps=150,evaluate_every=150,unlabeled_batch=64" / "seed-0", sweep)
        code, said = ended(sweep)
        assert code == 1, said
        lines = said.splitlines()
        jobs = [line for line in lines if line.startswith("SLURM job")]
        assert [line.partition(" has ")[2].partition(";")[0] for line in jobs] == ["2 cells", "1 cell"]
        assert "unlabeled_batch=100000/seed-0 a step takes 100000 unlabeled" in lines[-2]
        assert lines[-1] == "refprior: 1 of 2 cells failed; the same command retries them"
        assert [state.kind for state in status(tmp_path / "sweep")] == ["done", "failed"]
        assert len(list((tmp_path / "sweep" / "slurm").glob("*.log"))) == 3


def test_the_script_of_an_array_runs_one_command_per_task() -> None:
    script = array_script(["echo 'it is 0'", "echo 1; echo more"])
    for task, said in {"0": "it is 0\n", "1": "1\n"}.items():
        done = subprocess.run(["sh"], input=script, env={"SLURM_ARRAY_TASK_ID": task}, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, said)


def test_gpus_are_asked_for_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed to sbatch; no GPU has run it."""
    calls: list[tuple[list[str], str]] = []

    def call(words: list[str], script: str = "") -> str:
        calls.append((words, script))
        return "7" if words[0] == "sbatch" else ""

    monkeypatch.setattr("refprior.recipes.sweeps._slurm._call", call)
    monkeypatch.setattr("refprior.recipes.sweeps._slurm._LAG", 0)
    cell = Cell("digits_ssl", {"steps": "2"}, 0)
    (outcome,) = Slurm(partition="gpu", gpus=2, cpus=4, jobs=3, retries=0)([cell], Plan(tmp_path))
    ((words, script),) = [call for call in calls if call[0][0] == "sbatch"]
    assert {"--partition=gpu", "--gres=gpu:2", "--cpus-per-task=4", "--array=0-0%3", "--requeue"} <= set(words)
    assert " -m torch.distributed.run --standalone --nproc-per-node=2 -m refprior train digits_ssl " in script
    assert f" --device cuda --out {tmp_path / cell.name} ;;" in script
    assert outcome.problem == f"its SLURM task ended early 1 time: see {tmp_path / 'slurm'}"


def test_without_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="squeue not found: --engine slurm needs a machine of a SLURM"):
        next(iter(Slurm()([Cell("digits_ssl", {}, 0)], Plan(tmp_path))))
