"""The speed and the gap of exact priors, against named alternatives, in one run.

    OMP_NUM_THREADS=1 python benchmarks/exact.py [--quick] [--only TEXT]

Prints a table of the work, the gap over all w, the time, and whether the goal was met; then the ratios against
plain Blahut–Arimoto, dit and cvxpy (the extra `bench`; a library that is not installed is named and skipped). Times are
those of the processor, so that other work on the machine changes them little.
"""

from __future__ import annotations

import argparse
import math
import platform
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    Solution,
    TwoCoins,
    blahut_arimoto,
    models,
    reference_prior,
    two_stage_prior,
)
from refprior.exact.certificate._certificate import judge
from refprior.exact.oracle import Objective

BLAHUT_ARIMOTO_GAP = 1e-6
BLAHUT_ARIMOTO_ITERATIONS = 700_000
TABLE_SEED, TABLE_SIZE, TABLE_GAP = 0, 50, 1e-13


def timed(function: Callable[[], Any], repeats: int = 1) -> tuple[Any, float]:
    """Result and the shortest time of several runs, in seconds."""
    best = math.inf
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return result, best


def row(name: str, solution: Solution, seconds: float, gap: float, limit: float) -> None:
    """One line of the table with its goal."""
    met = "met" if solution.gap <= gap and seconds <= limit else "MISSED"
    kind = solution.evidence
    print(
        f"{name:28s} {len(solution.weights):5d} {kind:10s} {solution.information:.12f} "
        f"{solution.gap:8.1e} {gap:8.0e} {seconds:9.3f} {limit:7.1f}  {met}",
        flush=True,
    )


Goal = tuple[str, Callable[[], Solution], float, float]


def goals(quick: bool) -> list[Goal]:
    """Name, work, gap to reach, seconds allowed."""

    def one(name: str, channel: Channel, gap: float, limit: float) -> Goal:
        return name, lambda: reference_prior(channel, tolerance=gap), gap, limit

    def two(m: int, n: int, gap: float = 1e-14, limit: float = 0.5) -> Goal:
        return f"two stages m = {m}, n = {n}", lambda: two_stage_prior(Coin, m=m, n=n, tolerance=gap), gap, limit

    rows = [one(f"coin n = {n}", Coin(n), 1e-14, 0.5) for n in (1, 2, 10, 50, 100)]
    rows += [two(m, n) for m, n in ((1, 1), (1, 10), (1, 40), (10, 1), (30, 1))]
    rows += [one("coin n = 1000", Coin(1000), 1e-12, 3.0), one("coin n = 10^4", Coin(10_000), 1e-12, 8.0)]
    if not quick:
        rows += [
            one("coin n = 10^5", Coin(100_000), 1e-12, 7.0),
            one("coin n = 10^6", Coin(1_000_000), 1e-9, 60.0),
        ]
    rows += [one(f"Gaussian A = {a:g}", Gaussian(a), 1e-13, 1.0) for a in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)]
    rows += [one(f"Poisson A = {a:g}", Poisson(a), 1e-13, 1.0) for a in (1.0, 3.0, 5.0, 10.0, 20.0)]
    rows += [one(f"two coins n = {n}", TwoCoins(n), 1e-11, 10.0) for n in (5, 10, 20)]
    rows += [one(f"decay sigma = {s:g}", ExponentialDecay((1.0, 2.0), s), 1e-11, 10.0) for s in (0.2, 0.1)]
    rows.append(one("decay sigma = 0.05", ExponentialDecay((1.0, 2.0), 0.05), 1e-8, math.inf))
    if not quick:  # the hard sizes
        rows += [one(f"two coins n = {n}", TwoCoins(n), 1e-12, 10.0) for n in (24, 26, 40)]
        rows += [one(f"Gaussian A = {a:g}", Gaussian(a), 1e-12, 15.0) for a in (80.0, 100.0, 200.0, 500.0)]
        rows += [one(f"Poisson A = {a:g}", Poisson(a), 1e-12, 15.0) for a in (3000.0, 10_000.0)]
        rows += [one("decay at 1 and 3, sigma 0.05", ExponentialDecay((1.0, 3.0), 0.05), 1e-9, 15.0)]
        rows += [two(m, n, 1e-12, 15.0) for m, n in ((300, 1), (1000, 1000), (5000, 5000), (9900, 100), (10, 9990))]
        rows += [one("coin n = 175", Coin(175), 1e-12, 3.0)]
        rows += [one("random table 2000 x 2000", Categorical(random_table(2000)), 1e-12, 10.0)]
        rows += [*three_parameters(one), *sampled(one), *sizes(one)]
    return rows


