"""Ctrl-C and SIGTERM ask a run to finish its step and save; a second Ctrl-C ends it at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
    """Which signal asked, if any."""

    signal_number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.signal_number = number


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises `Stopped` where it arrives, as Ctrl-C does KeyboardInterrupt; outside the main thread nothing."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("terminated", number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Listen to the two signals; outside the main thread, where Python cannot, listen to nothing."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
