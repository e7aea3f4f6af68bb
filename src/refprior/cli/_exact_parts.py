"""What the commands of `refprior exact` share: options, progress, and how an answer is printed."""

from __future__ import annotations

import json as json_module
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import Parameter

from refprior._files import write_figure
from refprior.cli._parameters import whole
from refprior.cli._paths import check_picture

if TYPE_CHECKING:
    from refprior.exact import Solution

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON for machines instead of a table.")]
Plot = Annotated[Path | None, Parameter(name="--plot", help="Also draw the answer into this file (.png, .pdf, .svg).")]
Tolerance = Annotated[float, Parameter(help="Gap to reach, in nats.")]
Tosses = Annotated[int, Parameter(name=["-n", "--tosses"], converter=whole, help="Number of tosses.")]

QUICK = 4e6  # probabilities that may be evaluated between a signal and the end: a fraction of a second


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How an answer is shown."""

    json: Json = False
    plot: Plot = None


TABLE = Output()


def show_prior(what: str, solve: Callable[[], Solution], output: Output) -> None:
    """Solve, then draw and print: the body of every command that gives a prior. Exit code 3: it is unfinished."""
    check_picture(output.plot)
    with solving(what):
        from refprior.exact import SearchInterrupted

        try:
            solution = solve()
        except SearchInterrupted as stopped:
            _show_best_so_far(stopped.best, output)
            raise
    if output.plot is not None:
        write_figure(output.plot, solution.plot().figure, dpi=110)
    if output.json:
        print_json(solution.to_dict())
    else:
        print(solution)
        number = "certified" if solution.atoms_certified else "not certified: other numbers may do as well"
        print(f"number of atoms {number}")
    refuse(solution.shortfall, output.json)


def _show_best_so_far(best: Solution, output: Output) -> None:
    """Print the best prior of an interrupted search, with its gap if that takes no time."""
    from refprior.exact import certify

    work = len(best.channel.outcomes) * (200 + (best.channel.axes.lengths / 0.1).prod())
    best = certify(best) if work <= QUICK else best
    print(json_module.dumps(best.to_dict(), allow_nan=False) if output.json else best, flush=True)


@contextmanager
def solving(what: str) -> Iterator[None]:
    """Show progress and, at the end, warnings; a lack of memory becomes a ValueError."""
    from refprior._progress import working
    from refprior.exact import SearchInterrupted

    with warnings.catch_warnings(record=True) as caught, working(what, logging.getLogger("refprior.exact")):
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except MemoryError:
            raise ValueError(f"{what}: out of memory; take fewer samples, points or outcomes") from None
        except SearchInterrupted as stopped:
            raise stopped.__cause__ or stopped from None  # the signal, which has the exit code
    for warning in caught:
        if not str(warning.message).startswith("unfinished"):  # the result says so itself
            print(f"warning: {warning.message}", file=sys.stderr)


def refuse(reason: str | None, to_stderr: bool) -> None:
    """End with exit code 3 if there is a reason; where stdout is JSON, stderr says it too."""
    if reason is not None:
        end_unfinished(reason, to_stderr)


def end_unfinished(reason: str, to_stderr: bool) -> NoReturn:
    """Exit code 3, and a line on stderr if asked for."""
    if to_stderr:
        print(f"refprior: unfinished: {reason}", file=sys.stderr)
    sys.exit(3)


def print_json(value: dict[str, Any]) -> None:
    """One line of JSON without NaN."""
    print(json_module.dumps(value, allow_nan=False))
