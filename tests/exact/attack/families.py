"""Seeded families of models that are hard to certify, each with an independent judge of the answer.

A judge returns what is false about an answer, or None. An answer is false if a prior found by brute force tells more
than J + gap, if the gain exceeds J + gap at some parameter, if J is not the information of the prior, or if a certified
number of atoms is wrong.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    Gaussian,
    Poisson,
    Product,
    Solution,
    models,
    reference_prior,
    two_stage_prior,
)
from tests.exact.attack.brute import ROUNDING, accelerated, blahut_arimoto, gains, information, reached

Rows = Callable[[np.ndarray], np.ndarray]  # parameters (K, d) -> probabilities (K, Z)


class Answer(NamedTuple):
    """What is false about an answer, if anything, and how it was known."""

    false: str | None
    evidence: str
    atoms_certified: bool = False


def judged(prior: Solution, rows: Rows, points: np.ndarray) -> str | None:
    """Judge a prior of one stage by its gain at points (M, d)."""
    atoms = rows(prior.atoms.reshape(len(prior.weights), -1))
    slack = ROUNDING * (1 + prior.information)
    own = information(atoms, prior.weights)
    if abs(own - prior.information) > prior.gap + slack:
        return f"information {prior.information!r}, but the prior has {own!r}"
    top, other = reached(atoms, prior.weights, rows(points))
    if other > prior.information + prior.gap + slack:
        return f"capacity at least {other!r}, above {prior.information!r} + {prior.gap!r}"
    if top > prior.information + prior.gap + slack:
        return f"gain {top!r}, above {prior.information!r} + {prior.gap!r}"
    return None


def custom(rows: Rows, box: list[tuple[float, float]], outcomes: int) -> Channel:
    """Return the package's channel of a table of probabilities."""

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(rows(w)))

    if len(box) > 1:
        return Channel.from_function(log_likelihood, bounds=box, outcomes=np.arange(float(outcomes)))
    return Channel.from_function(
        lambda w: log_likelihood(w[:, None]), bounds=box[0], outcomes=np.arange(float(outcomes))
    )


def grid(box: list[tuple[float, float]], count: int) -> np.ndarray:
    axes = [np.linspace(low, high, count) for low, high in box]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box))


def around(places: np.ndarray, widths: np.ndarray, box: list[tuple[float, float]], count: int) -> np.ndarray:
    """Return places, the next doubles beside them, and points at all scales around them: (P,), (P,) -> (M, 1)."""
    steps = np.concatenate([-np.geomspace(4, 1e-12, count), [0.0], np.geomspace(1e-12, 4, count)])
    near = places[:, None] + widths[:, None] * steps
    doubles = [places]
    for _ in range(4):
        doubles = [np.nextafter(doubles[0], -np.inf), *doubles, np.nextafter(doubles[-1], np.inf)]
    found = np.concatenate([near.ravel(), *doubles])
    return np.asarray(np.clip(found, *box[0])[:, None])


def binary(p: np.ndarray) -> np.ndarray:
    return np.stack([p, 1 - p], axis=1)


def cusps(rng: np.random.Generator) -> Answer:
    """√-cusps, kinks and their mixtures, on boxes whose doubles are of different sizes."""
    low, width = [(0.0, 1.0), (-3.0, 8.0), (1.0, 1.0), (100.0, 1.0), (-1e-3, 2e-3)][rng.integers(5)]
    box, count = [(low, low + width)], int(rng.integers(1, 4))
    places, heights = rng.uniform(low, low + width, count), rng.uniform(0.1, 0.8, count) / count
    signs, power = rng.choice([-1, 1], count), rng.choice([0.25, 0.5, 0.75, 1.0])
    wave = rng.uniform(0, 0.1)

    def rows(w: np.ndarray) -> np.ndarray:
        x = w[:, 0]
        terms = [s * h * (np.abs(x - c) / width) ** power for s, h, c in zip(signs, heights, places, strict=True)]
        return binary(np.clip(0.5 + 0.5 * sum(terms) + wave * np.sin(3 * (x - low) / width), 1e-3, 1 - 1e-3))

    prior = reference_prior(custom(rows, box, 2), tolerance=1e-9)
    points = np.vstack([grid(box, 20_001), around(places, np.full(count, width), box, 40)])
    return Answer(judged(prior, rows, points), prior.evidence, prior.atoms_certified)


