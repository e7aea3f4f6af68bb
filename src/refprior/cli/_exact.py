"""`refprior exact`: exact reference priors from the command line. Thin: parse, call, print."""

from __future__ import annotations

import json as json_module
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import App, Parameter

from refprior._files import write_figure
from refprior.cli._parameters import whole
from refprior.cli._paths import check_folder, check_picture

if TYPE_CHECKING:
    from refprior.exact import Channel, Solution

app = App(
    name="exact",
    help="Exact reference priors of small models, each with a bound on its distance from the optimum.",
    help_format="plaintext",
)

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON for machines instead of a table.")]
Plot = Annotated[
    Path | None, Parameter(name="--plot", help="Also draw atoms and gain into this file (.png, .pdf, .svg).")
]
Tolerance = Annotated[float, Parameter(help="Gap to reach, in nats.")]
Tosses = Annotated[int, Parameter(name=["-n", "--tosses"], converter=whole, help="Number of tosses.")]
Amplitude = Annotated[float, Parameter(help="Largest value of the parameter.")]
Noise = Annotated[float, Parameter(help="Standard deviation of the noise.")]
Proof = Annotated[bool, Parameter(negative=(), help="Prove the capacity to 1e-12 by ball arithmetic (extra `proof`).")]


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How a prior is shown."""

    json: Json = False
    plot: Plot = None


TABLE = Output()


@app.command
def coin(*, tosses: Tosses, tolerance: Tolerance = 1e-12, proof: Proof = False, output: Output = TABLE) -> None:
    """Reference prior for the bias of a coin, eq:ref_pin."""
    from refprior.exact import Coin

    def solve() -> Solution:
        solution = _reference_prior(Coin(tosses), tolerance)
        return _proved(solution) if proof else solution

    _show(f"coin of {tosses} tosses", solve, output)


@app.command
def two_coins(*, tosses: Tosses, tolerance: Tolerance = 1e-11, output: Output = TABLE) -> None:
    """Reference prior for the biases of two coins, each tossed n times."""
    from refprior.exact import TwoCoins

    _show(f"two coins of {tosses} tosses", lambda: _reference_prior(TwoCoins(tosses), tolerance), output)


@app.command
def gaussian(*, amplitude: Amplitude, sigma: Noise = 1.0, tolerance: Tolerance = 1e-12, output: Output = TABLE) -> None:
    """Reference prior for a mean in [-amplitude, amplitude], seen with Gaussian noise."""
    from refprior.exact import Gaussian

    _show(f"Gaussian, amplitude {amplitude:g}", lambda: _reference_prior(Gaussian(amplitude, sigma), tolerance), output)


@app.command
def poisson(
    *,
    amplitude: Amplitude,
    dark: Annotated[float, Parameter(help="Mean count without signal.")] = 0.0,
    tolerance: Tolerance = 1e-12,
    output: Output = TABLE,
) -> None:
    """Reference prior for a rate in [0, amplitude], seen as a Poisson count."""
    from refprior.exact import Poisson

    _show(f"Poisson, amplitude {amplitude:g}", lambda: _reference_prior(Poisson(amplitude, dark), tolerance), output)


@app.command
def decay(
    *,
    times: Annotated[tuple[float, float], Parameter(help="The two times of observation.")] = (1.0, 2.0),
    sigma: Noise = 0.1,
    tolerance: Tolerance = 1e-11,
    output: Output = TABLE,
) -> None:
    """Reference prior for two decay rates, w = exp(-rate), seen as their mean signal at two times."""
    from refprior.exact import ExponentialDecay

    _show(
        f"exponential decay, sigma {sigma:g}",
        lambda: _reference_prior(ExponentialDecay(times, sigma), tolerance),
        output,
    )


@app.command
def two_stage(
    *,
    first: Annotated[
        int,
        Parameter(name=["-m", "--first"], converter=whole, help="Tosses of the first stage; 0 for a single stage."),
    ],
    second: Annotated[int, Parameter(name=["-n", "--second"], converter=whole, help="Tosses of the second stage.")],
    beta: Annotated[float, Parameter(help="Weight of the first stage's information, between 0 and 1.")] = 1.0,
    tolerance: Tolerance = 1e-12,
    output: Output = TABLE,
) -> None:
    """Two-stage reference prior of a coin, eq:ref_pinm_avg: m tosses first, then n."""
    from refprior.exact import Coin, two_stage_prior

    _show(
        f"coin in two stages, {first} and {second} tosses",
        lambda: two_stage_prior(Coin, m=first, n=second, beta=beta, tolerance=tolerance),
        output,
    )


@app.command
def jeffreys(*, tosses: Tosses, json: Json = False) -> None:
    """Information of the coin's Jeffreys prior next to that of its reference prior."""
    from refprior.exact import Coin, reference_prior
    from refprior.exact import jeffreys as jeffreys_prior
    from refprior.exact._solution import decimals_within, gap_in_words

    with _solving(f"coin of {tosses} tosses"):
        channel = Coin(tosses)
        smooth = jeffreys_prior(channel).information
        best = reference_prior(channel)
    if json:
        plain = best.to_dict()
        shown = {name: plain[name] for name in ("evidence", "reason", "gap")}
        _print_json({**shown, "jeffreys": smooth, "reference": plain["information"]})
    else:
        digits = decimals_within(best.gap)
        print(f"{best.evidence}: {best.shortfall or gap_in_words(best.gap)}")
        print(
            f"Jeffreys prior   {smooth:.{digits}f} nats",
            f"reference prior  {best.information:.{digits}f} nats",
            sep="\n",
        )
    _refuse(best.shortfall, json)


