"""The figures of the guide docs/exact.md: ready-made models, forks, comparisons, posteriors, designs, a nuisance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from refprior._style import SERIES, styled
from refprior.exact import models
from refprior.exact._cost import LOG
from refprior.exact._priors import reference_prior
from refprior.exact.ask._compare import compare_priors
from refprior.exact.ask._designs import best_design, capacity_curve
from refprior.exact.ask._scan import scan
from refprior.exact.channels import Channel, Coin, Gaussian, Poisson
from refprior.exact.show._figures import plot_solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@styled
def scan_figure() -> Figure:
    """Atoms against the amplitude, with Gaussian noise and with Poisson counts."""
    figure = _figure(10.0, 3.8)
    left, right = figure.subplots(1, 2)
    scan(Gaussian, [float(a) for a in np.linspace(0.5, 12, 80)], setting="amplitude, Gaussian noise").plot(left)
    scan(Poisson, [float(a) for a in np.linspace(1, 40, 80)], setting="amplitude, Poisson counts").plot(right)
    return figure


@styled
def priors_figure() -> Figure:
    """Regret and coverage of three priors for ten tosses."""
    return compare_priors(Coin(10)).plot()


@styled
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


@styled
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


@styled
def nuisance_figure() -> Figure:
    """The ratio of two binomials: its prior with the second bias as a nuisance, and the joint one of both."""
    figure = _figure(9.0, 3.2)
    left, right = figure.subplots(1, 2)
    channel = two_binomials(20)
    LOG.info("the ratio of two binomials")
    ordered = reference_prior(channel, interest=0, tolerance=1e-6)
    joint = reference_prior(channel, tolerance=1e-6)
    for ax, prior, color, title in (
        (left, ordered, SERIES[0], "the ratio is of interest, the second bias is not"),
        (right, joint, SERIES[1], "both are"),
    ):
        ax.scatter(prior.atoms[:, 0], prior.atoms[:, 1], s=900 * prior.weights, color=color, clip_on=False, zorder=3)
        ax.set_xlabel("ratio $w_1$")
        ax.set_ylabel("second bias $w_2$")
        ax.set_title(f"{prior.evidence}: {title}", fontsize=9, loc="left")
    return figure


def ready_made() -> dict[str, Channel]:
    """An example of every ready-made model, small enough to be solved in seconds."""
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
    """The prior of every ready-made model: of one parameter as stems, of two as circles on a map of the gain."""
    examples = ready_made()
    figure = _figure(13.0, 11.0)
    panels = figure.subplots(4, 4).ravel()
    for panel, (name, channel) in zip(panels, examples.items(), strict=False):
        plot_solution(reference_prior(channel, tolerance=1e-6), panel)
        panel.set_title(f"{name}\n{panel.get_title(loc='left')}", fontsize=7, loc="left", pad=14)
    for panel in panels[len(examples) :]:
        panel.set_axis_off()
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "exact_models.png": models_figure,
    "exact_scan.png": scan_figure,
    "exact_priors.png": priors_figure,
    "exact_posterior.png": posterior_figure,
    "exact_design.png": design_figure,
    "exact_nuisance.png": nuisance_figure,
}
