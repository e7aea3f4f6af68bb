"""Shared by the commands of `refprior exact`: options, progress and printing."""

from __future__ import annotations

import json as json_module
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._files import write_figure
from refprior.cli._options import check_picture, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from refprior.exact import Solution

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON instead of a table.")]
Plot = Annotated[Path | None, Parameter(name="--plot", help="Also draw the result into this file (.png, .pdf, .svg).")]
Tolerance = Annotated[float, Parameter(help="Largest acceptable gap to the optimum, in nats.")]
Tosses = Annotated[int, Parameter(name=["-n", "--tosses"], converter=whole, help="Number of tosses.")]

QUICK = 4e6  # probabilities that take a fraction of a second to evaluate


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How the result is shown."""

    json: Json = False
    plot: Plot = None


TABLE = Output()


def show_prior(what: str, solve: Callable[[], Solution], output: Output, proof: bool = False) -> None:
    """Solve, prove if requested, draw and print a prior; exit with code 3 if it is unfinished."""
    check_picture(output.plot)
    with solving(what):
        from refprior.exact import SearchInterrupted, certify

        try:
            solution = solve()
        except SearchInterrupted as stopped:  # print the best prior so far, with its gap if that takes no time
            best = stopped.best
            work = len(best.channel.outcomes) * (200 + (best.channel.axes.lengths / 0.1).prod())
            best = certify(best) if work <= QUICK else best
            print(json_module.dumps(best.to_dict(), allow_nan=False) if output.json else best, flush=True)
            raise
        if proof:
            try:
                solution = certify(solution, proof=True)
            except ArithmeticError as error:  # the proof fails
                end_if_unfinished(str(error), to_stderr=True)
    number = "certified" if solution.atoms_certified else "not certified: another number may be optimal"
    text = f"{solution}\nnumber of atoms {number}"
    show(text, solution.to_dict, lambda: solution.plot().figure, solution.shortfall, output)


def show(
    text: object,
    plain: Callable[[], Mapping[str, object]],
    figure: Callable[[], Figure | SubFigure],
    reason: str | None,
    output: Output,
) -> None:
    """Draw a result and print it as text or JSON; exit with code 3 if there is a reason why it is unfinished."""
    if output.plot is not None:
        write_figure(output.plot, figure(), dpi=110)
    if output.json:
        print_json(plain())
    else:
        print(text)
    end_if_unfinished(reason, output.json)


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
            raise ValueError(f"{what}: out of memory; use fewer samples, points or outcomes") from None
        except SearchInterrupted as stopped:
            raise stopped.__cause__ or stopped from None  # the signal, which has the exit code
    for warning in caught:
        if not str(warning.message).startswith("unfinished"):  # the result reports it
            print(f"warning: {warning.message}", file=sys.stderr)


def end_if_unfinished(reason: str | None, to_stderr: bool) -> None:
    """Exit with code 3 if there is a reason; with JSON on stdout, print the reason on stderr."""
    if reason is not None:
        if to_stderr:
            print(f"refprior: unfinished: {reason}", file=sys.stderr)
        sys.exit(3)


def print_json(value: Mapping[str, object]) -> None:
    """Print one line of JSON without NaN."""
    print(json_module.dumps(value, allow_nan=False))
