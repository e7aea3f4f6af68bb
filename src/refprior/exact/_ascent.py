"""Joint Newton ascent on atoms and weights with their number fixed (an atom whose weight vanishes is dropped).

In the variables (dπ_k, π_k du_k) the negative Hessian of J is Σ_c b_c A_c diag(1/p_c) A_cᵀ, with A_c the
stacked rows (p; p'), minus G'' and G' of each atom in its own block. The system is dense for small tables
and banded for sparse ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cho_solve_banded, cholesky_banded

from refprior.exact._arrays import Array, Index
from refprior.exact._best import note
from refprior.exact._cost import LOG
from refprior.exact._objective import Table
from refprior.exact._optimality import Point, evaluate, information_matrix

DROP_WEIGHT = 1e-6  # an atom lighter than this whose step takes it below zero is dropped
SMALLEST_RISE = 1e-17  # predicted increase of J at which the ascent has arrived
ROUNDING = 1e-14  # a fall of J by less than this does not count as a fall
SMALLEST_RESIDUAL = 2e-15  # at which nothing is left to even out
MIRRORINGS = 8  # attempts to make the prior of a symmetric model symmetric
LARGEST_DAMPING = 1e-1  # at which a step no longer does anything
SNAP_DISTANCE = 0.1  # of the trust radius: an atom this close to a bound that it moves to lands on it
IDLE = 1e-14  # of the largest curvature: a variable with less stays where it is
DAMPING = 1e-14  # relative, multiplied by a hundred until the system is positive definite


class Problem(NamedTuple):
    """What the ascent needs to know: tables of points, the bounds (d, 2), the longest step of an atom (d,)."""

    make_table: Callable[[Array], Table]
    bounds: Array
    trust: Array
    enough: float = 0.0  # nats: a rise or a residual below this is not worth a step
    own_units: bool = False  # whether each atom may move half a standard deviation of its own, if that is longer

    def longest_steps(self, point: Point) -> Array:
        """The longest step of each atom along each axis: near a pole, an angle hardly matters: (d,) or (K, d)."""
        if not self.own_units:
            return self.trust
        lengths = []
        for first in point.table.first[0]:
            p = point.table.p[0]
            squares = np.divide(first * first, p, out=np.zeros_like(p), where=p > 0).sum(axis=1)
            lengths.append(0.5 / np.sqrt(np.maximum(squares, 1e-300)))
        return np.asarray(np.clip(np.stack(lengths, axis=1), self.trust, np.ptp(self.bounds, axis=1)))

    def evaluate(self, u: Array, weights: Array) -> Point:
        """The point at these atoms, clipped to the bounds, and weights, normalised."""
        return evaluate(self.make_table, np.clip(u, self.bounds[:, 0], self.bounds[:, 1]), weights / weights.sum())

    def residual(self, point: Point) -> float:
        """How far a point is from the conditions of the optimum, in nats."""
        return point.residual(self.bounds, self.trust)


def ascend(problem: Problem, u: Array, weights: Array, steps: int = 150, patience: int = 150) -> Point:
    """Newton from (u, weights) until the predicted increase is below rounding: (K, d), (K,) -> Point.

    `patience` is the number of steps that may leave J as it is.
    """
    point, stalled = evaluate(problem.make_table, u, weights), 0
    for number in range(steps):
        LOG.info("ascent of %d atoms, step %d, information %.9f", len(point.u), number, point.information)
        note(point)
        step_weights, step_u, predicted = newton_step(point, problem.bounds)
        dropped = (point.weights < DROP_WEIGHT) & (point.weights + step_weights <= 0)
        if np.any(dropped) and not np.all(dropped):
            point = problem.evaluate(point.u[~dropped], point.weights[~dropped])
            continue
        scale = min(1.0, float(np.min(problem.longest_steps(point) / np.maximum(np.abs(step_u), 1e-300))))
        better = _line_search(problem, point, scale * step_weights, scale * step_u)
        if better is None:
            break
        stalled = stalled + 1 if better.information < point.information + max(ROUNDING, problem.enough) else 0
        point = better
        if stalled == patience:
            break
        if predicted < max(SMALLEST_RISE, problem.enough) and scale == 1.0:
            break
    return point


def equalise(problem: Problem, point: Point, steps: int = 60) -> Point:
    """Even out the gains of the atoms where J is too flat to tell: damped steps that lower the residual."""
    damping = 1e-10
    for _ in range(steps):
        residual = problem.residual(point)
        LOG.info("evening out the gains of %d atoms: %.0e nats", len(point.u), residual)
        if residual < max(SMALLEST_RESIDUAL, problem.enough):
            break
        damping = max(damping / 100, 1e-14)
        trial = _damped(problem, point, damping)
        while (trial is None or problem.residual(trial) > 0.9 * residual) and damping < LARGEST_DAMPING:
            damping *= 100
            trial = _damped(problem, point, damping)
        if damping >= LARGEST_DAMPING or trial is None:
            break
        point = trial
    return point


def average_with_mirror_image(problem: Problem, point: Point) -> Point:
    """The average of a point with its mirror image, atom by atom."""
    order = np.argsort(point.u[:, 0])
    u, weights = point.u[order], point.weights[order]
    return problem.evaluate((u + problem.bounds.sum(axis=1) - u[::-1]) / 2, (weights + weights[::-1]) / 2)


def _damped(problem: Problem, point: Point, damping: float) -> Point | None:
    """The damped Newton step, unless it leaves the trust region or the simplex."""
    step_weights, step_u, _ = newton_step(point, problem.bounds, damping)
    weights = point.weights + step_weights
    if weights.min() <= 0 or np.any(np.abs(step_u) > problem.longest_steps(point)):
        return None
    return problem.evaluate(point.u + step_u, weights)


def _line_search(problem: Problem, point: Point, step_weights: Array, step_u: Array) -> Point | None:
    """Shorten the step until J does not fall, or give up. Atoms pushed out near a bound land on it."""
    bounds, snap = problem.bounds, SNAP_DISTANCE * problem.trust
    shrinking = step_weights < 0
    length = 1.0
    if np.any(shrinking):
        length = min(1.0, 0.9 * float(np.min(-point.weights[shrinking] / step_weights[shrinking])))
    for _ in range(12):
        u = point.u + length * step_u
        u = np.where((u < bounds[:, 0] + snap) & (point.gradients < 0), bounds[:, 0], u)
        u = np.where((u > bounds[:, 1] - snap) & (point.gradients > 0), bounds[:, 1], u)
        trial = problem.evaluate(u, point.weights + length * step_weights)
        if trial.information >= point.information - ROUNDING:
            return trial
        length /= 4
    return None


def newton_step(point: Point, bounds: Array, damping: float = 0.0) -> tuple[Array, Array, float]:
    """Steps of weights (K,) and atoms (K, d), and the predicted increase of J."""
    count, dimension = point.u.shape
    kept = point.variables(bounds)
    right = np.column_stack([point.gains - point.information, point.gradients]).ravel()[kept]
    ones = np.column_stack([np.ones(count), np.zeros((count, dimension))]).ravel()[kept]
    information = information_matrix(point.table, point.weights, dimension)[kept][:, kept]
    system = _System(information, _blocks(point), kept, ones)
    solved = _solve(system, np.stack([right, ones], axis=1), damping)
    step = solved[:, 0] - solved[:, 1] * (ones @ solved[:, 0]) / (ones @ solved[:, 1])
    full = np.zeros(count * (1 + dimension))
    full[kept] = step
    full = full.reshape(count, 1 + dimension)
    return full[:, 0], full[:, 1:] / point.weights[:, None], float(step @ right) / 2


class Blocks(NamedTuple):
    """The part of the Hessian that belongs to single atoms: −G''/π, the same made semidefinite, and −G'/π."""

    exact: Array  # (K, d, d)
    definite: Array  # (K, d, d)
    cross: Array  # (K, d)