def sizes(one: Callable[[str, Channel, float, float], Goal]) -> list[Goal]:
    """One parameter: at most a second up to a thousand tosses or as many standard deviations, then five seconds."""
    coins = [3, 30, 150, 200, 300, 400, 447, 500, 600, 616, 700, 900, 1000, 3000, 10_000, 30_000, 100_000]
    amplitudes = [7, 12, 15, 17, 20, 25, 28.29, 30, 35, 38, 40, 50, 70, 100, 200, 300, 500]
    means = [50, 200, 300, 400, 500, 700, 1000, 1037.8, 1200, 1500, 2000, 5000, 10_000]
    rows = [one(f"size: coin n = {n}", Coin(n), 1e-12, 1.0 if n <= 1000 else 5.0) for n in coins]
    rows += [one(f"size: Gaussian A = {a:g}", Gaussian(float(a)), 1e-12, 1.0) for a in amplitudes]
    return rows + [one(f"size: Poisson A = {a:g}", Poisson(float(a)), 1e-12, 1.0 if a <= 1000 else 5.0) for a in means]


def three_parameters(one: Callable[[str, Channel, float, float], Goal]) -> list[Goal]:
    """A sloppy model, a regression, and counts of categories."""
    inputs = np.random.default_rng(0).normal(size=(8, 3))
    return [
        one("3 decays at 5 times, s 0.3", models.exponentials([1, 2, 3, 4, 5], terms=3, sigma=0.3), 1e-4, 300.0),
        one("3 weights on 8 points", models.logistic_regression(inputs, bounds=[(-2, 2)] * 3), 1e-4, 300.0),
        one("4 categories, n = 10", models.multinomial(4, 10), 1e-4, 300.0),
        one("4 categories, n = 20", models.multinomial(4, 20), 1e-4, 300.0),
    ]


def sampled(one: Callable[[str, Channel, float, float], Goal]) -> list[Goal]:
    """Ten observations, whose grids would have more than ten million outcomes."""
    rows = [
        one(f"{d} decays at 10 times", models.exponentials(range(1, 11), terms=d, sigma=0.1), gap, limit)
        for d, gap, limit in ((3, 1e-3, 60.0), (5, 1e-3, 60.0), (10, 1e-3, 120.0))
    ]
    t = np.linspace(0.2, 5, 10)
    bounds = [(0, 1), (0, 1), (0.1, 1), (1, 5)]  # two amplitudes and two rates
    two = Channel.from_mean(lambda w: np.sum(w[:, :2, None] * np.exp(-w[:, 2:, None] * t), 1), sigma=0.1, bounds=bounds)
    return [*rows, one("2 amplitudes, 2 rates", two, 1e-3, 120.0)]


def random_table(size: int) -> np.ndarray:
    """A table of random rows, always the same."""
    return np.random.default_rng(TABLE_SEED).dirichlet(np.ones(size), size)


