"""The figures of the guide docs/exact.md: forks, comparisons of priors, posteriors, designs, a nuisance parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from refprior.exact._channels import Channel
from refprior.exact._compare import compare_priors
from refprior.exact._cost import LOG
from refprior.exact._designs import best_design, capacity_curve
from refprior.exact._figures import ATOM, DENSITY
from refprior.exact._models import Coin, Gaussian, Poisson
from refprior.exact._priors import reference_prior
from refprior.exact._scan import scan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def scan_figure() -> Figure:
    """Atoms against the amplitude, with Gaussian noise and with Poisson counts."""
    figure = _figure(10.0, 3.8)
    left, right = figure.subplots(1, 2)
    scan(Gaussian, [float(a) for a in np.linspace(0.5, 12, 80)], setting="amplitude, Gaussian noise").plot(left)
    scan(Poisson, [float(a) for a in np.linspace(1, 40, 80)], setting="amplitude, Poisson counts").plot(right)
    return figure


def priors_figure() -> Figure:
    """Regret and coverage of three priors for ten tosses."""
    return compare_priors(Coin(10)).plot()


def posterior_figure() -> Figure:
    """What 37 heads of 100 tell, and what n tosses can tell at most."""
    figure = _figure(9.0, 3.2)
    left, right = figure.subplots(1, 2)
    reference_prior(Coin(100)).posterior(37).plot(left).set_title("100 tosses, 37 heads", fontsize=9, loc="left")
    capacity_curve(Coin).plot(right)
    return figure


def decay(t: float) -> Channel:
    """One observation of exp(−w t) at time t, with noise of 0.1; w between 0.5 and 3."""
    return Channel.from_mean(lambda w: np.exp(-w * t), sigma=0.1, bounds=(0.5, 3.0), curvature=t * t)


def design_figure() -> Figure:
    """When to look at a decay once; how often to toss a coin if each toss and the trip cost."""
    figure = _figure(9.0, 3.2)
    left, right = figure.subplots(1, 2)
    best_design(decay, (0.05, 4.0), points=12).plot(left).set_xlabel("time of the observation")
    best_design(Coin, (1, 120), cost=lambda n: 20.0 + n, budget=80.0, points=12).plot(right)
    return figure


def two_binomials(n: int) -> Channel:
    """n tosses each of two coins with biases w₁ w₂ and w₂: w₁ is the ratio of their biases."""
    from scipy.stats import binom

    heads = np.arange(n + 1.0)
    pairs = np.stack(np.meshgrid(heads, heads, indexing="ij"), axis=-1).reshape(-1, 2)

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        first, second = (np.asarray(binom.logpmf(heads, n, p[:, None])) for p in (w[:, 0] * w[:, 1], w[:, 1]))
        return np.asarray((first[:, :, None] + second[:, None, :]).reshape(len(w), -1))

    return Channel.from_function(log_likelihood, bounds=[(0.2, 1.0), (0.3, 0.9)], outcomes=pairs)


def nuisance_figure() -> Figure:
    """The ratio of two binomials: its prior with the second bias as a nuisance, and the joint one of both."""
    figure = _figure(9.0, 3.2)
    left, right = figure.subplots(1, 2)
    channel = two_binomials(20)
    LOG.info("the ratio of two binomials")
    ordered = reference_prior(channel, interest=0, tolerance=1e-6)
    joint = reference_prior(channel, tolerance=1e-6)
    for ax, prior, colour, title in (
        (left, ordered, ATOM, "the ratio is of interest, the second bias is not"),
        (right, joint, DENSITY, "both are"),
    ):
        ax.scatter(prior.atoms[:, 0], prior.atoms[:, 1], s=900 * prior.weights, color=colour, clip_on=False, zorder=3)
        ax.set_xlabel("ratio $w_1$")
        ax.set_ylabel("second bias $w_2$")
        ax.set_title(f"{prior.evidence}: {title}", fontsize=9, loc="left")
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "exact_scan.png": scan_figure,
    "exact_priors.png": priors_figure,
    "exact_posterior.png": posterior_figure,
    "exact_design.png": design_figure,
    "exact_nuisance.png": nuisance_figure,
}
