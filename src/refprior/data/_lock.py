"""One process at a time in a folder."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_NAME = ".lock"
_PAUSE = 0.1  # seconds between looks at a lock that another process has


@contextlib.contextmanager
def alone(folder: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Make the folder and hold its lock, which dies with the process; a folder that stays empty is removed.

    While another process has it, `waiting` is told who that is.
    """
    lock = folder / _NAME
    descriptor = _locked(lock, waiting)
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}".encode(), 0)
        yield
    finally:
        lock.unlink(missing_ok=True)  # still locked: who waits for it will find that it is gone, and make another
        with contextlib.suppress(OSError):
            folder.rmdir()  # if nothing is in it
        os.close(descriptor)


def _locked(lock: Path, waiting: Callable[[str], None]) -> int:
    """A descriptor of the lock file, which is ours and is still the one in the folder."""
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # another process has just removed the folder, which was empty
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        except BlockingIOError:
            waiting(os.pread(descriptor, 20, 0).decode("ascii", "replace") or "another")
            time.sleep(_PAUSE)
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
