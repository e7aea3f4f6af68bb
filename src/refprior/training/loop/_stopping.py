"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 ask a run to save and stop; a second Ctrl-C ends it at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from refprior._process import handling

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)  # of people, systems, terminals, schedulers


class Stopped(KeyboardInterrupt):
    """The run was asked to stop by a signal, and stopped with everything saved.

    Parameters
    ----------
    message : str
        What was saved, and how to resume.
    signal_number : int
        The signal.

    Examples
    --------
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
        first = self.signal_number is None
        if number == signal.SIGINT and not first:
            os._exit(128 + number)
        self.signal_number = number
        if first and self.within_step():
            raise Interrupted


class Interrupted(BaseException):
    """A step was given up in the middle: the state is that before it."""


@contextmanager
def terminable() -> Iterator[None]:
    """The signals raise `Stopped` where they arrive."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("terminated", number)

    with handling(stop, *SIGNALS):
        yield


@contextmanager
def stopping() -> Iterator[Stop]:
    """Listen to people, systems, terminals and schedulers."""
    stop = Stop()
    with handling(stop, *SIGNALS):
        yield stop
