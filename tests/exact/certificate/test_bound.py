"""Branch and bound: on every cell the bound holds, and what is proved is true."""

import numpy as np
import pytest

from refprior.exact import Channel, Coin, ExponentialDecay, Gaussian, reference_prior, two_stage_prior
from refprior.exact.certificate import judge
from refprior.exact.certificate._bound import _bounds, stays_below
from refprior.exact.oracle import Objective, divergence, log_marginal

CHANNELS: list[Channel] = [Gaussian(3.0), Gaussian(2.0, 0.5), ExponentialDecay((1.0, 2.0), 0.2)]
CHANNELS += [ExponentialDecay((0.7, 1.9), 0.3)]


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_no_point_of_a_cell_exceeds_its_bound(channel: Channel) -> None:
    """For priors that are far from optimal as well: the Hessian's bound holds whatever the prior."""
    rng = np.random.default_rng(0)
    low_end, high_end = channel.bounds.T
    for _ in range(20):
        atoms = rng.uniform(low_end, high_end, (4, channel.dimension))
        logs = log_marginal(channel, atoms, rng.dirichlet(np.ones(4)))
        width = (high_end - low_end) * 10.0 ** rng.uniform(-3, 0)
        low = rng.uniform(low_end, np.maximum(high_end - width, low_end))[None]
        high = np.minimum(low + width, high_end)
        middle, bound, _ = _bounds(channel, logs, low, high)
        inside = rng.uniform(low, high, (300, channel.dimension))
        assert divergence(channel, np.vstack([inside, low, high]), logs).max() <= bound[0] + 1e-12
        assert divergence(channel, (low + high) / 2, logs)[0] == pytest.approx(middle[0], abs=1e-11)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_a_level_is_proved_just_above_the_maximum_and_not_below(channel: Channel) -> None:
    prior = reference_prior(channel, tolerance=1e-11)
    weights = prior.weights * np.linspace(0.9, 1.1, len(prior.weights))
    logs = log_marginal(channel, prior.coordinates, weights / weights.sum())
    certificate = judge(Objective((channel,)), prior.coordinates, weights / weights.sum())
    highest = certificate.information + certificate.gap
    assert stays_below(channel, logs, highest + 1e-9)
    assert not stays_below(channel, logs, highest - 1e-9)


@pytest.mark.parametrize("channel", [*CHANNELS, Gaussian(0.5), Gaussian(10.0), ExponentialDecay(sigma=0.1)], ids=repr)
def test_gaussian_noise_is_proved(channel: Channel) -> None:
    prior = reference_prior(channel, tolerance=1e-11)
    assert prior.evidence == "proved"
    assert prior.gap <= 1e-11


def test_other_noise_is_certified() -> None:
    assert reference_prior(Coin(5)).evidence == "certified"
    assert two_stage_prior(Coin, m=2, n=2).evidence == "certified"


def test_a_prior_that_is_not_good_enough_is_neither() -> None:
    prior = reference_prior(Gaussian(3.0))
    certificate = judge(prior.objective, prior.coordinates[1:], prior.weights[1:] / prior.weights[1:].sum())
    assert not certificate.proved
    assert certificate.gap > 0.1


def test_the_quadrature_of_outcomes_is_a_part_of_the_gap() -> None:
    """Two nodes per standard deviation are too few; the gap says by how much, at least."""
    rough, fine = Gaussian(3.0, nodes=2), Gaussian(3.0)
    prior = reference_prior(fine)
    certificate = judge(Objective((rough,)), prior.coordinates, prior.weights)
    assert certificate.error > abs(certificate.information - prior.information) > 1e-13
    assert judge(Objective((fine,)), prior.coordinates, prior.weights).error < 1e-13


def test_the_gap_never_vanishes() -> None:
    assert reference_prior(Coin(1)).gap >= 8 * np.finfo(float).eps