def _blocks(point: Point) -> Blocks:
    values, vectors = np.linalg.eigh(-point.hessians)
    definite = np.einsum("kia,ka,kja->kij", vectors, np.maximum(values, 0.0), vectors)
    scale = point.weights[:, None, None]
    return Blocks(-point.hessians / scale, definite / scale, -point.gradients / point.weights[:, None])


class _System(NamedTuple):
    """The Newton system over the kept variables, and which of them are weights (1) or coordinates (0)."""

    information: Any  # (V, V) dense or sparse
    blocks: Blocks
    kept: Index  # (V,)
    ones: Array  # (V,)


def _solve(system: _System, right: Array, damping: float) -> Array:
    """Solve with the exact Hessian where it is positive definite, else with less of it, else damped more."""
    blocks = system.blocks
    nothing = np.zeros_like(blocks.cross)
    for diagonal, cross, dampings in (
        (blocks.exact, blocks.cross, [damping]),
        (blocks.definite, blocks.cross, [damping]),
        (blocks.definite, nothing, [damping, *(damping + DAMPING * 100.0 ** np.arange(7))]),
    ):
        matrix = system.information + _block_matrix(system, diagonal, cross)
        for more in dampings:
            try:
                return _solve_definite(matrix, float(more), right, system.ones)
            except LinAlgError:
                continue
    if not sparse.issparse(matrix) and np.any(_idle(matrix)):
        held = matrix + np.diag(np.where(_idle(matrix), np.diag(matrix).max(), 0.0))
        try:
            return _solve_definite(held, damping + DAMPING, right, system.ones)
        except LinAlgError:
            pass
    return np.zeros_like(right) + system.ones[:, None]  # doubles resolve no direction any more: stay


