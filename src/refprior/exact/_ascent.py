"""Joint Newton ascent on atoms and weights, the number of atoms fixed (atoms that die are dropped).

In the variables (dπ_k, π_k du_k) the negative Hessian of J is Σ_c b_c A_c diag(1/p_c) A_cᵀ with A_c the
stacked rows (p; p'), minus G'' and G' of each atom on its own block. Dense for small tables, banded for
sparse ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cho_solve_banded, cholesky_banded

from refprior.exact._channels import Array
from refprior.exact._objective import Table, safe_log

OUTWARD = 1e-7  # an atom at a bound is let go only by a slope inward of at least this
DYING = 1e-6  # an atom lighter than this that wants to shrink below zero is dropped
PREDICTED = 1e-17  # predicted increase of J at which the ascent has arrived
ROUNDING = 1e-14  # a fall of J below this is not a fall
SETTLED = 2e-15  # residual at which nothing is left to even out
HEAVY = 1e-1  # damping at which a step does nothing any more
SNAP = 0.1  # of the trust radius
DAMPING = 1e-14  # relative, multiplied by a hundred until the system is positive definite


class Point(NamedTuple):
    """Atoms (K, d), weights (K,), and what was computed there."""

    u: Array
    weights: Array
    table: Table
    gains: Array
    slopes: Array
    bends: Array

    @property
    def information(self) -> float:
        return float(self.weights @ self.gains)

    def residual(self, bounds: Array, unit: Array) -> float:
        """How far the atoms are from even gains and zero slopes, in nats."""
        slopes = np.where(self.free(bounds), np.abs(self.slopes) * unit, 0.0)
        return float(max(np.abs(self.gains - self.information).max(), slopes.max()))

    def free(self, bounds: Array) -> NDArray[np.bool_]:
        """Which coordinates may move: all but those at a bound whose gain does not rise inward: (K, d)."""
        low = (self.u <= bounds[:, 0]) & (self.slopes <= OUTWARD)
        high = (self.u >= bounds[:, 1]) & (self.slopes >= -OUTWARD)
        return np.asarray(~(low | high))


def evaluate(make_table: Callable[[Array], Table], u: Array, weights: Array) -> Point:
    """G, G', G'' at the atoms under their own mixture."""
    table = make_table(u)
    logs = [safe_log(mixture) for mixture in table.mixtures(weights)]
    return Point(u, weights, table, table.gains(logs), table.slopes(logs), table.bends(logs))


def ascend(
    make_table: Callable[[Array], Table],
    u: Array,
    weights: Array,
    bounds: Array,
    trust: Array,
    steps: int = 150,
) -> Point:
    """Newton from (u, weights) until the predicted increase is below rounding; `trust` caps |du|, (d,)."""
    point = evaluate(make_table, u, weights)
    for _ in range(steps):
        step_weights, step_u, predicted = newton_step(point, bounds)
        dying = (point.weights < DYING) & (point.weights + step_weights <= 0)
        if np.any(dying) and not np.all(dying):
            kept = point.weights[~dying]
            point = evaluate(make_table, point.u[~dying], kept / kept.sum())
            continue
        scale = min(1.0, float(np.min(trust / np.maximum(np.abs(step_u).max(axis=0), 1e-300))))
        better = _search(make_table, point, scale * step_weights, scale * step_u, bounds, SNAP * trust)
        if better is None:
            break
        arrived = predicted < PREDICTED and scale == 1.0
        point = better
        if arrived:
            break
    return point


def settle(make_table: Callable[[Array], Table], point: Point, bounds: Array, trust: Array, steps: int = 60) -> Point:
    """Even out the gains of the atoms where J is too flat to tell: damped steps that lower the residual."""
    damping = 1e-10
    for _ in range(steps):
        residual = point.residual(bounds, trust)
        if residual < SETTLED:
            break
        damping = max(damping / 100, 1e-14)
        trial = _damped(make_table, point, bounds, trust, damping)
        while (trial is None or trial.residual(bounds, trust) > 0.9 * residual) and damping < HEAVY:
            damping *= 100
            trial = _damped(make_table, point, bounds, trust, damping)
        if damping >= HEAVY or trial is None:
            break
        point = trial
    return point


