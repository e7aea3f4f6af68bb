"""A user's mean with Gaussian noise: the built-in models again, three parameters, proofs, and mistakes."""

import math
from typing import Any

import numpy as np
import pytest

from refprior.exact import Channel, ExponentialDecay, Gaussian, Solution, blahut_arimoto, reference_prior
from refprior.exact.certificate import _bound, _maxima
from refprior.exact.channels._components import Components
from refprior.exact.oracle import Objective

TIMES = np.array([1.0, 2.0])


def decay(w: np.ndarray) -> np.ndarray:
    return np.asarray(np.mean(w[:, :, None] ** TIMES, axis=1))


def three(w: np.ndarray) -> np.ndarray:
    """Three rates at two times."""
    return np.asarray(np.mean(w[:, :, None] ** TIMES, axis=1))


def two_parameters(**options: Any) -> Channel:
    return Channel.from_mean(decay, sigma=0.2, bounds=[(0, 1), (0, 1)], **options)


BEND = np.array([0.0, 1.0])[:, None, None] * np.eye(2)


def test_a_line_is_the_built_in_gaussian() -> None:
    ours = reference_prior(Channel.from_mean(lambda w: 3 * w + 1, sigma=1.5, bounds=(-1, 1), curvature=0))
    theirs = reference_prior(Gaussian(2.0))
    assert ours.evidence == "proved"
    assert ours.information == pytest.approx(theirs.information, abs=1e-13)
    assert 2 * ours.atoms == pytest.approx(theirs.atoms, abs=1e-7)
    assert ours.posterior(1.4).weights.sum() == pytest.approx(1)


def test_two_decays_are_the_built_in_ones() -> None:
    ours, theirs = two_parameters(curvature=BEND), ExponentialDecay(sigma=0.2)
    prior = reference_prior(ours, tolerance=1e-9)
    assert prior.evidence == "proved"
    assert prior.information == pytest.approx(1.018860689067, abs=1e-9)
    w = np.random.default_rng(0).uniform(0, 1, (7, 2))
    logs = [c.log_likelihood_of(c.coordinate(w), [0.3, 0.2]) for c in (ours, theirs)]
    assert np.diff(logs[0]) == pytest.approx(np.diff(logs[1]), abs=1e-10)


def test_a_curvature_that_is_measured_proves_nothing() -> None:
    assert reference_prior(two_parameters(), tolerance=1e-9).evidence == "certified"


def test_rows_are_derivatives_of_the_likelihood() -> None:
    channel = two_parameters()
    u, step = np.array([[0.3, 0.6], [0.8, 0.45]]), 1e-5
    rows, values = channel.rows(u), np.cos(np.arange(len(channel.outcomes)))
    for axis in (0, 1):
        move = step * np.eye(2)[axis]
        ahead, behind = np.exp(channel.log_likelihood(u + move)), np.exp(channel.log_likelihood(u - move))
        assert rows.first[:, axis] == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)
        change = (channel.rows(u + move).first @ values - channel.rows(u - move).first @ values) / (2 * step)
        assert rows.second(values)[:, axis] == pytest.approx(change, abs=2e-4)


def test_three_parameters() -> None:
    bend = (2 / 3) * np.array([0.0, 1.0])[:, None, None] * np.eye(3)
    channel = Channel.from_mean(three, sigma=0.4, bounds=[(0, 1)] * 3, curvature=bend)
    prior = reference_prior(channel, tolerance=1e-6)
    assert prior.evidence == "proved"
    grid = np.stack(np.meshgrid(*[[0, 0.4, 1]] * 3), axis=-1).reshape(-1, 3)
    rough = blahut_arimoto(channel, grid, iterations=300).information[-1]
    assert prior.information - 0.01 < rough <= prior.information + prior.gap
    trial = np.random.default_rng(0).uniform(0, 1, (4000, 3))
    assert prior.gain(trial).max() <= prior.information + prior.gap
    assert prior.atoms.shape == (len(prior.weights), 3)
    assert prior.plot().get_xlabel() == "$w_1$"


