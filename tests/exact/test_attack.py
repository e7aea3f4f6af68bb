"""Random models with narrow structure against brute force: no answer may be below what two parameters reach."""

from collections.abc import Callable

import numpy as np
import pytest

from refprior.exact import Categorical, Channel, Coin, Gaussian, Poisson, certify, reference_prior
from refprior.exact.certificate import judge
from refprior.exact.channels import to_coordinates
from refprior.exact.oracle import Objective

pytestmark = pytest.mark.filterwarnings("ignore:unfinished")
SHAPES: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda d: np.exp(-d * d / 2),
    lambda d: np.exp(-np.abs(d)),
    lambda d: 1 / (1 + d * d),
    lambda d: np.where(np.abs(d) < 1, 1.0, 0.0),
]


def capacity_between(low: float, high: float) -> float:
    """Capacity of two outcomes whose probability reaches from low to high, from below."""
    share = np.linspace(0, 1, 20_001)[1:-1]

    def entropy(p: np.ndarray | float) -> np.ndarray:
        return np.asarray(-p * np.log(p) - (1 - p) * np.log(1 - np.asarray(p)))

    mixed = share * high + (1 - share) * low
    return float(np.max(entropy(mixed) - share * entropy(high) - (1 - share) * entropy(low)))


@pytest.mark.parametrize("seed", range(8))
def test_one_parameter(seed: int) -> None:
    """Peaks, cusps and plateaus as narrow as 1/2000 of the axis."""
    rng, shape = np.random.default_rng(seed), SHAPES[seed % 4]
    places, widths, heights = rng.uniform(0, 1, 3), 10 ** rng.uniform(-3.3, -0.5, 3), rng.uniform(-0.4, 0.4, 3)

    def p(w: np.ndarray) -> np.ndarray:
        terms = [a * shape((w - c) / h) for c, h, a in zip(places, widths, heights, strict=True)]
        return np.asarray(np.clip(0.45 + sum(terms), 0.02, 0.98))

    channel = Channel.from_function(
        lambda w: np.log(np.stack([p(w), 1 - p(w)], axis=1)), bounds=(0.0, 1.0), outcomes=[0.0, 1.0]
    )
    near = [np.clip(c + h * np.linspace(-6, 6, 20_001), 0, 1) for c, h in zip(places, widths, strict=True)]
    seen = p(np.concatenate([np.linspace(0, 1, 100_001), *near]))
    prior = reference_prior(channel, tolerance=1e-9)
    assert prior.information + prior.gap >= capacity_between(seen.min(), seen.max()) - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_two_parameters(seed: int) -> None:
    """Tilted bumps and ridges as narrow as 1/250 of the box."""
    rng = np.random.default_rng(seed)
    place, width, angle = rng.uniform(0, 1, 2), 10 ** rng.uniform(-2.4, -0.7, 2), rng.uniform(0, np.pi)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])

    def p(w: np.ndarray) -> np.ndarray:
        along = (w - place) @ turn.T / width
        return np.asarray(0.4 + 0.05 * (w[:, 0] - w[:, 1]) + 0.4 * np.exp(-np.sum(along**2, axis=1) / 2))

    channel = Channel.from_function(
        lambda w: np.log(np.stack([p(w), 1 - p(w)], axis=1)), bounds=[(0.0, 1.0), (0.0, 1.0)], outcomes=[0.0, 1.0]
    )
    side = np.stack(np.meshgrid(*[np.linspace(0, 1, 301)] * 2), axis=-1).reshape(-1, 2)
    seen = p(np.vstack([side, place]))
    prior = reference_prior(channel, tolerance=1e-6)
    assert prior.information + prior.gap >= capacity_between(seen.min(), seen.max()) - 1e-7


@pytest.mark.parametrize("seed", range(12))
def test_tables_with_zeros_and_duplicates_are_proven_and_true(seed: int) -> None:
    """Duplicated rows and outcomes, mixtures of rows, impossible outcomes: against a long Blahut–Arimoto run."""
    pytest.importorskip("flint")
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(rng.integers(2, 7), 10 ** rng.uniform(-2, 1)), rng.integers(2, 7))
    p = np.where(p < 1e-3, 0.0, p)
    p = np.vstack([p, p[:1], (p[0] + p[1]) / 2]) if seed % 2 else np.hstack([p / 2, p / 2])
    p /= p.sum(axis=1, keepdims=True)
    weights = np.full(len(p), 1 / len(p))
    for _ in range(2000):
        output = weights @ p
        gain = np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / np.where(output > 0, output, 1)), 0.0), axis=1)
        weights *= np.exp(gain - gain.max())
        weights /= weights.sum()
    proof = certify(reference_prior(Categorical(p)), proof=True).proof
    assert proof is not None
    assert proof.lower <= gain.max() + 1e-12
    assert proof.upper >= float(weights @ gain) - 1e-9


