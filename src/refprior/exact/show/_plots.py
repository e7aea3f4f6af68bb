"""Figures of posteriors, comparisons and scans. Objects without pyplot: drawing changes no backend."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from refprior._style import ATOM, SERIES, SOFT, VERMILION, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from refprior.exact.ask._compare import PriorComparison
    from refprior.exact.ask._designs import BestDesign, CapacityCurve
    from refprior.exact.ask._posterior import Posterior
    from refprior.exact.ask._scan import Scan

DASHES = ("-", "--", "-.", ":")  # no meaning hangs on a color alone


def _axes(ax: Axes | None) -> Axes:
    """The axes that were given, or those of a new figure."""
    from matplotlib.figure import Figure

    if ax is not None and not hasattr(ax, "twinx"):
        raise ValueError(f"ax must be the axes of a matplotlib figure, got {ax!r}")
    return Figure(figsize=(4.6, 3.2), layout="constrained").subplots() if ax is None else ax


@styled
def plot_posterior(posterior: Posterior, ax: Axes | None = None) -> Axes:
    """Posterior weights as stems, the prior's beside them; two parameters as areas."""
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
def plot_priors(comparison: PriorComparison) -> Figure:
    """Regret and coverage against w."""
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
def plot_designs(found: BestDesign, ax: Axes | None = None) -> Axes:
    """All designs that were tried, the best one, and the front where there are costs."""
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
def plot_curve(curve: CapacityCurve, ax: Axes | None = None) -> Axes:
    """Capacity and its law against the number of samples."""
    ax = _axes(ax)
    ax.semilogx(curve.samples, curve.law, "--", color=SOFT, linewidth=1.0, label="law")
    ax.semilogx(curve.samples, curve.information, "o-", color=ATOM, markersize=3.5, label="capacity")
    ax.set_xlabel("samples n")
    ax.set_ylabel("information (nats)")
    ax.set_title(f"{curve.evidence}: gaps of at most {curve.gap:.0e} nats", fontsize=9, loc="left")
    ax.legend()
    return ax


@styled
def plot_scan(scan: Scan, ax: Axes | None = None) -> Axes:
    """Atoms against the setting, with areas by weight, and the forks."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.2), layout="constrained").subplots() if ax is None else _axes(ax)
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
