"""Training survives: SIGKILL at random moments, signals, a full disk, a second process, changed recipes."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file

from refprior.methods import FixMatch, Loss, ReferencePrior, Step, Supervised
from refprior.recipes import named
from refprior.training import Recipe, Stopped, train
from refprior.training import _checkpoint as checkpoint
from refprior.training import _folder as folder
from refprior.training import _snapshot as snapshot
from tests.training import survivor

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHORT = {"steps": "9", "unlabelled": "8", "labelled": "10", "evaluate_every": "1", "network.width": "4"}


def final_weights(path: Path) -> dict[str, torch.Tensor]:
    latest = checkpoint.steps(path)[0]
    return load_file(path / "checkpoints" / f"step-{latest:08}.safetensors")


def metrics(path: Path) -> list[dict[str, object]]:
    """All records without the one thing that may differ: time."""
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit: weights, EMA, optimiser, generators, streams, and every line of the metrics."""
    first, second = final_weights(one), final_weights(other)
    assert first.keys() == second.keys()
    assert all(tensor.equal(second[name]) for name, tensor in first.items())
    assert metrics(one) == metrics(other)


def survive(tmp_path: Path, kills: int, seed: int) -> None:
    command = [sys.executable, str(HERE / "survivor.py"), str(tmp_path / "killed"), str(kills), str(seed)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["killed", str(kills)]
    torch.set_num_threads(1)
    train(survivor.recipe(), tmp_path / "whole", save_every=0.0)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    leftovers = [p.name for p in (tmp_path / "killed").rglob("*.part")]
    assert not leftovers
    assert len(list((tmp_path / "killed" / "checkpoints").iterdir())) == 4


def test_a_dozen_kills_change_nothing(tmp_path: Path) -> None:
    survive(tmp_path, kills=12, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_thirty_kills_change_nothing(tmp_path: Path, seed: int) -> None:
    survive(tmp_path, kills=30, seed=seed)


def interrupted_at(recipe: Recipe, path: Path, steps: list[int]) -> None:
    """Train, with a real SIGINT or SIGTERM at each of these steps and a resume after it."""
    for number, step in zip([signal.SIGINT, signal.SIGTERM] * len(steps), steps, strict=False):

        def watch(record: dict[str, object], step: int = step, number: int = number) -> None:
            if record["step"] == step:
                os.kill(os.getpid(), number)

        with pytest.raises(Stopped, match=f"stopped at step {step} of"):
            train(recipe, path, watch=watch)
    train(recipe, path)


class Dropped(torch.nn.Sequential):
    """Batch norm and dropout: statistics in buffers, draws from the global generator."""

    def __init__(self) -> None:
        nn = torch.nn
        super().__init__(
            nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 10)
        )


@dataclass(frozen=True)
class Remembers:
    """A method whose loss depends on what it has seen before."""

    order: ClassVar[int] = 0

    def __call__(self, step: Step) -> Loss:
        mean = step.memory.get("mean", torch.zeros(()))
        loss = Supervised()(step)
        step.memory["mean"] = 0.5 * mean + 0.5 * loss.total.detach()
        return Loss(loss.total * (1 + mean), loss.terms)


def base() -> Recipe:
    return named("digits_ssl", SHORT).recipe


CASES: dict[str, Callable[[], Recipe]] = {
    "paper": base,
    "authors_code": lambda: replace(base(), method=ReferencePrior.authors_code()),
    "fixmatch": lambda: replace(base(), method=FixMatch()),
    "supervised": lambda: replace(base(), method=Supervised()),
    "order 3, sampled": lambda: replace(base(), method=ReferencePrior(order=3, samples=3)),
    "trainable prior": lambda: replace(base(), method=ReferencePrior(trainable_prior=True)),
    "adam": lambda: replace(base(), optimiser=replace(base().optimiser, kind="adam", learning_rate=1e-3)),
    "dropout and batch norm": lambda: replace(base(), network=Dropped),
    "bfloat16": lambda: replace(base(), precision="bfloat16"),
    "a method with memory": lambda: replace(base(), method=Remembers()),
    "two stages": lambda: replace(base(), start=replace(base(), method=Supervised(), steps=3)),
}


@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_run_equals_the_uninterrupted_one(case: str, tmp_path: Path) -> None:
    recipe = CASES[case]()
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [4, 5, 8])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_run_without_a_folder_has_the_same_weights(tmp_path: Path) -> None:
    alone, written = train(base()), train(base(), tmp_path / "run")
    for name, tensor in alone.ema.state_dict().items():
        assert tensor.equal(written.ema.state_dict()[name])


