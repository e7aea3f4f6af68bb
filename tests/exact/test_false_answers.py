"""Answers that were once false, each with what it must say: narrow peaks, ridges, cusps, steps, bifurcations.

Every bound is checked against a prior found by brute force, or against one that is known to be as good.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from refprior.exact import Channel, Coin, ExponentialDecay, Gaussian, Poisson, Solution, reference_prior
from refprior.exact.certificate import judge
from refprior.exact.channels import to_coordinates
from refprior.exact.oracle import Objective

pytestmark = pytest.mark.filterwarnings("ignore:unfinished")
Probability = Callable[[np.ndarray], np.ndarray]
SQUARE = [(0.0, 1.0), (0.0, 1.0)]


def binary(p: Probability, bounds: object = (0.0, 1.0)) -> Channel:
    """Two outcomes, the first with probability p(w)."""
    return Channel.from_function(
        lambda w: np.log(np.stack([p(w), 1 - p(w)], axis=1)),
        bounds=bounds,  # type: ignore[arg-type]
        outcomes=[0.0, 1.0],
    )


def capacity_between(low: float, high: float) -> float:
    """Capacity of a binary channel whose probabilities reach from low to high, by a fine search over weights."""
    share = np.linspace(0, 1, 200_001)[1:-1]

    def entropy(p: np.ndarray | float) -> np.ndarray:
        p = np.asarray(p)
        return np.asarray(-p * np.log(p) - (1 - p) * np.log(1 - p))

    mixed = share * high + (1 - share) * low
    return float(np.max(entropy(mixed) - share * entropy(high) - (1 - share) * entropy(low)))


def cusp(w: np.ndarray) -> np.ndarray:
    return np.asarray(0.95 - 0.9 * np.sqrt(np.abs(w - 0.337123)))


def ridge(w: np.ndarray) -> np.ndarray:
    along, across = np.exp(-(((w[:, 1] - 0.62) / 0.1) ** 2) / 2), w[:, 0] - 0.5 * w[:, 1] - 0.237
    return np.asarray(0.05 + 0.1 * (w[:, 0] + w[:, 1]) + 0.7 * along * np.exp(-((across / 0.002) ** 2) / 2))


def bump(x: float, y: float) -> Probability:
    def p(w: np.ndarray) -> np.ndarray:
        distance = (w[:, 0] - x) ** 2 + (w[:, 1] - y) ** 2
        return np.asarray(0.05 + 0.1 * (w[:, 0] + w[:, 1]) + 0.7 * np.exp(-distance / (2 * 0.002**2)))

    return p


def step(width: float, at: float) -> Probability:
    return lambda w: 0.02 + 0.96 / (1 + np.exp(-np.clip((w - at) / width, -700, 700)))


def covers(solution: Solution, reached: float) -> bool:
    """Whether what another prior reaches lies within information + gap."""
    return reached <= solution.information + solution.gap


def test_a_cusp_between_doubles_is_within_the_gap() -> None:
    """The capacity is that of .95 against p(1); no double is nearer to the cusp than 5e-17."""
    solution = reference_prior(binary(cusp))
    assert covers(solution, capacity_between(float(cusp(np.array([1.0]))[0]), 0.95))
    assert solution.gap < 1e-6


@pytest.mark.parametrize("at", [1.2484000000000002, 1.5452000000000001, 1.6936, 1.7307000000000001])
def test_a_cusp_at_a_double_that_coordinates_miss_is_within_the_gap(at: float) -> None:
    """The two doubles beside the cusp have equal gains, 7e-9 nats below the cusp itself."""

    def p(w: np.ndarray) -> np.ndarray:
        return np.asarray(0.9 - 0.6 * np.sqrt(np.abs(w - at)))

    solution = reference_prior(binary(p, (1.0, 2.0)), tolerance=1e-6)
    assert covers(solution, capacity_between(float(p(np.array([1.0, 2.0])).min()), 0.9) - 1e-11)
    assert solution.evidence == "certified"


def test_a_narrow_ridge_in_two_dimensions_is_followed() -> None:
    solution = reference_prior(binary(ridge, SQUARE), tolerance=1e-5)
    line = np.linspace(0.3, 0.9, 20_001)
    top = ridge(np.stack([0.5 * line + 0.237, line], axis=1)).max()
    assert covers(solution, capacity_between(0.05, float(top)))
    assert solution.information > 0.3947


@pytest.mark.parametrize("place", [(0.4137, 0.6211), (0.381, 0.6187), (0.1333, 0.8777), (0.9001, 0.317)])
def test_a_narrow_bump_in_two_dimensions_is_found(place: tuple[float, float]) -> None:
    solution = reference_prior(binary(bump(*place), SQUARE), tolerance=1e-8)
    top = float(bump(*place)(np.array([place]))[0])
    assert covers(solution, capacity_between(0.05, top))
    assert solution.information > 0.33


@pytest.mark.parametrize("share", [42, 62, 100, 128])
@pytest.mark.parametrize("place", [(0.3137, 0.6411), (0.8293, 0.1177)])
def test_a_weak_bump_of_a_rare_outcome_is_found(share: int, place: tuple[float, float]) -> None:
    """A bump whose full width at half maximum is a small share of both axes; steps of √p there are below 0.002."""
    width = 1 / (2 * math.sqrt(2 * math.log(2)) * share)

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        rare = 1e-5 + 2e-5 * np.exp(-np.sum((w - place) ** 2, axis=1) / (2 * width**2))
        p = 0.5 + 1e-4 * (w[:, 0] - w[:, 1])
        return np.asarray(np.log(np.stack([(1 - rare) * p, (1 - rare) * (1 - p), rare], axis=1)))

    channel = Channel.from_function(log_likelihood, bounds=SQUARE, outcomes=[0.0, 1.0, 2.0])
    solution = reference_prior(channel, tolerance=1e-9)
    rows = np.exp(log_likelihood(np.vstack([solution.atoms, place])))
    log_mixture = np.log(solution.weights @ rows[:-1])
    assert np.sum(rows[-1] * (np.log(rows[-1]) - log_mixture)) <= solution.information + solution.gap + 1e-14


@pytest.mark.parametrize("at", [0.337123, 0.5, 0.9, 1e-4, 0.73205])
@pytest.mark.parametrize("width", [1e-9, 1e-12])
def test_a_step_far_narrower_than_any_grid_is_found(width: float, at: float) -> None:
    solution = reference_prior(binary(step(width, at)))
    assert covers(solution, capacity_between(0.02, 0.98) - 1e-12)
    assert solution.evidence == "certified"


def test_a_step_that_rises_and_falls_within_the_grid() -> None:
    """Both sides look alike from afar; only neighbors that barely overlap tell."""

    def p(w: np.ndarray) -> np.ndarray:
        return np.asarray(step(1e-9, 0.3)(w) - step(1e-9, 0.31)(w) + 0.02)

    assert covers(reference_prior(binary(p)), capacity_between(0.02, 0.98) - 1e-12)


def test_the_gap_never_exceeds_the_log_of_the_number_of_outcomes() -> None:
    channel = binary(bump(0.4137, 0.6211), SQUARE)
    objective = Objective((channel,))
    corners = to_coordinates(channel, [[0.0, 0.0], [1.0, 1.0]])
    certificate = judge(objective, corners, np.array([0.5, 0.5]))
    assert certificate.information + certificate.gap <= math.log(2) + 1e-14


@pytest.mark.parametrize(
    ("channel", "tolerance"),
    [(Poisson(3.3679401722742), 1e-12), (Poisson(3.3685), 1e-3), (Gaussian(1.66594), 1e-3)],
    ids=repr,
)
def test_a_summit_without_an_atom_is_not_overlooked(channel: Channel, tolerance: float) -> None:
    """Two atoms reach the tolerance, but the optimum has three."""
    solution = reference_prior(channel, tolerance=tolerance)
    assert len(solution.atoms) == 3 or not solution.atoms_certified


def test_no_amplitude_just_above_a_fork_ends_in_an_error() -> None:
    """The third atom has next to no weight there; at this one a step of the ascent once found no atom left."""
    fork = 3.367940172274632
    amplitudes = fork + np.concatenate([np.arange(4) * np.spacing(fork), np.logspace(-14, -7, 8)])
    for amplitude in amplitudes:
        solution = reference_prior(Poisson(float(amplitude)))
        assert solution.evidence == "certified"
        assert solution.information == pytest.approx(reference_prior(Poisson(fork - 1e-6)).information, abs=1e-6)


def circle(w: np.ndarray) -> np.ndarray:
    """Four outcomes on a closed curve: any two opposite maxima of the gain do as well as all four."""
    t = 2 * np.pi * w[:, None] + 1.0
    return np.log(0.25 * np.concatenate([1 + 0.9 * f for f in (np.cos(t), -np.cos(t), np.sin(t), -np.sin(t))], axis=1))


def test_atoms_are_not_certified_where_fewer_do_as_well() -> None:
    channel = Channel.from_function(circle, bounds=(0.0, 1.0), outcomes=np.arange(4.0))
    solution = reference_prior(channel)
    assert not solution.atoms_certified
    places = np.array([0.25, 0.5, 0.75, 1.0]) - 1 / (2 * np.pi)
    four = judge(Objective((channel,)), to_coordinates(channel, places), np.full(4, 0.25))
    two = judge(Objective((channel,)), to_coordinates(channel, places[::2]), np.full(2, 0.5))
    assert two.information == pytest.approx(four.information, abs=1e-14)
    assert not four.atoms_certified
    assert not two.atoms_certified


GOOD = [*(Coin(n) for n in (1, 2, 5, 10, 20, 50, 100)), *(Gaussian(a) for a in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0))]
GOOD += [*(Poisson(a) for a in (1.0, 3.0, 5.0, 10.0, 20.0)), ExponentialDecay(sigma=0.2)]


@pytest.mark.parametrize("channel", GOOD, ids=repr)
def test_good_certificates_are_kept(channel: Channel) -> None:
    assert reference_prior(channel, tolerance=1e-11).atoms_certified


def test_a_model_that_looks_symmetric_on_a_coarse_grid_only() -> None:
    """Its gain has four equal periods; a prior mirrored at the middle would lose 6e-5 nats."""

    def shallow(w: np.ndarray) -> np.ndarray:
        t = 2 * np.pi * w[:, None] + 0.3
        parts = [1 + 0.3 * f for f in (np.cos(t), -np.cos(t), np.sin(t), -np.sin(t))]
        return np.asarray(np.log(0.25 * np.concatenate(parts, axis=1)))

    solution = reference_prior(Channel.from_function(shallow, bounds=(0.0, 1.0), outcomes=np.arange(4.0)))
    assert solution.evidence == "certified"


@pytest.mark.parametrize("width", [0.02, 0.03, 0.06])
def test_a_curved_ridge_is_followed_to_its_ends(width: float) -> None:
    """A ring of which a part is in the box: sixty moves along it were too few, and the gap was 3e-3."""

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        height = np.exp(-(((np.hypot(w[:, 0] - 0.4, w[:, 1] - 0.5) - 0.45) / width) ** 2) / 2)
        logits = np.stack([2 * height, 0 * height, w[:, 0]], axis=1)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    channel = Channel.from_function(log_likelihood, bounds=SQUARE, outcomes=[0.0, 1.0, 2.0])
    solution = reference_prior(channel, tolerance=1e-6)
    assert solution.evidence == "certified"
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 100_000), 0.45 + width * rng.normal(size=100_000)
    trial = np.clip(np.stack([0.4 + radius * np.cos(angle), 0.5 + radius * np.sin(angle)], axis=1), 0, 1)
    assert solution.gain(trial).max() <= solution.information + solution.gap
