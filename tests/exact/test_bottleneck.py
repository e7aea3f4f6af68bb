"""The predictive information bottleneck against identities, closed forms and brute force on tiny alphabets."""

import itertools
import math

import numpy as np
import pytest

from refprior.exact import predictive_bottleneck

BETAS = [0.0, 0.1, 0.3, 0.5, 0.7, 1.0]


def information(joint: np.ndarray) -> float:
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    seen = joint > 0
    return float(np.sum(joint[seen] * np.log(joint[seen] / independent[seen])))


def tables() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.dirichlet(np.full(size[0] * size[1], 0.4)).reshape(size) for size in ((2, 2), (2, 3), (3, 2))]


@pytest.mark.parametrize("joint", tables(), ids=lambda joint: "x".join(map(str, joint.shape)))
def test_the_curve_has_the_properties_of_every_bottleneck(joint: np.ndarray) -> None:
    curve = predictive_bottleneck(joint, BETAS)
    for found in curve:
        assert found.encoder.sum(axis=1) == pytest.approx(np.ones(len(joint)))
        assert found.weights == pytest.approx(joint.sum(axis=1) @ found.encoder)
        assert found.predictions * found.weights[:, None] == pytest.approx(found.encoder.T @ joint)
        assert 0 <= found.predicted <= found.retained + 1e-12  # what is not retained cannot be predicted
    assert curve[0].predicted == pytest.approx(information(joint), abs=1e-12)  # β = 0 keeps everything
    assert curve[-1].retained == pytest.approx(0.0, abs=1e-9)  # β = 1 forgets everything
    for smaller, larger in itertools.pairwise(curve):
        assert smaller.retained >= larger.retained - 1e-7
        assert smaller.predicted >= larger.predicted - 1e-7
        # max over encoders of a function linear in β is convex: its slope is minus what is retained
        drop, step = smaller.objective - larger.objective, larger.beta - smaller.beta
        assert larger.retained * step - 1e-7 <= drop <= smaller.retained * step + 1e-7


@pytest.mark.parametrize("joint", tables()[:2], ids=lambda joint: "x".join(map(str, joint.shape)))
@pytest.mark.parametrize("beta", [0.05, 0.2, 0.4])
def test_no_encoder_of_a_fine_grid_is_better(joint: np.ndarray, beta: float) -> None:
    shares = np.linspace(0, 1, 201)
    best = 0.0
    for a in shares:
        for b in shares:
            encoder = np.array([[a, 1 - a], [b, 1 - b]])
            objective = information(encoder.T @ joint) - beta * information(joint.sum(axis=1)[:, None] * encoder)
            best = max(best, objective)
    assert best - 1e-10 <= predictive_bottleneck(joint, [beta])[0].objective <= best + 1e-3


def test_a_symmetric_pair_has_a_closed_form() -> None:
    """Two bits that differ with probability p: the best encoder is a symmetric channel (Mrs. Gerber's lemma)."""
    p = 0.1

    def entropy(q: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.nan_to_num(-q * np.log(q) - (1 - q) * np.log(1 - q)))

    joint = np.array([[1 - p, p], [p, 1 - p]]) / 2
    q = np.linspace(0, 0.5, 100_001)
    for beta in (0.2, 0.5, 0.63, 0.65, 0.8):
        retained, predicted = math.log(2) - entropy(q), math.log(2) - entropy(q * (1 - p) + (1 - q) * p)
        found = predictive_bottleneck(joint, [beta])[0]
        assert found.objective == pytest.approx(float(np.max(predicted - beta * retained)), abs=1e-8)
        # nothing is worth retaining from the squared correlation (1 − 2p)² = 0.64 on
        assert (found.retained > 1e-3) == (beta < 0.64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.6]], [0.5]), "joint must sum to 1, got a sum of 1.1"),
        (([0.5, 0.5], [0.5]), "joint must be a table"),
        (([[0.5, 0.5], [0.0, 0.0]], [0.5]), "row 1 of joint has no probability"),
        (([[0.5, 0.5]], [1.5]), "betas must lie between 0"),
    ],
)
def test_mistakes_are_named(arguments: tuple[list[float], list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predictive_bottleneck(*arguments)
