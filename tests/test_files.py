"""Files that are whole or absent, sealed records, and what is refused to be read."""

import errno
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from refprior import _files
from refprior._files import (
    check_ordinary,
    holder,
    locked,
    read_bytes,
    read_record,
    write_atomically,
    write_folder_atomically,
    write_record,
    write_text,
)

RECORD: dict[str, Any] = {"steps": 8293, "rate": 0.1 + 0.2, "words": ["é", None, True], "inner": {"b": 1, "a": -0.0}}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_text(target, "old")

    def fail(side: Path) -> None:
        side.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, fail)
    assert target.read_text() == "old"
    (tmp_path / "a folder").mkdir()
    with pytest.raises(ValueError, match="a folder exists and is not a file"):
        write_text(tmp_path / "a folder", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a folder", "file"]


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    def full(side: Path) -> None:
        Path("/dev/full").write_text("x")

    for write in (write_atomically, write_folder_atomically):
        with pytest.raises(OSError, match=r"No space left on device: '.*/report'"):
            write(tmp_path / "report", full)


def test_a_name_of_any_length_can_be_written(tmp_path: Path) -> None:
    write_text(tmp_path / ("é" * 127), "text")
    assert (tmp_path / ("é" * 127)).read_text() == "text"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "report.html").symlink_to(tmp_path / "victim")
    write_text(tmp_path / "report.html", "a report")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "report.html").read_text() == "a report"
    assert not (tmp_path / "report.html").is_symlink()


WRITER = """
import sys; from pathlib import Path; from refprior._files import write_atomically
def write(side):
    with side.open("w") as file:
        for _ in range(200):
            file.write(sys.argv[2] * 50); file.flush()
while True:
    write_atomically(Path(sys.argv[1]), write)
"""


def test_two_writers_and_a_reader_see_whole_files_and_the_killed_ones_are_cleaned_up(tmp_path: Path) -> None:
    target = tmp_path / "shared"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(target), letter]) for letter in "ab"]
    try:
        while not target.exists():
            time.sleep(0.01)
        end, seen = time.monotonic() + 2, set()
        while time.monotonic() < end:
            seen.add(target.read_text())
        assert seen <= {"a" * 10_000, "b" * 10_000}
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
    left = [path for path in tmp_path.iterdir() if path != target]
    for digit, names in {"0": [], "1": [".lock"], "2": [".lock", "half", ".tmpAbC"], "3": ["half"]}.items():
        (folder := tmp_path / f".{digit * 16}.part").mkdir()  # of writers that were killed
        for name in names:
            (folder / name).write_text("half")
    (tmp_path / ".mine.part").write_text("not ours")
    write_text(tmp_path / "next", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.part", "next", "shared"], left


MANY = """
import sys; from pathlib import Path; from refprior._files import write_text
for number in range(400):
    write_text(Path(sys.argv[1]) / sys.argv[2], f"{number}")
"""


def test_many_writers_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", MANY, str(tmp_path), name]) for name in "abcd"]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys("abcd", "399")


ENTERING = """
import sys, time; from pathlib import Path; from refprior._files import locked
def busy(holder): pass
end = time.monotonic() + 2
while time.monotonic() < end:
    with locked(Path(sys.argv[1]), busy):
        pass
"""


def test_many_processes_may_enter_and_leave_a_folder_that_comes_and_goes(tmp_path: Path) -> None:
    places = [subprocess.Popen([sys.executable, "-c", ENTERING, str(tmp_path / "new")]) for _ in range(3)]
    assert [place.wait() for place in places] == [0] * 3
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_making_is_not_cleaned_up(tmp_path: Path) -> None:
    def write(side: Path) -> None:
        side.write_text("slow")
        write_text(tmp_path / "other", "quick")
        assert side.exists()

    write_atomically(tmp_path / "slow", write)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "slow"]


def test_a_record_reads_back_and_is_plain_json(tmp_path: Path) -> None:
    write_record(tmp_path / "record.json", 7, RECORD)
    assert read_record(tmp_path / "record.json", 7) == RECORD
    assert json.loads((tmp_path / "record.json").read_text()).items() >= {"format": 7, **RECORD}.items()


def test_a_record_may_be_indented_and_ordered_otherwise(tmp_path: Path) -> None:
    """The seal is of the content: a formatter does no harm."""
    path = tmp_path / "record.json"
    write_record(path, 7, RECORD)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True, indent=8))
    assert read_record(path, 7) == RECORD


def test_every_changed_digit_and_word_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(path, 7, RECORD)
    text = path.read_text()
    for place, letter in enumerate(text):
        if letter.isalnum():
            path.write_text(text[:place] + ("1" if letter != "1" else "2") + text[place + 1 :])
            with pytest.raises(ValueError, match=r"\A[^\n]*record\.json (is damaged|is not valid JSON|has )[^\n]*\Z"):
                read_record(path, 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"a": 1e999999999}',
        '{"a": ' + "9" * 5000 + "}",
        "[" * 900 + "]" * 900,
        '"\\ud800"',
        "NaN",
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"\A[^\n]*record\.json [^\n]{5,200}\Z"):
        read_record(path, 7)


def test_any_bytes_are_refused_in_one_line(tmp_path: Path) -> None:
    path, chance = tmp_path / "record.json", random.Random(0)
    for _ in range(500):
        path.write_bytes(chance.randbytes(chance.randrange(60)))
        with pytest.raises(ValueError, match=r"\A[^\n]*record\.json [^\n]+\Z"):
            read_record(path, 7)