def jumps(rng: np.random.Generator) -> Answer:
    """Rows that change from one double to the next, and slowly in between."""
    box, count, outcomes = [(0.0, 1.0)], int(rng.integers(1, 6)), int(rng.integers(2, 5))
    places = np.sort(rng.uniform(0, 1, count))
    table = rng.dirichlet(np.ones(outcomes), (2, count + 1))

    def rows(w: np.ndarray) -> np.ndarray:
        piece = np.searchsorted(places, w[:, 0])
        return np.asarray((1 - w) * table[0][piece] + w * table[1][piece])

    prior = reference_prior(custom(rows, box, outcomes), tolerance=1e-9)
    points = np.vstack([grid(box, 20_001), around(places, np.ones(count), box, 30)])
    return Answer(judged(prior, rows, points), prior.evidence, prior.atoms_certified)


def weak_bumps(rng: np.random.Generator) -> Answer:
    """Bumps of two parameters, full width at half maximum down to 1/128 of both axes, in a rare outcome."""
    box = [(0.0, 1.0), (0.0, 1.0)]
    width = 1 / (rng.uniform(20, 128) * 2 * math.sqrt(2 * math.log(2)))
    place, height, rare = rng.uniform(0.05, 0.95, 2), 10 ** rng.uniform(-3.5, -0.5), 10 ** rng.uniform(-6, -1)
    base, slopes = rng.uniform(-1, 1, 3), rng.uniform(-0.6, 0.6, (3, 2)) * 10 ** rng.uniform(-2.5, 0)
    power = rng.uniform(0, 1)

    def rows(w: np.ndarray) -> np.ndarray:
        bump = np.exp(-np.sum((w - place) ** 2, axis=1) / (2 * width**2))
        p = np.exp(base + w @ slopes.T)
        last = 0.2 * rare + height * bump * rare**power
        return np.column_stack([p / p.sum(axis=1, keepdims=True) * (1 - last)[:, None], last])

    prior = reference_prior(custom(rows, box, 4), tolerance=1e-9)
    near = np.clip(place + width * grid([(-3, 3), (-3, 3)], 41), 0, 1)
    return Answer(judged(prior, rows, np.vstack([grid(box, 101), near])), prior.evidence, prior.atoms_certified)


def ridges(rng: np.random.Generator) -> Answer:
    """Tilted ridges of two parameters, 1/250 of the box and wider."""
    box = [(0.0, 1.0), (0.0, 1.0)]
    place, widths, angle = rng.uniform(0, 1, 2), 10 ** rng.uniform(-2.4, -0.7, 2), rng.uniform(0, np.pi)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])

    def rows(w: np.ndarray) -> np.ndarray:
        along = (w - place) @ turn.T / widths
        return binary(0.4 + 0.05 * (w[:, 0] - w[:, 1]) + 0.4 * np.exp(-np.sum(along**2, axis=1) / 2))

    prior = reference_prior(custom(rows, box, 2), tolerance=1e-6)
    near = np.clip(place + (widths * grid([(-2, 2), (-2, 2)], 81)) @ turn, 0, 1)
    return Answer(judged(prior, rows, np.vstack([grid(box, 101), near])), prior.evidence, prior.atoms_certified)


def singular(rng: np.random.Generator) -> Answer:
    """Binomials of chances that are singular at an end, flat in between, or spread over twenty orders of magnitude."""
    n, kind, power = int(rng.integers(1, 6)), int(rng.integers(6)), 10 ** rng.uniform(-1.3, 0.8)
    low = 10 ** rng.uniform(-12, -2) if kind == 5 else 0.0
    box = [(low, 10 ** rng.uniform(0, 8) if kind == 5 else 1.0)]
    steps, heights = np.sort(rng.uniform(0, 1, 4)), rng.uniform(0, 1, 4)
    middle = 10 ** rng.uniform(np.log10(low), np.log10(box[0][1])) if kind == 5 else 1.0

    def chance(w: np.ndarray) -> np.ndarray:
        positive = np.maximum(w, 1e-300)
        forms: list[Callable[[], np.ndarray]] = [
            lambda: w**power,
            lambda: -w * np.log(positive),
            lambda: np.exp(-power / positive),
            lambda: 1 / (1 - np.log(positive)),
            lambda: np.interp(w, steps, heights),
            lambda: 1 / (1 + (w / middle) ** power),
        ]
        return np.asarray(forms[kind]())

    def rows(w: np.ndarray) -> np.ndarray:
        return binomial(np.clip(chance(w), 0, 1), n)

    prior = reference_prior(custom(rows, box, n + 1), tolerance=1e-9)
    points = [grid(box, 20_001), np.geomspace(max(low, 1e-15), box[0][1], 4001)[:, None].clip(*box[0])]
    if kind == 4:
        points.append(around(steps, np.ones(4), box, 40))
    return Answer(judged(prior, rows, np.vstack(points)), prior.evidence, prior.atoms_certified)


