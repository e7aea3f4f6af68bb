"""Explore priors: queries of the page about small models, and the answers as plain numbers."""

# K atoms, M points of the gain's curve

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from urllib.parse import parse_qsl, urlencode

import msgspec
import numpy as np

from refprior._files import Json
from refprior.exact import (
    Channel,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    Solution,
    TwoCoins,
    jeffreys_prior,
    reference_prior,
    two_stage_prior,
)
from refprior.exact.channels import to_coordinates
from refprior.exact.oracle import Objective, two_stage_signs
from refprior.exact.show import gap_in_words

POINTS = 240  # of the gain's curve
SIDE = 49  # points of the gain's map along each of two parameters
DIGITS = 6  # significant digits of curves and maps, which are only drawn
DRAFT_GAP = 1e-3  # nats: largest gap to which that of a draft is bounded
Settings = Mapping[str, float]
Family = Callable[[int], Channel]  # the channel of n samples


@dataclass(frozen=True)
class Slider:
    """A setting that can be dragged."""

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float

    def parse(self, text: str) -> float:
        """Parse a value and round it to the slider's marks."""
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{self.name} must be a number, got {text[:40]!r}") from None
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.name} must be from {self.low:g} to {self.high:g}, got {value:g}")
        return round(self.low + round((value - self.low) / self.step) * self.step, 10)


@dataclass(frozen=True)
class Model:
    """A model of the page. The first slider is the one that users drag most."""

    title: str
    about: str
    sliders: tuple[Slider, ...]
    family: Callable[[Settings], Family]
    code: str  # of the family
    axes: tuple[str, ...] = ("w",)
    tolerance: float | None = None  # None: that of reference_prior
    size: Callable[[Settings], float] = lambda settings: 0.0  # of the experiment, in standard deviations
    most: float = math.inf
    larger_is_longer: bool = True  # which end of the first slider takes longest to solve


def _samples(value: int = 1, label: str = "samples n") -> Slider:
    return Slider("n", label, 1, 200, 1, value)


STAGES = (
    Slider("m", "samples m of the first stage", 0, 100, 1, 0),
    Slider("beta", "β, weight of the first stage", 0, 1, 0.05, 1),
)
MODELS = {
    "coin": Model(
        "Coin",
        "n tosses of a coin with bias w",
        (_samples(10, "tosses n"),),
        lambda s: Coin,
        "Coin",
    ),
    "gaussian": Model(
        "Gaussian",
        "n measurements of w, |w| ≤ amplitude, with noise of standard deviation 1",
        (Slider("amplitude", "amplitude", 0.1, 10, 0.1, 2), _samples()),
        lambda s: Gaussian(s["amplitude"]).repeat,
        "Gaussian({amplitude!r}).repeat",
        size=lambda s: s["amplitude"] * math.sqrt(s["n"] + s["m"]),
        most=15,
    ),
    "poisson": Model(
        "Poisson",
        "n counts with mean dark + w, 0 ≤ w ≤ amplitude",
        (
            Slider("amplitude", "amplitude", 0.5, 100, 0.5, 10),
            Slider("dark", "dark current", 0, 10, 0.5, 0),
            _samples(),
        ),
        lambda s: Poisson(s["amplitude"], s["dark"]).repeat,
        "Poisson({amplitude!r}, {dark!r}).repeat",
        size=lambda s: 2 * math.sqrt((s["amplitude"] + s["dark"]) * (s["n"] + s["m"])),
        most=40,
    ),
    "two-coins": Model(
        "Two coins",
        "n tosses of each of two coins, w = (bias, bias)",
        (_samples(10, "tosses n of each"),),
        lambda s: TwoCoins,
        "TwoCoins",
        axes=("w₁", "w₂"),
    ),
    "decay": Model(
        "Decay",
        "two decays, w = exp(−rate) each, seen together at the times 1 and t with noise",
        (
            Slider("sigma", "noise σ", 0.1, 1, 0.02, 0.3),
            Slider("time", "second time t", 1.5, 6, 0.5, 2),
        ),
        lambda s: lambda n: ExponentialDecay((1.0, s["time"]), s["sigma"]),
        "ExponentialDecay((1.0, {time!r}), {sigma!r})",
        axes=("w₁", "w₂"),
        tolerance=1e-9,
        larger_is_longer=False,
    ),
}


