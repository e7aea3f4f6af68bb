"""Progress on stderr: a live line on a terminal, plain lines otherwise."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import progress as rich_progress
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from refprior._process import rank
from refprior._words import printable

if TYPE_CHECKING:
    from refprior.training import Record

_SHORT = {"cross_entropy": "ce", "marginal_entropy": "h_y", "conditional_entropy": "h_yw"}
_PATIENCE = 2.0  # seconds before anything is shown


Progress = Callable[[str, int, int], None]  # receives the current work, the completed part and the total


def no_progress(what: str, done: int, total: int) -> None:
    """Report no progress."""


@contextmanager
def working(what: str, log: logging.Logger | None = None) -> Iterator[Progress]:
    """Show what is being done once it has taken two seconds, with its time; yield a function to report progress.

    Messages of the logger `log` are progress too; its warnings are printed at once. Of several processes only the first
    prints.
    """
    if rank() > 0:
        yield no_progress
        return
    latest, started = what, time.monotonic()

    def progress(part: str, done: int, total: int) -> None:
        nonlocal latest
        latest = f"{part}: {done} of {total}"

    def emit(record: logging.LogRecord) -> None:
        nonlocal latest
        message = f"{what}: {record.getMessage()}"
        if record.levelno >= logging.WARNING:
            print(message, file=sys.stderr, flush=True)
        else:
            latest = message

    handler = logging.Handler()
    handler.emit = emit  # type: ignore[method-assign]
    with live(lambda: f"{latest}, {time.monotonic() - started:.0f} s", 0.2, patience=_PATIENCE, plain=True):
        if log is None:
            yield progress
            return
        level, propagate = log.level, log.propagate
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
        try:
            yield progress
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate


@contextmanager
def live(line: Callable[[], str], every: float = 1.0, *, patience: float = 0.0, plain: bool = False) -> Iterator[None]:
    """Show a line that is read `every` so many seconds on a terminal, after `patience` seconds.

    Without a terminal, print a plain line every ten seconds, or nothing unless `plain` is set.
    """
    console = Console(stderr=True)
    if not console.is_terminal and not plain:
        yield
        return
    over = threading.Event()

    def show() -> None:
        if over.wait(patience):
            return
        if not console.is_terminal:
            print(printable(line()), file=sys.stderr, flush=True)
            while not over.wait(10):
                print(printable(line()), file=sys.stderr, flush=True)
            return
        with console.status("") as status:
            while not over.wait(every):
                words = Text(printable(line()))
                words.truncate(console.width - 3, overflow="ellipsis")
                status.update(words)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Words:
    """Words of which a table shows as many as fit; none is cut."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = list(words)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(0, len(" ".join(self.words)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words = self.words
        while len(" ".join(words)) > options.max_width:
            words = words[:-1]
        yield Text(" ".join(words), style="cyan")


class _WordsColumn(rich_progress.ProgressColumn):
    def render(self, task: rich_progress.Task) -> _Words:
        return task.fields["words"]  # type: ignore[no-any-return]


@contextmanager
def watching(title: str, steps: int, shown: bool = True) -> "Iterator[Callable[[Record], None]]":
    """Yield a function that shows each record of a training. Of several processes only the first prints."""
    if not shown or rank() > 0:
        yield lambda record: None
        return
    console = Console(stderr=True)
    title = printable(title)
    if not console.is_terminal:
        with _lines(title) as watch:
            yield watch
        return
    if len(title) > console.width // 3:
        console.print(Text(title))
        title = ""
    columns = (
        *([rich_progress.TextColumn("{task.description}", markup=False)] if title else []),
        rich_progress.BarColumn(bar_width=10),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(compact=True),
        _WordsColumn(),
    )
    with rich_progress.Progress(*columns, console=console) as bars:
        bar = bars.add_task(title, total=steps, words=_Words())
        accuracy: list[str] = []

        def watch(record: "Record") -> None:
            nonlocal accuracy
            accuracy = [word.replace("validation", "val") for word in _accuracy(record)] or accuracy
            words = _Words([*accuracy, *_terms(record)])
            bars.update(bar, completed=record.step, total=record.steps, words=words)

        yield watch


@contextmanager
def _lines(title: str) -> "Iterator[Callable[[Record], None]]":
    """Print a line at every evaluation, and every ten seconds between them."""
    latest, started = title, time.monotonic()

    def watch(record: "Record") -> None:
        nonlocal latest
        accuracy = _accuracy(record)
        left = record.seconds / record.step * (record.steps - record.step)
        words = [title, f"{record.step}/{record.steps}", *_terms(record), *accuracy, f"{left:.0f} s left"]
        latest = " ".join(words)
        if accuracy:
            print(latest, file=sys.stderr, flush=True)

    with live(lambda: f"{latest}, {time.monotonic() - started:.0f} s", 0.2, patience=_PATIENCE, plain=True):
        yield watch


def _terms(record: "Record") -> list[str]:
    known = {"loss": record.loss, **{short: record.terms.get(name) for name, short in _SHORT.items()}}
    return [f"{short} {value:.3f}" for short, value in known.items() if value is not None]


def _accuracy(record: "Record") -> list[str]:
    """Format the accuracy on the validation part, or on the test part without one; of the consensus if there is one."""
    found = record.evaluation
    if found is None:
        return []
    scored = found if found.consensus is None else found.consensus
    part = next((name for name in ("validation", "test") if getattr(scored, name) is not None), None)
    if found.consensus is not None:
        part = part or "stability"
        value = getattr(found.consensus, part)
        return [] if value is None else [f"consensus, {part} {100 * value:.1f}%"]
    return [] if part is None else [f"{part} {100 * getattr(found, part).ema.accuracy:.1f}%"]
