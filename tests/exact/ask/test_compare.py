"""Which experiment, which prior; and priors that are drawn from, saved and read again."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    Gaussian,
    Solution,
    TwoCoins,
    best_design,
    capacity_curve,
    compare_designs,
    compare_priors,
    jeffreys_prior,
    reference_prior,
)

W = (np.arange(2000) + 0.5) / 2000
PRIORS = {"uniform": (W, np.ones(2000)), "jeffreys": (np.sin(np.pi * W / 2) ** 2, np.ones(2000))}


def test_the_reference_prior_is_minimax() -> None:
    """Its worst regret is the capacity, and that of every other prior is larger."""
    judged = {prior.name: prior for prior in compare_priors(Coin(10), PRIORS)}
    capacity = reference_prior(Coin(10)).information
    assert judged["reference"].worst_regret == pytest.approx(capacity, abs=1e-12)
    assert judged["uniform"].worst_regret == pytest.approx(np.log(11), abs=1e-3)  # p(z) is even: at w = 0, log(n + 1)
    assert capacity < judged["jeffreys"].worst_regret < judged["uniform"].worst_regret
    assert judged["jeffreys"].information == pytest.approx(jeffreys_prior(Coin(10)).information, abs=1e-4)
    assert judged["uniform"].worst_parameter[0] in (0.0, 1.0)


def test_priors_by_name_are_those_densities() -> None:
    by_name, by_points = compare_priors(Coin(10)), compare_priors(Coin(10), PRIORS)
    for name in ("jeffreys", "uniform"):
        assert by_name[name].information == pytest.approx(by_points[name].information, abs=1e-5)
        assert by_name[name].worst_regret == pytest.approx(by_points[name].worst_regret, abs=2e-3)
    assert [prior.name for prior in compare_priors(Coin(3), ["reference"])] == ["reference"]
    square = compare_priors(TwoCoins(2), ["jeffreys"])
    assert square["jeffreys"].information == pytest.approx(2 * jeffreys_prior(Coin(2)).information, abs=1e-6)
    assert np.isnan(square["jeffreys"].mean_coverage)


def test_regret_is_flat_for_the_reference_prior_only() -> None:
    """At its atoms it equals the capacity, elsewhere it is less; the uniform prior regrets more at the ends."""
    judged = compare_priors(Coin(10))
    assert judged["reference"].regret.max() == pytest.approx(judged.capacity, abs=1e-12)
    assert judged["uniform"].regret[0] > judged.capacity > judged["uniform"].regret[200]
    assert str(judged).startswith("certified: capacity 1.232457 nats")


def test_coverage_against_beta_posteriors() -> None:
    """The uniform prior of a coin: beta quantiles, summed over the heads."""
    judged = compare_priors(Coin(20))["uniform"]
    heads = np.arange(21)
    low, high = (np.asarray(stats.beta.ppf(level, heads + 1, 21 - heads)) for level in (0.025, 0.975))
    for number in (57, 130, 200):
        w = judged.parameters[number]
        p = stats.binom.pmf(heads, 20, w)
        assert judged.coverage[number] == pytest.approx(p[(low <= w) & (w <= high)].sum(), abs=1e-9)


def test_solutions_can_be_compared_too() -> None:
    other = reference_prior(Coin(3))
    first, second = compare_priors(Coin(10), {"of three tosses": other})
    assert (first.name, second.name) == ("reference", "of three tosses")
    assert second.information < first.information


def test_more_samples_tell_more_by_half_a_log() -> None:
    designs = {str(n): Gaussian(1.0).repeat(n) for n in (100, 400)}
    first, second = compare_designs(designs, costs={"100": 100, "400": 400})
    assert (first.name, first.evidence) == ("400", "certified")
    assert first.information - second.information == pytest.approx(0.5 * np.log(4), abs=0.1)
    assert str(second).startswith(f"{second.evidence}: 100: ")
    assert "per unit of cost" in str(second)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_designs({}), "designs is empty"),
        (lambda: compare_designs({"a": Coin(1)}, costs={}), "costs has no entry for 'a'"),
        (lambda: compare_designs({"a": 3}), "'a' must be a Channel"),  # type: ignore[dict-item]
        (lambda: compare_priors(Coin(1), {"a": ([0.5], [1, 2])}), "one nonnegative weight for each of its 1"),
        (lambda: compare_priors(Coin(1), {"a": ([2.0], [1])}), "out of bounds"),
        (lambda: compare_priors(Coin(1), {"a": 3}), "'a' must be a Solution"),
        (lambda: compare_priors(Coin(1), ["jeffrey"]), "unknown prior 'jeffrey'"),
        (lambda: compare_priors(Categorical(np.eye(2)), ["jeffreys"]), "no Jeffreys prior"),
        (lambda: best_design(Coin, (1, 5), budget=3), "budget is given without cost"),
        (lambda: best_design(Coin, (5, 1)), "bounds must be"),
        (lambda: best_design(Coin, (3, 5), cost=float, budget=2), "no design of the first grid costs at most 2"),
        (lambda: capacity_curve(Coin, ()), "samples is empty"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


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


def test_samples_follow_the_weights() -> None:
    prior = reference_prior(Coin(2))
    drawn = prior.sample(20_000, np.random.default_rng(0))
    assert np.mean(drawn == prior.atoms[1]) == pytest.approx(prior.weights[1], abs=0.01)


def test_a_saved_prior_is_judged_again(tmp_path: Path) -> None:
    prior, file = reference_prior(Gaussian(2.0)), tmp_path / "prior.json"
    prior.save(file)
    again = Solution.load(file, Gaussian(2.0))
    assert again.coordinates.tolist() == prior.coordinates.tolist()
    assert (again.evidence, again.gap) == (prior.evidence, prior.gap)
    assert Solution.load(file, Gaussian(2.5)).evidence == "unfinished"  # another channel: the gap shows it
    with pytest.raises(ValueError, match="not a prior of this channel"):
        Solution.load(file, Gaussian(1.0))
    file.write_text(file.read_text().replace("weights", "heights"))
    with pytest.raises(ValueError, match="damaged"):
        Solution.load(file, Gaussian(2.0))
    file.write_text("{}")
    with pytest.raises(ValueError, match=r"has an earlier format, .* make it again"):
        Solution.load(file, Gaussian(2.0))
