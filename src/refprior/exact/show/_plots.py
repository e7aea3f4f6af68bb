"""Plots of priors, posteriors, comparisons and scans.

matplotlib is imported inside the functions, so that computing a prior does not load it. Figures are objects without
pyplot: drawing changes no backend and opens no window.
"""

from __future__ import annotations

import math
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from refprior._style import ATOM, SERIES, SOFT, VERMILION, styled
from refprior.exact.show._text import gap_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from refprior.exact._posterior import Posterior
    from refprior.exact._solution import Solution
    from refprior.exact.ask import CapacityCurve, DesignSearch, PriorComparison, PriorScan

DASHES = ("-", "--", "-.", ":")  # lines differ by more than their color
CURVE_POINTS = 1201  # of the gain's curve: smooth at the size of a page
MAP_SIDE = 121  # points of the gain's map along each parameter
MAP_DEPTH = 1.5  # nats below the information at which the map's darkest level ends


def _axes(ax: Axes | None, width: float = 4.6, height: float = 3.2) -> Axes:
    """Return the given axes, or those of a new figure."""
    from matplotlib.figure import Figure

    if ax is not None and not hasattr(ax, "twinx"):
        raise ValueError(f"ax must be the axes of a matplotlib figure, got {ax!r}")
    return Figure(figsize=(width, height), layout="constrained").subplots() if ax is None else ax


@styled
def plot_solution(solution: Solution, ax: Axes | None = None) -> Axes:
    """Draw atoms as stems, the gain as a gray line on the right axis, and the information as a dotted line."""
    ax = _axes(ax, 4.2, 3.0)
    ax = {1: _plot_line, 2: _plot_map}.get(solution.channel.dimension, _plot_space)(solution, ax)
    title = f"{solution.evidence}: {solution.information:.4g} nats, {gap_in_words(solution.gap)}"
    ax.set_title(title, fontsize=8, loc="left")
    return ax


def _plot_line(solution: Solution, ax: Axes) -> Axes:
    channel = solution.channel
    w = channel.parameter(channel.axes.points(0, CURVE_POINTS)[:, None])[:, 0]
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
    ax.grid(visible=False)  # grid lines of one axis would not fit the other
    return ax


def _plot_map(solution: Solution, ax: Axes) -> Axes:
    ends = solution.channel.parameter(solution.channel.bounds.T)
    x, y = (np.linspace(ends[0, i], ends[1, i], MAP_SIDE) for i in (0, 1))
    table = solution.gain(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)).reshape(MAP_SIDE, MAP_SIDE)
    ax.grid(visible=False)
    ax.contourf(x, y, np.maximum(table, solution.information - MAP_DEPTH), levels=20, cmap="Greys", alpha=0.6)
    area = 900 * solution.weights / solution.weights.max() / math.sqrt(len(solution.weights))
    ax.scatter(solution.atoms[:, 0], solution.atoms[:, 1], s=area, color=ATOM, zorder=3, clip_on=False)
    ax.set_xlabel("$w_1$")
    ax.set_ylabel("$w_2$")
    return ax


def _plot_space(solution: Solution, ax: Axes) -> Axes:
    """Draw three or more parameters: the first two as position, the third as color."""
    area = 900 * solution.weights / solution.weights.max() / math.sqrt(len(solution.weights))
    first, second, third = solution.atoms.T[:3]
    shown = ax.scatter(first, second, s=area, c=third, cmap="cividis", zorder=3, clip_on=False, alpha=0.8)
    if ax.figure is not None:
        ax.figure.colorbar(shown, ax=ax, label="$w_3$")
    ax.set_xlabel("$w_1$")
    ax.set_ylabel("$w_2$")
    return ax


@styled
def plot_posterior(posterior: Posterior, ax: Axes | None = None) -> Axes:
    """Draw posterior weights as stems next to the prior's; two parameters as areas."""
    ax = _axes(ax)
    if posterior.atoms.ndim > 1:
        for weights, color in ((posterior.before, "0.8"), (posterior.weights, ATOM)):
            area = 300 * weights / posterior.before.max()
            ax.scatter(posterior.atoms[:, 0], posterior.atoms[:, 1], s=area, color=color, zorder=3)
        ax.set_xlabel("$w_1$")
        ax.set_ylabel("$w_2$")
    else:
        shift = 0.006 * float(np.ptp(posterior.atoms))
        ax.vlines(posterior.atoms - shift, 0, posterior.before, color="0.75", linewidth=3, label="prior")
        ax.vlines(posterior.atoms + shift, 0, posterior.weights, color=ATOM, linewidth=3, label="posterior")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("w")
        ax.set_ylabel("probability")
        ax.legend()
    ax.set_title(f"after {posterior.outcome!r}", fontsize=9, loc="left")
    return ax


