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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refprior.exact import Channel, Coin, compare_priors, models, reference_prior
from refprior.exact.oracle import Likelihoods, Objective
from refprior.exact.solve import Problem, solve
from refprior.exact.solve._ascent import optimal_weights
from refprior.exact.solve._long import climbed, starting_atoms

try:
    import flint
except ImportError:  # counts of atoms need it
    flint = None

Array = NDArray[np.float64]
Ball = Any  # of flint, which has no type annotations
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
    """The likelihood of n tosses at an angle φ, w = sin²(φ/2), to DIGITS digits."""

    def __init__(self, n: int) -> None:
        logs = [(flint.arb(k) + 1).lgamma() for k in range(n + 1)]
        self.n, self.ways = n, [logs[n] - logs[k] - logs[n - k] for k in range(n + 1)]

    def log_likelihood(self, u: Ball) -> list[Ball]:
        sine, cosine = 2 * (u / 2).sin().log(), 2 * (u / 2).cos().log()
        return [ways + k * sine + (self.n - k) * cosine for k, ways in enumerate(self.ways)]

    def scores(self, u: Ball) -> tuple[list[Ball], list[Ball]]:
        """Return p'/p and p''/p."""
        sine, cosine = (u / 2).sin(), (u / 2).cos()
        first = [k * cosine / sine - (self.n - k) * sine / cosine for k in range(self.n + 1)]
        a, b = 1 / (2 * sine**2), 1 / (2 * cosine**2)
        return first, [x * x - k * a - (self.n - k) * b for k, x in enumerate(first)]


def dot(a: list[Ball], b: list[Ball]) -> Ball:
    return sum((x * y for x, y in zip(a, b, strict=True)), flint.arb(0))


def refined(n: int, angles: Array, weights: Array) -> tuple[float, float] | None:
    """Solve G = J and G' = 0 at the atoms by Newton steps to DIGITS digits, with both ends fixed.

    Returns the residual, and the largest G − J at points between atoms; None if the steps do not converge. Unknowns
    are (dπ_k, π_k du_k), as in doubles.
    """
    flint.ctx.dps = DIGITS
    tosses, unit, count = Tosses(n), 1 / math.sqrt(n), len(angles)
    u, pi = [flint.arb(float(x)) for x in angles[1:-1]], [flint.arb(float(x)) for x in weights]
    ends = [[flint.arb(int(k == end)) for k in range(n + 1)] for end in (0, n)]
    for number in range(15):
        total = sum(pi, flint.arb(0))
        pi = [(x / total).mid() for x in pi]
        logs = [tosses.log_likelihood(x) for x in u]
        p = [ends[0], *([x.exp() for x in row] for row in logs), ends[1]]
        mixture = (flint.arb_mat([pi]) * flint.arb_mat(p)).entries()
        log_mixture = [x.log() for x in mixture]
        scores = [tosses.scores(x) for x in u]
        above = [[q * (a - b) for q, a, b in zip(*parts, log_mixture)] for parts in zip(p[1:-1], logs)]
        gains = [-log_mixture[0], *(sum(row, flint.arb(0)) for row in above), -log_mixture[n]]
        slopes = [dot(row, first) for row, (first, _) in zip(above, scores)]
        bends = [
            dot(row, second) + dot(q, [x * x for x in first])
            for row, q, (first, second) in zip(above, p[1:-1], scores)
        ]
        information = dot(pi, gains)
        off = [information - x for x in gains] + [-x for x in slopes]
        residual = max(abs(float(x.mid())) for x in off)
        if residual < 10.0 ** (-DIGITS / 2):
            break
        if number > 5 and residual > 1e-9:
            return None
        inverse = [1 / x.sqrt() for x in mixture]
        rows = p + [[a * b for a, b in zip(q, first)] for q, (first, _) in zip(p[1:-1], scores)]
        root = flint.arb_mat([[a * b for a, b in zip(row, inverse)] for row in rows])
        system = [[-x for x in row] for row in (root * root.transpose()).tolist()]
        for k in range(count - 2):
            system[k + 1][count + k] += slopes[k] / pi[k + 1]
            system[count + k][count + k] += bends[k].min(flint.arb(0)) / pi[k + 1]  # a direction in which J rises
        bordered = [row + [flint.arb(-int(i < count))] for i, row in enumerate(system)]
        bordered.append([flint.arb(int(i < count)) for i in range(len(system) + 1)])
        exact = flint.arb_mat([[x.mid() for x in row] for row in bordered])
        try:
            step = exact.solve(flint.arb_mat([[x.mid()] for x in [*off, flint.arb(0)]])).entries()
        except ZeroDivisionError:
            return None
        moves = [x / q for x, q in zip(step[count:-1], pi[1:-1])]
        shorter = [0.5 * float(q) / -float(x) for q, x in zip(pi, step) if x < 0]
        length = flint.arb(min(1.0, *shorter, *(0.25 * unit / abs(float(x)) for x in moves)))
        pi = [(q + length * x).mid() for q, x in zip(pi, step)]
        u = [(x + length * move).mid() for x, move in zip(u, moves)]
    else:
        return None
    places = np.interp(np.arange(0.1, count - 1, 0.2), np.arange(count), [0.0, *map(float, u), math.pi])
    logs = [tosses.log_likelihood(flint.arb(float(x))) for x in places]
    between = [dot([x.exp() for x in row], [a - b for a, b in zip(row, log_mixture)]) - information for row in logs]
    return residual, max(float(x.mid()) for x in between)


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
        figure = Figure(figsize=(8.4, 3.4), layout="constrained")
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
        figure = Figure(figsize=(8.4, 2.4), layout="constrained")
        rng = np.random.default_rng(0)
        for axes, d in zip(figure.subplots(1, 2, sharex=True, sharey=True), (4, 26), strict=True):
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
            axes.set(title=f"{d} rates", xlabel="first component (standard deviations)")
            axes.set_aspect("equal")
        figure.axes[0].set_ylabel("second component")
        figure.axes[0].legend(frameon=False, fontsize="small")
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
