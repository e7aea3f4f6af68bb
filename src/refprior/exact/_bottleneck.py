"""The predictive information bottleneck on finite alphabets, by a Blahut–Arimoto iteration in log space.

Shapes: X outcomes of the first stage, Y of the second, K states of w, B values of β.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers

MOST_ITERATIONS = 3000
CONVERGED = 1e-13  # nats by which a step still raises the objective
RANDOM_STARTS = 4  # beside the encoder of the last β


@dataclass(frozen=True, eq=False, kw_only=True)
class Bottleneck:
    """An encoder p(w | z^m), and the information of its w about both stages."""

    beta: float
    encoder: Array  # (X, K) p(w | z^m)
    weights: Array  # (K,) p(w)
    predictions: Array  # (K, Y) p(z^n | w)
    retained: float  # I(w; z^m), in nats
    predicted: float  # I(w; z^n), in nats

    @property
    def objective(self) -> float:
        """I(w; z^n) − β I(w; z^m)."""
        return self.predicted - self.beta * self.retained


def predictive_bottleneck(
    joint: ArrayLike, betas: Sequence[float], *, states: int | None = None, seed: int = 0
) -> list[Bottleneck]:
    """Compress the outcome of a first stage to what predicts the second.

    Maximizes I(w; z^n) − β I(w; z^m) over encoders p(w | z^m) (eq:pib), with w — z^m — z^n a Markov chain. The results
    for increasing β trace the curve of `predicted` against `retained`.

    Parameters
    ----------
    joint : array_like of shape (X, Y)
        The joint distribution p(z^m, z^n) of both stages.
    betas : sequence of float
        Weights of the first stage, from 0 (keep everything) to 1 (forget everything).
    states : int, optional
        Number of values of w. Default: X, which no optimum exceeds.
    seed : int, default: 0
        Seed of the random starts.

    Returns
    -------
    list of Bottleneck
        One result for each β, in the order given, with `encoder` (X, K), `weights` (K,), `predictions` (K, Y),
        `retained`, `predicted` and `objective`.

    Notes
    -----
    The iteration p(w | z^m) ∝ p(w) exp(−KL(p(z^n | z^m), p(z^n | w)) / β) never lowers the objective. The objective is
    not concave: the result is the best of the encoder of the next smaller β, the encoder that forgets everything, and
    four random starts, and no gap bounds its distance from the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from refprior.exact import Coin, predictive_bottleneck, reference_prior
    >>> prior = reference_prior(Coin(5))
    >>> first, second = (np.exp(c.log_likelihood(c.coordinate(prior.atoms[:, None]))) for c in (Coin(3), Coin(2)))
    >>> joint = (prior.weights[:, None] * first).T @ second  # of the heads in three tosses, then in two
    >>> curve = predictive_bottleneck(joint, [0.0, 0.5, 1.0])
    >>> [(round(b.retained, 4), round(b.predicted, 4)) for b in curve]
    [(1.213, 0.538), (0.4992, 0.3285), (0.0, 0.0)]
    """
    table = as_numbers("joint", joint)
    if table.ndim != 2 or 0 in table.shape or not np.all(np.isfinite(table)) or table.min() < 0:
        raise ValueError(f"joint must be a table of probabilities at least 0, of shape (X, Y), got shape {table.shape}")
    if abs(table.sum() - 1) > 1e-9:
        raise ValueError(f"joint must sum to 1, got a sum of {table.sum():.6g}: divide it by its sum")
    for beta in betas:
        if not 0 <= beta <= 1:
            raise ValueError(f"betas must lie between 0 (keep everything) and 1 (forget everything), got {beta!r}")
    if not np.all(table.sum(axis=1) > 0):
        raise ValueError(f"row {int(np.argmin(table.sum(axis=1)))} of joint has no probability: leave it out")
    table = table / table.sum()
    count = len(table) if states is None else whole_number("states", states, at_least=1)
    rng = np.random.default_rng(seed)
    last = np.eye(count)[np.arange(len(table)) % count]  # an encoder that keeps all it can
    found: dict[float, Bottleneck] = {}
    for beta in sorted(set(betas)):
        starts = [last] + [rng.dirichlet(np.ones(count), len(table)) for _ in range(RANDOM_STARTS)]
        ends = [_improved(table, start, beta) for start in starts] + [np.eye(count)[np.zeros(len(table), dtype=int)]]
        results = [_measured(table, encoder, beta) for encoder in ends]
        found[beta] = max(results, key=lambda result: result.objective)
        last = found[beta].encoder
    return [found[beta] for beta in betas]


def _improved(joint: Array, encoder: Array, beta: float) -> Array:
    """Iterate p(w | z^m) ∝ p(w) exp(−KL(p(z^n | z^m), p(z^n | w)) / β) until convergence: (X, K) -> (X, K)."""
    rows = joint / joint.sum(axis=1, keepdims=True)
    negentropy = np.sum(np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1.0)), 0.0), axis=1)  # (X,)
    before = -np.inf
    for _ in range(MOST_ITERATIONS):
        step = _measured(joint, encoder, beta)
        if not step.objective > before + CONVERGED:
            break
        before = step.objective
        with np.errstate(divide="ignore", invalid="ignore"):
            log_w, log_y = np.log(step.weights), np.log(step.predictions)
            cross = np.where(rows[:, None] > 0, rows[:, None] * log_y, 0.0).sum(axis=2)  # (X, K)
            divergence = np.where(step.weights > 0, negentropy[:, None] - cross, np.inf)
            nearest = divergence <= divergence.min(axis=1, keepdims=True) + 1e-15
            log = np.where(nearest, log_w, -np.inf) if beta == 0 else log_w - divergence / beta
        encoder = np.exp(log - log.max(axis=1, keepdims=True))
        encoder = encoder / encoder.sum(axis=1, keepdims=True)
    return encoder


def _measured(joint: Array, encoder: Array, beta: float) -> Bottleneck:
    """Return p(w), p(z^n | w) and both informations of an encoder."""
    first = joint.sum(axis=1)
    weights, pairs = first @ encoder, encoder.T @ joint  # p(w), p(w, z^n)
    with np.errstate(divide="ignore", invalid="ignore"):
        predictions = np.where(weights[:, None] > 0, pairs / weights[:, None], 1 / joint.shape[1])
    return Bottleneck(
        beta=beta,
        encoder=encoder,
        weights=weights,
        predictions=predictions,
        retained=_information(first[:, None] * encoder),
        predicted=_information(pairs),
    )


def _information(joint: Array) -> float:
    """Return the mutual information of a joint distribution (A, B), in nats."""
    independent = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    positive = joint > 0
    return max(0.0, float(np.sum(joint[positive] * np.log(joint[positive] / independent[positive]))))
