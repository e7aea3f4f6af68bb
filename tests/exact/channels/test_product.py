"""Independent experiments: capacities and gaps add, whatever their number and size."""

import numpy as np
import pytest

from refprior.exact import Coin, Gaussian, Poisson, Product, Solution, TwoCoins, certify, reference_prior
from refprior.exact.oracle import Objective
from refprior.exact.solve import solve


def test_information_and_gap_are_sums() -> None:
    parts = [Coin(7), Gaussian(2.0), Poisson(5.0), Coin(3)]
    prior, alone = reference_prior(Product(*parts)), [reference_prior(part) for part in parts]
    assert prior.information == pytest.approx(sum(one.information for one in alone), abs=1e-14)
    assert prior.gap == pytest.approx(sum(one.gap for one in alone), abs=1e-15)
    assert prior.atoms.shape == (np.prod([len(one.weights) for one in alone]), 4)
    assert prior.weights.sum() == pytest.approx(1)
    assert prior.evidence == "certified"  # the weakest of its parts
    assert reference_prior(Product(Gaussian(1.0), Gaussian(2.0))).evidence == "proved"
    assert certify(prior).gap == prior.gap


def test_the_joint_search_finds_the_same() -> None:
    """The solver and the certificate of two parameters, which the product does not need."""
    channel = TwoCoins(6)
    joint = Solution.from_coordinates(Objective((channel,)), *solve(Objective((channel,)), 1e-11), 1e-11)
    assert joint.certified
    assert joint.information == pytest.approx(reference_prior(channel).information, abs=1e-11)
    assert len(joint.weights) == len(reference_prior(channel).weights)


@pytest.mark.parametrize("n", [24, 26, 40, 400])
def test_two_coins_of_any_size(n: int) -> None:
    prior = reference_prior(TwoCoins(n))
    assert prior.certified
    assert prior.gap <= 1e-12
    assert prior.information == pytest.approx(2 * reference_prior(Coin(n)).information, abs=1e-12)


def test_posteriors_and_gains_are_those_of_the_parts() -> None:
    coin, gaussian = Coin(3), Gaussian(1.0)
    prior = reference_prior(Product(coin, gaussian))
    parts = reference_prior(coin), reference_prior(gaussian)
    joint = np.outer(parts[0].posterior(2).weights, parts[1].posterior(0.4).weights).ravel()
    assert prior.posterior([2, 0.4]).weights == pytest.approx(joint)
    expected = parts[0].gain([0.3]) + parts[1].gain([0.1])
    assert prior.gain([[0.3, 0.1]]) == pytest.approx(expected)
    marginal = np.outer(parts[0].predictive(), parts[1].predictive()).ravel()
    assert prior.predictive() == pytest.approx(marginal, abs=1e-14)
    with pytest.raises(ValueError, match="a list of 2, one for each part"):
        prior.posterior([2])


def test_products_of_nothing_and_of_no_channels_are_rejected() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Product()
    with pytest.raises(ValueError, match="part 2 must be a Channel"):
        Product(Coin(1), 3)  # type: ignore[arg-type]


def test_a_product_is_repeated_part_by_part() -> None:
    two = Product(Coin(1), Coin(2)).repeat(3)
    assert reference_prior(two).information == pytest.approx(
        reference_prior(Coin(3)).information + reference_prior(Coin(6)).information
    )
