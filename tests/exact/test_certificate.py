"""The certificate judges priors it did not make: slightly wrong ones must show."""

import math

import numpy as np
import pytest

from refprior.exact import Coin, ExponentialDecay, Gaussian, Poisson, TwoCoins, reference_prior
from refprior.exact.certificate import judge
from refprior.exact.channels import Channel
from refprior.exact.objective import Objective

CHANNELS: list[Channel] = [
    Coin(10),
    Coin(100),
    Gaussian(3.0),
    Poisson(5.0),
    TwoCoins(3),
    ExponentialDecay(sigma=0.2),
]


def atoms_of(channel: Channel) -> tuple[Objective, np.ndarray, np.ndarray]:
    solution = reference_prior(channel, 1e-11)
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
