"""Logs that people already use: read back with their own readers, after runs that were interrupted and went on."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refprior.training import Record, log_to, train
from refprior.training import _logs as logs
from refprior.training._logs import scalars
from refprior.training.store._folder import read_records
from tests.training.recipes import perceptron

Curve = list[tuple[int, float]]


def csv_loss(folder: Path) -> Curve:
    with (folder / "metrics.csv").open() as file:
        return [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]


def tensorboard_loss(folder: Path) -> Curve:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars("loss")]


def mlflow_loss(folder: Path) -> Curve:
    from mlflow.tracking import MlflowClient

    run = json.loads((folder / "mlflow.json").read_text())["run"]
    return [(metric.step, metric.value) for metric in MlflowClient().get_metric_history(run, "loss")]


def wandb_loss(folder: Path) -> Curve:
    import wandb
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2
    wandb.teardown()  # its own process has written everything when it ends
    found = []
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for entry in entries(file.read_bytes()):
            record = messages.Record()
            record.ParseFromString(entry)
            row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            if "loss" in row:
                found.append((record.history.step.num, float(row["loss"])))
    return found


def entries(data: bytes, block: int = 32768) -> Iterator[bytes]:
    """What is in a file of the LevelDB log format: a checksum, a length and a kind before each part."""
    at, entry = 7, b""
    while at + 7 <= len(data):
        room = block - at % block
        if room < 7:
            at += room
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        entry += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield entry
            entry = b""


READERS: dict[str, Callable[[Path], Curve]] = {
    "csv": csv_loss,
    "tensorboard": tensorboard_loss,
    "mlflow": mlflow_loss,
    "wandb": wandb_loss,
}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is logged stays here."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")


def interrupted(folder: Path, kind: str, step: int) -> None:
    """Train until a record of this step is logged, then stop at once: nothing is saved after the beginning."""
    with log_to(folder, kind) as write:

        def watch(record: Record) -> None:
            write(record)
            if record.step >= step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(perceptron(steps=60), folder, watch=watch, save_every=1000)


@pytest.mark.parametrize(
    "kind", ["csv", "tensorboard", *(pytest.param(k, marks=pytest.mark.thorough) for k in ("mlflow", "wandb"))]
)
@pytest.mark.filterwarnings("default")  # of the libraries
def test_a_run_that_went_on_has_one_curve_in_each_log(kind: str, tmp_path: Path) -> None:
    pytest.importorskip(kind)
    folder = tmp_path / "run"
    interrupted(folder, kind, 20)
    interrupted(folder, kind, 40)
    with log_to(folder, kind) as watch:
        train(perceptron(steps=60), folder, watch=watch)
    truth = [(record.step, record.loss) for record in read_records(folder)]
    assert len(truth) > 5
    found = READERS[kind](folder)
    assert [step for step, _ in found] == [step for step, _ in truth]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in truth], rel=1e-6)


@pytest.mark.parametrize("kind", ["csv", pytest.param("mlflow", marks=pytest.mark.thorough)])
@pytest.mark.filterwarnings("default")
def test_a_log_that_is_asked_for_late_has_the_whole_curve(kind: str, tmp_path: Path) -> None:
    pytest.importorskip(kind)
    with pytest.raises(KeyboardInterrupt):
        train(perceptron(steps=60), tmp_path / "run", watch=stop_at(30), save_every=0)
    with log_to(tmp_path / "run", kind) as watch:
        train(perceptron(steps=60), tmp_path / "run", watch=watch)
    assert [step for step, _ in READERS[kind](tmp_path / "run")] == [r.step for r in read_records(tmp_path / "run")]


def stop_at(step: int) -> Callable[[Record], None]:
    def watch(record: Record) -> None:
        if record.step >= step:
            raise KeyboardInterrupt

    return watch


def test_each_stage_has_a_log_of_its_own(tmp_path: Path) -> None:
    recipe = perceptron(steps=20, start=perceptron(steps=30))
    with log_to(tmp_path / "run", "csv") as watch:
        train(recipe, tmp_path / "run", watch=watch)
    for folder in (tmp_path / "run", tmp_path / "run" / "start"):
        assert csv_loss(folder) == [(record.step, record.loss) for record in read_records(folder)]


def test_a_record_is_its_finite_numbers_by_name() -> None:
    terms: dict[str, float | None] = {"fit": 2.0, "rest": float("nan")}
    record = Record(step=3, steps=9, learning_rate=0.5, loss=None, seconds=1.0, terms=terms)
    assert scalars(record) == {"learning_rate": 0.5, "seconds": 1.0, "terms/fit": 2.0, "skipped": 0}
    scored = train(perceptron(steps=2)).result
    assert scored.evaluation is not None
    assert scored.evaluation.test is not None
    assert scalars(scored)["test/ema/accuracy"] == scored.evaluation.test.ema.accuracy


def test_a_log_that_fails_in_the_middle_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*arguments: object) -> str:
        raise OSError("No space left on device")

    with log_to(tmp_path / "run", "csv") as write:

        def watch(record: Record) -> None:
            if record.step >= 20:
                monkeypatch.setattr(logs, "_lines", full)
            write(record)

        assert train(perceptron(steps=60), tmp_path / "run", watch=watch).step == 60
    assert caplog.text.count("could not log to csv (No space left on device): training continues without it") == 1


def test_what_cannot_be_logged_to_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="a log is one of csv, tensorboard, mlflow, wandb, got 'paper'"):
        log_to(tmp_path, "paper").__enter__()
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"wandb is not installed: pip install 'refprior\[wandb\]'"):
        log_to(tmp_path, "wandb").__enter__()


@pytest.mark.thorough
def test_nothing_is_imported_unless_it_is_asked_for() -> None:
    code = "import sys, refprior.training, refprior.recipes; print([m for m in sys.argv[1:] if m in sys.modules])"
    names = ["tensorboard", "mlflow", "wandb", "distributed"]
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
