"""What a person sees while a run trains: one live line, or a plain line an evaluation where there is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SHORT = {"loss": "loss", "cross_entropy": "ce", "marginal_entropy": "h_y", "conditional_entropy": "h_yw"}


@contextmanager
def watching(title: str, steps: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function to call with each record."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda record: _plain(title, steps, record)
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

        def watch(record: dict[str, Any]) -> None:
            nonlocal accuracy
            accuracy = _accuracy(record) or accuracy
            progress.update(bar, completed=record["step"], numbers=f"{_terms(record)} {accuracy}")

        yield watch


def _plain(title: str, steps: int, record: dict[str, Any]) -> None:
    if accuracy := _accuracy(record):
        left = record["seconds"] / record["step"] * (steps - record["step"])
        print(f"{title} {record['step']}/{steps} {_terms(record)} {accuracy} {left:.0f} s left", file=sys.stderr)


def _terms(record: dict[str, Any]) -> str:
    return " ".join(f"{short} {record[name]:.3f}" for name, short in _SHORT.items() if name in record)


def _accuracy(record: dict[str, Any]) -> str:
    return f"acc {100 * record['test']['ema']['accuracy']:.1f}%" if "test" in record else ""
