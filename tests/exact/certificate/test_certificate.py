"""The certificate judges priors it did not make: slightly wrong ones must show."""

import math

import numpy as np
import pytest

from refprior.exact import (
    Categorical,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    Solution,
    TwoCoins,
    reference_prior,
)
from refprior.exact.certificate import judge
from refprior.exact.channels import Channel
from refprior.exact.oracle import Likelihoods, Objective
from refprior.exact.solve._ascent import optimal_weights

CHANNELS: list[Channel] = [
    Coin(10),
    Coin(100),
    Gaussian(3.0),
    Poisson(5.0),
    TwoCoins(3),
    ExponentialDecay(sigma=0.2),
]


def atoms_of(channel: Channel) -> tuple[Objective, np.ndarray, np.ndarray]:
    solution = reference_prior(channel, tolerance=1e-11)
    return solution.objective, solution.coordinates, solution.weights


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_wrong_weights_show(channel: Channel) -> None:
    """Mass ε moved between two atoms costs first order in the gap: the gains are no longer even."""
    objective, u, weights = atoms_of(channel)
    right = judge(objective, u, weights)
    for size in (1e-3, 1e-6, 1e-9):
        wrong = weights.copy()
        wrong[0] -= size
        wrong[1] += size
        gap = judge(objective, u, wrong).gap
        assert gap > max(0.05 * size, 3 * right.gap)
        assert gap < 100 * size


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_misplaced_atoms_show(channel: Channel) -> None:
    objective, u, weights = atoms_of(channel)
    inside = np.argmin(np.abs(u - channel.bounds.mean(axis=1)).sum(axis=1))
    for size in (1e-2, 1e-4):
        wrong = u.copy()
        wrong[inside, 0] += size * (channel.bounds[0, 1] - channel.bounds[0, 0])
        wrong = np.clip(wrong, channel.bounds[:, 0], channel.bounds[:, 1])
        assert judge(objective, wrong, weights).gap > 1e-8


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_a_missing_atom_shows(channel: Channel) -> None:
    objective, u, weights = atoms_of(channel)
    assert judge(objective, u[1:], weights[1:] / weights[1:].sum()).gap > 1e-3


def test_the_gap_bounds_the_loss() -> None:
    """Capacity − information ≤ gap for random priors, and information never exceeds the capacity."""
    capacity = reference_prior(Coin(8)).information
    rng = np.random.default_rng(0)
    objective = Objective((Coin(8),))
    for _ in range(30):
        count = rng.integers(1, 7)
        u, weights = rng.uniform(0, np.pi, (count, 1)), rng.dirichlet(np.ones(count))
        certificate = judge(objective, u, weights)
        assert 0 <= capacity - certificate.information <= certificate.gap


def test_a_prior_that_excludes_outcomes_has_an_infinite_gap() -> None:
    certificate = judge(Objective((Coin(3),)), np.array([[0.0]]), np.array([1.0]))
    assert certificate.gap == math.inf
    assert certificate.information == 0.0


@pytest.mark.filterwarnings("ignore:invalid value")
def test_two_stages_that_both_exclude_an_outcome_have_an_infinite_gap() -> None:
    """There the gain is the difference of two infinities."""
    two = Objective((Coin(3), Coin(1)), (1.0, -1.0))
    assert judge(two, np.array([[0.0]]), np.array([1.0])).gap == math.inf


def test_the_gap_is_over_all_parameters_not_over_a_grid() -> None:
    """A gain sampled far more finely than the certificate's grid never exceeds information + gap."""
    for channel in (Coin(7), Gaussian(2.5), Poisson(8.0, 0.3)):
        objective, u, weights = atoms_of(channel)
        wrong = weights + 1e-4 * np.random.default_rng(1).normal(size=len(weights)) * weights
        wrong /= wrong.sum()
        certificate = judge(objective, u, wrong)
        fine = np.linspace(channel.bounds[0, 0], channel.bounds[0, 1], 20_001)[:, None]
        gain = objective.gain(fine, objective.log_marginals(u, wrong))
        assert gain.max() <= certificate.information + certificate.gap + 1e-15


