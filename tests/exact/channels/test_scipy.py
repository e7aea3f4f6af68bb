"""Distributions as they stand in scipy: the built-in models again, tails, densities, and mistakes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from refprior.exact import Channel, Coin, Gaussian, Poisson, reference_prior
from refprior.exact.certificate import judge
from refprior.exact.channels import FunctionChannel
from refprior.exact.channels._scipy import panel_nodes
from refprior.exact.oracle import Objective


def test_counts_without_an_end_are_those_of_the_built_in_model() -> None:
    channel = Channel.from_scipy(lambda w: stats.poisson(w + 0.5), bounds=(0, 5))
    prior, built_in = reference_prior(channel), reference_prior(Poisson(5.0, 0.5))
    assert prior.evidence == "certified"
    assert prior.information == pytest.approx(built_in.information, abs=1e-12)
    assert prior.atoms == pytest.approx(built_in.atoms, abs=1e-6)


def test_finite_counts_need_no_tail() -> None:
    channel = Channel.from_scipy(lambda w: stats.binom(10, w), bounds=(0, 1))
    assert channel.tail == 0
    assert channel.outcomes.tolist() == list(range(11))
    assert reference_prior(channel).information == pytest.approx(reference_prior(Coin(10)).information, abs=1e-12)


def test_the_tail_is_counted() -> None:
    channel = Channel.from_scipy(lambda w: stats.geom(w), bounds=(0.1, 0.9))
    assert channel.tail >= 750 * float(stats.geom(0.1).sf(channel.outcomes[-1])) > 0
    assert channel.tail < 1e-14


def test_a_density_is_the_built_in_one() -> None:
    channel = Channel.from_scipy(lambda w: stats.norm(w, 1), bounds=(-2, 2))
    prior = reference_prior(channel)
    assert prior.evidence == "certified"
    assert prior.information == pytest.approx(reference_prior(Gaussian(2.0)).information, abs=1e-12)
    joint = prior.weights * stats.norm(prior.atoms, 1).pdf(0.123)
    assert prior.posterior(0.123).weights == pytest.approx(joint / joint.sum())


def test_a_density_with_a_pole() -> None:
    """Gamma with shape ½ is infinite at 0; its rows still sum to one."""
    channel = Channel.from_scipy(lambda w: stats.gamma(a=w), bounds=(0.5, 6))
    sums = np.exp(channel.log_likelihood(np.linspace(0, 1, 7)[:, None])).sum(axis=1)
    assert sums == pytest.approx(1, abs=1e-12)
    assert reference_prior(channel, tolerance=1e-9).evidence == "certified"


def test_a_rough_quadrature_shows_in_the_gap() -> None:
    """Panels of five standard deviations are too wide, and the certificate says by how much."""
    channel = Channel.from_scipy(lambda w: stats.norm(w, 1), bounds=(-2, 2))
    assert isinstance(channel, FunctionChannel)
    prior = reference_prior(channel)

    def quadrature(fineness: int) -> tuple[Callable[[Any], Any], np.ndarray]:
        nodes, log_weights = panel_nodes(np.linspace(-11, 11, 8 * fineness + 1), 1)
        return lambda w: stats.norm(w[:, None], 1).logpdf(nodes) + log_weights, nodes

    function, nodes = quadrature(1)
    rough = replace(channel, function=function, outcomes=nodes, quadrature=quadrature, partner=channel)
    certificate = judge(Objective((rough,)), prior.coordinates, prior.weights)
    assert certificate.error > abs(certificate.information - prior.information) > 1e-12


@pytest.mark.parametrize(
    ("family", "bounds"),
    [
        pytest.param(lambda w: stats.cauchy(w), (-2, 2), marks=pytest.mark.thorough),
        pytest.param(lambda w: stats.t(w), (1, 10), marks=pytest.mark.thorough),
        (lambda w: stats.norm(0, w), (0.01, 10)),
    ],
    ids=["cauchy", "t", "wide scale"],
)
def test_heavy_tails_and_wide_scales_get_a_finer_quadrature(family: Any, bounds: tuple[float, float]) -> None:
    """The information of the prior found, integrated over z = sinh(x)."""
    prior = reference_prior(Channel.from_scipy(family, bounds=bounds), tolerance=1e-8)
    assert prior.evidence == "certified"
    x = np.linspace(-45, 45, 400_001)  # sinh(45) is 1.7e19
    density = np.array([family(w).pdf(np.sinh(x)) * np.cosh(x) for w in prior.atoms])
    mixture = prior.weights @ density
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(density > 0, density * np.log(density / mixture), 0.0)
    assert prior.weights @ terms.sum(axis=1) * (x[1] - x[0]) == pytest.approx(prior.information, abs=1e-9)


def test_a_censored_outcome_is_only_known_to_be_late() -> None:
    """One second of a clock with rate w: the last outcome has what is left of the mass."""
    channel = Channel.from_scipy(lambda w: stats.expon(scale=1 / w), bounds=(0.1, 10), censored_at=1.0)
    w = np.array([[0.2], [3.0]])
    rows = np.exp(channel.log_likelihood(channel.coordinate(w)))
    assert rows.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert rows[:, -1] == pytest.approx(np.exp(-w[:, 0]))
    assert channel.outcomes[-1] == 1.0
    for late in (1.0, 7.0):
        assert channel.log_likelihood_of(channel.coordinate(w), late) == pytest.approx(-w[:, 0])
    finer = channel.at_resolution("fine")
    assert finer is not None
    assert len(finer.outcomes) == 2 * (len(channel.outcomes) - 1) + 1


def test_censored_counts() -> None:
    """A geometric count that is censored at one only tells whether the first trial was a success: a Z-channel."""
    channel = Channel.from_scipy(lambda w: stats.nbinom(1, w), bounds=(0.1, 1), censored_at=1)
    prior = reference_prior(channel)
    assert channel.tail == 0
    assert prior.information == pytest.approx(np.log(1 + 0.9 * 0.1 ** (1 / 9)), abs=1e-12)


@pytest.mark.parametrize(("end", "message"), [(-1.0, "above the smallest outcome"), (np.nan, "finite number")])
def test_an_end_before_the_start_is_rejected(end: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channel.from_scipy(lambda w: stats.expon(scale=1 / w), bounds=(1, 2), censored_at=end)


@pytest.mark.parametrize(
    ("family", "bounds", "message"),
    [
        (3, (0, 1), "family must be a function"),
        (lambda w: w, (0, 1), "must return a frozen distribution"),
        (lambda w: stats.poisson(w), (1, 1e12), "counts beyond 200,000 have a probability of up to 1"),
        (lambda a, b: stats.norm(a, b), (0, 1), "missing 1 required positional argument"),
        (lambda w: stats.norm(w), [(0, 1)] * 3, "up to 2 parameters"),
        (
            lambda w: stats.laplace(loc=w),
            (0, 3),
            "a kink or a jump that moves with the parameter",
        ),
        (lambda w: stats.uniform(0, w), (1, 3), "jump that moves with the parameter .* pass bins=edges"),
        (lambda w: stats.triang(w), (0.1, 0.9), "a kink or a jump that moves with the parameter"),
        (lambda w: stats.zipf(w), (1.5, 4), r"up to 0.002, too much to leave out: pass censored_at=c"),
        (lambda w: stats.vonmises(2, loc=w), (-3, 3), "integrates to 2 instead of 1 .* give nodes on one period"),
    ],
)
def test_mistakes_are_named(family: Any, bounds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channel.from_scipy(family, bounds=bounds)


def test_mass_closer_to_an_end_than_doubles_is_rejected_in_words() -> None:
    """A quantile of such a gamma distribution is 1e-340."""
    with pytest.raises(ValueError, match="nearly all their mass at 0, closer than doubles"):
        Channel.from_scipy(lambda w: stats.gamma(a=w), bounds=(0.05, 3))


def test_densities_with_kinks_in_bins() -> None:
    """Each bin has the mass of its interval, also where the cdf rounds to one."""
    edges = np.concatenate([[-np.inf], np.linspace(-3, 3, 25), [40.0, np.inf]])
    channel = Channel.from_scipy(lambda w: stats.laplace(w), bounds=(-2, 2), bins=edges)
    above = np.log((np.exp(-3) - np.exp(-40)) / 2), -40 - np.log(2)
    assert channel.log_likelihood(channel.coordinate(np.zeros((1, 1))))[0, -2:] == pytest.approx(above, rel=1e-12)
    prior = reference_prior(channel)
    assert prior.evidence == "certified"
    finer = Channel.from_function(_fine_laplace, bounds=(-2, 2), outcomes=np.arange(75.0))
    assert prior.information < reference_prior(finer, tolerance=1e-9).information


def _fine_laplace(w: np.ndarray) -> np.ndarray:
    edges = np.concatenate([[-np.inf], np.linspace(-3, 3, 73), [40.0, np.inf]])  # each bin is a union of these
    return np.asarray(np.log(np.diff(stats.laplace(w[:, None]).cdf(edges)) + 1e-300))


def test_bins_that_leave_out_mass_are_rejected() -> None:
    with pytest.raises(ValueError, match="leave out a probability of up to 0"):
        Channel.from_scipy(lambda w: stats.laplace(w), bounds=(-2, 2), bins=[-3, 0, 3])
    with pytest.raises(ValueError, match="three increasing edges"):
        Channel.from_scipy(lambda w: stats.laplace(w), bounds=(-2, 2), bins=[0, -3, 3])


def test_counts_with_a_median_beyond_the_list_are_rejected_or_censored() -> None:
    """The quantiles of scipy would fill the memory."""
    with pytest.raises(ValueError, match="pass censored_at"):
        Channel.from_scipy(lambda w: stats.zipf(w), bounds=(1.01, 4))
    channel = Channel.from_scipy(lambda w: stats.zipf(w), bounds=(1.01, 4), censored_at=20)
    assert channel.outcomes.tolist() == list(range(1, 21))
