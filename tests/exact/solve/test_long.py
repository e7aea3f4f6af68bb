"""Long experiments of one parameter start from a shorter one's edges, whatever the model."""

from functools import cache

import numpy as np
import pytest

from refprior.exact import Channel, Coin, Gaussian, Poisson, reference_prior, two_stage_prior
from refprior.exact.oracle import Objective, window_table
from refprior.exact.solve import Problem, solve
from refprior.exact.solve._long import balanced, shorter, starting_atoms, unevenness

solved = cache(reference_prior)  # two tests look at the same one


@pytest.mark.parametrize(
    ("channel", "information"),
    [
        (Gaussian(46.0), None),
        (Gaussian(500.0), 5.4927904481014),  # of the version before this solver, as are the next two
        (Poisson(3000.0), 3.3133900867407),
        pytest.param(Poisson(10_000.0), 3.8992571169214, marks=pytest.mark.thorough),
        pytest.param(Poisson(4000.0, 5.0), None, marks=pytest.mark.thorough),
    ],
    ids=repr,
)
def test_long_experiments_reach_rounding(channel: Channel, information: float | None) -> None:
    prior = solved(channel)
    assert prior.certified
    if information is not None:
        assert prior.information == pytest.approx(information, abs=2e-12)
    points = channel.parameter(np.linspace(channel.bounds[0, 0], channel.bounds[0, 1], 20_001)[:, None])
    assert prior.gain(points[:, 0]).max() <= prior.information + prior.gap


def test_a_long_gaussian_is_symmetric() -> None:
    prior = solved(Gaussian(46.0))
    assert prior.atoms == pytest.approx(-prior.atoms[::-1], abs=1e-9)
    assert prior.weights == pytest.approx(prior.weights[::-1], abs=1e-12)


@pytest.mark.parametrize(
    ("m", "n"),
    [
        (450, 450),
        (1, 999),
        *(pytest.param(*of, marks=pytest.mark.thorough) for of in [(899, 1), (5000, 10), (10, 1000)]),
    ],
)
def test_long_experiments_in_two_stages(m: int, n: int) -> None:
    prior = two_stage_prior(Coin, m=m, n=n)
    assert prior.certified
    assert prior.atoms == pytest.approx(1 - prior.atoms[::-1], abs=1e-12)
    assert prior.weights == pytest.approx(prior.weights[::-1], abs=1e-12)
    assert prior.information < 0.5 * np.log((m + n) / m)  # what it tends to


@pytest.mark.thorough
def test_a_thousand_tosses_in_each_stage() -> None:
    """The information that a dense search reached."""
    prior = two_stage_prior(Coin, m=1000, n=1000)
    assert prior.gap <= 1e-12
    assert prior.information == pytest.approx(0.345893980504, abs=1e-12)


@pytest.mark.slow
def test_ten_thousand_tosses_in_two_stages() -> None:
    for m in (5000, 9900):
        assert two_stage_prior(Coin, m=m, n=10_000 - m).gap <= 1e-12


@pytest.mark.thorough
def test_other_models_in_two_stages() -> None:
    assert two_stage_prior(Gaussian(30.0).repeat, m=2, n=2).certified
    assert two_stage_prior(Poisson(1050.0).repeat, m=2, n=2).certified


def test_the_start_is_near_the_answer() -> None:
    """With the best weights its gains differ by 1e-4 nats; those of even spacings by ten times that."""
    channel = Gaussian(60.0)
    objective = Objective((channel,))
    short = shorter(objective)
    assert short is not None
    u, weights = starting_atoms(short.channel, solve(short, 1e-11), 120.0, channel.bounds)
    problem = Problem(lambda u: window_table(objective, u), channel.bounds, np.array([0.3]))

    def slope(places: np.ndarray) -> float:
        point = balanced(problem, problem.evaluate(places, weights))
        assert unevenness(point) < 1e-10
        return float(np.abs(point.gradients[1:-1]).max())

    assert slope(u) < 1e-3
    shifted = u + 0.1 * np.sin(u)
    shifted[[0, -1]] = u[[0, -1]]
    assert slope(shifted) > 10 * slope(u)
    for more in (-2, 1):
        places, shares = starting_atoms(short.channel, solve(short, 1e-11), 120.0, channel.bounds, more)
        assert len(places) == len(u) + more
        assert shares.sum() == pytest.approx(1)
        assert places[[0, -1], 0].tolist() == [-60.0, 60.0]


@pytest.mark.parametrize("channel", [Coin(7), Coin(1000), Gaussian(2.0), Gaussian(60.0)], ids=repr)
def test_declared_mirror_images_hold(channel: Channel) -> None:
    u = np.linspace(channel.bounds[0, 0], channel.bounds[0, 1], 41)[:, None]
    assert channel.mirror
    assert channel.log_likelihood(u) == pytest.approx(channel.log_likelihood(u[::-1])[:, ::-1], abs=1e-9)


def test_a_first_stage_stays_shorter_than_both() -> None:
    for m, n in ((900, 1), (10**5, 1), (1, 10**5), (700, 700)):
        short = shorter(Objective((Coin(m + n), Coin(m)), (1.0, -1.0)))
        assert short is not None
        assert len(short.channels[1].outcomes) < len(short.channels[0].outcomes) == 254


def test_probabilities_of_large_counts_sum_to_one() -> None:
    """Differences of log-gamma would miss one by 4e-12 here."""
    channel = Poisson(3000.0)
    u = np.linspace(0, channel.bounds[0, 1], 30)[:, None]
    assert np.exp(channel.log_likelihood(u)).sum(axis=1) == pytest.approx(1, abs=3e-15)