def test_the_number_of_atoms_is_certified_only_where_doubles_can_tell() -> None:
    assert reference_prior(Coin(50)).atoms_certified
    assert not reference_prior(Coin(400)).atoms_certified
    objective, u, weights = atoms_of(Coin(10))
    doubled = np.vstack([u, u[2:3] + 1e-3])
    split = np.append(weights, weights[2] / 2)
    split[2] /= 2
    assert not judge(objective, doubled, split).atoms_certified


def fine_gap(channel: Channel, solution: Solution) -> float:
    """max G − J over an even grid, and over a much finer one around every atom."""
    low, high = channel.bounds[0]
    near = [np.clip(atom + np.linspace(-0.05, 0.05, 1001), low, high) for atom in solution.coordinates[:, 0]]
    u = np.concatenate([np.linspace(low, high, 6001), *near])[:, None]
    logs = solution.objective.log_marginals(solution.coordinates, solution.weights)
    values = [solution.objective.gain(part, logs).max() for part in np.array_split(u, 20)]
    return float(max(values) - solution.information)


@pytest.mark.parametrize(
    "channel",
    [
        *(Gaussian(a) for a in (1.6659, 1.66594, 2.90747, 2.90749, 2.9075, 2.90752)),
        *(Poisson(a) for a in (3.36794, 3.36795, 3.368)),
        *(Coin(n) for n in range(2, 41)),
    ],
    ids=repr,
)
def test_the_gap_is_true_where_atoms_appear_and_split(channel: Channel) -> None:
    solution = reference_prior(channel)
    assert solution.gap <= 1e-13
    assert fine_gap(channel, solution) <= solution.gap + 2e-15


@pytest.mark.filterwarnings("ignore:unfinished")
def test_the_gap_is_true_where_the_tolerance_is_missed() -> None:
    solution = reference_prior(Gaussian(20.0))
    assert fine_gap(Gaussian(20.0), solution) <= solution.gap + 5e-15


@pytest.mark.parametrize("amplitude", [2.90747, 2.90749, 2.9075, 2.90752])
def test_two_maxima_within_a_cell_around_an_atom_show(amplitude: float) -> None:
    """The best prior of three atoms has a dip of the gain at 0, some 1e-9 deep and far narrower than the grid."""
    objective, ends = Objective((Gaussian(amplitude),)), np.array([[-amplitude], [0.0], [amplitude]])
    table = Likelihoods.of_values(objective, ends)
    certificate = judge(objective, ends, optimal_weights(table, 1e-15))
    fine = np.linspace(-0.1, 0.1, 4001)[:, None]
    logs = objective.log_marginals(ends, optimal_weights(table, 1e-15))
    assert certificate.gap >= objective.gain(fine, logs).max() - certificate.information - 1e-16
    assert certificate.gap > 1e-11
    assert not certificate.atoms_certified


def test_the_number_of_atoms_is_not_certified_where_one_is_about_to_split() -> None:
    """Below 2.9074 the gain is concave at 0; above 2.9076 there are two separate atoms."""
    assert reference_prior(Gaussian(2.9)).atoms_certified
    assert not reference_prior(Gaussian(2.907468)).atoms_certified
    assert reference_prior(Gaussian(2.93)).atoms_certified


@pytest.mark.parametrize(
    ("table", "atoms", "certified"),
    [
        ([[1, 0], [1, 0], [0, 1]], 3, False),  # two suffice
        ([[1, 0], [0, 1], [0.5, 0.5]], 2, True),  # the third is of no use
        ([[0.3, 0.7], [0.3, 0.7]], 2, False),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], 3, True),
        ([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]], 4, False),  # dependent rows
    ],
)
def test_rows_are_certified_only_if_no_fewer_would_do(table: list[list[float]], atoms: int, certified: bool) -> None:
    solution = reference_prior(Categorical(table))
    assert len(solution.weights) == atoms
    assert solution.atoms_certified == certified
    assert solution.weights.min() > 1e-8


def test_many_rows_of_few_outcomes_need_few_atoms() -> None:
    """By Carathéodory no more than the number of outcomes; random rows in general position are independent."""
    solution = reference_prior(Categorical(np.random.default_rng(0).dirichlet(np.ones(3), 300)))
    assert len(solution.weights) <= 3
    assert solution.atoms_certified
