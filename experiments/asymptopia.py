"""Priors of sums of d exponentials, and the number of atoms of coins: the numbers and figures of docs/asymptopia.md.

    python experiments/asymptopia.py experiments/asymptopia.jsonl            # compute the cells that are missing
    python experiments/asymptopia.py experiments/asymptopia.jsonl --table    # print them
    python experiments/asymptopia.py experiments/asymptopia.jsonl --figures docs/figures

A curve y(t) = Σ_i e^(−k_i t) / d is observed at d even times up to 5, with noise 0.1 √(d/5): more parameters do not
bring more data. Jeffreys prior of the shares w_i = e^(−k_i 5/d) is ∝ ∏ |w_i − w_j|, since the slopes of the mean are a
Vandermonde matrix. That is a Jacobi ensemble, and its draws are eigenvalues of random matrices.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refprior.exact import Channel, Coin, compare_priors, models, reference_prior
from refprior.exact.oracle import Likelihoods, Objective
from refprior.exact.solve import Problem, solve
from refprior.exact.solve._ascent import optimal_weights
from refprior.exact.solve._long import climbed, starting_atoms

flint: Any = None
with suppress(ImportError):  # only counts of atoms need it
    flint = import_module("flint")

Array = NDArray[np.float64]
Ball: TypeAlias = Any  # of flint, which has no type annotations
Balls: TypeAlias = NDArray[Any]
DIGITS = 120
DIMENSIONS = (2, 4, 8, 16, 26)
LAST, SIGMA = 5.0, 0.1  # the last time; the noise of five observations
TOSSES = (5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500, 600, 700, 800, 1000)
DRAWS = 1024


def decays(d: int) -> Channel:
    """Return the mean of d exponentials at d times."""
    times = LAST * np.arange(1, d + 1) / d
    return models.exponentials(times, terms=d, sigma=SIGMA * math.sqrt(d / 5))


def jeffreys_draws(rng: np.random.Generator, count: int, d: int) -> Array:
    """Draw from ∏ |w_i − w_j| on [0, 1]^d: eigenvalues of A (A + B)⁻¹ for two Wishart matrices of d + 1 normals."""
    x, y = rng.normal(size=(2, count, d + 1, d))
    a, b = np.swapaxes(x, 1, 2) @ x, np.swapaxes(y, 1, 2) @ y
    return np.sort(np.linalg.eigvals(np.linalg.solve(a + b, a)).real.clip(0, 1), axis=1)


def compared(d: int) -> dict[str, Any]:
    """Compare priors of d exponentials."""
    step = LAST / d

    def from_rates(rates: Array) -> Array:
        return np.asarray(np.exp(-rates * step))

    priors = {
        "Jeffreys": lambda rng, count: jeffreys_draws(rng, count, d),
        "uniform": lambda rng, count: rng.uniform(size=(count, d)) ** step,  # in e^(−k)
        "log-normal": lambda rng, count: from_rates(np.exp(rng.normal(size=(count, d)))),
        "projected": "projected",
    }
    began = time.process_time()
    channel = decays(d)
    found = compare_priors(channel, priors, draws=DRAWS, tolerance=1e-3)
    prior = reference_prior(channel, tolerance=1e-3)
    rates = [len(np.unique(np.round(row, 3))) for row in np.atleast_2d(prior.atoms)]
    return {
        "d": d,
        "evidence": found.evidence,
        "gap": found.gap,
        "atoms": len(prior.weights),
        "most rates": max(rates),
        "truths": len(found.truths),
        "priors": {
            p.name: {
                "information": p.information,
                "information_error": p.information_error,
                "bias": p.bias,
                "bias_error": p.bias_error,
                "largest bias": float(p.biases.max()),
            }
            for p in found
        },
        "seconds": round(time.process_time() - began, 1),
    }


def starts(n: int) -> Iterator[tuple[Array, Array]]:
    """Yield atoms, as angles, and weights of n tosses in doubles: about the optimum, then other numbers of atoms."""
    prior = reference_prior(Coin(n))
    yield prior.coordinates[:, 0], prior.weights
    if prior.atoms_certified:
        return
    objective, shorter = Objective((Coin(n),)), Objective((Coin(min(253, n // 2)),))
    bounds, near = objective.channel.bounds, solve(shorter, 1e-11)
    problem = Problem(objective.table, bounds, np.array([0.3 / math.sqrt(n)]), symmetric=True)
    for more in (0, 1, 2):
        u, weights = starting_atoms(shorter.channel, near, math.pi * math.sqrt(n), bounds, more)
        weights = optimal_weights(Likelihoods.of_values(objective, u), 1e-12, weights)
        point = climbed(problem, problem.evaluate(u, weights), 1e-13)
        yield point.u[:, 0], point.weights


class Tosses:
    """The likelihood of n tosses at an angle φ, w = sin²(φ/2), to DIGITS digits: (n + 1,) balls."""

    def __init__(self, n: int) -> None:
        self.heads = np.array([flint.arb(k) for k in range(n + 1)])
        logs = np.array([(k + 1).lgamma() for k in self.heads])
        self.tails, self.ways = self.heads[::-1], logs[n] - logs - logs[::-1]

    def log_likelihood(self, u: Ball) -> Balls:
        return np.asarray(self.ways + self.heads * (2 * (u / 2).sin().log()) + self.tails * (2 * (u / 2).cos().log()))

    def scores(self, u: Ball) -> tuple[Balls, Balls]:
        """Return p'/p and p''/p."""
        sine, cosine = (u / 2).sin(), (u / 2).cos()
        first = self.heads * (cosine / sine) - self.tails * (sine / cosine)
        return first, first**2 - self.heads / (2 * sine**2) - self.tails / (2 * cosine**2)