def test_links_pipes_and_files_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("four")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert read_bytes(tmp_path / "file", 4) == b"four"
    with pytest.raises(ValueError, match=r"file has 4 bytes, more than the limit of 3"):
        read_bytes(tmp_path / "file", 3)
    with pytest.raises(ValueError, match=r"link is a link, and links inside a run folder are not followed"):
        read_bytes(tmp_path / "link", 4)
    with pytest.raises(ValueError, match=r"pipe is neither a file nor a folder"):
        read_bytes(tmp_path / "pipe", 4)
    check_ordinary(tmp_path, tmp_path / "file", tmp_path / "nothing")


def test_a_folder_that_stays_empty_is_removed_and_another_is_kept(tmp_path: Path) -> None:
    with locked(tmp_path / "new", lambda who: None):
        assert (tmp_path / "new" / ".lock").read_text().startswith(f"process {os.getpid()} on ")
    assert not list(tmp_path.iterdir())
    with locked(tmp_path / "new", lambda who: None):
        (tmp_path / "new" / "file").touch()
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["file"]


def test_the_second_waits_and_is_told_for_whom(tmp_path: Path) -> None:
    inside, done = [0], list[int]()
    waited: list[str] = []

    def enter() -> None:
        with locked(tmp_path / "new", waited.append):
            inside[0] += 1
            done.append(inside[0])
            time.sleep(0.05)
            inside[0] -= 1

    threads = [threading.Thread(target=enter) for _ in range(6)]  # each has a descriptor, and so a lock, of its own
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [1] * 6
    assert any(holder.startswith(f"process {os.getpid()} on ") for holder in waited)


def test_the_lock_of_a_dead_process_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1")
    with locked(tmp_path, lambda who: pytest.fail(f"waited for {who}")):
        pass


HOLDING = """
import errno, sys, time; from pathlib import Path; from refprior import _files
def none(lock, blocking=True): raise OSError(errno.ENOSYS, "no locks")
if sys.argv[2] == "mark": _files.lock_descriptor = none
with _files.locked(Path(sys.argv[1]), print):
    Path(sys.argv[1], "file").touch(); print("inside", flush=True); time.sleep(60)
"""


def holding(folder: Path, how: str) -> subprocess.Popen[str]:
    """A process that works in a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDING, str(folder), how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    return process


def no_locks(descriptor: int, blocking: bool = True) -> bool:
    """What a file system without locks says, such as Lustre without `-o flock`."""
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize("how", ["lock", "mark"])
def test_one_sees_who_works_in_a_folder_until_it_is_killed(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "mark":
        monkeypatch.setattr(_files, "lock_descriptor", no_locks)
    assert holder(tmp_path / "nothing") is holder(tmp_path) is None

    def refuse(who: str) -> None:
        raise ValueError(who)

    process = holding(tmp_path / "run", how)
    try:
        who = f"process {process.pid} on {platform.node()}"
        assert holder(tmp_path / "run") == who
        with pytest.raises(ValueError, match=f"^{re.escape(who)}"), locked(tmp_path / "run", refuse):
            pass
    finally:
        process.kill()
        process.communicate()
    with locked(tmp_path / "run", refuse):  # a killed owner does not block its successor
        assert holder(tmp_path / "run") == f"process {os.getpid()} on {platform.node()}"
    assert holder(tmp_path / "run") is None
    write_text(tmp_path / "run" / "other", "text")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["file", "other"]


def test_without_locks_the_owner_on_another_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here can tell whether it lives."""
    monkeypatch.setattr(_files, "lock_descriptor", no_locks)
    (tmp_path / "file").touch()
    heard: list[str] = []

    def refuse(who: str) -> None:
        heard.append(who)
        raise ValueError("busy")

    with locked(tmp_path, refuse):
        mark = (tmp_path / ".lock.owner").read_text()
    (tmp_path / ".lock.owner").write_text(mark.replace(f"{os.getpid()}", "77").replace(platform.node(), "node7"))
    assert holder(tmp_path) == "process 77 on node7"
    with pytest.raises(ValueError, match="busy"), locked(tmp_path, refuse):
        pass
    assert heard == ["process 77 on node7 (according to .lock.owner: remove it if that process has ended)"]


def test_who_looks_whether_there_is_a_lock_disturbs_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            holder(tmp_path)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            with locked(tmp_path, lambda who: pytest.fail(f"waited for {who}")):
                time.sleep(0.001)
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_what_is_no_file_is_neither_replaced_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ValueError, match=f"{name} exists and is not a file, so it is not replaced"):
            write_text(tmp_path / name, "text")
    with pytest.raises(ValueError, match="folder is a folder, not a file"):
        read_bytes(tmp_path / "folder", 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_name_that_is_no_text_can_be_written_about(tmp_path: Path) -> None:
    write_text(tmp_path / "page", os.fsdecode(b"caf\xe9"))
    assert (tmp_path / "page").read_text() == "caf\\udce9"


def test_a_record_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"record\.json: a setting is not valid text"):
        write_record(tmp_path / "record.json", 7, {"folder": os.fsdecode(b"caf\xe9")})
    assert not list(tmp_path.iterdir())
