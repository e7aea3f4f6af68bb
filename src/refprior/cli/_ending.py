"""How a command ends if it fails: stopped by a signal, by an invalid request, or by a bug."""

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

from refprior._checks import missing_for_networks
from refprior._process import LostRankError, handling, local_rank, rank
from refprior._words import printable

GRACE = 0.7  # seconds to clean up after a signal


class Ended(KeyboardInterrupt):
    """A signal stopped the command."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped")
        self.signal_number = signal_number


class FailedError(Exception):
    """Part of the work failed, and was reported."""


class _Listener:
    """A signal handler that raises, with a thread that ends the process if raising does not help: long library calls
    do not check for signals, and some swallow the exception."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.over = threading.Event()
        self.heard, self.written = os.pipe()
        os.set_blocking(self.written, False)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        raise Ended(number)

    def watch(self) -> None:
        """Wait for signals that this handler owns; `train` replaces it while it runs."""
        while number := os.read(self.heard, 1):
            ours = signal.getsignal(number[0]) is self
            if ours and not self.over.wait(GRACE) and signal.getsignal(number[0]) is self:
                show_cursor()
                print("refprior: stopped", file=sys.stderr, flush=True)
                os._exit(128 + number[0])
        os.close(self.heard)


@contextmanager
def listening() -> Iterator[None]:
    """End the block within a second of Ctrl-C or SIGTERM; outside the main thread Python receives neither."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener()
    wakeup = signal.set_wakeup_fd(listener.written, warn_on_full_buffer=False)
    threading.Thread(target=listener.watch, daemon=True).start()
    hook = sys.unraisablehook  # a callback may ignore the exception; `watch` then ends the process
    sys.unraisablehook = lambda found: None if isinstance(found.exc_value, Ended) else hook(found)
    try:
        with handling(listener, signal.SIGINT, signal.SIGTERM):
            yield
    except Exception as error:
        if listener.signal_number is not None:  # a library turned the signal into an error
            raise Ended(listener.signal_number) from error
        raise
    finally:
        listener.over.set()
        sys.unraisablehook = hook
        signal.set_wakeup_fd(wakeup)
        os.close(listener.written)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Report any error of the block in one line with an exit code; REFPRIOR_DEBUG=1 adds the traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt as stop:
        code = 128 + getattr(stop, "signal_number", signal.SIGINT)
        _end(stop, one_line(stop) or "stopped", code, said=rank() == 0)
    except (CycloptsError, ValueError, OSError) as error:  # raised on all ranks; one per machine reports it
        _end(error, one_line(error), 2, said=local_rank() == 0)
    except (ArithmeticError, FailedError) as error:  # a loss that is not finite; cells that failed
        _end(error, one_line(error), 1, said=rank() == 0)
    except ModuleNotFoundError as error:
        if (missing := missing_for_networks()) is None:
            _end(error, _unexpected(error), 1)
        _end(error, f"this command needs {missing}, which is not installed: pip install 'refprior[deep]'", 2)
    except LostRankError as error:
        _end(error, one_line(error), 1)
    except Exception as error:
        _end(error, _unexpected(error), 1)


@contextmanager
def warning_in_one_line() -> Iterator[None]:
    """Print warnings of the library without control characters."""
    log, handler = logging.getLogger("refprior"), logging.StreamHandler()
    handler.format = lambda record: printable(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _unexpected(error: Exception) -> str:
    """Describe an unexpected error."""
    what = one_line(error)
    if isinstance(error, MemoryError) or "allocate memory" in what or "out of memory" in what:
        return f"not enough memory{f' ({what})' if what else ''}: lower particles or the batch sizes"
    if isinstance(error, RecursionError):
        return f"the recursion is too deep ({what}): please report"
    return (
        f"{type(error).__name__}{f': {what}' if what else ''}: please report; REFPRIOR_DEBUG=1 shows where it happened"
    )


def one_line(error: BaseException) -> str:
    """Return the message of an error without line breaks, cut after 1,000 characters."""
    line = printable(" ".join(str(error).split()))
    return line if len(line) <= 1000 else f"{line[:1000]}…"


def show_cursor() -> None:
    """Show the cursor, which a progress bar may have hidden."""
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)


def _end(error: BaseException, message: str, code: int, said: bool = True) -> None:
    """Exit with a code; of several processes, only those with `said` print the message."""
    if os.environ.get("REFPRIOR_DEBUG"):
        traceback.print_exception(error)
    if said:
        print(f"refprior: {message}", file=sys.stderr, flush=True)
    sys.exit(code)
