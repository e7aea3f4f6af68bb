"""Experiments: which tells most, and how capacity grows with samples."""

import math
from typing import Any

import numpy as np
import pytest

from refprior.exact import (
    Channel,
    Coin,
    Gaussian,
    best_design,
    capacity_curve,
    compare_designs,
    reference_prior,
)


def test_more_samples_tell_more_by_half_a_log() -> None:
    designs = {str(n): Gaussian(1.0).repeat(n) for n in (100, 400)}
    first, second = compare_designs(designs, costs={"100": 100, "400": 400})
    assert (first.name, first.evidence) == ("400", "certified")
    assert first.information - second.information == pytest.approx(0.5 * np.log(4), abs=0.1)
    assert str(second).startswith(f"{second.evidence}: 100: ")
    assert "per unit of cost" in str(second)


def test_the_best_number_of_tosses_spends_the_budget() -> None:
    found = best_design(Coin, (1, 200), cost=lambda n: 3.0 + 0.5 * n, budget=20.2, points=8)
    assert list(found.place) == [34]
    assert found.information == pytest.approx(reference_prior(Coin(34)).information, abs=1e-6)
    assert found.evidence == "searched"
    costs = [design.cost for design in found.front()]
    assert costs == sorted(cost for cost in costs if cost is not None)


def test_the_best_time_of_an_observation_against_a_fine_grid() -> None:
    """One exponential decay exp(−w t) seen at one time: neither early nor late tells most."""

    def channel(t: float) -> Channel:
        return Channel.from_mean(lambda w: np.exp(-w * t), sigma=0.2, bounds=(0.5, 3.0), curvature=t * t)

    found = best_design(channel, (0.1, 4.0), points=5, tolerance=1e-6)
    fine = [reference_prior(channel(t), tolerance=1e-6).information for t in np.linspace(0.1, 4.0, 14)]
    assert found.information >= max(fine) - 1e-6
    assert 0.3 < found.place[0] < 2.0


def test_capacity_follows_half_a_log() -> None:
    curve = capacity_curve(Coin, (10, 40, 160))
    assert curve.law[1] - curve.law[0] == pytest.approx(math.log(2))
    assert np.diff(curve.above_law).max() < 0  # down to the law
    assert curve.above_law[-1] == pytest.approx(1.29 / math.sqrt(160), abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_designs({}), "designs is empty"),
        (lambda: compare_designs({"a": Coin(1)}, costs={}), "costs has no entry for 'a'"),
        (lambda: compare_designs({"a": 3}), "'a' must be a Channel"),  # type: ignore[dict-item]
        (lambda: best_design(Coin, (1, 5), budget=3), "budget is given without cost"),
        (lambda: best_design(Coin, (5, 1)), "bounds must be"),
        (lambda: best_design(Coin, (3, 5), cost=float, budget=2), "no design of the first grid costs at most 2"),
        (lambda: capacity_curve(Coin, ()), "samples is empty"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_designs_after_data_are_judged_by_what_they_add() -> None:
    """I(w; z | data) under the posterior's weights, against a sum over all outcomes by hand."""
    seen = reference_prior(Coin(6)).posterior(5)
    found = best_design(Coin, (1, 4), given=seen)
    assert list(found.place) == [4]
    p = np.exp(Coin(4).log_likelihood(Coin(4).coordinate(seen.atoms[:, None])))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p * np.log(p / (seen.weights @ p))
    assert found.information == pytest.approx(float(seen.weights @ np.nansum(terms, axis=1)), abs=1e-12)
    assert not hasattr(found.prior, "weights")
    pair = best_design(Coin, (1, 4), given=(seen.atoms, 7 * seen.weights))
    assert pair.information == pytest.approx(found.information, abs=1e-12)
    with pytest.raises(ValueError, match="given needs one nonnegative weight for each of its 2"):
        best_design(Coin, (1, 4), given=([0.1, 0.2], [1.0]))


def test_data_decide_which_time_is_best() -> None:
    """A rate known to be fast is measured early, a slow one late."""

    def at(t: float) -> Channel:
        return Channel.from_mean(lambda k: np.exp(-k * t), sigma=0.05, bounds=(0.05, 20))

    fast = best_design(at, (0.05, 10.0), given=([8.0, 12.0], [0.5, 0.5]), points=25)
    slow = best_design(at, (0.05, 10.0), given=([0.1, 0.2], [0.5, 0.5]), points=25)
    assert fast.place[0] < 0.3 < 4 < slow.place[0]
