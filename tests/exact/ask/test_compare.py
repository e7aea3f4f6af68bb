"""Priors next to the reference prior: regret, information and coverage."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from refprior.exact import (
    Categorical,
    Coin,
    TwoCoins,
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_priors(Coin(1), {"a": ([0.5], [1, 2])}), "one nonnegative weight for each of its 1"),
        (lambda: compare_priors(Coin(1), {"a": ([2.0], [1])}), "out of bounds"),
        (lambda: compare_priors(Coin(1), {"a": 3}), "'a' must be a Solution"),
        (lambda: compare_priors(Coin(1), ["jeffrey"]), "unknown prior 'jeffrey'"),
        (lambda: compare_priors(Categorical(np.eye(2)), ["jeffreys"]), "no Jeffreys prior"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