def _idle(matrix: Array) -> Array:
    """Variables along which nothing changes, such as an angle at its pole: (V, V) -> (V,)."""
    diagonal = np.diag(matrix)
    return np.asarray(diagonal <= IDLE * diagonal.max())


def _block_matrix(system: _System, diagonal: Array, cross: Array) -> Any:
    """The blocks of all atoms as one matrix over the kept variables: (V, V)."""
    kept, (count, dimension) = system.kept, cross.shape
    block = np.zeros((count, 1 + dimension, 1 + dimension))
    block[:, 1:, 1:] = diagonal
    block[:, 0, 1:] = block[:, 1:, 0] = cross
    if sparse.issparse(system.information):
        return sparse.block_diag(list(block), format="csr")[kept][:, kept]
    width = 1 + dimension
    matrix = np.zeros((count, width, count, width))
    atoms = np.arange(count)
    matrix[atoms, :, atoms, :] = block
    return matrix.reshape(count * width, -1)[np.ix_(kept, kept)]


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
    """Factors that scale a diagonal to one; if it is not positive the matrix is not definite."""
    if not np.all(diagonal > 0):
        raise LinAlgError("not positive definite")
    return np.asarray(1 / np.sqrt(diagonal))


def _solve_banded(matrix: Any, damping: float, right: Array) -> Array:
    """The same for a sparse matrix, by banded Cholesky."""
    entries = sparse.triu(matrix, format="coo")
    scale = _unit_scale(matrix.diagonal())
    width = int((entries.col - entries.row).max())
    band = np.zeros((width + 1, matrix.shape[0]))
    band[width + entries.row - entries.col, entries.col] = entries.data * scale[entries.row] * scale[entries.col]
    band[width] += damping
    factor = cholesky_banded(band, overwrite_ab=True, check_finite=False)
    solved = cho_solve_banded((factor, False), right * scale[:, None], check_finite=False)
    return np.asarray(solved * scale[:, None])
