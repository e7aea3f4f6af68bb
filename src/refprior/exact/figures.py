"""Draw the figures of the paper and of docs/exact.md.

Figures are matplotlib objects without pyplot: drawing changes no backend and opens no window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from refprior._files import write_figure
from refprior._style import ATOM, INK, JEFFREYS, SERIES, SOFT, styled
from refprior.exact import models
from refprior.exact._arrays import Array, grid_of
from refprior.exact._cost import LOG
from refprior.exact._priors import reference_prior, two_stage_prior
from refprior.exact._solution import Solution
from refprior.exact.ask import best_design, capacity_curve, compare_priors, jeffreys_prior, scan_priors
from refprior.exact.channels import Channel, Coin, Gaussian, NoisyMean, Poisson
from refprior.exact.show import plot_solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COIN_TOSSES = (1, 10, 50)  # as in the paper
TWO_STAGES = ((1, 1), (1, 10), (1, 40), (10, 1), (30, 1))  # as in the paper
MANY_TOSSES = (10, 100, 1000)  # toward the limit


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _two_panels(height: float) -> tuple[Figure, Axes, Axes]:
    figure = _figure(6.8, height)
    left, right = figure.subplots(1, 2)
    return figure, left, right


def coin_figure() -> Figure:
    """Draw fig:coin_convergence_jeffreys: the coin for n = 1, 10, 50."""
    return _row([(f"n = {n}", reference_prior(Coin(n))) for n in COIN_TOSSES])


def two_stage_figure() -> Figure:
    """Draw fig:app:coin_two_stage1 and fig:app:coin_two_stage2: m tosses first, then n."""
    return _row([(f"m = {m}, n = {n}", two_stage_prior(Coin, m=m, n=n)) for m, n in TWO_STAGES])


@styled
def _row(panels: list[tuple[str, Solution]]) -> Figure:
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = _figure(3.4 * columns, 2.8 * rows)
    axes = figure.subplots(rows, columns)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for (title, solution), ax in zip(panels, axes.flat, strict=False):
        plot_solution(solution, ax).set_title(f"{solution.evidence}: {title}", loc="left")
    return figure


@styled
def convergence_figure() -> Figure:
    """Draw how the coin's prior approaches the Jeffreys prior: distribution functions and information."""
    figure, left, right = _two_panels(3.2)
    for n, color, dash in zip(MANY_TOSSES, (SERIES[3], SERIES[2], ATOM), (":", "--", "-"), strict=True):
        prior = reference_prior(Coin(n))
        places, mass = [0.0, *prior.atoms, 1.0], [0.0, *np.cumsum(prior.weights), 1.0]
        left.step(places, mass, where="post", color=color, linestyle=dash, linewidth=1.2, label=f"n = {n}")
    w = np.linspace(0, 1, 400)
    left.plot(w, 2 / math.pi * np.arcsin(np.sqrt(w)), color=INK, linewidth=0.8, label="Jeffreys")
    left.set(xlabel="w", ylabel="prior mass below w")
    left.legend()
    tosses = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    limit = [0.5 * math.log(n * math.pi / (2 * math.e)) for n in tosses]  # ½ log(n/2πe) + log π
    best = [reference_prior(Coin(n)).information for n in tosses]
    smooth = [jeffreys_prior(Coin(n)).information for n in tosses]
    right.loglog(tosses, np.subtract(best, limit), "o-", color=ATOM, markersize=3, label="reference prior")
    right.loglog(tosses, np.abs(np.subtract(smooth, limit)), "s-", color=JEFFREYS, markersize=3, label="Jeffreys prior")
    right.set(xlabel="n", ylabel="information − its limit (nats)")
    right.legend()
    return figure


@styled
def manifold_figure() -> Figure:
    """Draw atoms of three parameters in prediction space: they start at corners and on edges."""
    figure, left, right = _two_panels(3.6)
    _decays_panel(left)
    _categories_panel(right)
    return figure


