"""One process at a time in a folder. That real processes wait for each other is in test_obtain.py."""

import os
import threading
import time
from pathlib import Path

import pytest

from refprior.data._lock import alone


def test_a_folder_that_stays_empty_is_removed_and_another_is_kept(tmp_path: Path) -> None:
    with alone(tmp_path / "new", lambda who: None):
        assert (tmp_path / "new" / ".lock").read_text() == str(os.getpid())
    assert not list(tmp_path.iterdir())
    with alone(tmp_path / "new", lambda who: None):
        (tmp_path / "new" / "file").touch()
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["file"]


def test_the_second_waits_and_is_told_for_whom(tmp_path: Path) -> None:
    inside, done = [0], list[int]()
    waited: list[str] = []

    def enter() -> None:
        with alone(tmp_path / "new", waited.append):
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
    assert str(os.getpid()) in waited


def test_the_lock_of_a_dead_process_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1")
    with alone(tmp_path, lambda who: pytest.fail(f"waited for {who}")):
        pass
