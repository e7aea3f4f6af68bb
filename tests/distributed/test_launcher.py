"""Under a real launcher: ranks that are killed, signals, ranks that do not answer, one voice."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refprior.recipes import named
from refprior.training import train
from tests.distributed.launched import recipe
from tests.distributed.processes import environment, free_port
from tests.training.interruption import assert_same_run

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
HARMED = "tests.distributed.launched"


def start(arguments: list[str], out: Path, **more: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, env=environment(**more), cwd=out, stdout=pipe, stderr=pipe, text=True)


def master() -> list[str]:
    return [f"--master-port={free_port()}"]


def test_a_killed_rank_is_started_again_and_the_run_ends_as_one_that_was_not_disturbed(tmp_path: Path) -> None:
    command = [*LAUNCH, *master(), "--max-restarts=3", "-m", HARMED, str(tmp_path / "run"), "kill"]
    launcher = start(command, tmp_path)
    _, said = launcher.communicate(timeout=200)
    assert launcher.returncode == 0, said
    assert "Signal 9" in said or "exitcode: -9" in said  # the launcher saw it
    train(recipe(), tmp_path / "one")
    assert_same_run(tmp_path / "one", tmp_path / "run")


def test_sigterm_to_the_launcher_stops_all_ranks_at_one_step_with_one_message(tmp_path: Path) -> None:
    settings = {"steps": "40", "evaluate_every": "1"}
    words = [f"{name}={value}" for name, value in settings.items()]
    command = [*LAUNCH, *master(), "-m", "refprior", "train", "digits_ssl", "--set", *words, "--out", "run"]
    launcher = start(command, tmp_path)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size) and launcher.poll() is None:
        time.sleep(0.05)
    launcher.send_signal(signal.SIGTERM)
    _, said = launcher.communicate(timeout=100)
    found = re.findall(r"stopped at step (\d+) of 40 and saved; the same command with --out run goes on", said)
    assert len(found) == 1, said
    assert (tmp_path / "run" / "checkpoints" / f"step-{int(found[0]):08}.json").exists()
    assert "refprior/" not in said  # no line of ours in a traceback; the launcher's own says that it was terminated
    train(named("digits_ssl", settings).recipe, tmp_path / "run")  # one process goes on
    train(named("digits_ssl", settings).recipe, tmp_path / "one")
    assert_same_run(tmp_path / "one", tmp_path / "run")


def on_rank(rank: int, port: int, out: Path) -> "subprocess.Popen[str]":
    """One of two processes, started by hand."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    more = {**place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "REFPRIOR_TIMEOUT": "6"}
    return start([sys.executable, "-m", HARMED, str(out / "run"), "pause"], out, **more)


def test_a_rank_that_does_not_answer_ends_the_run_within_the_timeout(tmp_path: Path) -> None:
    port = free_port()
    processes = [on_rank(rank, port, tmp_path) for rank in range(2)]
    try:
        _, said = processes[0].communicate(timeout=100)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert processes[0].returncode == 1
    assert "refprior: rank 0 lost another rank, which ended or did not answer in time" in said
    assert "the same command goes on from the last checkpoint" in said


def test_a_rank_that_never_comes_ends_the_others_within_the_timeout(tmp_path: Path) -> None:
    process = on_rank(0, free_port(), tmp_path)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "refprior: rank 0 cannot reach the others" in said


def test_a_mistake_is_said_once(tmp_path: Path) -> None:
    command = [*LAUNCH, *master(), "-m", "refprior", "train", "digits_ssl", "--particle-ranks", "3"]
    launcher = start(command, tmp_path)
    _, said = launcher.communicate(timeout=100)
    assert said.count("refprior: particle_ranks=3 does not divide 2 ranks and 4 particles") == 1


def test_a_dry_run_divides_a_step_into_computing_and_exchanging(tmp_path: Path) -> None:
    command = [*LAUNCH, *master(), "-m", "refprior", "train", "digits_ssl", "--particle-ranks", "1", "--dry-run"]
    launcher = start(command, tmp_path)
    printed, _ = launcher.communicate(timeout=100)
    assert launcher.returncode == 0
    assert "ranks        1 share the particles out × 2 divide the inputs" in printed
    assert len(re.findall(r"^  computing  .* of a step$", printed, re.MULTILINE)) == 1
    exchange = r"^  exchanging .* of a step, waiting included; (\d+) kB received by all ranks together$"
    (kilobytes,) = re.findall(exchange, printed, re.MULTILINE)
    gradient = 2 * 4 * 4 * 14058  # 2 (D - 1) gradients of four particles
    assert float(kilobytes) * 1e3 == pytest.approx(gradient, rel=0.25)  # and the outputs
    assert os.listdir(tmp_path) == []