def _decays_panel(ax: Axes) -> None:
    """Draw sums of three decays along the two directions in which their means vary most."""
    channel = models.exponentials((1.0, 2.0, 3.0, 4.0, 5.0), terms=3, sigma=0.3)
    assert isinstance(channel, NoisyMean)
    prior = reference_prior(channel, tolerance=1e-4)
    inside = np.sort(np.random.default_rng(0).uniform(0, 1, (4000, 3)), axis=1)
    ax.plot(*channel.means(inside)[:, :2].T, ".", color="0.85", markersize=2, zorder=0)
    corners = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=float)
    share = np.linspace(0, 1, 101)[:, None]
    for a, b in combinations(corners, 2):  # rates that are equal, zero or infinite
        ax.plot(*channel.means((1 - share) * a + share * b)[:, :2].T, color=SOFT, linewidth=0.8)
    _circles(ax, channel.means(prior.atoms)[:, :2], prior.weights)
    ax.set_title(f"{prior.evidence}: three decays at five times, σ = 0.3", fontsize=9, loc="left")
    ax.set(xlabel="first component of the signal (σ)", ylabel="second component (σ)")


def _categories_panel(ax: Axes) -> None:
    """Draw four categories as a projection of the probability tetrahedron."""
    prior = reference_prior(models.multinomial(4, 5), tolerance=1e-9)
    corners = np.array([[0.0, 0.0], [1.0, 0.12], [0.38, 0.36], [0.5, 1.0]])
    for a, b in combinations(corners, 2):
        ax.plot(*np.transpose([a, b]), color=SOFT, linewidth=0.8)
    shares = np.column_stack([prior.atoms, 1 - prior.atoms.sum(axis=1)])
    _circles(ax, shares @ corners, prior.weights)
    ax.set_title(f"{prior.evidence}: four categories, five draws", fontsize=9, loc="left")
    ax.set_axis_off()


def _circles(ax: Axes, places: Array, weights: Array) -> None:
    """Draw atoms as circles with areas proportional to their weights."""
    x, y = np.transpose(places)
    ax.scatter(x, y, s=700 * weights, color=ATOM, alpha=0.8, zorder=3, clip_on=False)


@styled
def scan_figure() -> Figure:
    """Draw atoms against the amplitude, for Gaussian noise and for Poisson counts."""
    figure, left, right = _two_panels(3.8)
    scan_priors(Gaussian, [float(a) for a in np.linspace(0.5, 12, 80)], setting="amplitude, Gaussian noise").plot(left)
    scan_priors(Poisson, [float(a) for a in np.linspace(1, 40, 80)], setting="amplitude, Poisson counts").plot(right)
    return figure


@styled
def priors_figure() -> Figure:
    """Draw regret and coverage of three priors for ten tosses."""
    return compare_priors(Coin(10)).plot()


@styled
def posterior_figure() -> Figure:
    """Draw the posterior after 37 heads of 100, and the capacity of n tosses."""
    figure, left, right = _two_panels(3.2)
    reference_prior(Coin(100)).posterior(37).plot(left).set_title("100 tosses, 37 heads", fontsize=9, loc="left")
    capacity_curve(Coin).plot(right)
    return figure


def decay(t: float) -> Channel:
    """Return the channel of one observation of exp(−w t) at time t, σ = 0.1, w between 0.5 and 3."""
    return Channel.from_mean(lambda w: np.exp(-w * t), sigma=0.1, bounds=(0.5, 3.0), curvature=t * t)


@styled
def design_figure() -> Figure:
    """Draw two design searches: the time of one observation of a decay, and a number of tosses within a budget."""
    figure, left, right = _two_panels(3.2)
    best_design(decay, (0.05, 4.0), points=12).plot(left).set_xlabel("time of the observation")
    best_design(Coin, (1, 120), cost=lambda n: 20.0 + n, budget=80.0, points=12).plot(right)
    return figure


def two_binomials(n: int) -> Channel:
    """Return the channel of n tosses each of coins with biases w₁ w₂ and w₂; w₁ is their ratio."""
    heads = np.arange(n + 1.0)
    pairs = grid_of([heads, heads])

    def log_likelihood(w: Array) -> Array:
        first, second = (np.asarray(stats.binom.logpmf(heads, n, p[:, None])) for p in (w[:, 0] * w[:, 1], w[:, 1]))
        return np.asarray((first[:, :, None] + second[:, None, :]).reshape(len(w), -1))

    return Channel.from_function(log_likelihood, bounds=[(0.2, 1.0), (0.3, 0.9)], outcomes=pairs)


