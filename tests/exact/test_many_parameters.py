"""Three parameters and more: problems with known answers, bounds by brute force, and what is only searched."""

import itertools
import math

import numpy as np
import pytest

from refprior.exact import Channel, Gaussian, blahut_arimoto, models, reference_prior
from refprior.exact._arrays import scattered
from refprior.exact.channels import NoisyMean
from refprior.exact.channels._components import Components


def tosses(count: int) -> Channel:
    """One toss of each of several coins: log 2 nats for each."""
    heads = np.array(list(itertools.product((0, 1), repeat=count)))

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.where(heads == 1, np.log(w)[:, None], np.log(1 - w)[:, None])
        return np.asarray(logs.sum(axis=2))

    return Channel.from_function(log_likelihood, bounds=[(0, 1)] * count, outcomes=np.arange(2.0**count))


def test_three_weights_of_a_regression() -> None:
    x = np.random.default_rng(0).normal(size=(6, 3))
    channel = models.logistic_regression(x, bounds=[(-2, 2)] * 3)
    prior = reference_prior(channel, tolerance=1e-9)
    assert prior.evidence == "certified"
    trial = np.random.default_rng(1).uniform(-2, 2, (20_000, 3))
    assert prior.gain(trial).max() <= prior.information + prior.gap
    grid = np.array(list(itertools.product(np.linspace(-2, 2, 9), repeat=3)))
    rough = blahut_arimoto(channel, grid, iterations=500)
    assert prior.information - 0.01 < rough.information[-1] <= prior.information + prior.gap


def test_a_multinomial_is_as_symmetric_as_its_categories() -> None:
    """Four categories, three parameters: the output distribution does not change when categories are exchanged."""
    prior = reference_prior(models.multinomial(4, 3), tolerance=1e-9)
    assert prior.evidence == "certified"
    counts, p = prior.channel.outcomes, prior.predictive()
    for order in itertools.permutations(range(4)):
        place = [int(np.flatnonzero(np.all(counts == row, axis=1))[0]) for row in counts[:, order]]
        assert p[place] == pytest.approx(p, abs=1e-9)


def test_three_coins_are_three_coins() -> None:
    prior = reference_prior(tosses(3), tolerance=1e-9)
    assert prior.evidence == "certified"
    assert prior.information == pytest.approx(3 * math.log(2), abs=1e-9)


def test_four_parameters_are_searched() -> None:
    """Corners of a box of four parameters; the answer is right, and no bound is claimed."""
    prior = reference_prior(tosses(4), tolerance=1e-6)
    assert prior.evidence == "searched"
    assert not prior.certified
    assert not prior.atoms_certified
    assert prior.information == pytest.approx(4 * math.log(2), abs=1e-6)


def test_four_means_are_four_gaussians() -> None:
    channel = Channel.from_mean(lambda w: w, sigma=1.0, bounds=[(-0.5, 0.5)] * 4, curvature=0)
    prior = reference_prior(channel, tolerance=1e-5)
    assert prior.evidence == "searched"
    assert prior.information == pytest.approx(4 * reference_prior(Gaussian(0.5)).information, abs=1e-5)


def test_nine_observations_of_one_mean_are_one() -> None:
    """Rotated, eight of them tell nothing: a third of the noise."""
    channel = Channel.from_mean(lambda w: w[:, None] * np.ones(9), sigma=3.0, bounds=(-2, 2), curvature=0)
    prior, one = reference_prior(channel), reference_prior(Gaussian(2.0))
    assert prior.information == pytest.approx(one.information, abs=1e-10)
    seen = np.random.default_rng(0).normal(0.5, 3.0, 9)
    assert prior.posterior(seen).weights == pytest.approx(one.posterior(seen.mean()).weights, abs=1e-6)
    assert channel.outcomes.shape[1] == 9


def test_what_is_left_out_is_counted_and_proves_nothing() -> None:
    def mean(w: np.ndarray) -> np.ndarray:
        return np.stack([w, 1e-4 * w**2, 0 * w, 0 * w], axis=1)

    channel = Channel.from_mean(mean, sigma=1.0, bounds=(-2, 2), curvature=1e-3)
    assert isinstance(channel, NoisyMean)
    assert 1e-9 < channel.components.left_out < 1e-6
    assert channel.tail > channel.components.left_out
    prior = reference_prior(channel, tolerance=1e-5)
    assert prior.evidence == "certified"
    assert prior.gap >= channel.components.left_out
    assert prior.information == pytest.approx(reference_prior(Gaussian(2.0)).information, abs=1e-7)


def test_components_keep_distances() -> None:
    means = np.random.default_rng(0).normal(size=(50, 5)) * [3, 1, 0.1, 0.01, 1e-9]
    components = Components.of(means)
    short = components.of_means(means)
    assert short.shape[1] == 4
    apart = [np.linalg.norm(x[:, None] - x[None], axis=2) for x in (means, short)]
    assert apart[0] == pytest.approx(apart[1], abs=1e-8)
    for z, log_weight in components.nodes(components.precision):  # a density sums to one wherever the mean is
        for m in components.ranges[0] if len(z) > 40 else (0.0,):
            density = np.exp(log_weight - (z - m) ** 2 / 2) / math.sqrt(2 * math.pi)
            assert density.sum() == pytest.approx(1, abs=1e-7) or len(z) <= 40


def test_sums_of_three_decays_are_proved() -> None:
    """Five times; most of the prior is on edges, where decays are equal, or at the ends."""
    prior = reference_prior(models.exponentials([1, 2, 3, 4, 5], terms=3, sigma=0.6), tolerance=1e-3)
    assert prior.evidence == "proved"
    assert np.all(np.diff(prior.atoms, axis=1) >= 0)
    edge = np.isclose(prior.atoms, 0) | np.isclose(prior.atoms, 1)
    equal = np.isclose(np.diff(prior.atoms, axis=1), 0).any(axis=1)
    assert np.all(edge.any(axis=1) | equal)
    trial = np.random.default_rng(0).uniform(0, 1, (4000, 3))
    assert prior.gain(trial).max() <= prior.information + prior.gap


def test_scattered_points_reach_corners() -> None:
    box = np.array([[0.0, 1.0]] * 4)
    points = scattered(box, 512)
    assert 490 < len(points) <= 512 + 16
    assert np.all((points >= 0) & (points <= 1))
    corners = np.all((points == 0) | (points == 1), axis=1)
    assert corners.sum() == 16  # one that was left out once hid 9e-3 nats from a search
    assert np.array_equal(points, scattered(box, 512))