def each(name: str, values: Balls) -> Balls:
    """Return what a method of every ball returns."""
    return np.array([getattr(x, name)() for x in values.ravel()]).reshape(values.shape)


def refined(n: int, angles: Array, weights: Array) -> tuple[float, float] | None:
    """Solve G = J and G' = 0 at the atoms by Newton steps to DIGITS digits, with both ends fixed.

    Returns the residual, and the largest G − J at points between atoms; None if the steps do not converge. Unknowns
    are (dπ_k, π_k du_k), as in doubles.
    """
    flint.ctx.dps = DIGITS
    tosses, count = Tosses(n), len(angles)
    u, pi = np.array([flint.arb(x) for x in angles[1:-1]]), np.array([flint.arb(x) for x in weights])
    ends = np.array([[flint.arb(int(k == end)) for k in range(n + 1)] for end in (0, n)])
    inner, is_weight = np.arange(1, count - 1), np.arange(2 * count - 2) < count
    for number in range(15):
        pi = each("mid", pi / pi.sum())
        logs, scores = np.array([tosses.log_likelihood(x) for x in u]), [tosses.scores(x) for x in u]
        first, second = np.array([a for a, _ in scores]), np.array([b for _, b in scores])
        p = np.vstack([ends[:1], each("exp", logs), ends[1:]])
        mixture = pi @ p
        log_mixture = each("log", mixture)
        above = p[1:-1] * (logs - log_mixture)
        gains = np.concatenate([-log_mixture[:1], above.sum(axis=1), -log_mixture[-1:]])
        slopes, bends = (above * first).sum(axis=1), (above * second + p[1:-1] * first**2).sum(axis=1)
        information = pi @ gains
        off = each("mid", np.concatenate([information - gains, -slopes]))
        residual = float(abs(off).max())
        if residual < 10.0 ** (-DIGITS / 2):
            break
        if number > 5 and residual > 1e-9:
            return None
        rows = flint.arb_mat((np.vstack([p, p[1:-1] * first]) / each("sqrt", mixture)).tolist())
        system = -np.array((rows * rows.transpose()).tolist())
        system[inner, count + inner - 1] += slopes / pi[1:-1]
        falling = np.array([x.min(flint.arb(0)) for x in bends])  # so that J rises along the step
        system[count + inner - 1, count + inner - 1] += falling / pi[1:-1]
        ones = np.array([flint.arb(int(x)) for x in is_weight])
        bordered = np.vstack([np.column_stack([system, -ones]), [*ones, flint.arb(0)]])
        right = flint.arb_mat([[x] for x in [*off, flint.arb(0)]])
        try:
            step = np.array(flint.arb_mat(each("mid", bordered).tolist()).solve(right).entries())
        except ZeroDivisionError:
            return None
        move, change = step[count:-1] / pi[1:-1], step[:count]
        shortest = max(1.0, 4 * math.sqrt(n) * float(abs(move).max()), float((-2 * change / pi).max()))
        pi, u = each("mid", pi + change / shortest), each("mid", u + move / shortest)
    else:
        return None
    places = np.interp(np.arange(0.1, count - 1, 0.2), np.arange(count), [0.0, *map(float, u), math.pi])
    logs = np.array([tosses.log_likelihood(flint.arb(x)) for x in places])
    between = (each("exp", logs) * (logs - log_mixture)).sum(axis=1) - information
    return residual, float(between.max())


def counted(n: int) -> dict[str, Any]:
    """Count the atoms of n tosses: a prior to DIGITS digits whose gain is below J between its atoms."""
    began, fewer = time.process_time(), 0
    for angles, weights in starts(n):
        found = refined(n, angles, weights)
        print(n, len(weights), found, flush=True)
        if found is not None and found[1] < 0:
            break
        fewer, found = max(fewer, len(weights) if found is not None else 0), None
    return {
        "n": n,
        "atoms": len(weights) if found else None,
        "more than": fewer,
        "residual": found and found[0],
        "between": found and found[1],
        "information": reference_prior(Coin(n)).information,
        "seconds": round(time.process_time() - began, 1),
    }


