"""`refprior exact`: exact reference priors from the command line. Thin: parse, call, print."""

from __future__ import annotations

import json as json_module
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from refprior.cli._parameters import whole

if TYPE_CHECKING:
    from refprior.exact import Solution

app = App(
    name="exact",
    help="Exact reference priors of small models, each with a bound on its distance from the optimum.",
    help_format="plaintext",
)


Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON for machines instead of a table.")]
Plot = Annotated[Path | None, Parameter(help="Also draw atoms and gain into this file (.png, .pdf, .svg).")]
Tolerance = Annotated[float, Parameter(name="--tol", help="Gap to reach, in nats.")]
Tosses = Annotated[int, Parameter(name=["-n", "--tosses"], converter=whole, help="Number of tosses.")]
Amplitude = Annotated[float, Parameter(help="Largest value of the parameter.")]


@app.command
def coin(
    *,
    tosses: Tosses,
    tol: Tolerance = 1e-12,
    proof: Annotated[
        bool, Parameter(negative=(), help="Prove the capacity to 1e-12 by ball arithmetic (extra `proof`).")
    ] = False,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Reference prior for the bias of a coin, eq:ref_pin."""
    from refprior.exact import Coin, certify, reference_prior

    with _working(f"coin of {tosses} tosses"):
        solution = reference_prior(Coin(tosses), tol)
        if proof:
            solution = certify(solution, proof=True)
    _show(solution, json, plot)


@app.command
def two_coins(*, tosses: Tosses, tol: Tolerance = 1e-11, json: Json = False, plot: Plot = None) -> None:
    """Reference prior for the biases of two coins, each tossed n times."""
    from refprior.exact import TwoCoins, reference_prior

    with _working(f"two coins of {tosses} tosses"):
        solution = reference_prior(TwoCoins(tosses), tol)
    _show(solution, json, plot)


@app.command
def gaussian(
    *,
    amplitude: Amplitude,
    sigma: Annotated[float, Parameter(help="Standard deviation of the noise.")] = 1.0,
    tol: Tolerance = 1e-12,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Reference prior for a mean in [-amplitude, amplitude], seen with Gaussian noise."""
    from refprior.exact import Gaussian, reference_prior

    with _working(f"Gaussian, amplitude {amplitude:g}"):
        solution = reference_prior(Gaussian(amplitude, sigma), tol)
    _show(solution, json, plot)


@app.command
def poisson(
    *,
    amplitude: Amplitude,
    dark: Annotated[float, Parameter(help="Mean count without signal.")] = 0.0,
    tol: Tolerance = 1e-12,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Reference prior for a rate in [0, amplitude], seen as a Poisson count."""
    from refprior.exact import Poisson, reference_prior

    with _working(f"Poisson, amplitude {amplitude:g}"):
        solution = reference_prior(Poisson(amplitude, dark), tol)
    _show(solution, json, plot)


@app.command
def decay(
    *,
    times: Annotated[tuple[float, float], Parameter(help="The two times of observation.")] = (1.0, 2.0),
    sigma: Annotated[float, Parameter(help="Standard deviation of the noise.")] = 0.1,
    tol: Tolerance = 1e-11,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Reference prior for two decay rates, w = exp(-rate), seen as their mean signal at two times."""
    from refprior.exact import ExponentialDecay, reference_prior

    with _working(f"exponential decay, sigma {sigma:g}"):
        solution = reference_prior(ExponentialDecay(times, sigma), tol)
    _show(solution, json, plot)


@app.command
def two_stage(
    *,
    first: Annotated[
        int,
        Parameter(name=["-m", "--first"], converter=whole, help="Tosses of the first stage; 0 for a single stage."),
    ],
    second: Annotated[int, Parameter(name=["-n", "--second"], converter=whole, help="Tosses of the second stage.")],
    beta: Annotated[float, Parameter(help="Weight of the first stage's information, between 0 and 1.")] = 1.0,
    tol: Tolerance = 1e-12,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Two-stage reference prior of a coin, eq:ref_pinm_avg: m tosses first, then n."""
    from refprior.exact import Coin, two_stage_prior

    with _working(f"coin in two stages, {first} and {second} tosses"):
        solution = two_stage_prior(Coin, first, second, beta, tol)
    _show(solution, json, plot)


@app.command
def jeffreys(*, tosses: Tosses, json: Json = False) -> None:
    """Information of the coin's Jeffreys prior beside that of its reference prior."""
    from refprior.exact import Coin, reference_prior
    from refprior.exact import jeffreys as jeffreys_prior

    with _working(f"coin of {tosses} tosses"):
        smooth = jeffreys_prior(Coin(tosses)).information
        best = reference_prior(Coin(tosses)).information
    if json:
        _print_json({"jeffreys": smooth, "reference": best})
    else:
        print(f"Jeffreys prior   {smooth:.12f} nats\nreference prior  {best:.12f} nats")


@app.command
def blahut_arimoto(
    *,
    tosses: Tosses,
    points: Annotated[int, Parameter(converter=whole, help="Evenly spaced parameters of the grid.")] = 1001,
    iterations: Annotated[int, Parameter(converter=whole, help="Most iterations.")] = 10_000,
    tol: Annotated[float, Parameter(help="Stop at this gap over the grid, in nats.")] = 0.0,
    json: Json = False,
) -> None:
    """The plain Blahut-Arimoto algorithm on a grid, for comparison: how slowly its gap falls."""
    from refprior.exact import Coin
    from refprior.exact import blahut_arimoto as run

    with _working(f"Blahut-Arimoto, at most {iterations} iterations"):
        result = run(Coin(tosses), points, iterations, tol)
    if json:
        history = {"information": result.information.tolist(), "gap": result.gap.tolist()}
        _print_json({"grid": result.grid.tolist(), "weights": result.weights.tolist(), **history})
        return
    print("iterations  information     gap over the grid")
    shown = sorted({*(10**k for k in range(9) if 10**k < len(result.gap)), len(result.gap)})
    for number in shown:
        print(f"{number:10d}  {result.information[number - 1]:.12f}  {result.gap[number - 1]:.3e}")


@app.command
def figures(*, out: Annotated[Path, Parameter(help="Folder for the figures.")], json: Json = False) -> None:
    """Draw the paper's figures: coins, two-stage coins, convergence to Jeffreys."""
    import matplotlib

    matplotlib.use("Agg")
    from refprior.exact._figures import save_figures

    with _working("figures"):
        paths = []
        for path in save_figures(out):
            paths.append(str(path))
            if not json:
                print(path, flush=True)
    if json:
        _print_json({"figures": paths})


def _show(solution: Solution, json: bool, plot: Path | None) -> None:
    if plot is not None:
        import matplotlib

        matplotlib.use("Agg")
        figure: Any = solution.plot().figure
        figure.savefig(plot, dpi=110)
    if json:
        _print_json(solution.to_dict())
    else:
        print(solution)


def _print_json(value: dict[str, Any]) -> None:
    print(json_module.dumps(value, allow_nan=False))


@contextmanager
def _working(what: str) -> Iterator[None]:
    """A spinner with the time so far on a terminal's stderr; the library's warnings as single lines."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            progress.add_task(what, total=None)
            yield
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
