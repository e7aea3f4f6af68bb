"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 ask a run to save and stop; a second Ctrl-C ends it at once."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)  # of people, systems, terminals, schedulers


class Stopped(KeyboardInterrupt):
    """The run was asked to stop and did, with everything saved.

    >>> from refprior.training import Stopped
    >>> issubclass(Stopped, KeyboardInterrupt)
    True
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class Stop:
    """Which signal asked, if any. Within a step it is obeyed at once, elsewhere when what is under way is done."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.within_step: Callable[[], bool] = lambda: False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.signal_number = number
        if self.within_step():
            raise Interrupted


class Interrupted(BaseException):
    """A step was given up in the middle: the state is that before it."""


@contextmanager
def terminable() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise `Stopped` where they arrive; outside the main thread nothing."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("terminated", number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Listen to the signals; outside the main thread, where Python cannot, listen to nothing."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores one
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