def test_a_grid_too_coarse_for_three_parameters_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work for the proof and for the grid is limited; what remains says so."""
    monkeypatch.setattr(_bound, "MOST_CELLS", 1000)
    monkeypatch.setattr(_maxima, "MOST_POINTS", 15_000)
    channel = Channel.from_mean(three, sigma=0.4, bounds=[(0, 1)] * 3, curvature=1e9)
    prior = reference_prior(channel, tolerance=1e-3)
    assert prior.evidence == "searched"
    assert not prior.certified
    assert str(prior).startswith("searched: ")


def test_three_parameters_without_a_declared_curvature_are_certified() -> None:
    channel = Channel.from_mean(three, sigma=0.5, bounds=[(0, 1)] * 3)
    assert reference_prior(channel, tolerance=1e-4).evidence == "certified"


def test_a_mean_too_fine_to_follow_has_no_gap() -> None:
    channel = Channel.from_mean(lambda w: np.sin(3e5 * w), sigma=10.0, bounds=(0, 1))
    prior = Solution.from_coordinates(Objective((channel,)), np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), 1.0)
    assert prior.gap == np.inf
    assert prior.evidence == "unfinished"
    assert "nothing bounds it" in str(prior)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": 3}, "mean must be a function"),
        ({"sigma": 0}, "sigma must be above 0"),
        ({"sigma": [1, 2, 3, 4, 5, 6, 7]}, r"sigma must be a number or broadcast to .* got shape \(7,\)"),
        ({"curvature": [1, 2, 3, 4, 5, 6, 7]}, "curvature must be a number or broadcast to"),
        ({"mean": lambda w: np.zeros((len(w), 0))}, "mean returned shape"),
        ({"sigma": "a"}, "sigma must be numbers"),
        ({"bounds": [(0, 1)] * 31}, "up to 30 parameters"),
        ({"mean": lambda w: float(w)}, r"mean failed on an array of parameters of shape \(3,\) \(TypeError"),
        ({"mean": lambda w: 1.0}, "one row for each of 3 parameters"),
        ({"mean": lambda w: np.where(w > 0.9, np.nan, w)}, r"not finite at w = \[1.0\]"),
        ({"curvature": -1}, "curvature must be at least 0"),
        ({"mean": lambda w: 5 * np.sin(9 * w), "curvature": 1e-3}, "curvature = 0.001 is not an upper bound"),
        ({"mean": lambda w: 5 * np.sin(9 * w), "curvature": 403.0}, "curvature = 403 is not an upper bound"),
        ({"mean": lambda w: w[:, 0] * w[:, 1], "bounds": [(0, 1), (0, 1)], "curvature": 0.9}, "parameters 0 and 1"),
        (
            {"mean": lambda w: w, "bounds": [(0, 1)] * 3, "sigma": 1e-4},
            "a grid of outcomes would have .* take a larger sigma, narrower bounds or fewer observations",
        ),
        ({"sigma": 1e-10}, r"means reach 5e\+09 standard deviations from their middle"),
        ({"sigma": 1e-300}, "means reach more than 1e.12 standard deviations"),
        ({"mean": lambda w: 1e308 * w}, "means reach more than 1e.12 standard deviations"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"mean": lambda w: w, "sigma": 1.0, "bounds": (0, 1), **options}
    with pytest.raises(ValueError, match=message):
        Channel.from_mean(settings.pop("mean"), **settings)


def test_thousands_of_observations_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their mean tells all: 4000 of them with a standard deviation of √4000 are one of 1."""
    observed = 4000
    channel = Channel.from_mean(
        lambda w: np.repeat(w[:, None], observed, axis=1), sigma=math.sqrt(observed), bounds=(-1, 1)
    )
    with monkeypatch.context() as patched:
        patched.setattr(Components, "outcomes", None)  # a list would have 4000 numbers for every outcome
        prior = reference_prior(channel)
    assert prior.information == pytest.approx(reference_prior(Gaussian(1.0)).information, abs=1e-9)
    assert channel.outcomes.shape == (channel.outcome_count, observed)


def test_no_information_has_no_sign() -> None:
    prior = reference_prior(Channel.from_mean(lambda w: 0 * w, sigma=1.0, bounds=(0, 1)))
    assert "information 0.000" in str(prior)
