"""A finite channel: weights on the rows in use, and those that join them."""

from __future__ import annotations

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact._cost import LOG
from refprior.exact.oracle import Objective, Table
from refprior.exact.solve._search import fisher_grid
from refprior.exact.solve._weights import optimal_weights

FIRST_ROWS, MORE_ROWS = 300, 100  # of a table: in use at first, and those that join in one round
UNUSED_WEIGHT = 1e-8  # rows of a table with less weight are left out if that costs nothing
FINITE_ROUNDS = 100


def solve_finite(objective: Objective, tolerance: float) -> tuple[Array, Array]:
    """A finite channel: all its parameters are candidates, and none moves. Few rows are in use: the others wait.

    Weights are found on the rows in use; those whose gain exceeds J join them, the highest first, until there is none.
    """
    u = fisher_grid(objective.channel, 1.0).points
    table = Table.of_values(objective, u)
    uniform = np.full(len(u), 1 / len(u))
    active = np.argsort(-table.gains(table.own_logs(uniform)), kind="stable")[:FIRST_ROWS]
    for number in range(FINITE_ROUNDS):
        own = Table.of_values(objective, u[active])
        weights = _drop_below(optimal_weights(own, 0.1 * tolerance), 1e-3 * tolerance)
        gains = table.gains(own.own_logs(weights))
        excess = gains - float(weights @ gains[active])
        excess[active] = 0.0
        missing = np.argsort(-excess, kind="stable")[:MORE_ROWS]
        missing = missing[excess[missing] > tolerance / 3]
        LOG.info("rows in use %d, round %d, excess %.0e nats", len(active), number, float(excess.max()))
        if not len(missing):
            break
        active = np.concatenate([active[weights > UNUSED_WEIGHT], missing])
    return _fewest_rows(objective, u[active], own, weights, tolerance)


def _fewest_rows(objective: Objective, u: Array, table: Table, weights: Array, tolerance: float) -> tuple[Array, Array]:
    """The rows without those that have hardly any weight, if that costs nothing."""
    kept = weights > UNUSED_WEIGHT
    again = np.zeros(len(u))
    again[kept] = optimal_weights(Table.of_values(objective, u[kept]), 0.1 * tolerance)
    if _table_gap(table, again) <= max(tolerance, _table_gap(table, weights)):
        weights = _drop_below(again, 1e-3 * tolerance)
    return u[weights > 0], weights[weights > 0]


def _drop_below(weights: Array, least: float) -> Array:
    """Zero where a weight is not above `least`, the others renormalized."""
    kept = np.where(weights > least, weights, 0.0)
    return np.asarray(kept / kept.sum())


def _table_gap(table: Table, weights: Array) -> float:
    """Largest gain minus J on the points of a table."""
    gains = table.gains(table.own_logs(weights))
    return float(gains.max() - weights @ gains)
