"""The best weights on given points: a concave problem, by a primal–dual interior-point method."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from refprior.exact._arrays import Array
from refprior.exact._cost import LOG
from refprior.exact.oracle import Likelihoods

CENTERING = 0.1  # the barrier shrinks by this factor per step, less when a step was cut short


def optimal_weights(table: Likelihoods, tolerance: float, weights: Array | None = None, steps: int = 80) -> Array:
    """Return argmax_π J(π) over weights on the points of the table, to complementarity `tolerance`: -> (K,).

    KKT: G_k + s_k = λ, π_k s_k = 0, Σ π = 1; the linear system is (curvature + diag(s/π)) dπ + dλ = residual.
    In two stages the curvature is singular along π itself, so that Σ π would drift: 1·1ᵀ is added to it, which
    the constraint undoes.
    """
    count = len(table.value)
    uniform = np.full(count, 1 / count)
    pi = uniform if weights is None else 0.9 * weights + 0.1 * uniform
    gains = table.gains(table.own_logs(pi))
    level = gains.max() + 0.1
    slack = level - gains
    for number in range(steps):
        complementarity = float(pi @ slack)
        LOG.info("weights of %d candidates, step %d, complementarity %.0e", count, number, complementarity)
        if complementarity < tolerance and np.abs(level - gains - slack).max() < tolerance:
            break
        step = _step(table, pi, slack, gains, complementarity / count)
        if step is None:
            break
        pi, slack, level = step
        gains = table.gains(table.own_logs(pi))
    return np.asarray(pi / pi.sum())


def _step(table: Likelihoods, pi: Array, slack: Array, gains: Array, mu: float) -> tuple[Array, Array, float] | None:
    """Take a primal–dual step toward complementarity CENTERING · mu; return None if rounding allows none."""
    target = CENTERING * mu
    factor = _factor(table.curvature(pi) + 1.0 + np.diag(slack / pi))
    if factor is None:
        return None
    short = 1 - float(pi.sum())
    solved = cho_solve(factor, np.stack([gains + target / pi + short, np.ones_like(pi)], axis=1), check_finite=False)
    level = float((solved[:, 0].sum() - short) / solved[:, 1].sum())
    step = solved[:, 0] - level * solved[:, 1]
    slack_step = target / pi - slack - slack / pi * step
    length = min(_longest(pi, step), _longest(slack, slack_step))
    return pi + length * step, slack + length * slack_step, level


def _factor(matrix: Array) -> tuple[Array, bool] | None:
    """Return a Cholesky factor, damped where a difference of informations is lost in rounding; None if hopeless."""
    diagonal = np.diag_indices_from(matrix)
    for damping in (0.0, 1e-15, 1e-13, 1e-11):
        matrix[diagonal] += damping * matrix[diagonal].max()
        try:
            factor, lower = cho_factor(matrix, check_finite=False)
            return factor, lower
        except LinAlgError:
            continue
    return None


def _longest(value: Array, step: Array) -> float:
    """Return the longest step below one that keeps the value positive with a margin."""
    shrinking = step < 0
    if not np.any(shrinking):
        return 1.0
    return float(min(1.0, 0.95 * np.min(-value[shrinking] / step[shrinking])))