def _damped(
    make_table: Callable[[Array], Table], point: Point, bounds: Array, trust: Array, damping: float
) -> Point | None:
    """The damped Newton step, unless it leaves the trust region or the simplex."""
    step_weights, step_u, _ = newton_step(point, bounds, damping)
    weights = point.weights + step_weights
    if weights.min() <= 0 or np.any(np.abs(step_u) > trust):
        return None
    u = np.clip(point.u + step_u, bounds[:, 0], bounds[:, 1])
    return evaluate(make_table, u, weights / weights.sum())


def _search(
    make_table: Callable[[Array], Table],
    point: Point,
    step_weights: Array,
    step_u: Array,
    bounds: Array,
    snap: Array,
) -> Point | None:
    """Shorten the step until J does not fall, or give up. Atoms pushed out near a bound land on it."""
    shrinking = step_weights < 0
    length = 1.0
    if np.any(shrinking):
        length = min(1.0, 0.9 * float(np.min(-point.weights[shrinking] / step_weights[shrinking])))
    for _ in range(12):
        u = point.u + length * step_u
        u = np.where((u < bounds[:, 0] + snap) & (point.slopes < 0), bounds[:, 0], u)
        u = np.where((u > bounds[:, 1] - snap) & (point.slopes > 0), bounds[:, 1], u)
        u = np.clip(u, bounds[:, 0], bounds[:, 1])
        weights = point.weights + length * step_weights
        trial = evaluate(make_table, u, weights / weights.sum())
        if trial.information >= point.information - ROUNDING:
            return trial
        length /= 4
    return None


def newton_step(point: Point, bounds: Array, damping: float = 0.0) -> tuple[Array, Array, float]:
    """Steps of weights (K,) and atoms (K, d), and the predicted increase of J."""
    count, dimension = point.u.shape
    free = point.free(bounds)
    keep = np.flatnonzero(np.column_stack([np.ones(count, dtype=bool), free]))  # interleaved: atom by atom
    right = np.column_stack([point.gains - point.information, point.slopes]).ravel()[keep]
    ones = np.column_stack([np.ones(count), np.zeros((count, dimension))]).ravel()[keep]
    information = _information_matrix(point.table, point.weights, dimension)[keep][:, keep]
    solved = _solve(information, _block_curvature(point), keep, np.stack([right, ones], axis=1), ones, damping)
    step = solved[:, 0] - solved[:, 1] * (ones @ solved[:, 0]) / (ones @ solved[:, 1])
    full = np.zeros(count * (1 + dimension))
    full[keep] = step
    full = full.reshape(count, 1 + dimension)
    return full[:, 0], full[:, 1:] / point.weights[:, None], float(step @ right) / 2


def looseness(make_table: Callable[[Array], Table], u: Array, weights: Array, bounds: Array, unit: Array) -> float:
    """How far a residual of one can move the marginal: √(variables / smallest curvature) or infinity."""
    point = evaluate(make_table, u, weights)
    count, dimension = u.shape
    keep = np.flatnonzero(np.column_stack([np.ones(count, dtype=bool), point.free(bounds)]))
    block = np.zeros((count, 1 + dimension, count, 1 + dimension))
    block[np.arange(count), 1:, np.arange(count), 1:] = -point.bends / weights[:, None, None]
    scale = np.tile(np.concatenate([[1.0], unit]), count)
    ones = np.tile(np.concatenate([[1.0], np.zeros(dimension)]), count)
    matrix = _information_matrix(point.table, weights, dimension) + block.reshape(len(scale), -1)
    matrix = (matrix * scale * scale[:, None] + np.outer(ones, ones))[np.ix_(keep, keep)]
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    return float(np.sqrt(len(keep) / smallest)) if smallest > 0 else np.inf


def _information_matrix(table: Table, weights: Array, dimension: int) -> Any:
    """Σ_c b_c A_c diag(1/p_c) A_cᵀ, rows interleaved atom by atom: (K(1+d), K(1+d))."""
    count = len(weights)
    order = np.arange(count * (1 + dimension)).reshape(1 + dimension, count).T.ravel()
    total: Any = 0
    for sign, p, first, mixture in zip(table.signs, table.p, table.first, table.mixtures(weights), strict=True):
        inverse = 1 / np.sqrt(np.maximum(mixture, 1e-300))
        if not isinstance(p, np.ndarray):
            stacked: Any = sparse.vstack([p, *first], format="csr")[order] @ sparse.diags_array(inverse)
            total = total + sign * (stacked @ stacked.T).tocsr()
        else:
            stacked = np.concatenate([p, *first])[order] * inverse
            total = total + sign * (stacked @ stacked.T)
    return total