def table(records: list[dict[str, Any]]) -> None:
    """Print both tables."""
    print("d   evidence   gap      atoms  rates  prior       information        bias")
    for r in (r for r in records if "d" in r):
        head = f"{r['d']:<3} {r['evidence']:10} {r['gap']:.0e}  {r['atoms']:5}  {r['most rates']:5}"
        for name, p in r["priors"].items():
            print(
                f"{head}  {name:10}  {p['information']:.3f} ± {p['information_error']:.3f}    "
                f"{p['bias']:.3f} ± {p['bias_error']:.3f}"
            )
            head = " " * len(head)
    counts = [r for r in records if r.get("atoms") and "n" in r]
    n, atoms = (np.array([r[key] for r in counts], dtype=float) for key in ("n", "atoms"))
    slope, offset = np.polyfit(n ** (2 / 3), atoms, 1)
    print(f"\nn     atoms  largest G - J between  exp(I)  {offset:.2f} + {slope:.3f} n^(2/3)")
    for r in counts:
        fit = offset + slope * r["n"] ** (2 / 3)
        print(f"{r['n']:<5} {r['atoms']:5}  {r['between']:21.0e}  {math.exp(r['information']):6.2f}  {fit:.1f}")


def figures(records: list[dict[str, Any]], folder: Path) -> None:
    """Draw the bias and the information of all priors, and where they lie in what the model predicts."""
    from matplotlib.figure import Figure

    from refprior._style import SERIES, styled

    names = ("reference", "projected", "uniform", "log-normal", "Jeffreys")
    colors = dict(zip(names, SERIES, strict=False))

    @styled
    def lines() -> Figure:
        figure = Figure(figsize=(6.8, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        cells = [r for r in records if "d" in r]
        for name in names:
            d = [r["d"] for r in cells]
            for axes, key in ((left, "bias"), (right, "information")):
                value = [r["priors"][name][key] for r in cells]
                error = [r["priors"][name][f"{key}_error"] for r in cells]
                axes.errorbar(d, value, error, color=colors[name], marker="o", ms=3, lw=1.2, label=name)
        left.set(xlabel="rates d", ylabel="bias in standard deviations", xscale="log")
        right.set(xlabel="rates d", ylabel="information in nats", xscale="log", ylim=(0, None))
        for axes in (left, right):
            axes.set_xticks(DIMENSIONS, [str(d) for d in DIMENSIONS])
            axes.minorticks_off()
        left.legend(frameon=False)
        return figure

    @styled
    def places() -> Figure:
        figure = Figure(figsize=(6.8, 5.0), layout="constrained")
        rng = np.random.default_rng(0)
        for axes, d in zip(figure.subplots(2, 1, sharex=True, sharey=True), (4, 26), strict=True):
            step = LAST / d
            channel = decays(d)
            prior = reference_prior(channel, tolerance=1e-3)

            def seen(w: Array, channel: Any = channel) -> Array:
                return np.asarray(channel.means(w)[:, :2])

            pair = rng.uniform(size=(20_000, 2)) ** (10 ** rng.uniform(-2, 1, (20_000, 2)))
            pair = np.where(rng.uniform(size=pair.shape) < 0.3, np.round(pair), pair)  # models of two rates
            anything = np.where(np.arange(d) < rng.integers(0, d + 1, (20_000, 1)), pair[:, :1], pair[:, 1:])
            sign = np.sign(seen(np.zeros((1, d)))[0])
            axes.scatter(*(sign * seen(anything)).T, s=1, color="0.88", rasterized=True)
            others = {
                "log-normal": np.exp(-np.exp(rng.normal(size=(300, d))) * step),
                "Jeffreys": jeffreys_draws(rng, 300, d),
            }
            for name, w in others.items():
                axes.scatter(*(sign * seen(w)).T, s=3, color=colors[name], label=name)
            axes.scatter(
                *(sign * seen(prior.atoms)).T,
                s=400 * prior.weights,
                facecolors="none",
                edgecolors=colors["reference"],
                lw=1.3,
                label="reference",
            )
            axes.set(title=f"{d} rates", ylabel="second component")
            axes.set_aspect("equal")
        axes.set_xlabel("first component (standard deviations)")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
        return figure

    lines().savefig(folder / "asymptopia_bias.png", dpi=150)
    places().savefig(folder / "asymptopia_places.png", dpi=150)


def main() -> None:
    """Compute, print or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figures", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    path = arguments.results
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if arguments.table:
        table(records)
    elif arguments.figures:
        figures(records, arguments.figures)
    else:
        known = {(key, r[key]) for r in records for key in ("d", "n") if key in r}
        cells = [("n", n, counted) for n in TOSSES] + [("d", d, compared) for d in DIMENSIONS]
        for key, value, compute in cells:
            if (key, value) not in known:
                record = compute(value)
                print(json.dumps(record), flush=True)
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
