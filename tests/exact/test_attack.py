"""Random models with narrow structure against brute force: no answer may be below what two parameters reach."""

from collections.abc import Callable

import numpy as np
import pytest

from refprior.exact import Channel, reference_prior

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