@styled
def plot_comparison(comparison: PriorComparison) -> Figure:
    """Draw regret and coverage against w."""
    from matplotlib.figure import Figure

    if not len(comparison[0].parameters):
        raise ValueError("the figure is for one parameter whose outcomes can be listed; print the comparison instead")
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for prior, color, dash in zip(comparison, cycle(SERIES), cycle(DASHES), strict=False):
        left.plot(prior.parameters, prior.regret, dash, color=color, linewidth=1.2, label=prior.name)
        right.plot(prior.parameters, prior.coverage, dash, color=color, linewidth=1.0, label=prior.name)
    left.axhline(comparison.capacity, color=SOFT, linewidth=0.8, linestyle=":")
    left.set_ylabel("regret KL(p(z | w), p(z)), nats")
    left.set_title(f"{comparison.evidence}: least worst regret {comparison.capacity:.4g} nats", fontsize=9, loc="left")
    left.set_ylim(bottom=0)
    right.axhline(0.95, color=SOFT, linewidth=0.8, linestyle=":")
    right.set_ylabel("coverage of 95% intervals")
    right.set_ylim(-0.02, 1.02)
    for ax in (left, right):
        ax.set_xlabel("w")
    left.legend()
    return figure


@styled
def plot_designs(found: DesignSearch, ax: Axes | None = None) -> Axes:
    """Draw all designs that were tried, the best one, and the front if there are costs."""
    ax = _axes(ax)
    pairs = zip(found.places, found.tried, strict=True)
    x = [place[0] if design.cost is None else design.cost for place, design in pairs]
    ax.plot(x, [design.information for design in found.tried], ".", color="0.6", markersize=5)
    if found.cost is not None:
        front = found.front()
        ax.plot([d.cost or 0.0 for d in front], [d.information for d in front], "-", color=ATOM, linewidth=1.0)
    ax.plot(x[0], found.information, "o", color=ATOM, markersize=6)
    ax.set_xlabel("first setting" if found.cost is None else "cost")
    ax.set_ylabel("information (nats)")
    ax.set_title(str(found).splitlines()[0], fontsize=8, loc="left")
    return ax


@styled
def plot_capacity(curve: CapacityCurve, ax: Axes | None = None) -> Axes:
    """Draw the capacity and its asymptotic law against the number of samples."""
    ax = _axes(ax)
    ax.semilogx(curve.samples, curve.law, "--", color=SOFT, linewidth=1.0, label="law")
    ax.semilogx(curve.samples, curve.information, "o-", color=ATOM, markersize=3.5, label="capacity")
    ax.set_xlabel("samples n")
    ax.set_ylabel("information (nats)")
    ax.set_title(f"{curve.evidence}: gaps of at most {curve.gap:.0e} nats", fontsize=9, loc="left")
    ax.legend()
    return ax


@styled
def plot_scan(scan: PriorScan, ax: Axes | None = None) -> Axes:
    """Draw atoms against the setting, with areas by weight, and the forks."""
    ax = _axes(ax, 6.4, 4.2)
    for fork in scan.forks:
        ax.axvline(fork.value, color=SOFT, linewidth=0.6, linestyle=":", zorder=0)
        if fork.place is not None:
            ax.plot(fork.value, fork.place, "o", color=VERMILION, markersize=4.5, markerfacecolor="none", zorder=4)
    for value, prior in zip(scan.values, scan.priors, strict=True):
        area = 60 * prior.weights**0.7
        ax.scatter(np.full(len(prior.weights), value), prior.atoms, s=area, color=ATOM, linewidth=0, zorder=3)
    ax.set_xlabel(scan.setting)
    ax.set_ylabel("atoms w")
    ax.set_title(str(scan).splitlines()[0], fontsize=9, loc="left")
    return ax