@app.command
def blahut_arimoto(
    *,
    tosses: Tosses,
    points: Annotated[int, Parameter(converter=whole, help="Number of evenly spaced parameters of the grid.")] = 1001,
    iterations: Annotated[int, Parameter(converter=whole, help="Largest number of iterations.")] = 10_000,
    tolerance: Annotated[float, Parameter(help="Stop at this gap over the grid, in nats.")] = 0.0,
    json: Json = False,
) -> None:
    """The plain Blahut-Arimoto algorithm on a grid, for comparison: how slowly its gap falls."""
    from refprior.exact import Coin
    from refprior.exact import blahut_arimoto as run
    from refprior.exact._solution import decimals_within

    with _solving(f"Blahut-Arimoto, at most {iterations} iterations"):
        result = run(Coin(tosses), points, iterations=iterations, tolerance=tolerance)
    reason = None
    if result.gap[-1] > tolerance > 0:  # without a tolerance nothing was asked for
        after = f"after {len(result.gap)} iterations"
        reason = f"the gap over the grid is {result.gap[-1]:.2g} nats {after}, above the tolerance {tolerance:.2g}"
    digits = [decimals_within(gap) for gap in result.gap]
    if json:
        rounded = [round(float(value), keep) for value, keep in zip(result.information, digits, strict=True)]
        gap = [float(f"{value:.4g}") for value in result.gap]
        weights = result.weights.round(digits[-1]).tolist()
        head = {"evidence": "unfinished" if reason else "searched", "reason": reason}
        _print_json({**head, "grid": result.grid.tolist(), "weights": weights, "information": rounded, "gap": gap})
    else:
        print(f"unfinished: {reason}" if reason else "searched: the gap is over the grid, not over all w")
        print("iterations  information     gap over the grid")
        for number in sorted({*(10**k for k in range(9) if 10**k < len(digits)), len(digits)}):
            information = f"{result.information[number - 1]:.{digits[number - 1]}f}"
            print(f"{number:10d}  {information:14}  {result.gap[number - 1]:.3e}")
    _refuse(reason, json)


@app.command
def figures(*, out: Annotated[Path, Parameter(help="Folder for the figures.")], json: Json = False) -> None:
    """Draw the paper's figures: coins that converge to Jeffreys (fig:coin_convergence_jeffreys), two-stage coins
    (fig:app:coin_two_stage1, fig:app:coin_two_stage2), and atoms of three parameters against their models.
    """
    from refprior.exact._figures import save_figures

    check_folder(out)
    with _solving("figures"):
        paths = []
        for path in save_figures(out):
            paths.append(str(path))
            if not json:
                print(path, flush=True)
    if json:
        _print_json({"figures": paths})


def _reference_prior(channel: Channel, tolerance: float) -> Solution:
    from refprior.exact import reference_prior

    return reference_prior(channel, tolerance=tolerance)


def _proved(solution: Solution) -> Solution:
    from refprior.exact import certify

    try:
        return certify(solution, proof=True)
    except ArithmeticError as error:  # the proof does not go through
        _end_unfinished(str(error), to_stderr=True)


def _show(what: str, solve: Callable[[], Solution], output: Output) -> None:
    """Solve, then draw and print: the body of every command that gives a prior. Exit code 3: it is unfinished."""
    check_picture(output.plot)
    with _solving(what):
        solution = solve()
    if output.plot is not None:
        write_figure(output.plot, solution.plot().figure, dpi=110)
    if output.json:
        _print_json(solution.to_dict())
    else:
        print(solution)
        number = "certified" if solution.atoms_certified else "not certified: other numbers may do as well"
        print(f"number of atoms {number}")
    _refuse(solution.shortfall, output.json)


@contextmanager
def _solving(what: str) -> Iterator[None]:
    """Progress of work that may take long, and its warnings after it; one that runs out of memory is a ValueError."""
    from refprior._progress import working
    from refprior.exact._cost import LOG

    with warnings.catch_warnings(record=True) as caught, working(what, LOG):
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except MemoryError:
            raise ValueError(f"{what}: out of memory; take fewer samples, points or outcomes") from None
    for warning in caught:
        if not str(warning.message).startswith("unfinished"):  # the result says so itself
            print(f"warning: {warning.message}", file=sys.stderr)


def _refuse(reason: str | None, to_stderr: bool) -> None:
    """End with exit code 3 if there is a reason; where stdout is JSON, stderr says it too."""
    if reason is not None:
        _end_unfinished(reason, to_stderr)


def _end_unfinished(reason: str, to_stderr: bool) -> NoReturn:
    if to_stderr:
        print(f"refprior: unfinished: {reason}", file=sys.stderr)
    sys.exit(3)


def _print_json(value: dict[str, Any]) -> None:
    print(json_module.dumps(value, allow_nan=False))
