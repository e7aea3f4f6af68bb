"""Sweeps as real processes, and what may happen to those that they start."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from refprior._files import holder
from tests.cli.running import Program, start

LONG = ("steps=150", "evaluate_every=150")  # long enough to be killed in the middle
ENDLESS = ("steps=1000000", "evaluate_every=1000000")


@contextmanager
def sweeping(*arguments: str, folder: Path, settings: Sequence[str] = LONG, seeds: str = "0,1") -> Iterator[Program]:
    """`refprior sweep digits_ssl` into folder/sweep; whatever happens, nothing of it is left."""
    command = ["sweep", "digits_ssl", "--seeds", seeds, "--out", "sweep", *arguments, "--set", *settings]
    with start(*command, cwd=folder, session=True) as process:
        try:
            yield process
        finally:
            for left in processes_of(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)


def owner_of(cell: Path, sweep: Program) -> int:
    """The process that trains in a folder, once it has written a record."""
    owner: list[str] = []

    def trains() -> bool:
        assert sweep.poll() is None, sweep.communicate()[1]
        who = str(holder(cell))  # for a moment a lock has no name in it yet
        owner[:] = [who] if who.startswith("process ") and has_records(cell) else []
        return bool(owner)

    wait_until(trains)
    return int(owner[0].split()[1])


def has_records(cell: Path) -> bool:
    path = cell / "metrics.jsonl"
    return path.exists() and path.stat().st_size > 0


def kill_owner_of(cell: Path, sweep: Program) -> None:
    """And wait until the system has taken its lock: on a busy machine that takes a while."""
    owner = owner_of(cell, sweep)
    os.kill(owner, signal.SIGKILL)
    wait_until(lambda: f"process {owner} on" not in str(holder(cell)))


def wait_until(true: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def cell(folder: Path, seed: int, settings: Sequence[str] = LONG) -> Path:
    return folder / "sweep" / ",".join(settings) / f"seed-{seed}"


def ended(process: Program, seconds: float = 400) -> tuple[int, str]:
    """Exit code and what it said on stderr."""
    said = process.communicate(timeout=seconds)[1]
    return process.wait(), said


def left_of(session: int, seconds: float = 5) -> list[int]:
    """What still does something so long after the first process of a session has ended: joblib's tracker of resources
    ends by itself when it notices that."""
    end = time.monotonic() + seconds
    while (left := processes_of(session)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def processes_of(session: int) -> list[int]:
    """Every process of a session that still does something."""
    alive = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            alive.append(int(status.parent.name))
    return alive