@pytest.mark.parametrize(
    ("channel", "atoms"),
    [
        (Gaussian(1.665925), 2),
        (Gaussian(1.665927), 3),
        (Gaussian(2.90746), 3),
        (Gaussian(2.90747), 4),
        (Poisson(3.36793), 2),
        (Poisson(3.36795), 3),
    ],
)
def test_numbers_of_atoms_right_beside_a_fork(channel: Channel, atoms: int) -> None:
    """A millionth from the amplitude at which the number changes: certified only if it is right."""
    prior = reference_prior(channel)
    assert prior.certified
    assert len(prior.weights) == atoms or not prior.atoms_certified


def test_a_narrow_bump_of_the_parameter_of_interest() -> None:
    """A bump of 1/100 of the axis, with a nuisance: not below what a fine grid of both parameters reaches."""

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        bump = 3 * np.exp(-(((w[:, 0] - 0.6371) / 0.01) ** 2) / 2)
        logits = np.stack([0.7 * w[:, 0] - w[:, 1] + bump, 0.8 * w[:, 0] * w[:, 1], 1.1 * w[:, 1]], axis=1)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    channel = Channel.from_function(log_likelihood, bounds=[(0.0, 1.0), (0.0, 1.0)], outcomes=[0.0, 1.0, 2.0])
    prior = reference_prior(channel, interest=0, tolerance=1e-5)
    second, rows = np.linspace(0, 1, 401), []
    for first in (0.0, 0.3, 0.6371, 1.0):
        table = np.exp(log_likelihood(np.column_stack([np.full(401, first), second])))
        rows.append(reference_prior(Categorical(table), tolerance=1e-9).predictive())
    reached = reference_prior(Categorical(np.array(rows)), tolerance=1e-9).information
    assert prior.interest.information + prior.interest.gap >= reached - 1e-5


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def jumps(w: np.ndarray) -> np.ndarray:
    """Rows that change from one w to the next double, and slowly in between."""
    rows = np.random.default_rng(0).dirichlet(np.ones(4), (2, 4))
    piece = np.searchsorted([0.137, 0.5123, 0.877], w)
    return np.asarray(np.log((1 - w[:, None]) * rows[0][piece] + w[:, None] * rows[1][piece]))


def supports(w: np.ndarray) -> np.ndarray:
    """Outcomes that are possible only for some w."""
    parts = [
        np.maximum(w - 0.4, 0),
        np.maximum(0.4 - w, 0),
        0.3 + 0.2 * np.sin(5 * w),
        np.maximum(0, 0.05 - np.abs(w - 0.77)),
    ]
    p = np.stack(parts, axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p / p.sum(axis=1, keepdims=True)))


def ledge(w: np.ndarray) -> np.ndarray:
    rows = np.random.default_rng(1).dirichlet(np.ones(3), 3)
    return np.asarray(np.log(rows[np.where(np.abs(w - 0.3371) < 6e-4, 2, np.where(w > 0.5, 1, 0))]))


def chirp(w: np.ndarray) -> np.ndarray:
    return softmax(np.stack([1.5 * np.sin(250 * w**2), 1.5 * np.cos(250 * w**3), 0 * w], axis=1))


def scales(w: np.ndarray) -> np.ndarray:
    """Half of what happens, happens below a millionth."""
    return softmax(0.4 * np.log1p(w / 1e-6)[:, None] * np.arange(4))


@pytest.mark.parametrize("model", [jumps, supports, ledge, chirp, scales])
def test_no_point_of_one_parameter_is_above_the_gap(model: Callable[[np.ndarray], np.ndarray]) -> None:
    outcomes = np.arange(model(np.array([0.5])).shape[1])
    prior = reference_prior(Channel.from_function(model, bounds=(0.0, 1.0), outcomes=outcomes), tolerance=1e-9)
    assert prior.evidence == "certified"
    trial = np.concatenate(
        [np.linspace(0, 1, 200_001), np.logspace(-12, 0, 20_001), 0.3371 + 1e-3 * np.linspace(-1, 1, 9999)]
    )
    assert prior.gain(trial).max() <= prior.information + prior.gap + 1e-14


def test_a_prior_made_wrong_is_never_better_than_its_gap() -> None:
    """Atoms and weights moved by 1e-12 to 0.1: the gap covers every point, and what the right prior tells."""
    rng = np.random.default_rng(3)
    for number in range(24):
        channel = (Coin(int(rng.integers(1, 80))), Gaussian(rng.uniform(0.5, 9)), Poisson(rng.uniform(0.5, 40)))[
            number % 3
        ]
        right = reference_prior(channel, tolerance=1e-10)
        size, (low, high) = 10 ** rng.uniform(-12, -1), channel.bounds[0]
        u = to_coordinates(channel, right.atoms)
        u = np.clip(u + size * (high - low) * rng.normal(size=u.shape), low, high)
        weights = right.weights * np.exp(size * rng.normal(size=len(u)))
        objective = Objective((channel,))
        found = judge(objective, u, weights / weights.sum())
        trial = np.vstack([np.linspace(low, high, 20_001)[:, None], u])
        highest = objective.gain(trial, objective.log_marginals(u, weights / weights.sum())).max()
        assert highest <= found.information + found.gap + 1e-14
        assert right.information <= found.information + found.gap + 1e-12
