"""Distributions as they stand in scipy: the built-in models again, tails, densities, and mistakes."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from refprior.exact import Channel, Coin, Gaussian, Poisson, reference_prior
from refprior.exact._certificate import judge
from refprior.exact._objective import Objective
from refprior.exact._scipy import ScipyChannel, _nodes


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
    channel = Channel.from_scipy(lambda w: stats.norm(w, 1), bounds=(-2, 2))
    assert isinstance(channel, ScipyChannel)
    prior, edges = reference_prior(channel), np.linspace(-11, 11, 9)
    nodes, log_weights = _nodes(edges)
    values: dict[str, Any] = {"outcomes": nodes, "edges": edges}
    rough = ScipyChannel(
        lambda w: stats.norm(w[:, None], 1).logpdf(nodes) + log_weights,
        box=channel.box, scalar=True, is_torch=False, derivatives=None, bounds=channel.bounds,
        partner=channel, family=channel.family, **values,
    )  # fmt: skip
    certificate = judge(Objective((rough,)), prior.coordinates, prior.weights)
    assert certificate.error > abs(certificate.information - prior.information) > 1e-12


@pytest.mark.parametrize(
    ("family", "bounds", "message"),
    [
        (3, (0, 1), "family must be a function"),
        (lambda w: w, (0, 1), "must return a frozen distribution"),
        (lambda w: stats.poisson(w), (1, 1e12), "at most 200,000: narrow the bounds"),
        (lambda a, b: stats.norm(a, b), (0, 1), "missing 1 required positional argument"),
        (lambda w: stats.norm(w), [(0, 1)] * 3, "one or two parameters"),
    ],
)
def test_mistakes_are_named(family: Any, bounds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channel.from_scipy(family, bounds=bounds)
