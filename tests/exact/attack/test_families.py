"""A seeded part of the attack; `python -m tests.exact.attack` runs all of it."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.exact.attack.brute import accelerated, blahut_arimoto, gains, information
from tests.exact.attack.families import FAMILIES, Answer, fork, forks, independent, nuisances, sampled

pytestmark = pytest.mark.filterwarnings("ignore:unfinished")
QUICK = [
    pytest.param(family, seed, marks=[pytest.mark.thorough] * (family is sampled))
    for family in FAMILIES
    for seed in range(1 if family in (nuisances, sampled) else 3)
]


@pytest.mark.parametrize(("family", "seed"), QUICK, ids=lambda value: getattr(value, "__name__", str(value)))
def test_no_answer_is_false(family: Callable[[np.random.Generator], Answer], seed: int) -> None:
    if family is fork:
        pytest.importorskip("mpmath")
    assert family(np.random.default_rng(10_000 + seed)).false is None


def test_forks_are_where_they_are_known_to_be() -> None:
    pytest.importorskip("mpmath")
    assert [round(float(place), 5) for place in forks()] == [3.36794, 1.66593]


def test_the_brute_force_knows_a_binary_symmetric_channel() -> None:
    rows = np.array([[0.9, 0.1], [0.1, 0.9]])
    capacity = math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)
    assert information(rows, np.full(2, 0.5)) == pytest.approx(capacity, abs=1e-15)
    assert gains(rows, np.full(2, 0.5)) == pytest.approx([capacity, capacity], abs=1e-15)
    assert blahut_arimoto(rows, np.array([0.9, 0.1]))[0] == pytest.approx(capacity, abs=1e-12)
    weights = accelerated(rows, 1e-12)
    assert weights == pytest.approx([0.5, 0.5], abs=1e-6)
    assert independent(rows)
    assert not independent(np.vstack([rows, [[0.5, 0.5]]]))