def censored(rng: np.random.Generator) -> Answer:
    """Counts of scipy with light and heavy tails, of which the large ones are known to be large only."""
    end, kind = int(rng.integers(2, 30)), int(rng.integers(4))
    family: Callable[[Any], Any] = (stats.poisson, lambda w: stats.zipf(1 + w), stats.geom, stats.logser)[kind]
    box = [[(0.0, 10 ** rng.uniform(-1, 2)), (0.1, 3.0), (10 ** rng.uniform(-3, -1), 0.9999), (1e-3, 0.999)][kind]]
    first = 0 if kind == 0 else 1

    def rows(w: np.ndarray) -> np.ndarray:
        chosen = family(w)
        return np.hstack([chosen.pmf(np.arange(first, max(end, first + 1))), chosen.sf(max(end, first + 1) - 1)])

    prior = reference_prior(Channel.from_scipy(family, bounds=box[0], censored_at=end), tolerance=1e-9)
    return Answer(judged(prior, rows, grid(box, 2001)), prior.evidence, prior.atoms_certified)


def near_duplicates(rng: np.random.Generator) -> Answer:
    """Tables with rows that differ by 1e-16 to 1e-2 from others, from mixtures of others, or by zeros."""
    outcomes = int(rng.integers(2, 6))
    table = rng.dirichlet(np.full(outcomes, 10 ** rng.uniform(-1, 1)), int(rng.integers(2, 6)))
    table = np.where(table < 1e-3, 0.0, table)
    mixtures = rng.dirichlet(np.ones(len(table)), 2) @ table
    copies = np.vstack([table[:2], mixtures])
    copies = np.abs(copies + 10 ** rng.uniform(-16, -2) * rng.normal(size=copies.shape) * (copies > 0))
    table = np.vstack([table, copies])
    table = table / table.sum(axis=1, keepdims=True)
    prior = reference_prior(Categorical(table), tolerance=1e-10)

    def rows(w: np.ndarray) -> np.ndarray:
        return np.asarray(table[np.round(w[:, 0]).astype(int)])

    false = judged(prior, rows, np.arange(len(table))[:, None])
    if false is None and prior.atoms_certified:
        used = np.round(prior.atoms).astype(int)
        unused = np.setdiff1d(np.arange(len(table)), used)
        if len(unused) and gains(table[unused], prior.weights @ table[used]).max() >= prior.information:
            false = "the number of rows is certified, though a row that is not used is as good"
        elif not independent(table[used]):
            false = "the number of rows is certified, though they are dependent"
    return Answer(false, prior.evidence, prior.atoms_certified)


def independent(rows: np.ndarray) -> bool:
    """Return whether rows are linearly independent, by elimination in exact fractions."""
    left = [[Fraction(float(x)) for x in row] for row in rows]
    for column in range(rows.shape[1]):
        pivot = next((row for row in left if row[column] != 0), None)
        if pivot is not None:
            left.remove(pivot)
            ratios = [row[column] / pivot[column] for row in left]
            left = [[a - r * b for a, b in zip(row, pivot, strict=True)] for row, r in zip(left, ratios, strict=True)]
    return not left


@cache
def forks() -> tuple[Any, Any]:
    """Return the amplitudes at which Poisson counts and Gaussian noise get a third atom, to 30 digits."""
    from mpmath import cosh, diff, exp, findroot, inf, log, mp, npdf, quad  # type: ignore[import-untyped,unused-ignore]

    mp.dps = 40

    def poisson(a: Any, w: Any) -> tuple[Any, Any]:
        # two atoms, 0 and a: −log m₀ = J at 0, and −log π₁ − (1 − e^(−a))... at a give the weights
        e = exp(-a)
        share = findroot(lambda s: -log(1 - s + s * e) - (e * (-a - log(1 - s + s * e)) - (1 - e) * log(s)), 0.5)
        first = -log(1 - share + share * e)

        def gain(x: Any) -> Any:
            return exp(-x) * (-x + first) + (1 - exp(-x)) * (-log(share) - x + a) + x * log(x / a)

        return gain(w) - first, diff(gain, w)

    third = findroot(poisson, (3.368, 1.2), tol=1e-30)[0]

    def gaussian(a: Any) -> Any:
        def mean(shift: Any) -> Any:
            return quad(lambda z: npdf(z, shift, 1) * log(cosh(a * z)), [-inf, -8, -3, 0, 3, 8, inf])

        return mean(a) - mean(0) - a * a / 2

    return third, findroot(gaussian, 1.666, tol=1e-28)


