"""The paper's figures of exact priors: fig:coin_convergence_jeffreys and the appendix's two-stage ones.

matplotlib is imported inside the functions, so that computing a prior does not load it. Figures are objects
without pyplot: drawing changes no backend and opens no window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from refprior._files import write_figure
from refprior._style import ATOM, INK, JEFFREYS, SERIES, SOFT, styled
from refprior.exact._priors import reference_prior, two_stage_prior
from refprior.exact._solution import Solution
from refprior.exact.ask._jeffreys import jeffreys
from refprior.exact.channels import Coin, NoisyMean
from refprior.exact.models import exponentials, multinomial
from refprior.exact.show._wording import gap_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COIN_TOSSES = (1, 10, 50)
TWO_STAGES = ((1, 1), (1, 10), (1, 40), (10, 1), (30, 1))
MANY_TOSSES = (10, 100, 1000)


@styled
def plot_solution(solution: Solution, ax: Axes | None = None) -> Axes:
    """Atoms as stems with their weights, and the gain as a gray line on the right axis; dotted, the information."""
    from matplotlib.figure import Figure

    if ax is not None and not hasattr(ax, "twinx"):
        raise ValueError(f"ax must be the axes of a matplotlib figure, got {ax!r}")
    if ax is None:
        ax = Figure(figsize=(4.2, 3.0), layout="constrained").subplots()
    ax = {1: _plot_line, 2: _plot_map}.get(solution.channel.dimension, _plot_space)(solution, ax)
    title = f"{solution.evidence}: {solution.information:.4g} nats, {gap_in_words(solution.gap)}"
    ax.set_title(title, fontsize=8, loc="left")
    return ax


def _line(solution: Solution) -> Any:
    """Parameters for the gain's curve, even in Fisher length, ends included: (M,)."""
    channel = solution.channel
    u = channel.axis_points(0, 1201)[:, None]
    return channel.parameter(u)[:, 0]


def _plot_line(solution: Solution, ax: Axes) -> Axes:
    w = _line(solution)
    right = ax.twinx()
    right.plot(w, solution.gain(w), color=SOFT, linewidth=1.0, label="gain")
    right.axhline(solution.information, color=SOFT, linewidth=0.9, linestyle=":", label="information")
    right.set_ylabel("gain (nats)", color=SOFT)
    right.tick_params(axis="y", colors=SOFT)
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    right.set_ylim(0, 1.3 * solution.information)
    right.legend(loc="upper center", ncols=2, fontsize=7, borderaxespad=0.1, frameon=False)
    ax.vlines(solution.atoms, 0, solution.weights, color=ATOM, linewidth=1.6)
    ax.plot(solution.atoms, solution.weights, "o", color=ATOM, markersize=3.5)
    ax.set_ylim(0, 1.2 * float(solution.weights.max()))  # room for the legend of the gain
    ax.set_xlabel("w")
    ax.set_ylabel("weight of the atom", color=ATOM)
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.grid(visible=False)  # of two axes, neither's lines would fit the other
    return ax


def _plot_map(solution: Solution, ax: Axes) -> Axes:
    side = 121
    ends = solution.channel.parameter(solution.channel.bounds.T)
    x, y = (np.linspace(ends[0, i], ends[1, i], side) for i in (0, 1))
    table = solution.gain(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)).reshape(side, side)
    low = solution.information - 1.5
    ax.grid(visible=False)
    ax.contourf(x, y, np.maximum(table, low), levels=20, cmap="Greys", alpha=0.6)
    area = 900 * solution.weights / solution.weights.max() / math.sqrt(len(solution.weights))
    ax.scatter(solution.atoms[:, 0], solution.atoms[:, 1], s=area, color=ATOM, zorder=3, clip_on=False)
    ax.set_xlabel("$w_1$")
    ax.set_ylabel("$w_2$")
    return ax


def _plot_space(solution: Solution, ax: Axes) -> Axes:
    """Three parameters and more: the first two as places, the third as the color."""
    area = 900 * solution.weights / solution.weights.max() / math.sqrt(len(solution.weights))
    first, second, third = solution.atoms.T[:3]
    shown = ax.scatter(first, second, s=area, c=third, cmap="cividis", zorder=3, clip_on=False, alpha=0.8)
    if ax.figure is not None:
        ax.figure.colorbar(shown, ax=ax, label="$w_3$")
    ax.set_xlabel("$w_1$")
    ax.set_ylabel("$w_2$")
    return ax


