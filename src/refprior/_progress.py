"""What a person sees while something takes long, on stderr: a live line, or plain lines where there is no terminal."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from refprior._process import rank
from refprior._words import printable

if TYPE_CHECKING:
    from refprior.training import Record

_SHORT = {"cross_entropy": "ce", "marginal_entropy": "h_y", "conditional_entropy": "h_yw"}
_BAR, _TIME = 10, 7  # columns of the bar, and of 1:02:03
_PATIENCE = 2.0  # seconds before anything is shown


class Tell(Protocol):
    """Says how far something is."""

    def __call__(self, part: str, done: int | None = None, total: int | None = None) -> None: ...


@contextmanager
def working(what: str, log: logging.Logger | None = None) -> Iterator[Tell]:
    """Say what is being done once it has taken two seconds, with its time. A function to say how far it is.

    log: its messages say how far it is too; warnings are printed at once. Of several processes the first one speaks.
    """
    if rank() > 0:
        yield lambda part, done=None, total=None: None
        return
    news = _News(what)
    over, started = threading.Event(), time.monotonic()

    def tell(part: str, done: int | None = None, total: int | None = None) -> None:
        news.line = part if done is None else f"{part}: {done} of {total}"

    def line() -> str:
        return printable(f"{news.line}, {time.monotonic() - started:.0f} s")

    thread = threading.Thread(target=_show, args=(line, over), daemon=True)
    thread.start()
    try:
        with news.of(log) if log is not None else nullcontext():
            yield tell
    finally:
        over.set()
        thread.join()


class _News(logging.Handler):
    """The latest message of a logger."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = self.line = what

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.what}: {record.getMessage()}"
        if record.levelno >= logging.WARNING:
            print(line, file=sys.stderr, flush=True)
        else:
            self.line = line

    @contextmanager
    def of(self, log: logging.Logger) -> Iterator[None]:
        """Listen to a logger, and give it back as it was."""
        level, propagate = log.level, log.propagate
        log.addHandler(self)
        log.setLevel(logging.INFO)
        log.propagate = False
        try:
            yield
        finally:
            log.removeHandler(self)
            log.setLevel(level)
            log.propagate = propagate


def _show(line: Callable[[], str], over: threading.Event) -> None:
    if over.wait(_PATIENCE):
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        print(line(), file=sys.stderr, flush=True)
        while not over.wait(10):
            print(line(), file=sys.stderr, flush=True)
        return
    with console.status(Text(line())) as status:
        while not over.wait(0.2):
            status.update(Text(line()))


@contextmanager
def live(line: Callable[[], str]) -> Iterator[None]:
    """A line of a terminal that is asked for every second; without a terminal, nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    over = threading.Event()

    def show() -> None:
        with console.status(Text("")) as status:
            while not over.wait(1):
                words = Text(printable(line()), no_wrap=True, overflow="ellipsis")
                words.truncate(console.width - 3, overflow="ellipsis")
                status.update(words)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def watching(title: str, steps: int, shown: bool = True) -> "Iterator[Callable[[Record], None]]":
    """A function to call with each record of a training. Of several processes the first one shows them."""
    if not shown or rank() > 0:
        yield lambda record: None
        return
    console = Console(stderr=True)
    title = printable(title)
    if not console.is_terminal:
        with _lines(title) as watch:
            yield watch
        return
    if _room(console.width, title, steps) < 0:
        console.print(Text(title))
        title = ""
    columns = (
        *([TextColumn("{task.description}", markup=False)] if title else []),
        BarColumn(bar_width=_BAR),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[numbers]}", style="cyan", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=steps, numbers="")
        accuracy: list[str] = []

        def watch(record: "Record") -> None:
            nonlocal accuracy
            accuracy = [word.replace("validation", "val") for word in _accuracy(record)] or accuracy
            numbers = _fitting([*accuracy, *_terms(record)], _room(console.width, title, record.steps))
            progress.update(bar, completed=record.step, total=record.steps, numbers=numbers)

        yield watch


def _room(width: int, title: str, steps: int) -> int:
    """The columns that are left for numbers on the live line."""
    count = 2 * len(str(steps)) + 1
    return width - sum(length + 1 for length in (cell_len(title), _BAR, count, _TIME) if length)


def _fitting(words: list[str], room: int) -> str:
    """As many of the words as fit, the first ones; none is cut."""
    while len(" ".join(words)) > room:
        words = words[:-1]
    return " ".join(words)


@contextmanager
def _lines(title: str) -> "Iterator[Callable[[Record], None]]":
    """A line at every evaluation, and every ten seconds between them."""
    with working(title) as tell:

        def watch(record: "Record") -> None:
            accuracy = _accuracy(record)
            left = record.seconds / record.step * (record.steps - record.step)
            words = [title, f"{record.step}/{record.steps}", *_terms(record), *accuracy, f"{left:.0f} s left"]
            tell(" ".join(words))
            if accuracy:
                print(*words, file=sys.stderr, flush=True)

        yield watch


def _terms(record: "Record") -> list[str]:
    known = {"loss": record.loss, **{short: record.terms.get(name) for name, short in _SHORT.items()}}
    return [f"{short} {value:.3f}" for short, value in known.items() if value is not None]


def _accuracy(record: "Record") -> list[str]:
    """Of the validation part where there is one, what a person may choose by; of the consensus where it is read out."""
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