class Blocks(NamedTuple):
    """The part of the Hessian that belongs to single atoms: −G''/π, the same made semidefinite, and −G'/π."""

    exact: Array  # (K, d, d)
    definite: Array  # (K, d, d)
    cross: Array  # (K, d)


def _block_curvature(point: Point) -> Blocks:
    values, vectors = np.linalg.eigh(-point.bends)
    bend = np.einsum("kia,ka,kja->kij", vectors, np.maximum(values, 0.0), vectors)
    scale = point.weights[:, None, None]
    return Blocks(-point.bends / scale, bend / scale, -point.slopes / point.weights[:, None])


def _solve(information: Any, blocks: Blocks, keep: Any, right: Array, ones: Array, damping: float) -> Array:
    """Solve with the exact Hessian where it is positive definite, else with less of it, else damped more."""
    as_sparse = not isinstance(information, np.ndarray)
    nothing = np.zeros_like(blocks.cross)
    for bend, cross, dampings in (
        (blocks.exact, blocks.cross, [damping]),
        (blocks.definite, blocks.cross, [damping]),
        (blocks.definite, nothing, [damping, *(damping + DAMPING * 100.0 ** np.arange(7))]),
    ):
        matrix = information + _block_matrix(bend, cross, keep, as_sparse)
        for more in dampings:
            try:
                return _solve_definite(matrix, float(more), right, ones)
            except LinAlgError:
                continue
    return np.zeros_like(right) + ones[:, None]  # no direction left that doubles can tell: stay


def _block_matrix(bend: Array, cross: Array, keep: Any, as_sparse: bool) -> Any:
    """The blocks as one matrix over the kept variables."""
    count, dimension = cross.shape
    block = np.zeros((count, 1 + dimension, 1 + dimension))
    block[:, 1:, 1:] = bend
    block[:, 0, 1:] = block[:, 1:, 0] = cross
    if as_sparse:
        return sparse.block_diag(list(block), format="csr")[keep][:, keep]
    width = 1 + dimension
    matrix = np.zeros((count, width, count, width))
    atoms = np.arange(count)
    matrix[atoms, :, atoms, :] = block
    return matrix.reshape(count * width, -1)[np.ix_(keep, keep)]


def _solve_definite(matrix: Any, damping: float, right: Array, ones: Array) -> Array:
    """Cholesky at unit diagonal; dense systems get 1·1ᵀ added, which the constraint Σ dπ = 0 undoes."""
    if sparse.issparse(matrix):
        return _solve_banded(matrix, damping, right)
    matrix = matrix + np.outer(ones, ones)
    scale = _unit_scale(np.diag(matrix))
    scaled = matrix * scale * scale[:, None]
    scaled[np.diag_indices_from(scaled)] += damping
    factor = cho_factor(scaled, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, right * scale[:, None], check_finite=False)) * scale[:, None]


def _unit_scale(diagonal: Array) -> Array:
    """Factors that bring a diagonal to one; a diagonal that is not positive belongs to no definite matrix."""
    if not np.all(diagonal > 0):
        raise LinAlgError("not positive definite")
    return np.asarray(1 / np.sqrt(diagonal))


def _solve_banded(matrix: Any, damping: float, right: Array) -> Array:
    entries = sparse.triu(matrix, format="coo")
    scale = _unit_scale(matrix.diagonal())
    width = int((entries.col - entries.row).max())
    band = np.zeros((width + 1, matrix.shape[0]))
    band[width + entries.row - entries.col, entries.col] = entries.data * scale[entries.row] * scale[entries.col]
    band[width] += damping
    factor = cholesky_banded(band, overwrite_ab=True, check_finite=False)
    solved = cho_solve_banded((factor, False), right * scale[:, None], check_finite=False)
    return np.asarray(solved * scale[:, None])