def fork(rng: np.random.Generator) -> Answer:
    """Amplitudes from one ulp to 1e-3 beside the one at which the third atom appears."""
    kind = int(rng.integers(2))
    place, half = forks()[kind], float(forks()[kind])
    distance = np.spacing(half) * 10 ** rng.uniform(0, 12) if rng.random() < 0.7 else rng.integers(4) * np.spacing(half)
    amplitude = float(half + rng.choice([-1, 1]) * distance)
    prior = reference_prior((Poisson, Gaussian)[kind](amplitude))
    atoms = 3 if amplitude > place else 2
    wrong = prior.atoms_certified and len(prior.weights) != atoms
    false = f"{len(prior.weights)} atoms are certified at {amplitude!r}, and there are {atoms}" if wrong else None
    return Answer(false, prior.evidence, prior.atoms_certified)


def binomial(w: np.ndarray, n: int) -> np.ndarray:
    heads = np.arange(n + 1)
    ways = np.array([math.comb(n, int(k)) for k in heads], dtype=float)
    return np.asarray(ways * w**heads * (1 - w) ** (n - heads))


def two_stages(rng: np.random.Generator) -> Answer:
    """Coins in two stages: no gain G = KL(z^{m+n}) − β KL(z^m) above J + gap."""
    m, n, beta = int(rng.integers(1, 25)), int(rng.integers(1, 25)), float(rng.choice([1.0, rng.uniform(0, 1)]))
    prior = two_stage_prior(Coin, m=m, n=n, beta=beta)
    w, pi = prior.atoms[:, None], prior.weights
    trial = np.vstack([np.linspace(0, 1, 4001)[:, None], 1e-9 ** np.linspace(0, 1, 200)[:, None], w])

    def gain(at: np.ndarray) -> np.ndarray:
        both, first = (gains(binomial(at, k), pi @ binomial(w, k)) for k in (m + n, m))
        return np.asarray(both - beta * first)

    slack = 10 * ROUNDING * (1 + prior.information)  # binomials are powers, and less precise than the package's
    if abs(pi @ gain(w) - prior.information) > prior.gap + slack:
        return Answer(f"information {prior.information!r}, m = {m}, n = {n}", prior.evidence)
    top = float(gain(trial).max())
    false = f"gain {top!r} at m = {m}, n = {n}" if top > prior.information + prior.gap + slack else None
    return Answer(false, prior.evidence, prior.atoms_certified)


def counts(n: int, outcomes: int) -> np.ndarray:
    """Return all counts of n samples: (Z, C)."""
    if outcomes == 1:
        return np.array([[n]])
    parts = [
        np.column_stack([np.full(len(rest), k), rest]) for k in range(n + 1) for rest in [counts(n - k, outcomes - 1)]
    ]
    return np.vstack(parts)


def repeated(rng: np.random.Generator) -> Answer:
    """n samples of a custom model with a bump: the probabilities of all counts."""
    box, outcomes, n = [(0.0, 1.0)], int(rng.integers(2, 4)), int(rng.integers(2, 9))
    place, width = rng.uniform(0, 1), 10 ** rng.uniform(-2.5, -0.5)
    base, slopes, bumps = rng.normal(size=(3, outcomes))

    def one(w: np.ndarray) -> np.ndarray:
        p = np.exp(base + slopes * w + bumps * np.exp(-(((w - place) / width) ** 2) / 2))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    seen = counts(n, outcomes)
    ways = np.array([math.factorial(n) / math.prod(math.factorial(int(k)) for k in row) for row in seen])

    def rows(w: np.ndarray) -> np.ndarray:
        return np.asarray(ways * np.prod(one(w)[:, None] ** seen, axis=2))

    prior = reference_prior(custom(one, box, outcomes).repeat(n), tolerance=1e-9)
    points = np.vstack([grid(box, 2001), np.clip(place + width * np.linspace(-4, 4, 801), 0, 1)[:, None]])
    return Answer(judged(prior, rows, points), prior.evidence, prior.atoms_certified)


