"""This process: its rank among those that train one run together, its signals, and the memory that it can take.

Plain Python without torch: both halves of the package and the command line use it.
"""

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from refprior._words import in_bytes

CGROUPS = Path("/sys/fs/cgroup")
_SMALL = 30_000_000  # bytes; asking takes a millisecond, too long for each of many small files
UNLIMITED = 2**62  # version 1 of control groups writes a number near this one for "no limit"


class LostRankError(Exception):
    """Another process of this run ended or did not answer in time."""


def world() -> int:
    """Return how many processes the launcher started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "RANK" in os.environ else 1


def rank() -> int:
    """Return the rank of this process."""
    return int(os.environ.get("RANK", 0)) if world() > 1 else 0


def local_rank() -> int:
    """Return the rank of this process among those on this machine."""
    return int(os.environ.get("LOCAL_RANK", rank())) if world() > 1 else 0


def local_world() -> int:
    """Return how many of the processes run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world())) if world() > 1 else 1


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals for a while, except ignored ones (nohup); outside the main thread Python cannot."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def available_memory() -> int:
    """Return how many bytes this process can still take: the least that machine, control group and ulimit -v leave."""
    free = _field(Path("/proc/meminfo"), "MemAvailable:")  # with what caches would give back
    page = os.sysconf("SC_PAGE_SIZE")
    left = [page * os.sysconf("SC_PHYS_PAGES") if free is None else 1024 * free, *_control_groups()]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        pages = _read(Path("/proc/self/statm")).split()
        left.append(soft - (page * int(pages[0]) if pages else 0))
    return max(0, min(left))


def check_memory(needed: float, what: str, remedy: str = "close other programs", available: int | None = None) -> None:
    """Raise a ValueError if work would not fit into memory, with the numbers and what to lower."""
    if needed <= _SMALL:
        return
    available = available_memory() if available is None else available
    if needed > available:
        raise ValueError(
            f"{what} needs about {in_bytes(needed)} of memory, and {in_bytes(available)} are available: {remedy}"
        )


def _control_groups() -> list[int]:
    """Return the memory that the limits of this process's control groups, and of those above them, leave."""
    left = []
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            left += _up_to_root(CGROUPS, name, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            left += _up_to_root(CGROUPS / "memory", name, "memory.limit_in_bytes", "memory.usage_in_bytes")
    return left


def _up_to_root(root: Path, name: str, limit: str, used: str) -> list[int]:
    folder, left = root / name.lstrip("/"), []
    for place in [folder, *folder.parents]:
        most, now = _read(place / limit).strip(), _read(place / used).strip()
        if most.isdigit() and int(most) < UNLIMITED:
            cached = _field(place / "memory.stat", "inactive_file") or 0  # given back when it is asked for
            left.append(int(most) - (int(now) - cached if now.isdigit() else 0))
        if place == root:
            break
    return left


def _field(path: Path, name: str) -> int | None:
    """Return the number after a name that begins a line."""
    for line in _read(path).splitlines():
        words = line.split()
        if words[:1] == [name] and len(words) > 1:
            return int(words[1])
    return None


def _read(path: Path) -> str:
    """Return the text of a system file, or nothing if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