@styled
def nuisance_figure() -> Figure:
    """Draw the ratio of two binomials: with the second bias as a nuisance, and both jointly."""
    figure, left, right = _two_panels(3.2)
    channel = two_binomials(20)
    LOG.info("the ratio of two binomials")
    ordered = reference_prior(channel, interest=0, tolerance=1e-6)
    joint = reference_prior(channel, tolerance=1e-6)
    for ax, prior, color, title in (
        (left, ordered, SERIES[0], "the ratio is of interest, the second bias is not"),
        (right, joint, SERIES[1], "both are"),
    ):
        ax.scatter(prior.atoms[:, 0], prior.atoms[:, 1], s=900 * prior.weights, color=color, clip_on=False, zorder=3)
        ax.set(xlabel="ratio $w_1$", ylabel="second bias $w_2$")
        ax.set_title(fill(f"{prior.evidence}: {title}", 44), fontsize=9, loc="left")
    return figure


def ready_made() -> dict[str, Channel]:
    """Return one example of every ready-made model, each solved in seconds."""
    return {
        "geometric: failures before a success": models.geometric(),
        "negative_binomial: before the third": models.negative_binomial(3),
        "rasch: five items": models.rasch([-2.0, -1.0, 0.0, 1.0, 2.0]),
        "two_parameter_logistic: three items": models.two_parameter_logistic([-1.0, 0.0, 1.0], [0.8, 1.0, 1.5]),
        "exponential_lifetime: until time 1": models.exponential_lifetime(censored_at=1.0),
        "inspected_lifetime: at times 1 and 2, ten bulbs": models.inspected_lifetime(
            lambda w: stats.expon(scale=1 / w), [1.0, 2.0], bounds=(0.1, 10)
        ).repeat(10),
        "weibull_lifetime: until time 2": models.weibull_lifetime(censored_at=2.0),
        "hardy_weinberg: five individuals": models.hardy_weinberg(5, inbreeding=(0, 1)),
        "multinomial: three categories, ten draws": models.multinomial(3, 10),
        "normal: one sample": models.normal(),
        "dose_response: three doses, three subjects": models.dose_response([-1.0, 0.0, 1.0], subjects=3),
        "logistic_regression: three inputs": models.logistic_regression(
            [[1, -1], [1, 0], [1, 1]], bounds=[(-2, 2), (-2, 2)]
        ),
        "michaelis_menten: two concentrations": models.michaelis_menten([0.5, 5.0], sigma=0.2),
        "exponentials: two decays at times 1 and 2": models.exponentials([1.0, 2.0], sigma=0.2),
    }


@styled
def models_figure() -> Figure:
    """Draw the prior of every ready-made model."""
    examples = ready_made()
    figure = _figure(6.8, 19.0)
    panels = figure.subplots(7, 2).ravel()
    for panel, (name, channel) in zip(panels, examples.items(), strict=False):
        plot_solution(reference_prior(channel, tolerance=1e-6), panel)
        panel.set_title(f"{name}\n{panel.get_title(loc='left')}", fontsize=8, loc="left", pad=14)
    for panel in panels[len(examples) :]:
        panel.set_axis_off()
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "exact_coin.png": coin_figure,
    "exact_two_stage.png": two_stage_figure,
    "exact_convergence.png": convergence_figure,
    "exact_manifold.png": manifold_figure,
    "exact_models.png": models_figure,
    "exact_scan.png": scan_figure,
    "exact_priors.png": priors_figure,
    "exact_posterior.png": posterior_figure,
    "exact_design.png": design_figure,
    "exact_nuisance.png": nuisance_figure,
}


def save_figures(folder: Path) -> Iterator[Path]:
    """Draw every figure into a folder, and yield each path when its file is written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        path = folder / name
        write_figure(path, draw(), dpi=160)
        yield path
