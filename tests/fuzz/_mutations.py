"""Seeded damage to files, and what a reader may do about it: read, or refuse in one line that names the file.

A failure names its mutation: `fuzz(…, first=that number, count=1)` makes the same file again.
"""

import contextlib
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

SECONDS = 2.0  # for one file
MEMORY = 500_000_000  # bytes, above what the process has when `bounded_memory` begins
_NUMBERS = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    32_767,
    65_535,
    65_536,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
)
_TEXTS = (
    b"0",
    b"-1",
    b"9" * 9,
    b"9" * 30,
    b"1e400",
    b"NaN",
    b"null",
    b"[" * 900,
    b"(" * 900,
    b"-" * 900,
    b"\xff\xfe",
    b"\0",
)


class TooSlowError(BaseException):
    """Raised inside a call that takes too long; no `except Exception` holds it back."""


def mutate(content: bytes, rng: random.Random) -> bytes:
    """The same bytes with one to four small damages."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        content = rng.choice(_DAMAGES)(content, rng)
    return content


def check(call: Callable[[], object], path: Path, seconds: float = SECONDS) -> bool:
    """Whether `call` read `path`; False if it refused it with an error of ours, else an AssertionError.

    Ours is a ValueError or OSError of one printable line with the name of the file, within `seconds`. Running out of
    memory or of stack and calling it damage does not count.
    """
    begin = time.perf_counter()
    try:
        with _alarm(seconds):
            call()
        return True
    except (ValueError, OSError) as error:
        _check_error(error, path)
        return False
    except Exception as error:
        raise AssertionError(f"{path.name}: {type(error).__name__}: {error}") from error
    except TooSlowError as error:
        raise AssertionError(f"{path.name}: still at it after {time.perf_counter() - begin:.1f} s") from error


def fuzz(
    content: bytes,
    path: Path,
    read: Callable[[Path], object],
    count: int,
    *,
    first: int = 0,
    damage: Callable[[bytes, random.Random], bytes] = mutate,
) -> int:
    """Write `count` damaged copies of `content` to `path`, in turn, and check `read`; how many were read."""
    passed = 0
    with bounded_memory():
        for number in range(first, first + count):
            path.unlink(
                missing_ok=True
            )  # a new file: some file systems sync one that is cut to nothing and written anew
            path.write_bytes(damage(content, random.Random(number)))
            try:
                passed += check(lambda: read(path), path)
            except AssertionError as error:
                raise AssertionError(f"mutation {number}: {error}") from error
    return passed


@contextlib.contextmanager
def bounded_memory(limit: int = MEMORY) -> Iterator[None]:
    """Let the process have `limit` bytes of addresses more than it has now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _check_error(error: BaseException, path: Path) -> None:
    message = str(error)
    assert not isinstance(error, UnicodeError), f"{type(error).__name__}: {message}"
    assert message.isprintable(), f"not one line: {message!r}"
    assert path.name in message, f"does not name {path.name}: {message}"
    assert len(message) < 500 + 2 * len(str(path)), f"{len(message)} characters: {message[:200]}"
    cause: BaseException | None = error
    while cause is not None:
        assert not isinstance(cause, MemoryError | RecursionError), f"ran into {type(cause).__name__}: {message}"
        cause = cause.__cause__ or cause.__context__


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Of processor time, which does not depend on what else the machine does; of the clock, ten times as many."""

    def ring(signum: int, frame: FrameType | None) -> None:
        raise TooSlowError

    clocks = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds)}
    before = {number: signal.signal(number, ring) for number in clocks}
    for timer, length in clocks.values():
        signal.setitimer(timer, length)
    try:
        yield
    finally:
        for timer, _ in clocks.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    new = rng.randbytes(rng.choice((1, 1, 2, 4, 16)))
    return content[:place] + new + content[place + len(new) :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice((1, 1, 2, 8, 64))) + content[place:]


def _delete(content: bytes, rng: random.Random) -> bytes:
    place, length = _range(content, rng)
    return content[:place] + content[place + length :]


def _duplicate(content: bytes, rng: random.Random) -> bytes:
    place, length = _range(content, rng)
    return content[:place] + content[place : place + length] * rng.choice((2, 2, 3, 20)) + content[place + length :]


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _splice_number(content: bytes, rng: random.Random) -> bytes:
    """A telling number in place of some bytes, in either order."""
    width, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    place = rng.randrange(len(content) + 1)
    value = rng.choice(_NUMBERS) % (1 << 8 * width)
    return content[:place] + value.to_bytes(width, "little" if order == "little" else "big") + content[place + width :]


def _splice_text(content: bytes, rng: random.Random) -> bytes:
    """A telling text in place of a run of digits, if there is one, else anywhere."""
    start = rng.randrange(len(content) + 1)
    digits = next((i for i in range(start, min(len(content), start + 200)) if 48 <= content[i] < 58), start)
    end = digits
    while end < len(content) and 48 <= content[end] < 58:
        end += 1
    return content[:digits] + rng.choice(_TEXTS) + content[end:]


def _range(content: bytes, rng: random.Random) -> tuple[int, int]:
    return rng.randrange(len(content) + 1), rng.choice((1, 2, 4, 16, 64, 512))


_DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _overwrite, _insert, _delete, _duplicate, _truncate, _splice_number, _splice_number, _splice_text,
)  # fmt: skip