def test_lines_after_the_checkpoint_are_written_anew(tmp_path: Path) -> None:
    """A crash after the last save leaves more lines than the checkpoint knows of, the last one torn."""
    train(base(), tmp_path / "whole")
    with pytest.raises(Stopped):
        train(base(), tmp_path / "run", watch=lambda r: os.kill(os.getpid(), signal.SIGINT) if r["step"] == 5 else None)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss": 1.0}\n{"step": 7, "lo')
    train(base(), tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_complete_run_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = train(base(), tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file() and p.name != ".lock"}
    again = train(base(), tmp_path / "run")
    assert "is complete: all 9 steps are done" in caplog.text
    assert again.result == first.result
    assert {p: p.read_bytes() for p in before} == before


def test_fresh_moves_the_old_run_aside(tmp_path: Path) -> None:
    train(base(), tmp_path / "run")
    kept = metrics(tmp_path / "run")
    changed = replace(base(), steps=5)
    train(changed, tmp_path / "run", fresh=True)
    train(changed, tmp_path / "run", fresh=True)
    assert metrics(tmp_path / "run.old-1") == kept
    assert len(metrics(tmp_path / "run.old-2")) == len(metrics(tmp_path / "run")) == 5


TWO_STAGES = CASES["two stages"]


def test_a_signal_in_the_last_step_of_a_stage_is_heard_and_names_the_whole_run(tmp_path: Path) -> None:
    out = tmp_path / "a run"
    for step in (2, 3):
        with pytest.raises(Stopped, match=rf"stopped at step {step} of 3 and saved; .* --out '.*/a run' goes on"):
            train(TWO_STAGES(), out, watch=lambda r, s=step: os.kill(os.getpid(), 15) if r["step"] == s else None)  # type: ignore[misc]
    train(TWO_STAGES(), out)
    train(TWO_STAGES(), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", out)


def test_a_damaged_first_stage_does_not_stop_the_second(tmp_path: Path) -> None:
    interrupted = replace(TWO_STAGES(), steps=9)
    with pytest.raises(Stopped):
        train(
            interrupted,
            tmp_path / "run",
            watch=lambda r: os.kill(os.getpid(), signal.SIGINT) if r["step"] == 5 else None,
        )
    for path in (tmp_path / "run" / "start" / "checkpoints").iterdir():
        path.write_bytes(b"")
    train(interrupted, tmp_path / "run")
    train(interrupted, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("gone", ["recipe.json", "checkpoints"])
def test_a_run_with_a_part_gone_is_refused_and_left_alone(tmp_path: Path, gone: str) -> None:
    train(base(), tmp_path / "run")
    if gone == "checkpoints":
        shutil.rmtree(tmp_path / "run" / gone)
    else:
        (tmp_path / "run" / gone).unlink()
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=f"holds a run without its {gone}: give another --out, or --fresh"):
        train(base(), tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_a_lock_that_moved_away_with_its_folder_is_not_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process moves the folder between our opening the lock file and our locking it."""
    real = fcntl.flock
    moved: list[Path] = []

    def flock(file: object, flags: int) -> None:
        if not moved:
            moved.append((tmp_path / "run").rename(tmp_path / "aside"))
        real(file, flags)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", flock)
    with folder.locked(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").exists()
        assert moved


def test_a_changed_recipe_is_shown_as_a_difference(tmp_path: Path) -> None:
    train(base(), tmp_path / "run")
    changed = replace(base(), method=ReferencePrior(alpha=0.2), ema=0.5)
    with pytest.raises(ValueError, match=r"method.alpha: 0.1 → 0.2; ema: 0.99 → 0.5 \(there → now\)"):
        train(changed, tmp_path / "run")


def test_a_second_process_is_refused_and_a_crash_leaves_no_lock(tmp_path: Path) -> None:
    with folder.locked(tmp_path / "run"):
        probe = (
            "import sys; from pathlib import Path; from refprior.training import folder\n"
            "try:\n  folder.locked(Path(sys.argv[1])).__enter__()\nexcept ValueError as e: print(e)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", probe, str(tmp_path / "run")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert f"is in use: process {os.getpid()} on" in done.stdout
    pid = os.fork()
    if pid == 0:
        folder.locked(tmp_path / "run").__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    with folder.locked(tmp_path / "run"):
        pass


@pytest.mark.parametrize("room", [100_000, 3_000])
def test_a_full_disk_keeps_the_old_checkpoint_and_training_goes_on(tmp_path: Path, room: int) -> None:
    """The child may write only small files for a while: no checkpoint fits, or not even snapshots and metrics."""
    script = (
        "import dataclasses, resource, signal, sys, torch\n"
        "from tests.training.test_survival import base\n"
        "from refprior.training import train\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "free = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "def watch(record):\n"
        f"    limit = {room} if 3 <= record['step'] <= 6 else free[0]\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free[1]))\n"
        "torch.set_num_threads(1)\n"
        "recipe = dataclasses.replace(base(), snapshots=6)\n"
        "train(recipe, sys.argv[1], watch=watch, save_every=0.0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "full")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"could not save step (\d) .*old checkpoint stays", done.stderr) == ["3", "4", "5", "6"]
    assert "Traceback" not in done.stderr
    lost = ["4", "6"] if room == 3_000 else []
    assert re.findall(r"could not keep the snapshot of step (\d) .*goes on without it", done.stderr) == lost
    film = snapshot.read(tmp_path / "full")
    assert film is not None
    assert [shot.step for shot in film.snapshots] == ([0, 1, 2, 9] if lost else [0, 1, 2, 4, 6, 9])
    train(base(), tmp_path / "whole", save_every=0.0)
    assert_same_run(tmp_path / "whole", tmp_path / "full")


def test_a_missing_data_set_on_resume_is_said_in_words(tmp_path: Path) -> None:
    def gone() -> object:
        raise ValueError("the images are not in /data: get them again")

    recipe = base()
    interrupted = replace(recipe, task=recipe.task)
    with pytest.raises(Stopped):
        train(interrupted, tmp_path / "run", watch=lambda r: os.kill(os.getpid(), signal.SIGINT))
    header = json.loads((tmp_path / "run" / "recipe.json").read_text())
    header["recipe"]["task"] = f"{gone.__module__}.{gone.__qualname__}"
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(header))
    before = checkpoint.steps(tmp_path / "run")
    with pytest.raises(ValueError, match="get them again"):
        train(replace(recipe, task=gone), tmp_path / "run")  # type: ignore[arg-type]
    assert checkpoint.steps(tmp_path / "run") == before


def test_a_folder_that_cannot_be_written_gets_one_line(tmp_path: Path) -> None:
    process = start("--out", "/proc/refprior/run", cwd=tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(errors.strip().splitlines()) == 1
    assert "/proc/refprior" in errors


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from refprior.cli import main; main()", "train", "digits_ssl", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    """The step that is under way takes minutes: the first Ctrl-C waits for it, the second does not."""
    script = (
        "import sys, time\n"
        "from dataclasses import replace\n"
        "from tests.training.test_survival import base\n"
        "from refprior.training import train\n"
        "def slow(images, generator):\n"
        "    print('in a step', flush=True)\n"
        "    time.sleep(0.1)\n"
        "    for _ in range(600): time.sleep(0.1)\n"
        "train(replace(base(), weak=slow), sys.argv[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in a step\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5) == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_stops_saves_and_says_how_to_go_on(number: signal.Signals, code: int, tmp_path: Path) -> None:
    process = start("--out", "run", "--set", "evaluate_every=1", cwd=tmp_path)
    wait_for(tmp_path / "run" / "metrics.jsonl")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    last = errors.strip().splitlines()[-1]
    assert re.match(r"refprior: stopped at step \d+ of 600 and saved; the same command with --out run goes on", last)
    assert "Traceback" not in errors
    assert len(checkpoint.steps(tmp_path / "run")) == 2


def test_the_run_folder_says_how_to_repeat_it(tmp_path: Path) -> None:
    recipe, origin = named("digits_ssl", {**SHORT, "labels": "60"}, seed=3)
    train(recipe, tmp_path / "run", origin=origin)
    (environment,) = json.loads((tmp_path / "run" / "recipe.json").read_text())["environments"]
    words = environment["repeat"].split()
    assert words[:5] == ["refprior", "train", "digits_ssl", "--seed", "3"]
    settings = dict(word.split("=") for word in words[words.index("--set") + 1 :])
    assert named("digits_ssl", settings, seed=3).recipe.steps == 9
    assert settings["labels"] == "60"
    assert environment.keys() >= {"python", "packages", "machine", "threads", "started", "commit"}
