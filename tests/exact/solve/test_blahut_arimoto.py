"""The plain algorithm approaches the capacity from below, slowly, and never exceeds it."""

import numpy as np
import pytest

from refprior.exact import Categorical, Coin, TwoCoins, blahut_arimoto, reference_prior


def test_it_climbs_and_never_exceeds() -> None:
    capacity = reference_prior(Coin(10)).information
    result = blahut_arimoto(Coin(10), 201, iterations=2000)
    assert np.all(np.diff(result.information) > -1e-14)
    assert np.all(result.information <= capacity)
    assert capacity - result.information[-1] < 1e-3
    assert result.information[-1] + result.gap[-1] > capacity - 1e-4  # the grid misses the atoms by a little


def test_its_gap_falls_like_one_over_the_iterations() -> None:
    result = blahut_arimoto(Coin(10), 1001, iterations=4000)
    for number in (1000, 2000, 4000):
        assert number * result.gap[number - 1] == pytest.approx(0.5, abs=0.1)


def test_it_stops_at_the_tolerance() -> None:
    result = blahut_arimoto(Coin(3), 11, iterations=10_000, tolerance=1e-2)
    assert result.gap[-1] <= 1e-2 < result.gap[-2]


def test_grids_may_be_given() -> None:
    assert blahut_arimoto(Coin(1), [0.0, 1.0], iterations=1).information[0] == pytest.approx(np.log(2))
    assert blahut_arimoto(Coin(2), [0.0, 1.0], iterations=1).information[0] == pytest.approx(
        np.log(2)
    )  # z = 1 never seen
    corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert blahut_arimoto(TwoCoins(1), corners, iterations=1).information[0] == pytest.approx(2 * np.log(2))
    assert blahut_arimoto(Categorical(np.eye(3)), 3, iterations=5).information[-1] == pytest.approx(np.log(3))


def test_bad_grids_and_counts_are_rejected() -> None:
    with pytest.raises(ValueError, match="give the grid's points for 2 parameters"):
        blahut_arimoto(TwoCoins(1), 10)
    with pytest.raises(ValueError, match="at least 2"):
        blahut_arimoto(Coin(1), 1)
    with pytest.raises(ValueError, match="iterations must be a whole number of at least 1"):
        blahut_arimoto(Coin(1), 11, iterations=0)


def test_numpy_integers_are_numbers_of_points_and_points_out_of_bounds_are_rejected() -> None:
    counted = blahut_arimoto(Coin(10), np.int64(101), iterations=20)
    assert counted.information.tolist() == blahut_arimoto(Coin(10), 101, iterations=20).information.tolist()
    with pytest.raises(ValueError, match=r"parameter \[1.3\] is out of bounds"):
        blahut_arimoto(Coin(10), [0.2, 1.3])


def test_costs_buy_information() -> None:
    """No prior of the grid has a larger I − E c, and a higher price leaves less information at a smaller cost."""
    w, channel = np.linspace(0, 1, 21), Coin(5)
    p = np.exp(channel.log_likelihood(channel.coordinate(w[:, None])))

    def information(weights: np.ndarray) -> float:
        return float(np.sum(weights[:, None] * p * np.log(np.where(p > 0, p / (weights @ p), 1.0))))

    told, spent = [], []
    for price in (0.0, 0.5, 1.0, 2.0):
        result = blahut_arimoto(channel, w, iterations=5000, cost=lambda w, price=price: price * w)  # type: ignore[misc]
        best = result.information[-1] - price * float(result.weights @ w)
        told.append(information(result.weights))
        spent.append(float(result.weights @ w))
        for trial in np.random.default_rng(0).dirichlet(np.full(21, 0.3), 200):
            assert information(trial) - price * float(trial @ w) <= best + result.gap[-1] + 1e-9
    assert np.all(np.diff(told) < 0)
    assert np.all(np.diff(spent) < 0)
    with pytest.raises(ValueError, match="cost must return 21 finite numbers"):
        blahut_arimoto(channel, w, cost=lambda w: w[:3])
