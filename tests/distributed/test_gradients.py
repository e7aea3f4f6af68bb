"""Gradients, statistics and memories of a few steps on several ranks are those of one process."""

from typing import Any

import pytest

from tests.distributed.cases import DIVIDED, gradient_cases

NAMES = {world: [f"{m} {n} {p}x{world // p}" for m, n, p in gradient_cases(world)] for world in (2, 4)}
# To rounding only: vmap folds particles and features into one dimension before it normalizes, and BLAS rounds a batch
# of one matrix product (a rank with one perceptron) otherwise than one of four.
ROUNDED = ("Normalized", "MLP 4x1")


@pytest.mark.parametrize("name", NAMES[2])
def test_two_ranks_compute_what_one_does(name: str, two: list[dict[str, Any]]) -> None:
    check(name, two)


@pytest.mark.parametrize("name", NAMES[4])
def test_four_ranks_compute_what_one_does(name: str, four: list[dict[str, Any]]) -> None:
    check(name, four)


def check(name: str, found: list[dict[str, Any]]) -> None:
    """Bit for bit where only particles are shared out, and to 1e-12 where inputs are divided."""
    far = max(rank[name] for rank in found)
    exact = name.endswith("x1") and not any(words in name for words in ROUNDED)
    assert far == 0 if exact else far <= 1e-12


@pytest.mark.parametrize("name", DIVIDED)
def test_a_divided_loss_and_its_scores_are_those_of_one_process(name: str, two: list[dict[str, Any]]) -> None:
    """Gradients in double precision, scores in single."""
    for rank in two:
        gradients, score = rank[f"divided {name}"]
        assert gradients <= 1e-12
        assert score <= 1e-6


def test_a_divided_loss_exchanges_sums_and_no_predictions(two: list[dict[str, Any]]) -> None:
    for rank in two:
        assert set(rank["sent"]["kinds"]) == {"all_reduce"}
        assert rank["sent"]["gathered"] == 0
