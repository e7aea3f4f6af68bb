"""While an exact command works: what it is at, on stderr, and an ear for Ctrl-C and SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

FIRST_LINE, NEXT_LINE = 2.0, 10.0  # seconds until progress is said, and from then on, where there is no terminal
PATIENCE = 0.4  # seconds that a signal waits for the main thread to come back from a long call


class Interrupted(KeyboardInterrupt):
    """A signal ended the work."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped" if signal_number == signal.SIGINT else "terminated")
        self.signal_number = signal_number


@contextmanager
def working(what: str) -> Iterator[None]:
    """Progress, signals and warnings of work that may take long; work that runs out of memory is a ValueError."""
    from refprior.exact._cost import LOG

    with warnings.catch_warnings(record=True) as caught, _hearing_signals(), _telling(what, LOG):
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except MemoryError:
            raise ValueError(f"{what}: out of memory; take fewer samples, points or outcomes") from None
    for warning in caught:
        if not str(warning.message).startswith("not certified"):  # the result says so itself
            print(f"warning: {warning.message}", file=sys.stderr)


class _Latest(logging.Handler):
    """Keeps the latest message; one that cannot wait is printed at once."""

    def __init__(self, what: str, changed: Callable[[str], None]) -> None:
        super().__init__()
        self.what, self.text, self.changed = what, "", changed

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()
        if record.levelno >= logging.WARNING:
            print(f"{self.what}: {self.text}", file=sys.stderr, flush=True)
        else:
            self.changed(self.text)


@contextmanager
def _telling(what: str, log: logging.Logger) -> Iterator[None]:
    """Show what the library logs: on one live line of a terminal, else as a line now and then."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        latest = _Latest(what, lambda text: progress.update(task, description=text))
        done = threading.Event()
        lines = threading.Thread(target=_print_lines, args=(latest, done), daemon=True)
        before = log.level, log.propagate
        log.addHandler(latest)
        log.setLevel(logging.INFO)
        log.propagate = False
        if not console.is_terminal:
            lines.start()
        try:
            yield
        finally:
            done.set()
            log.removeHandler(latest)
            log.setLevel(before[0])
            log.propagate = before[1]


def _print_lines(latest: _Latest, done: threading.Event) -> None:
    started, wait = time.monotonic(), FIRST_LINE
    while not done.wait(wait):
        text = latest.text or "working"
        print(f"{latest.what}: {text} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
        wait = NEXT_LINE


@contextmanager
def _hearing_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise `Interrupted`; if the main thread is in a long call, another one ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    done = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    watcher = threading.Thread(target=_end_if_busy, args=(reader, done), daemon=True)
    watcher.start()
    descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        done.set()
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)
        writer.close()
        watcher.join()
        reader.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def _end_if_busy(reader: socket.socket, done: threading.Event) -> None:
    """Wait for a signal, then for the main thread to hear it; end the process if it does not."""
    while heard := reader.recv(1):
        if heard[0] in (signal.SIGINT, signal.SIGTERM) and not done.wait(PATIENCE):
            show_cursor = "\r\x1b[K\x1b[?25h" if sys.stderr.isatty() else ""
            os.write(2, f"{show_cursor}refprior: {Interrupted(heard[0])}\n".encode())
            os._exit(128 + heard[0])
