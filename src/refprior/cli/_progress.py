"""What a person sees while a run trains: one live line, or one plain line per evaluation where there is no terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from refprior.training import Record

_SHORT = {"cross_entropy": "ce", "marginal_entropy": "h_y", "conditional_entropy": "h_yw"}


@contextmanager
def watching(title: str, steps: int) -> "Iterator[Callable[[Record], None]]":
    """A function to call with each record."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=18),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}", style="cyan"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=steps, numbers="")
        accuracy = ""

        def watch(record: "Record") -> None:
            nonlocal accuracy
            accuracy = _accuracy(record) or accuracy
            progress.update(bar, completed=record.step, total=record.steps, numbers=f"{_terms(record)} {accuracy}")

        yield watch


class _Lines:
    """A line at every evaluation, and at least every ten seconds."""

    def __init__(self, title: str) -> None:
        self.title, self.last = title, time.monotonic()

    def __call__(self, record: "Record") -> None:
        accuracy = _accuracy(record)
        if not accuracy and time.monotonic() - self.last < 10:
            return
        self.last = time.monotonic()
        left = record.seconds / record.step * (record.steps - record.step)
        words = [self.title, f"{record.step}/{record.steps}", _terms(record), accuracy, f"{left:.0f} s left"]
        print(*filter(None, words), file=sys.stderr)


def _terms(record: "Record") -> str:
    known = {"loss": record.loss, **{short: record.terms.get(name) for name, short in _SHORT.items()}}
    return " ".join(f"{short} {value:.3f}" for short, value in known.items() if value is not None)


def _accuracy(record: "Record") -> str:
    """Of the validation part where there is one, what a person may choose by; of the consensus where it is read out."""
    found = record.evaluation
    if found is None:
        return ""
    part = "test" if found.validation is None else "validation"
    if found.consensus is not None:
        return f"consensus, {part} {100 * getattr(found.consensus, part):.1f}%"
    return f"{part} {100 * getattr(found, part).ema.accuracy:.1f}%"