@dataclass(frozen=True)
class Query:
    """A query of the page: a model and all its settings. m = 0: one stage."""

    model: str
    settings: tuple[tuple[str, float], ...]
    jeffreys: bool = False  # that prior in place of the reference prior

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Query:
        """Parse the parameters of a URL; missing settings get their defaults."""
        name = given.get("model", "")
        if name not in MODELS:
            raise ValueError(f"no model {name[:40]!r}; available are {', '.join(MODELS)}")
        sliders = sliders_of(name)
        unknown = set(given) - {"model", "jeffreys"} - {slider.name for slider in sliders}
        if unknown:
            raise ValueError(f"{name} has no setting {min(unknown)[:40]!r}")
        values = {s.name: s.parse(given[s.name]) if s.name in given else s.value for s in sliders}
        stages = {"m", "beta"} if not values.get("m") else set()  # of one stage, no β
        return cls(name, tuple((n, v) for n, v in values.items() if n not in stages), given.get("jeffreys", "") == "1")

    @property
    def text(self) -> str:
        """The query as text; the page writes it in the same way."""
        words = {name: f"{value:.10g}" for name, value in self.settings}
        return urlencode({"model": self.model, **words, **({"jeffreys": "1"} if self.jeffreys else {})})

    def values(self) -> dict[str, float]:
        return {"n": 1, "m": 0, "beta": 1, **dict(self.settings)}


def sliders_of(model: str) -> tuple[Slider, ...]:
    """Return all settings of a model, with those of two stages if it has one parameter."""
    found = MODELS[model]
    return (*found.sliders, *STAGES) if len(found.axes) == 1 else found.sliders


def models() -> list[Json]:
    """Return what the page needs to draw its controls."""
    return [
        {
            "name": name,
            "title": model.title,
            "about": model.about,
            "axes": model.axes,
            "sliders": [asdict(slider) for slider in sliders_of(name)],
            "jeffreys": name != "decay",
        }
        for name, model in MODELS.items()
    ]


