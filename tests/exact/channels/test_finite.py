"""n samples of any channel: equal to the built-in models, to enumeration, and fit for two stages."""

import itertools
import math

import numpy as np
import pytest

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    TwoCoins,
    reference_prior,
    two_stage_prior,
)
from refprior.exact.channels._finite import Repeated, types


def toss(w: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.stack([1 - w, w], axis=1)))


def own(outcomes: int = 2) -> Channel:
    """A coin of one's own, or three outcomes with two equal probabilities."""
    if outcomes == 2:
        return Channel.from_function(toss, bounds=(0, 1), outcomes=[0, 1])
    return Channel.from_function(
        lambda w: np.log(np.stack([w**2, 2 * w * (1 - w), (1 - w) ** 2], axis=1)),
        bounds=(0.05, 0.9),
        outcomes=[0, 1, 2],
    )


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_a_repeated_toss_is_a_coin(n: int) -> None:
    ours, theirs = reference_prior(own().repeat(n)), reference_prior(Coin(n))
    assert ours.certified
    assert ours.information == pytest.approx(theirs.information, abs=1e-12)
    assert ours.atoms == pytest.approx(theirs.atoms, abs=1e-5)


def test_counts_have_the_probabilities_of_all_sequences() -> None:
    one, n = own(3), 4
    repeated, u = one.repeat(n), np.array([[0.2], [0.7]])
    p = np.exp(one.log_likelihood(u))
    expected = np.zeros((2, len(repeated.outcomes)))
    for sequence in itertools.product(range(3), repeat=n):
        counts = np.bincount(sequence, minlength=3)
        place = np.flatnonzero(np.all(repeated.outcomes == counts, axis=1))[0]
        expected[:, place] += np.prod(p[:, sequence], axis=1)
    assert np.exp(repeated.log_likelihood(u)) == pytest.approx(expected)
    assert repeated.log_likelihood_of(u, [1, 2, 1]) == pytest.approx(
        np.log(expected[:, np.all(repeated.outcomes == [1, 2, 1], axis=1)][:, 0])
    )


def test_rows_of_counts_are_derivatives() -> None:
    repeated, u, step = own(3).repeat(5), np.array([[0.3], [0.8]]), 1e-6
    ahead, behind = (np.exp(repeated.log_likelihood(u + sign * step)) for sign in (1, -1))
    assert repeated.rows(u).first[:, 0] == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)


def test_types_are_all_counts_once() -> None:
    counts = types(6, 4)
    assert len(counts) == math.comb(9, 3) == len({tuple(row) for row in counts})
    assert np.all(counts.sum(axis=1) == 6)
    assert counts.min() == 0
    with pytest.raises(ValueError, match="different counts, needs about"):
        types(1000, 10)


def test_tables_are_repeated_as_tables() -> None:
    once = Categorical([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    both = reference_prior(Categorical([np.kron(row, row) for row in np.exp(once.log_p)]))
    assert reference_prior(once.repeat(2)).information == pytest.approx(both.information, abs=1e-12)


def test_sufficient_statistics_take_the_place_of_counts() -> None:
    assert Coin(3).repeat(4) == Coin(12)
    assert TwoCoins(2).repeat(3) == TwoCoins(6)
    assert Gaussian(1.0, 2.0).repeat(4) == Gaussian(1.0, 1.0)
    assert ExponentialDecay(sigma=0.4).repeat(4) == ExponentialDecay(sigma=0.2)
    counts, sums = Poisson(2.0).repeat(3), Poisson(6.0)
    assert reference_prior(counts).information == pytest.approx(reference_prior(sums).information, abs=1e-13)
    assert 3 * reference_prior(counts).atoms == pytest.approx(reference_prior(sums).atoms, abs=1e-7)


def test_two_stages_of_ones_own_model() -> None:
    ours, theirs = two_stage_prior(own().repeat, m=1, n=4), two_stage_prior(Coin, m=1, n=4)
    assert ours.information == pytest.approx(theirs.information, abs=1e-11)
    poisson = two_stage_prior(Poisson(3.0).repeat, m=1, n=2)
    assert poisson.certified
    noise = Channel.from_mean(lambda w: w, sigma=1.0, bounds=(-2, 2), curvature=0)
    mean, built_in = two_stage_prior(noise.repeat, m=1, n=3), two_stage_prior(Gaussian(2.0).repeat, m=1, n=3)
    assert mean.information == pytest.approx(built_in.information, abs=1e-9)


def test_outcomes_that_are_no_counts_are_rejected() -> None:
    repeated = own(3).repeat(4)
    assert isinstance(repeated, Repeated)
    for wrong in ([1, 1, 1], [5, -1, 0], 3, [0.5, 1.5, 2]):
        with pytest.raises(ValueError, match="3 counts that sum to 4"):
            repeated.log_likelihood_of(np.array([[0.5]]), wrong)
    with pytest.raises(ValueError, match="at least 1"):
        own().repeat(0)
    assert repeated.repeat(2).outcomes.sum(axis=1).max() == 8
