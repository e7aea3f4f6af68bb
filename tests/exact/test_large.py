"""Long experiments: windows equal whole rows, thinned outcomes equal all of them, the certificate judges."""

import numpy as np
import pytest

from refprior.exact import Channel, Coin, Gaussian, Poisson, reference_prior
from refprior.exact.oracle import (
    Objective,
    divergence,
    evaluate,
    information_matrix,
    log_marginal,
    log_mixture,
    whole_windows,
    window_table,
    windowed_information,
)
from refprior.exact.solve._ascent import newton_step

LONG = [Coin(5000), Gaussian(100.0), Poisson(4000.0), Poisson(2000.0, 3.0, samples=2)]


def places(channel: Channel, count: int = 60) -> np.ndarray:
    """Points of the whole range, some of them close to its lower end."""
    x = np.concatenate([[0.0, 3e-4], np.linspace(0.003, 1, count)])
    return np.asarray(channel.bounds[0, 0] + x * np.ptp(channel.bounds))[:, None]


@pytest.mark.parametrize("channel", LONG, ids=repr)
def test_windows_equal_whole_rows(channel: Channel) -> None:
    u = places(channel)
    weights = np.full(len(u), 1 / len(u))
    log_p = channel.log_likelihood(u)
    p, whole = np.exp(log_p), log_mixture(log_p, weights)
    assert np.exp(log_marginal(channel, u, weights)) == pytest.approx(np.exp(whole), abs=1e-17, rel=1e-11)
    expected = np.sum(p * np.where(p > 0, log_p - whole, 0.0), axis=1)
    assert divergence(channel, u, whole) == pytest.approx(expected, abs=2e-14)


@pytest.mark.parametrize("channel", LONG, ids=repr)
def test_windows_leave_out_hardly_any_mass(channel: Channel) -> None:
    u = places(channel)
    assert channel.windows is not None
    ends = channel.windows.ends(u)
    columns = np.arange(len(channel.outcomes))
    outside = (columns < ends[0][:, None]) | (columns > ends[1][:, None])
    assert np.where(outside, np.exp(channel.log_likelihood(u)), 0.0).sum(axis=1).max() < 1e-17


@pytest.mark.parametrize(
    "channel", [Coin(3000), Coin(20_000), Coin(1_000_000), Poisson(4000.0), Poisson(1e5)], ids=repr
)
def test_thinned_outcomes_still_sum_to_one(channel: Channel) -> None:
    thin = channel.at_resolution("coarse")
    assert thin is not None
    assert thin.windows is not None
    assert len(thin.outcomes) < len(channel.outcomes)
    length = channel.axes.lengths[0]
    x = np.array([0.0, 0.3, 3.0, 10.0, 20.0, 27.0, 40.0, length / 2, length - 0.3, length])
    u = channel.bounds[0, 0] + np.ptp(channel.bounds) * x[:, None] / length
    columns = whole_windows(thin.windows.ends(u), len(thin.outcomes))
    assert np.exp(thin.windows.log_likelihood(u, columns)).sum(axis=1) == pytest.approx(1.0, abs=1e-13)


def test_thinned_outcomes_of_a_coin_are_symmetric() -> None:
    thin = Coin(20_000).at_resolution("coarse")
    assert thin is not None
    z = thin.outcomes
    assert z == pytest.approx(20_000 - z[::-1], abs=1e-6)


@pytest.mark.parametrize(
    "objective", [Objective((Coin(1000),)), Objective((Coin(1000), Coin(400)), (1.0, -1.0))], ids=["one", "two stages"]
)
def test_tables_of_windows_equal_whole_ones(objective: Objective) -> None:
    """Their sums, Newton's system from chunks of outcomes, and its step."""
    u, bounds = np.linspace(0, np.pi, 45)[:, None], objective.channel.bounds
    weights = np.full(45, 1 / 45)
    whole, ours = evaluate(objective.table, u, weights), evaluate(lambda u: window_table(objective, u), u, weights)
    assert ours.gains == pytest.approx(whole.gains, abs=1e-13)
    assert ours.gradients[1:-1] == pytest.approx(whole.gradients[1:-1], abs=1e-11)
    assert ours.hessians[1:-1] == pytest.approx(whole.hessians[1:-1], rel=1e-9, abs=1e-9)
    dense = information_matrix(whole.table, weights, 1)[1:-1, 1:-1]
    banded = windowed_information(ours.table, weights).dense()[1:-1, 1:-1]
    assert banded == pytest.approx(dense, abs=1e-11 * np.abs(dense).max())
    for expected, step in zip(newton_step(whole, bounds)[:2], newton_step(ours, bounds)[:2], strict=True):
        assert step == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())
    still = newton_step(ours, bounds, weights_only=True)
    assert not np.any(still[1])
    assert still[0] == pytest.approx(newton_step(whole, bounds, weights_only=True)[0], abs=1e-7)


def test_a_thousand_tosses() -> None:
    solution = reference_prior(Coin(1000))
    assert solution.gap <= 1e-12
    assert not solution.atoms_certified  # the ripple is below what doubles see
    assert solution.information == pytest.approx(3.2197881745586, abs=1e-12)


def test_ten_thousand_tosses() -> None:
    solution = reference_prior(Coin(10_000))
    assert solution.gap <= 1e-12
    assert solution.information == pytest.approx(4.3437868429, abs=1e-10)  # independent prototype


@pytest.mark.slow
@pytest.mark.parametrize(("n", "gap", "information"), [(10**5, 1e-12, 5.4863239999), (10**6, 1e-9, 6.6348350827)])
def test_more_tosses(n: int, gap: float, information: float) -> None:
    solution = reference_prior(Coin(n), tolerance=gap)
    assert solution.gap <= gap
    assert solution.information == pytest.approx(information, abs=max(1e-10, 3 * gap))  # independent prototype