def neighbors(query: Query) -> list[Query]:
    """Return the same query along the first slider, slowest first: twenty spread marks, then all others."""
    model = MODELS[query.model]
    slider = model.sliders[0]
    count = 1 + round((slider.high - slider.low) / slider.step)
    marks = sorted((round(slider.low + i * slider.step, 10) for i in range(count)), reverse=model.larger_is_longer)
    ordered = dict.fromkeys([*marks[:: max(1, count // 20)], *marks])
    settings = [tuple((n, mark if n == slider.name else v) for n, v in query.settings) for mark in ordered]
    return [replace(query, settings=chosen) for chosen in settings]


def answer(text: str) -> bytes:
    """Answer a query as JSON. Query and answer are text, so that other processes can compute it."""
    query = Query.parse(dict(parse_qsl(text)))
    check_size(query)
    return msgspec.json.encode(jeffreys_of(query) if query.jeffreys else prior_of(query))


def check_size(query: Query) -> None:
    """Reject a query that would take too long for a slider."""
    model, settings = MODELS[query.model], query.values()
    size = model.size(settings)
    if size > model.most:
        raise ValueError(
            f"the experiment spans {size:.0f} standard deviations, and the page allows {model.most:g}: "
            "lower n, m or the amplitude, or copy the code"
        )


def prior_of(query: Query) -> Json:
    """Solve for the reference prior of one stage, or of two if m > 0."""
    model, settings = MODELS[query.model], query.values()
    tolerance = {} if model.tolerance is None else {"tolerance": model.tolerance}
    n, m, beta = int(settings["n"]), int(settings["m"]), settings["beta"]
    return {**solved(model.family(settings), n, m, beta, **tolerance), "axes": model.axes, "code": code_of(query)}


def solved(family: Family, n: int, m: int, beta: float, **tolerance: float) -> Json:
    """Solve for the prior of n samples, after a first stage of m if m > 0; the answer reports what is unfinished."""
    with warnings.catch_warnings(action="ignore"):
        if m:
            return shown(two_stage_prior(family, m=m, n=n, beta=beta, **tolerance))
        return shown(reference_prior(family(n), **tolerance))


def draft(text: str, near: bytes) -> bytes:
    """Return a draft of a prior: the atoms and weights of a near answer with a new certificate.

    Its information and gap are correct; the gap is larger than that of the optimum.
    """
    query, known = Query.parse(dict(parse_qsl(text))), msgspec.json.decode(near)
    model, settings = MODELS[query.model], query.values()
    family, n, m = model.family(settings), int(settings["n"]), int(settings["m"])
    channels = (family(m + n), family(m)) if m else (family(n),)
    objective = Objective(channels, two_stage_signs(settings["beta"]) if m else (1.0,))
    low, high = channels[0].parameter(channels[0].bounds.T)
    share = (np.array(known["atoms"]) - known["low"][0]) / (known["high"][0] - known["low"][0])
    u = to_coordinates(channels[0], np.clip(low + share * (high - low), low, high))
    judged = Solution.from_coordinates(objective, u, np.array(known["weights"]), DRAFT_GAP)
    drawn = replace(judged, tolerance=math.inf)  # every digit is shown
    return msgspec.json.encode({**shown(drawn), "axes": model.axes, "code": code_of(query), "draft": True})


def distance(query: Query, other: Query) -> float:
    """Return the distance of two queries along the first slider; infinite if they differ otherwise."""
    name = MODELS[query.model].sliders[0].name
    rest = [tuple((n, v) for n, v in one.settings if n != name) for one in (query, other)]
    if query.model != other.model or query.jeffreys or other.jeffreys or rest[0] != rest[1]:
        return math.inf
    return abs(query.values()[name] - other.values()[name])


def shown(solution: Solution) -> Json:
    """Return a prior as the page draws it: atoms, weights, and the gain on a line or a map."""
    low, high = solution.channel.parameter(solution.channel.bounds.T)
    if solution.channel.dimension == 1:  # at points evenly spaced in Fisher length, and at the atoms: (M,) each
        u = np.union1d(solution.channel.axes.points(0, POINTS), solution.coordinates[:, 0])[:, None]
        w = solution.channel.parameter(u)[:, 0]
        drawn: Json = {"w": rounded(w), "gain": rounded(solution.gain(w))}
    else:  # on an even grid of both parameters, by rows of the second: (SIDE · SIDE,)
        x, y = (np.linspace(low[i], high[i], SIDE) for i in (0, 1))
        points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        drawn = {"side": SIDE, "gain": rounded(solution.gain(points), 4)}
    words = {"gap_in_words": gap_in_words(solution.gap), "count": len(solution.weights)}
    return {**solution.to_dict(), **words, "low": low.tolist(), "high": high.tolist(), **drawn}


def jeffreys_of(query: Query) -> Json:
    """Return density and information of the Jeffreys prior of n samples; independent parts have independent priors."""
    if query.model == "decay":
        raise ValueError("the Jeffreys prior of the decay takes minutes: copy the code and use jeffreys_prior there")
    settings = query.values()
    n = int(settings["n"])
    if query.model == "two-coins":
        return {"information": 2 * jeffreys_prior(Coin(n)).information}
    found = jeffreys_prior(MODELS[query.model].family(settings)(n))
    w = found.channel.parameter(found.channel.axes.points(0, POINTS)[:, None])[:, 0]
    return {"information": found.information, "w": rounded(w), "density": rounded(found.density(w))}


def rounded(values: Iterable[float] | np.ndarray, digits: int = DIGITS) -> list[float | None]:
    """Round numbers to significant digits; None if not finite."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in map(float, values)]


def code_of(query: Query) -> str:
    """Return Python code that computes the same prior."""
    model, settings = MODELS[query.model], query.values()
    family = model.code.format(**settings)
    tolerance = "" if model.tolerance is None else f", tolerance={model.tolerance!r}"
    n, m, beta = int(settings["n"]), int(settings["m"]), settings["beta"]
    if m:
        call, name = f"two_stage_prior({family}, m={m}, n={n}, beta={beta!r}{tolerance})", "two_stage_prior"
    else:
        one = family if query.model == "decay" else f"{family}({n})"
        call, name = f"reference_prior({one}{tolerance})", "reference_prior"
    channel = family.partition("(")[0]
    return f"from refprior.exact import {channel}, {name}\n\nprior = {call}\nprint(prior)\n"
