"""Under a real launcher: ranks that are killed, signals, ranks that do not answer, one voice."""

import os
import re
import time
from pathlib import Path

import pytest

import refprior
from refprior.recipes import named
from refprior.training import train
from tests.cli.running import Program
from tests.distributed import launched
from tests.distributed.processes import environment, free_port
from tests.training.interruption import assert_same_run

FORKED = ("--run-path", "--start-method=fork")
LAUNCHER = "from torch.distributed.run import main; main()"
COMMAND = str(Path(refprior.__file__).with_name("__main__.py"))
PAUSED = "import sys, pathlib, tests.distributed.launched as l; l.main(pathlib.Path(sys.argv[1]), 'pause')"


def launch(*arguments: str, out: Path) -> Program:
    """torchrun, forked, with two ranks: new interpreters, or with FORKED processes that it forks in its turn."""
    where = f"--master-port={free_port()}"
    return Program(LAUNCHER, "--nproc-per-node=2", where, *arguments, cwd=out, session=True, variables=environment())


def test_a_killed_rank_is_started_again_and_the_run_ends_as_one_that_was_not_disturbed(tmp_path: Path) -> None:
    killed = (
        "-m",
        launched.__name__,
        str(tmp_path / "run"),
        "kill",
    )  # the launcher names every rank of its own that fails
    with launch("--max-restarts=3", *killed, out=tmp_path) as launcher:
        _, said = launcher.communicate(timeout=200)
        assert launcher.returncode == 0, said
    assert "Signal 9" in said or "exitcode: -9" in said  # the launcher saw it
    train(launched.recipe(), tmp_path / "one")
    assert_same_run(tmp_path / "one", tmp_path / "run")


def test_sigterm_to_the_launcher_stops_all_ranks_at_one_step_with_one_message(tmp_path: Path) -> None:
    settings = {"steps": "40", "evaluate_every": "1"}
    words = [f"{name}={value}" for name, value in settings.items()]
    metrics = tmp_path / "run" / "metrics.jsonl"
    with launch("-m", "refprior", "train", "digits_ssl", "--set", *words, "--out", "run", out=tmp_path) as launcher:
        while not (metrics.exists() and metrics.stat().st_size) and launcher.poll() is None:
            time.sleep(0.05)
        launcher.terminate()
        _, said = launcher.communicate(timeout=100)
    found = re.findall(
        r"stopped at step (\d+) of 40 and saved; the same command or call with the folder run resumes it", said
    )
    assert len(found) == 1, said
    assert (tmp_path / "run" / "checkpoints" / f"step-{int(found[0]):08}.json").exists()
    ours = str(Path(refprior.__file__).parent)
    assert ours not in said  # no line of ours in a traceback; the launcher's own says that it was terminated
    train(named("digits_ssl", settings).recipe, tmp_path / "run")  # one process goes on
    train(named("digits_ssl", settings).recipe, tmp_path / "one")
    assert_same_run(tmp_path / "one", tmp_path / "run")


def on_rank(rank: int, port: int, out: Path, timeout: int) -> Program:
    """One of two processes, started by hand."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    more = {**place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "REFPRIOR_TIMEOUT": str(timeout)}
    return Program(PAUSED, out / "run", cwd=out, variables=environment(**more))


def test_a_rank_that_does_not_answer_ends_the_run_within_the_timeout(tmp_path: Path) -> None:
    port = free_port()
    with on_rank(0, port, tmp_path, 6) as first, on_rank(1, port, tmp_path, 6):
        _, said = first.communicate(timeout=100)
        assert first.returncode == 1
    assert "refprior: rank 0 lost another rank, which ended or did not answer in time" in said
    assert "the same command resumes from the last checkpoint" in said


def test_a_rank_that_never_comes_ends_the_others_within_the_timeout(tmp_path: Path) -> None:
    with on_rank(0, free_port(), tmp_path, 2) as process:
        _, said = process.communicate(timeout=100)
        assert process.returncode == 1
    assert "refprior: rank 0 cannot reach the others" in said


def test_a_mistake_is_said_once(tmp_path: Path) -> None:
    with launch(*FORKED, COMMAND, "train", "digits_ssl", "--particle-ranks", "3", out=tmp_path) as launcher:
        _, said = launcher.communicate(timeout=100)
    assert said.count("refprior: particle_ranks=3 does not divide 2 ranks and 4 particles") == 1


def test_a_dry_run_divides_a_step_into_computing_and_exchanging(tmp_path: Path) -> None:
    command = [COMMAND, "train", "digits_ssl", "--particle-ranks", "1", "--dry-run"]
    with launch(*FORKED, *command, out=tmp_path) as launcher:
        printed, _ = launcher.communicate(timeout=100)
        assert launcher.returncode == 0
    assert "ranks        1 divide the particles × 2 divide the inputs" in printed
    assert len(re.findall(r"^  computing  .* of a step$", printed, re.MULTILINE)) == 1
    exchange = r"^  exchanging .* of a step, including waits; (\d+) kB received by all ranks together$"
    (kilobytes,) = re.findall(exchange, printed, re.MULTILINE)
    gradient = 2 * 4 * 4 * 14058  # 2 (D - 1) gradients of four particles
    assert float(kilobytes) * 1e3 == pytest.approx(gradient, rel=0.25)  # and the outputs
    assert os.listdir(tmp_path) == []
