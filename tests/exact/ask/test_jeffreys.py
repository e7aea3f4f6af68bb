"""Fisher information and Jeffreys priors against closed forms."""

import math

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import betabinom

from refprior.exact import (
    Categorical,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    TwoCoins,
    fisher_information,
    jeffreys_prior,
    reference_prior,
)


def test_fisher_information_in_closed_form() -> None:
    w = np.array([0.1, 0.5, 0.8])
    assert fisher_information(Coin(7), w)[:, 0, 0] == pytest.approx(7 / (w * (1 - w)), rel=1e-9)
    assert fisher_information(Gaussian(1.0, 0.5), w)[:, 0, 0] == pytest.approx(4.0, rel=1e-12)
    assert fisher_information(Poisson(3.0, 0.5), w)[:, 0, 0] == pytest.approx(1 / (w + 0.5), rel=1e-9)
    two = fisher_information(TwoCoins(3), [[0.2, 0.6]])[0]
    assert two == pytest.approx(np.diag([3 / 0.16, 3 / 0.24]), rel=1e-9)


def test_fisher_information_of_the_decays_is_that_of_its_means() -> None:
    w = np.array([[0.3, 0.8]])
    slopes = np.array([[0.5, 0.5], [0.3, 0.8]])  # ∂ mean_t / ∂ w_i for t = 1, 2
    assert fisher_information(ExponentialDecay((1.0, 2.0), 0.2), w)[0] == pytest.approx(
        slopes.T @ slopes / 0.04, rel=1e-9
    )


def test_the_coins_exponent_is_minus_one_half() -> None:
    prior = jeffreys_prior(Coin(5))
    w = np.array([0.01, 0.3, 0.9])
    assert prior.density(w) == pytest.approx(1 / (np.pi * np.sqrt(w * (1 - w))), rel=1e-9)
    assert prior.volume == pytest.approx(np.pi * math.sqrt(5), rel=1e-12)


def test_the_coins_information_in_closed_form() -> None:
    """The marginal of Jeffreys' prior is beta-binomial(½, ½); E log p(z | w) by the same beta integrals."""
    n = 12
    z = np.arange(n + 1)
    marginal = betabinom.pmf(z, n, 0.5, 0.5)
    w = np.sin(np.linspace(0, np.pi, 200_001)[1:-1] / 2) ** 2
    entropy = np.sum(n * (w * np.log(w) + (1 - w) * np.log(1 - w))) / 200_000
    choose = gammaln(n + 1) - gammaln(z + 1) - gammaln(n - z + 1)
    expected = entropy + marginal @ (choose - np.log(marginal))
    assert jeffreys_prior(Coin(n)).information == pytest.approx(expected, abs=1e-7)
    assert betaln(0.5, 0.5) == pytest.approx(math.log(math.pi))


@pytest.mark.parametrize("channel", [Coin(3), Coin(60), Gaussian(3.0), Poisson(9.0), TwoCoins(3)], ids=repr)
def test_jeffreys_never_beats_the_reference_prior(channel: Coin) -> None:
    assert jeffreys_prior(channel).information < reference_prior(channel, tolerance=1e-11).information


def test_the_reference_prior_converges_to_jeffreys() -> None:
    """Its distribution function comes within a few atoms' mass of the arcsine law."""
    distances = []
    for n in (10, 100, 1000):
        prior = reference_prior(Coin(n))
        middle = np.cumsum(prior.weights) - prior.weights / 2
        distances.append(np.abs(middle - 2 / np.pi * np.arcsin(np.sqrt(prior.atoms))).max())
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.03


def test_tables_have_none() -> None:
    with pytest.raises(ValueError, match="no Jeffreys prior"):
        jeffreys_prior(Categorical(np.eye(2)))


def test_the_ends_are_alike_and_outside_is_rejected() -> None:
    coin = jeffreys_prior(Coin(10))
    assert coin.density([0.0, 1.0]).tolist() == [math.inf, math.inf]
    assert fisher_information(Coin(10), [0.0, 1.0]).ravel().tolist() == [math.inf, math.inf]
    corner = fisher_information(TwoCoins(3), [[1.0, 0.0]])[0]
    assert corner.tolist() == [[math.inf, 0.0], [0.0, math.inf]]
    for w in (-0.1, 1.2, math.nan):
        with pytest.raises(ValueError, match="out of bounds"):
            coin.density(w)
        with pytest.raises(ValueError, match="out of bounds"):
            fisher_information(Coin(10), w)
