"""`refprior exact scan`, `compare-priors` and `curve`: properties of a model beyond one prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter, Token

from refprior.cli._exact_parts import TABLE, Output, Tosses, show, solving
from refprior.cli._options import check_picture, whole

if TYPE_CHECKING:
    from refprior.exact import Channel, Solution

scan = App(
    name="scan",
    help="Scan a setting of the experiment: atoms, and the forks at which their number changes.",
    help_format="plaintext",
)


def _range(_: object, tokens: Sequence[Token]) -> tuple[float, float]:
    """Parse a range such as 0.5:12."""
    text = tokens[0].value
    parts = text.split(":")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"a range must be LOW:HIGH, for example 0.5:12, got {text!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"a range needs LOW < HIGH, got {text!r}")
    return low, high


Amplitudes = Annotated[
    tuple[float, float],
    Parameter(name="--amplitude", converter=_range, n_tokens=1, negative=(), help="Range LOW:HIGH."),
]
TossRange = Annotated[
    tuple[float, float],
    Parameter(name=["-n", "--tosses"], converter=_range, n_tokens=1, negative=(), help="Whole numbers LOW:HIGH."),
]
Points = Annotated[int, Parameter(converter=whole, help="Values within the range; forks are located between them.")]


@scan.command
def gaussian(*, amplitude: Amplitudes, points: Points = 80, output: Output = TABLE) -> None:
    """Scan the atoms of a mean in [-amplitude, amplitude] with unit Gaussian noise."""
    from refprior.exact import Gaussian

    _scan("Gaussian", Gaussian, _even(amplitude, points), "amplitude", output)


@scan.command
def poisson(
    *,
    amplitude: Amplitudes,
    dark: Annotated[float, Parameter(help="Mean count without signal.")] = 0.0,
    points: Points = 80,
    output: Output = TABLE,
) -> None:
    """Scan the atoms of a rate in [0, amplitude], observed as a Poisson count."""
    from refprior.exact import Poisson

    _scan("Poisson", lambda a: Poisson(a, dark), _even(amplitude, points), "amplitude", output)


@scan.command
def coin(*, tosses: TossRange, points: Points = 60, output: Output = TABLE) -> None:
    """Scan the atoms of a coin's bias against the number of tosses."""
    from refprior.exact import Coin

    _scan("coin", Coin, _whole_numbers(tosses, points), "tosses n", output)


@scan.command
def two_stage(
    *,
    first: Annotated[int, Parameter(name=["-m", "--first"], converter=whole, help="Tosses of the first stage.")],
    second: Annotated[
        tuple[float, float],
        Parameter(
            name=["-n", "--second"], converter=_range, n_tokens=1, negative=(), help="Tosses of the second, LOW:HIGH."
        ),
    ],
    points: Points = 60,
    output: Output = TABLE,
) -> None:
    """Scan the atoms of a coin in two stages against the tosses of the second."""
    from refprior.exact import Coin, two_stage_prior

    _scan(
        "two stages",
        lambda n: two_stage_prior(Coin, m=first, n=n, tolerance=1e-9),
        _whole_numbers(second, points),
        f"tosses n after {first}",
        output,
    )


def _even(ends: tuple[float, float], points: int) -> list[float]:
    if points < 2:
        raise ValueError(f"points must be at least 2, got {points}")
    import numpy as np

    return [float(value) for value in np.linspace(*ends, points)]


def _whole_numbers(ends: tuple[float, float], points: int) -> list[float]:
    """Return all whole numbers of a range, or `points` evenly spaced ones if there are more."""
    if any(end != round(end) for end in ends):
        raise ValueError(f"a number of tosses must be whole, got {ends[0]:g}:{ends[1]:g}")
    low, high = (round(end) for end in ends)
    return list(range(low, high + 1)) if high - low < points else sorted({round(x) for x in _even(ends, points)})


def _scan(
    what: str, model: Callable[[Any], Channel | Solution], values: list[float], setting: str, output: Output
) -> None:
    """Scan, draw and print."""
    from refprior.exact import scan_priors

    check_picture(output.plot)
    with solving(f"scan of {what}"):
        found = scan_priors(model, values, setting=setting)
    worst = next((prior.shortfall for prior in found.priors if prior.shortfall is not None), None)
    show(found, found.to_dict, lambda: found.plot().figure, worst, output)


def compare_priors(*, tosses: Tosses, output: Output = TABLE) -> None:
    """Compare information, worst regret, bias and coverage of a coin's reference, Jeffreys and uniform priors."""
    from refprior.exact import Coin
    from refprior.exact import compare_priors as run

    check_picture(output.plot)
    with solving(f"priors of {tosses} tosses"):
        found = run(Coin(tosses))

    def plain() -> dict[str, object]:
        names = ("name", "information", "worst_regret", "bias", "mean_coverage", "least_coverage")
        priors = [{name: getattr(prior, name) for name in names} for prior in found]
        return {"evidence": found.evidence, "gap": found.gap, "capacity": found.capacity, "priors": priors}

    reason = "the reference prior misses its tolerance" if found.evidence == "unfinished" else None
    show(found, plain, found.plot, reason, output)


def curve(
    *,
    tosses: TossRange,
    points: Annotated[int, Parameter(converter=whole, help="Number of values within the range.")] = 10,
    output: Output = TABLE,
) -> None:
    """Compute the capacity of n tosses against n, next to its asymptotic law 1/2 log n."""
    import numpy as np

    from refprior.exact import Coin, capacity_curve

    check_picture(output.plot)
    low, high = tosses
    if low < 1 or low != round(low) or high != round(high):
        raise ValueError(f"numbers of tosses must be whole and at least 1, got {low:g}:{high:g}")
    numbers = sorted({round(x) for x in np.geomspace(low, high, points)})
    with solving("curve"):
        found = capacity_curve(Coin, numbers)

    def plain() -> dict[str, object]:
        rows = zip(found.samples, found.information, found.law, strict=True)
        shown = [{"n": n, "information": a, "law": b} for n, a, b in rows]
        return {"evidence": found.evidence, "gap": found.gap, "curve": shown}

    reason = "a prior misses its tolerance" if found.evidence == "unfinished" else None
    show(found, plain, lambda: found.plot().figure, reason, output)
