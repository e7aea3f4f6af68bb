"""Priors against closed forms, published values and identities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.exact import (
    Categorical,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    TwoCoins,
    blahut_arimoto,
    reference_prior,
)
from refprior.exact.oracle import Objective


def closed_form(n: int) -> float:
    """Capacity of the coin for n = 2, 3, 4, three atoms at 0, ½, 1."""
    e = 2.0**-n
    return math.log(2 + (1 - 2 * e) * e ** (2 * e / (1 - 2 * e)))


def test_one_toss_has_two_atoms() -> None:
    solution = reference_prior(Coin(1))
    assert solution.atoms.tolist() == [0.0, 1.0]
    assert solution.information == pytest.approx(math.log(2), abs=1e-15)


def test_two_tosses_in_closed_form() -> None:
    solution = reference_prior(Coin(2))
    assert solution.atoms == pytest.approx([0, 0.5, 1], abs=1e-12)
    assert solution.weights == pytest.approx([15 / 34, 2 / 17, 15 / 34], abs=1e-12)
    assert solution.information == pytest.approx(math.log(17 / 8), abs=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_three_atoms_in_closed_form(n: int) -> None:
    assert reference_prior(Coin(n)).information == pytest.approx(closed_form(n), abs=2e-15)


@pytest.mark.parametrize(("n", "atoms"), [(1, 2), (2, 3), (5, 4), (10, 5), (20, 7), (50, 11), (100, 17)])
def test_coin(n: int, atoms: int) -> None:
    solution = reference_prior(Coin(n))
    assert solution.gap <= 1e-14
    assert len(solution.atoms) == atoms
    assert solution.atoms_certified
    assert solution.atoms == pytest.approx(1 - solution.atoms[::-1], abs=1e-6)
    assert solution.weights == pytest.approx(solution.weights[::-1], abs=1e-6)
    assert solution.information <= math.log(min(atoms, n + 1)) + 1e-14
    # at w = 0 all mass is on z = 0, so the gain there is −log p(z = 0), and w = 0 is an atom
    assert solution.information == pytest.approx(-math.log(solution.predictive()[0]), abs=1e-13)


def test_known_capacities() -> None:
    """To the digits of an independent prototype."""
    assert reference_prior(Coin(10)).information == pytest.approx(1.2324566122, abs=1e-10)
    assert reference_prior(Coin(100)).information == pytest.approx(2.1511848308, abs=1e-10)


def test_more_tosses_tell_more() -> None:
    information = [reference_prior(Coin(n)).information for n in range(1, 16)]
    assert np.all(np.diff(information) > 0)


def test_information_tends_to_the_jeffreys_limit() -> None:
    """I − ½ log(n/2πe) − log π falls like 1.29/√n."""
    for n in (1000, 3000):
        limit = 0.5 * math.log(n / (2 * math.pi * math.e)) + math.log(math.pi)
        assert (reference_prior(Coin(n)).information - limit) * math.sqrt(n) == pytest.approx(1.28, abs=0.02)


@pytest.mark.parametrize(
    ("amplitude", "atoms"),
    [(0.5, 2), (1.6, 2), (1.66, 2), (1.67, 3), (2.9, 3), (2.9074, 3), (2.9075, 4), (2.92, 4), (10.0, 11)],
)
def test_gaussian(amplitude: float, atoms: int) -> None:
    """The third atom appears at 1.6659, the fourth at 2.9075, by an independent prototype."""
    solution = reference_prior(Gaussian(amplitude))
    assert solution.gap <= 1e-13
    assert len(solution.atoms) == atoms
    assert solution.atoms == pytest.approx(-solution.atoms[::-1], abs=1e-6)
    assert solution.information <= 0.5 * math.log(1 + amplitude**2)  # the amplitude as power


def test_scaling_noise_and_amplitude_together_changes_nothing() -> None:
    one, other = reference_prior(Gaussian(2.0, 1.0)), reference_prior(Gaussian(1.0, 0.5))
    assert other.information == pytest.approx(one.information, abs=1e-14)
    assert 2 * other.atoms == pytest.approx(one.atoms, abs=1e-9)


@pytest.mark.parametrize(("amplitude", "atoms"), [(1.0, 2), (3.36, 2), (3.38, 3), (20.0, 5)])
def test_poisson(amplitude: float, atoms: int) -> None:
    """Two atoms up to 3.36794, by an independent prototype."""
    solution = reference_prior(Poisson(amplitude))
    assert solution.gap <= 1e-13
    assert len(solution.atoms) == atoms
    assert solution.atoms[0] == 0.0
    assert solution.atoms[-1] == pytest.approx(amplitude)


def test_two_atoms_of_poisson_are_a_z_channel() -> None:
    """Rate 0 never shows a count: with two atoms the channel is a Z-channel of crossover e^(−A)."""
    a = 2.0
    p = math.exp(-a)
    assert reference_prior(Poisson(a)).information == pytest.approx(
        math.log(1 + (1 - p) * p ** (p / (1 - p))), abs=1e-14
    )


def test_dark_current_costs_information() -> None:
    information = [reference_prior(Poisson(5.0, dark)).information for dark in (0.0, 0.5, 2.0)]
    assert np.all(np.diff(information) < 0)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_two_coins_are_a_product(n: int) -> None:
    one, two = reference_prior(Coin(n)), reference_prior(TwoCoins(n), tolerance=1e-11)
    assert two.gap <= 1e-11
    assert two.information == pytest.approx(2 * one.information, abs=1e-11)
    product = np.array(np.meshgrid(one.atoms, one.atoms, indexing="ij")).reshape(2, -1).T
    assert two.atoms[np.lexsort(two.atoms.round(6).T[::-1])] == pytest.approx(product, abs=1e-5)
    assert np.sort(two.weights) == pytest.approx(np.sort(np.outer(one.weights, one.weights).ravel()), abs=1e-5)


def test_exponential_decay() -> None:
    solution = reference_prior(ExponentialDecay((1.0, 2.0), 0.2), tolerance=1e-11)
    assert solution.gap <= 1e-11
    assert solution.information < reference_prior(ExponentialDecay((1.0, 2.0), 0.15), tolerance=1e-11).information
    assert np.all(solution.atoms[:, 0] <= solution.atoms[:, 1])
    assert [0.0, 0.0] in solution.atoms.round(9).tolist()  # corners of the model are atoms
    assert [0.0, 1.0] in solution.atoms.round(9).tolist()
    assert [1.0, 1.0] in solution.atoms.round(9).tolist()


def entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def test_textbook_channels() -> None:
    p = 0.11
    symmetric = reference_prior(Categorical([[1 - p, p], [p, 1 - p]]))
    assert symmetric.information == pytest.approx(math.log(2) - entropy(p), abs=1e-13)
    erasure = reference_prior(Categorical([[1 - p, p, 0.0], [0.0, p, 1 - p]]))
    assert erasure.information == pytest.approx((1 - p) * math.log(2), abs=1e-13)
    z_channel = reference_prior(Categorical([[1.0, 0.0], [p, 1 - p]]))
    assert z_channel.information == pytest.approx(math.log(1 + (1 - p) * p ** (p / (1 - p))), abs=1e-13)


def test_a_useless_channel_carries_nothing() -> None:
    solution = reference_prior(Categorical([[0.3, 0.7], [0.3, 0.7]]))
    assert solution.information == pytest.approx(0.0, abs=1e-15)
    assert solution.gap <= 2e-15  # what rounding can hide


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(2, 7), st.integers(0, 10_000), st.floats(0.2, 5.0))
def test_random_tables_against_a_long_blahut_arimoto_run(inputs: int, outcomes: int, seed: int, shape: float) -> None:
    table = np.random.default_rng(seed).dirichlet(np.full(outcomes, shape), inputs)
    channel = Categorical(table)
    solution = reference_prior(channel, tolerance=1e-13)
    assert solution.gap <= 1e-13
    assert solution.information <= math.log(min(inputs, outcomes)) + 1e-13
    reference = blahut_arimoto(channel, np.arange(inputs), iterations=3000)
    assert reference.information[-1] <= solution.information + 2e-13
    assert reference.information[-1] + reference.gap[-1] >= solution.information - 2e-13


def test_tolerance_must_be_a_positive_number() -> None:
    for tolerance in (0.0, -1e-9, math.nan, math.inf):
        with pytest.raises(ValueError, match="tolerance must be above 0, got"):
            reference_prior(Coin(3), tolerance=tolerance)


def test_a_loose_tolerance_is_kept() -> None:
    assert reference_prior(Coin(30), tolerance=1e-3).gap <= 1e-3


def test_weights_are_found_anew_where_the_ascent_is_stuck() -> None:
    """The coin of 175 tosses stopped at 6e-11, with the right number of atoms and weights that no step could mend."""
    prior = reference_prior(Coin(175))
    assert prior.evidence == "certified"
    assert prior.atoms == pytest.approx(1 - prior.atoms[::-1], abs=1e-9)


@pytest.mark.parametrize(("n", "atoms"), [(123, 20), (132, 21), (142, 22), (153, 23), (175, 25), (248, 31)])
def test_a_coin_just_after_a_fork(n: int, atoms: int) -> None:
    prior = reference_prior(Coin(n))
    assert prior.certified
    assert prior.gap <= 1e-12
    assert len(prior.atoms) == atoms
    assert prior.atoms == pytest.approx(1 - prior.atoms[::-1], abs=1e-9)


def test_a_new_atom_without_weight_is_left_out() -> None:
    """Here the search once divided by the weight of an atom that a fork had added with no weight."""
    prior = reference_prior(Poisson(3.367940172274632))
    assert prior.certified
    assert prior.atoms == pytest.approx([0.0, 3.367940172274632])


LONGER = sorted(
    {*range(301, 900, 50), *np.random.default_rng(7).choice(np.arange(301, 900), 40, replace=False).tolist()}
)


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(1, 301), *LONGER])
def test_every_coin_is_certified(n: int) -> None:
    assert reference_prior(Coin(n)).gap <= 1e-12


def test_a_mixed_table_is_that_of_the_mixed_likelihoods() -> None:
    objective, u = Objective((Coin(5),)), np.array([[0.5], [1.5], [2.5]])
    table = objective.table(u)
    mean = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    mixed, weights = table.mixed(mean, mean), np.array([0.4, 0.6])
    spread = np.array([0.4, 0.3, 0.3])
    assert mixed.mixtures(weights)[0] == pytest.approx(table.mixtures(spread)[0], abs=1e-15)
    logs = table.own_logs(spread)
    assert mixed.gains(logs) == pytest.approx(mean @ table.gains(logs), abs=1e-14)
    assert mixed.gradients(logs)[:, 0] == pytest.approx(mean @ table.gradients(logs)[:, 0], abs=1e-13)
    assert mixed.hessians(logs)[:, 0, 0] == pytest.approx(mean @ table.hessians(logs)[:, 0, 0], abs=1e-12)
