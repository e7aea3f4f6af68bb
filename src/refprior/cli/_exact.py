"""`refprior exact`: exact reference priors from the command line."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from refprior.cli._exact_parts import (
    TABLE,
    Json,
    Output,
    Tolerance,
    Tosses,
    end_if_unfinished,
    print_json,
    show_prior,
    solving,
)
from refprior.cli._exact_questions import compare_priors, curve, scan
from refprior.cli._options import check_folder, whole

if TYPE_CHECKING:
    from refprior.exact import Channel, Solution

app = App(
    name="exact",
    help="Exact reference priors of small models, with a bound on the gap to the optimum.",
    help_format="plaintext",
)
app.command(scan)
app.command(compare_priors)
app.command(curve)


@app.default
def custom(
    model: Annotated[
        str | None,
        Parameter(help="FILE.py:NAME, a custom Channel or a function that returns one. The file is executed."),
    ] = None,
    /,
    *,
    tolerance: Annotated[float | None, Parameter(help="Largest acceptable gap; default: the channel's.")] = None,
    output: Output = TABLE,
) -> None:
    """Compute the reference prior of a custom channel from a Python file."""
    from refprior.exact import reference_prior

    if model is None:
        from refprior.cli import app as refprior

        refprior.help_print(["exact"])
        return
    channel = channel_from(model, [name for name in app if not name.startswith("-")])
    show_prior(model, lambda: reference_prior(channel, tolerance=tolerance), output)


def channel_from(model: str, commands: list[str]) -> Channel:
    """Execute the file of FILE.py:NAME, as given on the command line, and return its channel."""
    from refprior.exact import Channel

    file, colon, name = model.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise ValueError(f"unknown model {model!r}: pass FILE.py:NAME or one of {', '.join(sorted(commands))}")
    if not Path(file).is_file():
        raise ValueError(f"no file {file}: pass FILE.py:NAME, a channel in a Python file")
    found = runpy.run_path(file)
    if name not in found:
        raise ValueError(f"{file} does not define {name!r}")
    channel = found[name] if isinstance(found[name], Channel) or not callable(found[name]) else found[name]()
    if not isinstance(channel, Channel):
        raise ValueError(f"{model} must be a Channel or return one, got {type(channel).__name__}")
    return channel


Amplitude = Annotated[float, Parameter(help="Largest value of the parameter.")]
Noise = Annotated[float, Parameter(help="Standard deviation of the noise.")]
Proof = Annotated[bool, Parameter(negative=(), help="Prove the capacity to 1e-12 in ball arithmetic (extra `proof`).")]


@app.command
def coin(*, tosses: Tosses, tolerance: Tolerance = 1e-12, proof: Proof = False, output: Output = TABLE) -> None:
    """Compute the reference prior for the bias of a coin, eq:ref_pin."""
    from refprior.exact import Coin, reference_prior

    what = f"coin of {tosses} tosses"
    show_prior(what, lambda: reference_prior(Coin(tosses), tolerance=tolerance), output, proof)


@app.command
def two_coins(*, tosses: Tosses, tolerance: Tolerance = 1e-11, output: Output = TABLE) -> None:
    """Compute the reference prior for the biases of two coins, each tossed n times."""
    from refprior.exact import TwoCoins, reference_prior

    what = f"two coins of {tosses} tosses"
    show_prior(what, lambda: reference_prior(TwoCoins(tosses), tolerance=tolerance), output)


@app.command
def gaussian(*, amplitude: Amplitude, sigma: Noise = 1.0, tolerance: Tolerance = 1e-12, output: Output = TABLE) -> None:
    """Compute the reference prior for a mean in [-amplitude, amplitude], observed with Gaussian noise."""
    from refprior.exact import Gaussian, reference_prior

    what = f"Gaussian, amplitude {amplitude:g}"
    show_prior(what, lambda: reference_prior(Gaussian(amplitude, sigma), tolerance=tolerance), output)


@app.command
def poisson(
    *,
    amplitude: Amplitude,
    dark: Annotated[float, Parameter(help="Mean count without signal.")] = 0.0,
    tolerance: Tolerance = 1e-12,
    proof: Proof = False,
    output: Output = TABLE,
) -> None:
    """Compute the reference prior for a rate in [0, amplitude], observed as a Poisson count."""
    from refprior.exact import Poisson, reference_prior

    what = f"Poisson, amplitude {amplitude:g}"
    show_prior(what, lambda: reference_prior(Poisson(amplitude, dark), tolerance=tolerance), output, proof)


@app.command
def decay(
    *,
    times: Annotated[tuple[float, float], Parameter(help="The two observation times.")] = (1.0, 2.0),
    sigma: Noise = 0.1,
    tolerance: Tolerance = 1e-11,
    output: Output = TABLE,
) -> None:
    """Compute the reference prior for two decay rates, w = exp(-rate), observed as their mean signal at two times."""
    from refprior.exact import ExponentialDecay, reference_prior

    what = f"exponential decay, sigma {sigma:g}"
    show_prior(what, lambda: reference_prior(ExponentialDecay(times, sigma), tolerance=tolerance), output)


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
    proof: Proof = False,
    output: Output = TABLE,
) -> None:
    """Compute the two-stage reference prior of a coin, eq:ref_pinm_avg: m tosses first, then n."""
    from refprior.exact import Coin, two_stage_prior

    def solve() -> Solution:
        return two_stage_prior(Coin, m=first, n=second, beta=beta, tolerance=tolerance)

    show_prior(f"coin in two stages, {first} and {second} tosses", solve, output, proof)


@app.command
def jeffreys(*, tosses: Tosses, json: Json = False) -> None:
    """Compare the information of a coin's Jeffreys prior and reference prior."""
    from refprior.exact import Coin, jeffreys_prior, reference_prior
    from refprior.exact.show import decimals_within, gap_in_words

    with solving(f"coin of {tosses} tosses"):
        channel = Coin(tosses)
        smooth = jeffreys_prior(channel).information
        best = reference_prior(channel)
    if json:
        plain = best.to_dict()
        shown = {name: plain[name] for name in ("evidence", "reason", "gap")}
        print_json({**shown, "jeffreys": smooth, "reference": plain["information"]})
    else:
        digits = decimals_within(best.gap)
        print(f"{best.evidence}: {best.shortfall or gap_in_words(best.gap)}")
        print(
            f"Jeffreys prior   {smooth:.{digits}f} nats",
            f"reference prior  {best.information:.{digits}f} nats",
            sep="\n",
        )
    end_if_unfinished(best.shortfall, json)


