"""A run folder: its lock, files that are whole or absent, and the lines of metrics.jsonl."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import lock_descriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refprior import _files
from refprior.training import Record, load, train
from refprior.training.store import _folder as folder
from tests.cli.running import Program
from tests.training.recipes import perceptron

RECORD = Record(step=3, steps=9, learning_rate=0.1 + 0.2, loss=None, seconds=1 / 3, terms={"fit": 1e-300})


def written(path: Path, *records: Record) -> folder.Metrics:
    metrics = folder.Metrics(path, folder.Written())
    for record in records:
        metrics.append(record)
    return metrics


def test_records_read_back_exactly(tmp_path: Path) -> None:
    records = [replace(RECORD, step=step, loss=1 / step) for step in (1, 2, 3)]
    size = written(tmp_path, *records).sync().size
    assert folder.read_records(tmp_path) == records
    assert size == (tmp_path / "metrics.jsonl").stat().st_size
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(r.to_dict())) for r in records]


def test_the_records_of_a_run_are_its_history(tmp_path: Path) -> None:
    run = train(perceptron(), tmp_path / "run")
    assert tuple(folder.read_records(tmp_path / "run")) == run.history == load(tmp_path / "run").history


@pytest.mark.parametrize(
    "line",
    ['{"step": 7', "", "[]", "null", '{"step": 7}', '{"step": "x"}', "\x00\x00", "NaN", "é", '{"a": ' + "[" * 9999],
)
@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_line_is_named_with_its_number(tmp_path: Path, line: str, number: int) -> None:
    written(tmp_path, *[RECORD] * 3).sync()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    lines[number - 1] = line
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=rf"\A[^\n]*metrics\.jsonl, line {number} is not a record: [^\n]+\Z"):
        folder.read_records(tmp_path)


def test_a_line_in_the_making_is_not_read_and_a_damaged_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = train(perceptron(), tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7')
        file.flush()
        assert load(tmp_path / "run").history == run.history
        file.write("\n")
    assert load(tmp_path / "run").history == ()
    assert re.search(r"metrics\.jsonl, line 4 is not a record: .*; the run is loaded without its history", caplog.text)


def test_a_file_that_has_another_name_elsewhere_is_not_written_to(tmp_path: Path) -> None:
    known = written(tmp_path, RECORD).sync()
    (tmp_path / "backup").hardlink_to(tmp_path / "metrics.jsonl")
    before = (tmp_path / "backup").read_bytes()
    folder.Metrics(tmp_path, known).append(RECORD)
    assert (tmp_path / "backup").read_bytes() == before
    assert len(folder.read_records(tmp_path)) == 2
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".lock").hardlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match=r"\.lock is a hard link to another file"), folder.locked(tmp_path):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_other_bytes_are_rejected(tmp_path: Path, content: bytes) -> None:
    content += b"\n" * bool(content)
    (tmp_path / "metrics.jsonl").write_bytes(content)
    if not content:
        assert folder.read_records(tmp_path) == []
        return
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line \d+ is not a record: "):
        folder.read_records(tmp_path)


def test_a_folder_whose_weights_could_not_be_read_back_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dcff' is not a name in UTF-8: give a folder with another name"):
        train(perceptron(), tmp_path / os.fsdecode(b"\xff"))
    assert not list(tmp_path.iterdir())


def test_a_folder_without_metrics_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no metrics\.jsonl: nothing was trained there"):
        folder.read_records(tmp_path)


def test_lines_that_the_checkpoint_does_not_know_are_cut(tmp_path: Path) -> None:
    known = written(tmp_path, RECORD).sync()
    folder.Metrics(tmp_path, known).append(RECORD)
    assert len(folder.read_records(tmp_path, known)) == 2
    again = folder.Metrics(tmp_path, known)
    assert len(folder.read_records(tmp_path)) == 1
    again.append(RECORD)
    assert again.sync() == written(tmp_path, RECORD, RECORD).sync()


@pytest.mark.parametrize("damage", ["lost", "short", "other"])
def test_metrics_that_are_not_those_of_the_checkpoint_are_rejected_and_left_as_they_are(
    tmp_path: Path, damage: str
) -> None:
    known = written(tmp_path, RECORD, RECORD).sync()
    path = tmp_path / "metrics.jsonl"
    content = path.read_bytes() + b"more"
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(content[:9] if damage == "short" else content.replace(b"1e-300", b"2e-300"))
    left = path.read_bytes() if path.exists() else None
    words = f"the checkpoint knows of {'other content' if damage == 'other' else known.size}"
    with pytest.raises(ValueError, match=words):
        folder.Metrics(tmp_path, known)
    assert (path.read_bytes() if path.exists() else None) == left


def test_a_lock_that_moved_away_with_its_folder_is_not_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process moves the folder between our opening the lock file and our locking it."""
    moved: list[Path] = []

    def lock(descriptor: int, blocking: bool) -> bool:
        if not moved:
            moved.append((tmp_path / "run").rename(tmp_path / "aside"))
        return lock_descriptor(descriptor, blocking=blocking)

    monkeypatch.setattr(_files, "lock_descriptor", lock)
    with folder.locked(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").exists()
        assert moved


def test_a_second_process_is_rejected_and_a_crash_leaves_no_lock(tmp_path: Path) -> None:
    with folder.locked(tmp_path / "run"):
        probe = (
            "import sys; from pathlib import Path; from refprior.training.store import _folder as folder\n"
            "try:\n  folder.locked(Path(sys.argv[1])).__enter__()\nexcept ValueError as e: print(e)"
        )
        with Program(probe, tmp_path / "run") as process:
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0
        assert f"is in use: process {os.getpid()} on" in said
    pid = os.fork()
    if pid == 0:
        folder.locked(tmp_path / "run").__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    with folder.locked(tmp_path / "run"):
        pass


def test_a_folder_in_which_nothing_was_written_goes_away(tmp_path: Path) -> None:
    with folder.locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()
