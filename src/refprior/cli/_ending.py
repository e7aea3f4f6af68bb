"""How a command ends that does not end well: stopped by a signal, by a mistake of the user's, or by one of ours."""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cyclopts import CycloptsError

from refprior._process import LostRankError, handling, local_rank, rank
from refprior._words import printable
from refprior.cli._words import one_line

GRACE = 0.7  # seconds that a command has to clean up after a signal


class Ended(KeyboardInterrupt):
    """A signal came."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped")
        self.signal_number = signal_number


class FailedError(Exception):
    """What was asked for was done in part; what is missing was said."""


class _Listener:
    """Raises where the program is. A thread of its own ends the process if that does not help: long calls of
    libraries do not look for signals, and some drop the exception."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.over = threading.Event()
        self.heard, self.written = os.pipe()
        os.set_blocking(self.written, False)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        raise Ended(number)

    def watch(self) -> None:
        """Wait for signals that are ours: `train` listens to them in its own way, and is left in peace."""
        while number := os.read(self.heard, 1):
            ours = signal.getsignal(number[0]) is self
            if ours and not self.over.wait(GRACE) and signal.getsignal(number[0]) is self:
                show_cursor()
                print("refprior: stopped", file=sys.stderr, flush=True)
                os._exit(128 + number[0])
        os.close(self.heard)


@contextmanager
def listening() -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is inside within a second; outside the main thread Python hears neither."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener()
    wakeup = signal.set_wakeup_fd(listener.written, warn_on_full_buffer=False)
    threading.Thread(target=listener.watch, daemon=True).start()
    try:
        with handling(listener, signal.SIGINT, signal.SIGTERM):
            yield
    except Exception as error:
        if listener.signal_number is not None:  # a library made an error of its own of it
            raise Ended(listener.signal_number) from error
        raise
    finally:
        listener.over.set()
        signal.set_wakeup_fd(wakeup)
        os.close(listener.written)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Whatever goes wrong inside is said in one line, with an exit code; REFPRIOR_DEBUG=1 shows where it happened."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt as stop:
        code = 128 + getattr(stop, "signal_number", signal.SIGINT)
        _end(stop, one_line(stop) or "stopped", code, said=rank() == 0)
    except (CycloptsError, ValueError, OSError) as error:  # which all ranks meet; one on each machine says it
        _end(error, one_line(error), 2, said=local_rank() == 0)
    except (ArithmeticError, FailedError) as error:  # a loss that is not finite; cells that failed
        _end(error, one_line(error), 1, said=rank() == 0)
    except LostRankError as error:
        _end(error, one_line(error), 1)
    except Exception as error:
        _end(error, _unexpected(error), 1)


@contextmanager
def warning_in_one_line() -> Iterator[None]:
    """Warnings of the library are printed as they are; names in them cannot move the cursor."""
    log, handler = logging.getLogger("refprior"), logging.StreamHandler()
    handler.format = lambda record: printable(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _unexpected(error: Exception) -> str:
    """What nobody foresaw: lack of memory in words, anything else as it is called."""
    what = one_line(error)
    if isinstance(error, MemoryError) or "allocate memory" in what or "out of memory" in what:
        return f"not enough memory{f' ({what})' if what else ''}: lower particles or the sizes of batches"
    if isinstance(error, RecursionError):
        return f"something is nested too deeply ({what}): please report"
    return (
        f"{type(error).__name__}{f': {what}' if what else ''}: please report; REFPRIOR_DEBUG=1 shows where it happened"
    )


def show_cursor() -> None:
    """A progress bar may have hidden it."""
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)


def _end(error: BaseException, message: str, code: int, said: bool = True) -> None:
    """said: whether this process says it, of several that do."""
    if os.environ.get("REFPRIOR_DEBUG"):
        traceback.print_exception(error)
    if said:
        print(f"refprior: {message}", file=sys.stderr, flush=True)
    sys.exit(code)