@app.command
def blahut_arimoto(
    *,
    tosses: Tosses,
    points: Annotated[int, Parameter(converter=whole, help="Number of evenly spaced grid points.")] = 1001,
    iterations: Annotated[int, Parameter(converter=whole, help="Maximum number of iterations.")] = 10_000,
    tolerance: Annotated[float, Parameter(help="Gap over the grid at which to stop, in nats.")] = 0.0,
    json: Json = False,
) -> None:
    """Run the Blahut-Arimoto algorithm on a grid, for comparison; its gap falls slowly."""
    from refprior.exact import Coin
    from refprior.exact import blahut_arimoto as run
    from refprior.exact.show import decimals_within

    with solving(f"Blahut-Arimoto, at most {iterations} iterations"):
        result = run(Coin(tosses), points, iterations=iterations, tolerance=tolerance)
    reason = None
    if result.gap[-1] > tolerance > 0:  # without a tolerance there is no target
        after = f"after {len(result.gap)} iterations"
        reason = f"the gap over the grid is {result.gap[-1]:.2g} nats {after}, above the tolerance {tolerance:.2g}"
    digits = [decimals_within(gap) for gap in result.gap]
    if json:
        rounded = [round(float(value), keep) for value, keep in zip(result.information, digits, strict=True)]
        gap = [float(f"{value:.4g}") for value in result.gap]
        weights = result.weights.round(digits[-1]).tolist()
        head = {"evidence": "unfinished" if reason else "searched", "reason": reason}
        print_json({**head, "grid": result.grid.tolist(), "weights": weights, "information": rounded, "gap": gap})
    else:
        print(f"unfinished: {reason}" if reason else "searched: the gap is over the grid, not over all w")
        print("iterations  information     gap over the grid")
        for number in sorted({*(10**k for k in range(9) if 10**k < len(digits)), len(digits)}):
            information = f"{result.information[number - 1]:.{digits[number - 1]}f}"
            print(f"{number:10d}  {information:14}  {result.gap[number - 1]:.3e}")
    end_if_unfinished(reason, json)


@app.command
def figures(*, out: Annotated[Path, Parameter(help="Folder for the figures.")], json: Json = False) -> None:
    """Draw the paper's figures of exact priors.

    Convergence of coins to Jeffreys (fig:coin_convergence_jeffreys), two-stage coins (fig:app:coin_two_stage1,
    fig:app:coin_two_stage2), and atoms of three parameters against their models.
    """
    from refprior.exact.figures import save_figures

    check_folder(out)
    with solving("figures"):
        paths = []
        for path in save_figures(out):
            paths.append(str(path))
            if not json:
                print(path, flush=True)
    if json:
        print_json({"figures": paths})
