"""Training survives: SIGKILL at random moments, signals, a full disk, parts of a run that are gone."""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from refprior.data import Task
from refprior.methods import FixMatch, FreeMatch, Loss, Needs, ReferencePrior, Step, Supervised
from refprior.report import write_report
from refprior.training import Optimizer, Recipe, Stopped, load, read_trajectory, train
from refprior.training.store._checkpoint import checkpoint_steps
from tests import records
from tests.cli.running import Program, refprior, start
from tests.training import survivor
from tests.training.interruption import assert_same_run, interrupted_at, signal_at
from tests.training.recipes import Dropped, convolutional, perceptron

HERE = Path(__file__).parent


def survive(tmp_path: Path, kills: int, seed: int) -> None:
    with Program(
        (HERE / "survivor.py").read_text(), tmp_path / "killed", str(kills), str(seed), session=True
    ) as process:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert out.split() == ["killed", str(kills)]
    torch.set_num_threads(1)
    train(survivor.recipe(), tmp_path / "whole", save_every=0.0)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    leftovers = [p.name for p in (tmp_path / "killed").rglob("*.part")]
    assert not leftovers
    assert len(list((tmp_path / "killed" / "checkpoints").iterdir())) == 4


@pytest.mark.thorough
def test_a_dozen_kills_change_nothing(tmp_path: Path) -> None:
    survive(tmp_path, kills=12, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_thirty_kills_change_nothing(tmp_path: Path, seed: int) -> None:
    survive(tmp_path, kills=30, seed=seed)


@dataclass(frozen=True)
class Remembers:
    """A method whose loss depends on what it has seen before."""

    needs: ClassVar[Needs] = Needs()

    def __call__(self, step: Step) -> Loss:
        mean = step.memory.get("mean", torch.zeros(()))
        loss = Supervised()(step)
        step.memory["mean"] = 0.5 * mean + 0.5 * loss.total.detach()
        return Loss(loss.total * (1 + mean), loss.terms)


CASES: dict[str, Callable[[], Recipe]] = {
    "paper": convolutional,
    "authors_code": lambda: convolutional(method=ReferencePrior.authors_code()),
    "fixmatch": lambda: convolutional(method=FixMatch()),
    "supervised": lambda: convolutional(method=Supervised()),
    "order 3, sampled": lambda: convolutional(method=ReferencePrior(order=3, samples=3)),
    "trainable prior": lambda: convolutional(method=ReferencePrior(trainable_prior=True)),
    "adam": lambda: convolutional(optimizer=Optimizer(kind="adam", learning_rate=1e-3)),
    "dropout and batch norm": lambda: convolutional(network=Dropped),
    "bfloat16": lambda: convolutional(precision="bfloat16"),
    "recomputed": lambda: convolutional(network=Dropped, execution="recomputed"),
    "a method with memory": lambda: convolutional(method=Remembers()),
    "folds": lambda: convolutional(folds="auto"),
    "doubted labels": lambda: convolutional(folds="auto", doubt_labels=True, method=FreeMatch()),
    "two stages": lambda: convolutional(start=convolutional(method=Supervised(), steps=3)),
}
TWO_STAGES = CASES["two stages"]


@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_run_equals_the_uninterrupted_one(case: str, tmp_path: Path) -> None:
    recipe = CASES[case]()
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [4, 5, 8])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_lines_after_the_checkpoint_are_written_anew(tmp_path: Path) -> None:
    """A crash after the last save leaves more lines than the checkpoint knows of, the last one torn."""
    train(convolutional(), tmp_path / "whole")
    with pytest.raises(Stopped):
        train(convolutional(), tmp_path / "run", watch=signal_at(5))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss": 1.0}\n{"step": 7, "lo')
    train(convolutional(), tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_signal_in_the_last_step_of_a_stage_is_heard_and_names_the_whole_run(tmp_path: Path) -> None:
    out = tmp_path / "a run"
    for step in (2, 3):
        with pytest.raises(
            Stopped, match=rf"stopped at step {step} of 3 of start/ and saved; .* folder '.*/a run' resumes it"
        ):
            train(TWO_STAGES(), out, watch=signal_at(step, signal.SIGTERM))
    train(TWO_STAGES(), out)
    train(TWO_STAGES(), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", out)


def test_a_damaged_first_stage_does_not_stop_the_second(tmp_path: Path) -> None:
    interrupted = replace(TWO_STAGES(), steps=9)
    with pytest.raises(Stopped):
        train(interrupted, tmp_path / "run", watch=signal_at(5))
    for path in (tmp_path / "run" / "start" / "checkpoints").iterdir():
        path.write_bytes(b"")
    train(interrupted, tmp_path / "run")
    train(interrupted, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("gone", ["recipe.json", "checkpoints"])
def test_a_run_with_a_part_gone_is_refused_and_left_alone(tmp_path: Path, gone: str) -> None:
    train(convolutional(), tmp_path / "run")
    if gone == "checkpoints":
        shutil.rmtree(tmp_path / "run" / gone)
    else:
        (tmp_path / "run" / gone).unlink()
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=f"holds a run without its {gone}: give another --out, or --fresh"):
        train(convolutional(), tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("room", [100_000, 3_000])
def test_a_full_disk_keeps_the_old_checkpoint_and_training_goes_on(tmp_path: Path, room: int) -> None:
    """The child may write only small files for a while: no checkpoint fits, or not even snapshots and metrics."""
    script = (
        "import resource, signal, sys, torch\n"
        "from tests.training.recipes import convolutional\n"
        "from refprior.training import train\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "free = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "def watch(record):\n"
        f"    limit = {room} if 3 <= record.step <= 6 else free[0]\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free[1]))\n"
        "torch.set_num_threads(1)\n"
        "train(convolutional(snapshots=6), sys.argv[1], watch=watch, save_every=0.0)\n"
    )
    with Program(script, tmp_path / "full") as process:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert re.findall(r"could not save step (\d) .*old checkpoint stays", said) == ["3", "4", "5", "6"]
    assert "Traceback" not in said
    lost = ["4", "6"] if room == 3_000 else []
    assert re.findall(r"could not save the snapshot of step (\d) .*continues without it", said) == lost
    assert [shot.step for shot in read_trajectory(tmp_path / "full").snapshots] == (
        [0, 1, 2, 9] if lost else [0, 1, 2, 4, 6, 9]
    )
    train(convolutional(), tmp_path / "whole", save_every=0.0)
    assert_same_run(tmp_path / "whole", tmp_path / "full")


def test_a_missing_data_set_on_resume_is_said_in_words(tmp_path: Path) -> None:
    """A function of the same name whose images are gone."""

    def task_of(there: bool) -> Callable[[], Task]:
        def read() -> Task:
            if not there:
                raise ValueError("the images are not in /data: get them again")
            return convolutional().read_task()

        return read

    with pytest.raises(Stopped):
        train(convolutional(task=task_of(there=True)), tmp_path / "run", watch=signal_at(1))
    before = checkpoint_steps(tmp_path / "run")
    with pytest.raises(ValueError, match="get them again"):
        train(convolutional(task=task_of(there=False)), tmp_path / "run")
    assert checkpoint_steps(tmp_path / "run") == before
    train(convolutional(task=task_of(there=True)), tmp_path / "run")


def test_a_folder_that_cannot_be_written_gets_one_line(tmp_path: Path) -> None:
    done = refprior("train", "digits_ssl", "--out", "/proc/refprior/run", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "/proc/refprior" in done.stderr


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.stat().st_size


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    """Between steps the first Ctrl-C waits for what is under way, the second does not."""
    script = (
        "import sys, time\n"
        "from tests.training.recipes import convolutional\n"
        "from refprior.training import train\n"
        "def slow(record):\n"
        "    print('a record', flush=True)\n"
        "    for _ in range(600): time.sleep(0.1)\n"
        "train(convolutional(), sys.argv[1], watch=slow)\n"
    )
    with Program(script, tmp_path / "run") as process:
        assert process.first_line(process.out) == "a record"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5) == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_stops_saves_and_says_how_to_go_on(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with start("train", "digits_ssl", "--out", "run", "--set", "evaluate_every=1", cwd=tmp_path) as process:
        wait_for(tmp_path / "run" / "metrics.jsonl")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code
    last = errors.strip().splitlines()[-1]
    assert re.match(
        r"refprior: stopped at step \d+ of 600 and saved; the same command or call with the folder run resumes it", last
    )
    assert "Traceback" not in errors
    assert checkpoint_steps(tmp_path / "run")


def change_digit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_a_changed_length_of_the_metrics_costs_neither_metrics_nor_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The record of the newest checkpoint is damaged: the one before it is used, and the metrics stay whole."""
    train(perceptron(steps=5), tmp_path / "whole")
    train(perceptron(steps=5), tmp_path / "run", save_every=0)
    record = tmp_path / "run" / "checkpoints" / "step-00000005.json"
    size = str(records.content(record)["metrics"]["size"])
    change_digit(record, size, size[:-1])
    load(tmp_path / "run")
    assert "step-00000005.json is damaged" in caplog.text
    train(perceptron(steps=5), tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("damage", ["changed", "lost"])
def test_a_run_goes_on_without_its_metrics_to_the_same_weights(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    train(perceptron(steps=8, evaluate_every=2), tmp_path / "whole")
    with pytest.raises(Stopped):
        train(perceptron(steps=8, evaluate_every=2), tmp_path / "run", watch=signal_at(4))
    metrics = tmp_path / "run" / "metrics.jsonl"
    if damage == "changed":
        change_digit(metrics, '"step":2', '"step":3')
    else:
        metrics.unlink()
    run = train(perceptron(steps=8, evaluate_every=2), tmp_path / "run")
    assert "a new one begins at step 4" in caplog.text
    assert [record.step for record in run.history] == [6, 8]
    assert (tmp_path / "run" / "metrics.jsonl.old-1").exists() == (damage == "changed")
    whole = load(tmp_path / "whole")
    for p, q in zip(run.particles.parameters(), whole.particles.parameters(), strict=True):
        assert p.equal(q)
    assert [record.step for record in load(tmp_path / "run").history] == [6, 8]


def test_a_finished_run_without_its_metrics_is_scored_again(tmp_path: Path) -> None:
    run = train(perceptron(steps=3), tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    for again in (train(perceptron(steps=3), tmp_path / "run"), load(tmp_path / "run")):
        assert again.result.evaluation == run.result.evaluation
        assert again.result.learning_rate == run.result.learning_rate
    assert len(write_report([tmp_path / "run"], tmp_path / "report.html")) == 1


def test_digits_of_other_alphabets_are_no_step(tmp_path: Path) -> None:
    train(perceptron(steps=3), tmp_path / "run")
    record = tmp_path / "run" / "checkpoints" / "step-00000003.json"
    shutil.copy(record, record.with_name("step-٠٠٠٠٠٠٩٩.json"))
    assert train(perceptron(steps=3), tmp_path / "run").step == 3


@pytest.mark.parametrize(
    "part", [".lock", "recipe.json", "metrics.jsonl", "checkpoints", "checkpoints/step-00000003.json"]
)
def test_a_run_folder_with_a_link_is_refused_and_what_it_leads_to_is_untouched(tmp_path: Path, part: str) -> None:
    train(perceptron(steps=3), tmp_path / "run")
    (tmp_path / "run" / ".lock").touch()  # as a killed process leaves it
    victim = (tmp_path / "run" / part).rename(tmp_path / "victim")
    before = {path: path.read_bytes() for path in [victim, *victim.rglob("*")] if path.is_file()}
    (tmp_path / "run" / part).symlink_to(victim)
    actions: list[Callable[[], object]] = [
        lambda: train(perceptron(steps=3), tmp_path / "run"),
        lambda: load(tmp_path / "run"),
        lambda: write_report([tmp_path / "run"], tmp_path / "report.html"),
    ]
    for action in actions:
        with pytest.raises(ValueError, match=rf"run/{part} is a link"):
            action()
    assert before == {path: path.read_bytes() for path in [victim, *victim.rglob("*")] if path.is_file()}


def test_a_run_folder_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    train(perceptron(steps=3), tmp_path / "run")
    (tmp_path / "latest").symlink_to("run")
    assert load(tmp_path / "latest").step == 3