def coin_figure() -> Figure:
    """fig:coin_convergence_jeffreys: the coin for n = 1, 10, 50."""
    return _row([(f"n = {n}", reference_prior(Coin(n))) for n in COIN_TOSSES])


def two_stage_figure() -> Figure:
    """fig:app:coin_two_stage1 and fig:app:coin_two_stage2: m tosses first, then n."""
    return _row([(f"m = {m}, n = {n}", two_stage_prior(Coin, m=m, n=n)) for m, n in TWO_STAGES])


@styled
def _row(panels: list[tuple[str, Solution]]) -> Figure:
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(3.6 * columns, 2.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for (title, solution), ax in zip(panels, axes.flat, strict=False):
        plot_solution(solution, ax).set_title(f"{solution.evidence}: {title}", fontsize=10, loc="left")
    return figure


@styled
def convergence_figure() -> Figure:
    """The coin's prior turns into Jeffreys' as n grows: distribution functions, and the information."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for n, color, dash in zip(MANY_TOSSES, (SERIES[3], SERIES[2], ATOM), (":", "--", "-"), strict=True):
        prior = reference_prior(Coin(n))
        places, mass = [0.0, *prior.atoms, 1.0], [0.0, *np.cumsum(prior.weights), 1.0]
        left.step(places, mass, where="post", color=color, linestyle=dash, linewidth=1.2, label=f"n = {n}")
    w = np.linspace(0, 1, 400)
    left.plot(w, 2 / math.pi * np.arcsin(np.sqrt(w)), color=INK, linewidth=0.8, label="Jeffreys")
    left.set_xlabel("w")
    left.set_ylabel("prior mass below w")
    left.legend()
    _information_panel(right)
    return figure


def _information_panel(ax: Axes) -> None:
    tosses = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    limit = [0.5 * math.log(n * math.pi / (2 * math.e)) for n in tosses]  # ½ log(n/2πe) + log π
    best = [reference_prior(Coin(n)).information for n in tosses]
    smooth = [jeffreys(Coin(n)).information for n in tosses]
    ax.loglog(tosses, np.subtract(best, limit), "o-", color=ATOM, markersize=3, label="reference prior")
    ax.loglog(tosses, np.abs(np.subtract(smooth, limit)), "s-", color=JEFFREYS, markersize=3, label="Jeffreys prior")
    ax.set_xlabel("n")
    ax.set_ylabel("information − its limit (nats)")
    ax.legend()


@styled
def manifold_figure() -> Figure:
    """Three parameters against all that the model can predict: atoms are at corners and on edges first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _decays_panel(left)
    _categories_panel(right)
    return figure


def _decays_panel(ax: Axes) -> None:
    """Sums of three decays, drawn in the two directions in which their means reach farthest."""
    channel = exponentials((1.0, 2.0, 3.0, 4.0, 5.0), terms=3, sigma=0.3)
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
    ax.set_xlabel("first component of the signal (σ)")
    ax.set_ylabel("second component (σ)")


def _categories_panel(ax: Axes) -> None:
    """Four categories, their probabilities in a tetrahedron that is seen from one side."""
    prior = reference_prior(multinomial(4, 5), tolerance=1e-9)
    corners = np.array([[0.0, 0.0], [1.0, 0.12], [0.38, 0.36], [0.5, 1.0]])
    for a, b in combinations(corners, 2):
        ax.plot(*np.transpose([a, b]), color=SOFT, linewidth=0.8)
    shares = np.column_stack([prior.atoms, 1 - prior.atoms.sum(axis=1)])
    _circles(ax, shares @ corners, prior.weights)
    ax.set_title(f"{prior.evidence}: four categories, five draws", fontsize=9, loc="left")
    ax.set_axis_off()


def _circles(ax: Axes, places: Any, weights: Any) -> None:
    """Atoms as circles whose areas are their weights."""
    x, y = np.transpose(places)
    ax.scatter(x, y, s=700 * weights, color=ATOM, alpha=0.8, zorder=3, clip_on=False)


FIGURES: dict[str, Callable[[], Figure]] = {
    "exact_coin.png": coin_figure,
    "exact_two_stage.png": two_stage_figure,
    "exact_convergence.png": convergence_figure,
    "exact_manifold.png": manifold_figure,
}


def save_figures(folder: Path) -> Iterator[Path]:
    """Draw every figure into the folder, one at a time."""
    from refprior.exact.show import _guide  # it draws with what is above

    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in {**FIGURES, **_guide.FIGURES}.items():
        path = folder / name
        write_figure(path, draw(), dpi=110)
        yield path