def products(rng: np.random.Generator) -> Answer:
    """Two experiments on separate parameters: informations and gaps add up."""
    table, tosses = rng.dirichlet(np.ones(3), 4), int(rng.integers(1, 12))
    prior = reference_prior(Product(Categorical(table), Coin(tosses)), tolerance=1e-10)
    low = blahut_arimoto(table, np.full(4, 0.25), 3000)[0]
    w = np.sort(np.concatenate([np.linspace(0, 1, 201), [0.5]]))[:, None]
    low += blahut_arimoto(binomial(w, tosses), np.full(len(w), 1 / len(w)), 2000)[0]
    slack = ROUNDING * (1 + low)
    false = f"capacity at least {low!r}" if low > prior.information + prior.gap + slack else None
    atoms = np.array([np.kron(table[round(float(a))], binomial(np.array([[b]]), tosses)[0]) for a, b in prior.atoms])
    if abs(information(atoms, prior.weights) - prior.information) > prior.gap + slack:
        false = f"information {prior.information!r}, but the prior has {information(atoms, prior.weights)!r}"
    return Answer(false, prior.evidence, prior.atoms_certified)


def nuisances(rng: np.random.Generator) -> Answer:
    """One parameter of interest and one nuisance, three outcomes, against Blahut–Arimoto on a grid of both."""
    box, slack = [(0.0, 1.0), (0.0, 1.0)], 1e-4  # nats that a grid of the nuisance leaves
    slopes, bump, place = rng.normal(size=(3, 3)), rng.uniform(0, 2), rng.uniform(0, 1)

    def rows(w: np.ndarray) -> np.ndarray:
        height = bump * np.exp(-(((w[:, :1] - place) / 0.05) ** 2) / 2)
        logits = w[:, :1] * slopes[0] + w[:, 1:] * slopes[1] + height * slopes[2]
        p = np.exp(logits)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    prior = reference_prior(custom(rows, box, 3), interest=0, tolerance=1e-5)
    found, second = [], np.linspace(0, 1, 41)
    for first in np.unique(np.concatenate([np.linspace(0, 1, 9), [place], prior.interest.atoms])):
        table = rows(np.column_stack([np.full(41, first), second]))
        found.append(accelerated(table, 1e-7) @ table)
    low = blahut_arimoto(np.array(found), np.full(len(found), 1 / len(found)), 2000)[0]
    bound = prior.information + prior.gap + slack
    return Answer(f"capacity at least {low!r}, above {bound!r}" if low > bound else None, prior.evidence)


def sampled(rng: np.random.Generator) -> Answer:
    """Decays at ten times, whose noise is sampled: the gain at random places, from noise that nobody has seen."""
    terms, sigma = int(rng.integers(3, 5)), rng.uniform(0.08, 0.1)  # with more noise, outcomes are listed
    times = np.arange(1.0, 11.0)
    prior = reference_prior(models.exponentials(times, terms=terms, sigma=sigma), tolerance=2e-2)

    def mean(w: np.ndarray) -> np.ndarray:
        return np.asarray(np.mean(w[:, :, None] ** times, axis=1) / sigma)

    centers = mean(prior.atoms)
    places = mean(np.vstack([rng.uniform(0, 1, (40, terms)), np.round(rng.uniform(0, 1, (20, terms))), prior.atoms]))
    noise = rng.normal(size=(4000, 10))
    value, error = np.empty(len(places)), np.empty(len(places))
    for i, center in enumerate(places):
        apart = -0.5 * np.sum((center + noise[:, None] - centers) ** 2, axis=2) + np.log(prior.weights)
        top = apart.max(axis=1)
        log_mixture = top + np.log(np.exp(apart - top[:, None]).sum(axis=1))
        gain = -0.5 * np.sum(noise**2, axis=1) - log_mixture
        value[i], error[i] = gain.mean(), gain.std() / math.sqrt(len(gain))
    bound = prior.information + prior.gap
    wrong = value - 5 * error > bound
    false = f"gain {value[wrong].max()!r} ± {error[wrong].max()!r}, above {bound!r}" if np.any(wrong) else None
    return Answer(false, prior.evidence)


# the number of models of each family: 2200 in all
FAMILIES: dict[Callable[[np.random.Generator], Answer], int] = {
    cusps: 500,
    jumps: 300,
    weak_bumps: 300,
    ridges: 150,
    singular: 150,
    censored: 50,
    near_duplicates: 320,
    fork: 100,
    two_stages: 120,
    repeated: 120,
    products: 60,
    nuisances: 20,
    sampled: 10,
}
