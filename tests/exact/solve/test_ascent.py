"""Weights on fixed points against cvxpy and the conditions of the optimum, and Ctrl-C during a search."""

from typing import Any

import numpy as np
import pytest

from refprior.exact import Categorical, Coin, SearchInterrupted, TwoCoins, certify, reference_prior, two_stage_prior
from refprior.exact.oracle import Likelihoods, Objective
from refprior.exact.solve import _ascent, fisher_grid
from refprior.exact.solve._ascent import optimal_weights


def random_table(inputs: int, outcomes: int, seed: int) -> tuple[np.ndarray, Likelihoods]:
    matrix = np.random.default_rng(seed).dirichlet(np.full(outcomes, 0.5), inputs)
    objective = Objective((Categorical(matrix),))
    return matrix, Likelihoods.of_values(objective, np.arange(float(inputs))[:, None])


@pytest.mark.parametrize(("inputs", "outcomes"), [(2, 2), (5, 12), (30, 8), (50, 50)])
def test_conditions_of_the_optimum(inputs: int, outcomes: int) -> None:
    matrix, table = random_table(inputs, outcomes, 0)
    weights = optimal_weights(table, 1e-14)
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert weights.min() >= 0
    marginal = weights @ matrix
    gains = np.sum(np.where(matrix > 0, matrix * np.log(np.maximum(matrix, 1e-300) / marginal), 0.0), axis=1)
    assert gains.max() - weights @ gains <= 1e-13


@pytest.mark.parametrize("seed", range(4))
def test_against_cvxpy(seed: int) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    matrix, table = random_table(8, 6, seed)
    weights = cvxpy.Variable(8, nonneg=True)
    negative_entropy = np.sum(matrix * np.log(matrix), axis=1)
    information = negative_entropy @ weights + cvxpy.sum(cvxpy.entr(weights @ matrix))
    problem = cvxpy.Problem(cvxpy.Maximize(information), [cvxpy.sum(weights) == 1])
    value = problem.solve(solver=cvxpy.CLARABEL)
    ours = optimal_weights(table, 1e-13)
    marginal = ours @ matrix
    assert ours @ negative_entropy - marginal @ np.log(marginal) == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("spacing", [1.0, 1.5])
def test_weights_of_two_stages_reach_the_optimum(spacing: float) -> None:
    """The curvature is singular along the weights: without 1·1ᵀ their sum drifts, and they end far away."""
    objective = Objective((Coin(200), Coin(100)), (1.0, -1.0))
    table = Likelihoods.of_values(objective, fisher_grid(objective.channel, spacing).points)
    weights = optimal_weights(table, 1e-12)
    gains = table.gains(table.own_logs(weights))
    assert gains.max() - weights @ gains <= 1e-10
    assert weights == pytest.approx(weights[::-1], abs=1e-10)


def test_a_good_start_is_used() -> None:
    _, table = random_table(20, 20, 3)
    best = optimal_weights(table, 1e-13)
    assert optimal_weights(table, 1e-13, best) == pytest.approx(best, abs=1e-6)


def interrupted_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of an ascent."""
    done, step = 0, _ascent._step_within

    def counted(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done > steps:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(_ascent, "_step_within", counted)


def test_the_exception_carries_the_best_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupted_after(3, patch)
        with pytest.raises(KeyboardInterrupt) as caught:
            reference_prior(Coin(30))
    assert isinstance(caught.value, SearchInterrupted)
    best = caught.value.best
    assert best.evidence == "unfinished"
    assert str(best).startswith("unfinished: interrupted; this is the best prior so far, and its gap is not known")
    assert best.to_dict()["gap"] is None
    judged = certify(best)
    truth = 1.6426952849
    assert judged.information <= truth + 1e-9
    assert judged.information + judged.gap >= truth - 1e-9


def test_two_stages_and_parts_of_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(2, monkeypatch)
    with pytest.raises(SearchInterrupted) as caught:
        two_stage_prior(Coin, m=5, n=20)
    assert len(caught.value.best.objective.channels) == 2
    with pytest.raises(SearchInterrupted) as caught:
        reference_prior(TwoCoins(20))
    assert caught.value.best.channel.dimension in (1, 2)


def test_nothing_found_yet_is_a_plain_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ascent, "note", lambda *arguments: None)
    interrupted_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as caught:
        reference_prior(Coin(30))
    assert not isinstance(caught.value, SearchInterrupted)