def against_blahut_arimoto() -> None:
    """The coin of ten tosses to a gap of 1e-6 over all w."""
    channel = Coin(10)
    ours, seconds = timed(lambda: reference_prior(channel, tolerance=BLAHUT_ARIMOTO_GAP), 20)
    plain, slow = timed(
        lambda: blahut_arimoto(channel, 1001, iterations=BLAHUT_ARIMOTO_ITERATIONS, tolerance=BLAHUT_ARIMOTO_GAP)
    )
    reached = judge(Objective((channel,)), channel.coordinate(plain.grid[:, None]), plain.weights).gap
    print(f"coin n = 10 to a gap of 1e-6: ours {1e3 * seconds:.1f} ms, gap {ours.gap:.1e}, certificate included")
    print(
        f"  plain Blahut-Arimoto, 1001 points: {slow:.1f} s, {len(plain.gap)} iterations, "
        f"gap {plain.gap[-1]:.1e} on its grid, {reached:.1e} over all w"
    )
    print(f"  ratio {slow / seconds:.0f} (goal 1000)  {'met' if slow >= 1000 * seconds else 'MISSED'}")


def against_libraries() -> None:
    """A random table of 50 × 50, to the same gap where they reach it."""
    table = random_table(TABLE_SIZE)
    ours, seconds = timed(lambda: reference_prior(Categorical(table), tolerance=TABLE_GAP), 5)
    met = "met" if ours.gap <= TABLE_GAP else "MISSED"
    print(f"random table 50 x 50, seed {TABLE_SEED}: ours {1e3 * seconds:.1f} ms, gap {ours.gap:.1e}  {met}")
    for name, solve in (("dit", solve_with_dit), ("cvxpy", solve_with_cvxpy)):
        if find_spec(name) is None:
            print(f"  {name}: not installed (pip install 'refprior[bench]')")
            continue
        import_module(name)  # importing is not part of the time
        (weights, note), other = timed(partial(solve, table), 2)
        gap = table_gap(table, weights)
        verdict = "met" if other > seconds else "MISSED"
        print(f"  {name}: {1e3 * other:.1f} ms, gap {gap:.1e}{note}; ratio {other / seconds:.1f}  {verdict}")


def table_gap(table: np.ndarray, weights: np.ndarray) -> float:
    """max G − J on the rows of a table, the same measure for everyone."""
    weights = np.maximum(weights, 0) / np.maximum(weights, 0).sum()
    u = np.arange(float(len(table)))[:, None]
    return judge(Objective((Categorical(table),)), u, weights).gap


def solve_with_dit(table: np.ndarray) -> tuple[np.ndarray, str]:
    """dit's channel capacity, at its finest tolerance."""
    dit = import_module("dit.algorithms")
    return np.asarray(dit.channel_capacity(table, rtol=0, atol=1e-15)[1]), ""


def solve_with_cvxpy(table: np.ndarray) -> tuple[np.ndarray, str]:
    """The concave program with the exponential-cone solver Clarabel, at tolerances it still solves."""
    cvxpy = import_module("cvxpy")
    weights = cvxpy.Variable(len(table), nonneg=True)
    information = np.sum(table * np.log(table), axis=1) @ weights + cvxpy.sum(cvxpy.entr(weights @ table))
    problem = cvxpy.Problem(cvxpy.Maximize(information), [cvxpy.sum(weights) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-14, tol_gap_rel=1e-14, tol_feas=1e-14)
    return np.asarray(weights.value), f" ({problem.status})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out coins of 10^5 tosses and more")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run the rows whose name contains this, nothing else"
    )
    given = parser.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}, {processor()}")
    print(f"{'work':28s} atoms           information    gap      goal     seconds   limit")
    reference_prior(Coin(3))  # the first use of linear algebra is slow and belongs to no row
    for name, work, gap, limit in (goal for goal in goals(given.quick) if given.only in goal[0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the row says if a gap was missed
            solution, seconds = timed(work)
        row(name, solution, seconds, gap, limit)
    if given.only:
        return
    print(f"largest memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB (limit 4)")
    against_libraries()
    against_blahut_arimoto()


def processor() -> str:
    """The name of the processor, if the system gives it."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
