"""Proofs hold for right priors and are refused for wrong ones."""

from dataclasses import replace

import numpy as np
import pytest

from refprior.exact import Coin, Gaussian, Solution, certify, reference_prior, two_stage_prior
from refprior.exact._proof import Proof

pytest.importorskip("flint")


def prove(solution: Solution) -> Proof:
    return solution.channel.prove(solution.atoms, solution.weights, tolerance=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 30, 100])
def test_capacity_is_proven_to_1e12(n: int) -> None:
    solution = certify(reference_prior(Coin(n)), proof=True)
    assert solution.proof is not None
    assert solution.proof.upper - solution.proof.lower <= 1.01e-12
    assert solution.proof.lower - 1e-13 <= solution.information <= solution.proof.upper
    assert "proved by ball arithmetic" in str(solution)


def test_the_proven_interval_contains_closed_forms() -> None:
    proof = prove(reference_prior(Coin(2)))
    assert proof.lower <= np.log(17 / 8) <= proof.upper


@pytest.mark.parametrize("size", [1e-4, 1e-8, 1e-11])
def test_wrong_weights_are_not_proven(size: float) -> None:
    solution = reference_prior(Coin(10))
    weights = solution.weights + size * np.array([1, -1, 0, -1, 1])
    with pytest.raises(ArithmeticError, match="not within it"):
        prove(replace(solution, weights=weights))


def test_misplaced_atoms_are_not_proven() -> None:
    solution = reference_prior(Coin(10))
    moved = solution.coordinates + 1e-5 * np.array([[0], [1], [0], [-1], [0]])
    with pytest.raises(ArithmeticError, match="not within it"):
        prove(replace(solution, coordinates=moved))


def test_missing_atoms_are_not_proven() -> None:
    solution = reference_prior(Coin(10))
    keep = np.array([True, True, False, True, True])
    weights = solution.weights[keep] / solution.weights[keep].sum()
    with pytest.raises(ArithmeticError, match="not within it"):
        prove(replace(solution, coordinates=solution.coordinates[keep], weights=weights))


def test_other_models_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="one-stage prior of a coin"):
        certify(reference_prior(Gaussian(1.0)), proof=True)
    with pytest.raises(ValueError, match="one-stage prior of a coin"):
        certify(two_stage_prior(Coin, m=1, n=1), proof=True)
    with pytest.raises(ValueError, match="at most 400 tosses"):
        certify(reference_prior(Coin(450), tolerance=1e-3), proof=True)
