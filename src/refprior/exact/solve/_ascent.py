"""Joint Newton ascent on atoms and weights with their number fixed (an atom whose weight vanishes is dropped).

In the variables (dπ_k, π_k du_k) the negative Hessian of J is Σ_c b_c A_c diag(1/p_c) A_cᵀ, with A_c the
stacked rows (p; p'), minus G'' and G' of each atom in its own block. The system is dense for small tables
and banded where rows are windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from refprior.exact._arrays import Array, Index, separated
from refprior.exact._cost import LOG
from refprior.exact.channels import Channel, NoisyMean, canonical
from refprior.exact.oracle import (
    Band,
    Likelihoods,
    Objective,
    Point,
    WindowMatrix,
    evaluate,
    information_matrix,
    windowed_information,
)

CENTERING = 0.1  # the barrier shrinks by this factor per step, less when a step was cut short


def optimal_weights(table: Likelihoods, tolerance: float, weights: Array | None = None) -> Array:
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
    for number in range(80):
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


PATIENCE = 4  # rounds without halving the excess: the rest is rounding
MERGE_AFTER_ASCENT = 0.02  # standard deviations between atoms that have become one in an ascent
ROUNDING = 1e-14  # nats: a smaller fall of J does not count, a smaller damping has no effect, less curvature is none
LARGEST_DAMPING = 1e-1  # at which a step no longer has an effect


class Problem(NamedTuple):
    """Settings of an ascent: how to make tables, the bounds (d, 2), and the longest step of an atom (d,)."""

    make_table: Callable[[Array], Likelihoods]
    bounds: Array
    trust: Array
    enough: float = 0.0  # nats: a rise or a residual below this is not worth a step
    symmetric: bool = False  # whether atoms of one parameter, in their order, mirror each other
    own_units: bool = False  # whether each atom may move half a standard deviation of its own, if that is longer

    def longest_steps(self, point: Point) -> Array:
        """Return the longest step of each atom along each axis, long near a pole of an angle: (d,) or (K, d)."""
        if not self.own_units:
            return self.trust
        lengths = []
        for first in point.table.first[0]:
            p = point.table.p[0]
            squares = np.divide(first * first, p, out=np.zeros_like(p), where=p > 0).sum(axis=1)
            lengths.append(0.5 / np.sqrt(np.maximum(squares, 1e-300)))
        return np.asarray(np.clip(np.stack(lengths, axis=1), self.trust, np.ptp(self.bounds, axis=1)))

    def evaluate(self, u: Array, weights: Array) -> Point:
        """Evaluate atoms, clipped to the bounds, and weights, normalized."""
        if self.symmetric:
            u, weights = (u + self.bounds.sum(axis=1) - u[::-1]) / 2, (weights + weights[::-1]) / 2
        return evaluate(self.make_table, np.clip(u, self.bounds[:, 0], self.bounds[:, 1]), weights / weights.sum())

    def residual(self, point: Point) -> float:
        """Return the distance of a point from the conditions of the optimum, in nats."""
        return point.residual(self.bounds, self.trust)


def ascend(problem: Problem, point: Point, patience: int = 150) -> Point:
    """Take Newton steps from a point until the predicted increase is below rounding.

    `patience` is the number of steps that may leave J as it is.
    """
    stalled = 0
    for number in range(150):
        LOG.info("ascent of %d atoms, step %d, information %.9f", len(point.u), number, point.information)
        note(point.u, point.weights, point.information)
        step_weights, step_u, predicted = _step_within(problem, point)
        dropped = (point.weights < 1e-6) & (point.weights + step_weights <= 0)
        dropped = dropped | (problem.symmetric & dropped[::-1])
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
        if predicted < max(1e-17, problem.enough) and scale == 1.0:  # nats, below rounding
            break
    return point


def equalize(problem: Problem, point: Point) -> Point:
    """Equalize the gains of the atoms where J is too flat to tell, by damped steps that lower the residual."""
    damping = 1e-10
    for _ in range(60):
        residual = problem.residual(point)
        LOG.info("equalizing the gains of %d atoms: %.0e nats", len(point.u), residual)
        if residual < max(2e-15, problem.enough):  # nats: nothing is left to equalize
            break
        damping = max(damping / 100, ROUNDING)
        trial = _damped(problem, point, damping)
        while (trial is None or problem.residual(trial) > 0.9 * residual) and damping < LARGEST_DAMPING:
            damping *= 100
            trial = _damped(problem, point, damping)
        if damping >= LARGEST_DAMPING or trial is None:
            break
        point = trial
    return point


def average_with_mirror_image(problem: Problem, point: Point) -> Point:
    """Average a point with its mirror image, atom by atom."""
    order = np.argsort(point.u[:, 0])
    u, weights = point.u[order], point.weights[order]
    return problem.evaluate((u + problem.bounds.sum(axis=1) - u[::-1]) / 2, (weights + weights[::-1]) / 2)


def _damped(problem: Problem, point: Point, damping: float) -> Point | None:
    """Take a damped Newton step, unless it leaves the trust region or the simplex."""
    step_weights, step_u, _ = newton_step(point, problem.bounds, damping)
    weights = point.weights + step_weights
    if weights.min() <= 0 or np.any(np.abs(step_u) > problem.longest_steps(point)):
        return None
    return problem.evaluate(point.u + step_u, weights)


def _line_search(problem: Problem, point: Point, step_weights: Array, step_u: Array) -> Point | None:
    """Shorten the step until J does not fall, or give up. Atoms pushed out near a bound land on it."""
    bounds, snap = problem.bounds, 0.1 * problem.trust
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


def newton_step(
    point: Point, bounds: Array, damping: float = 0.0, *, weights_only: bool = False
) -> tuple[Array, Array, float]:
    """Return steps of weights (K,) and atoms (K, d), and the predicted increase of J."""
    return Newton.at(point, bounds, weights_only=weights_only).step(damping)


def _step_within(problem: Problem, point: Point) -> tuple[Array, Array, float]:
    """Return the Newton step, damped as little as keeps it near the trust region.

    Two atoms that should be one slide along each other at no cost. An undamped step would slide them far, and
    cutting it to the trust region would stop all other atoms. Atoms of one parameter meet head-on, and are only cut.
    """
    newton, longest = Newton.at(point, problem.bounds), 10 * problem.longest_steps(point)
    for damping in (0.0, 1e-8, 1e-6, 1e-4, 1e-2) if len(problem.bounds) > 1 else (0.0,):
        step = newton.step(damping)
        if np.all(np.abs(step[1]) <= longest):
            break
    return step


class Newton(NamedTuple):
    """The system of a Newton step at a point, which may be solved with several dampings."""

    point: Point
    kept: Index  # (V,)
    right: Array  # (V,)
    ones: Array  # (V,)
    system: _Dense | _Banded
    blocks: Blocks

    @classmethod
    def at(cls, point: Point, bounds: Array, *, weights_only: bool = False) -> Newton:
        count, dimension = point.u.shape
        kept = (1 + dimension) * np.arange(count) if weights_only else point.variables(bounds)
        right = np.column_stack([point.gains - point.information, point.gradients]).ravel()[kept]
        ones = np.column_stack([np.ones(count), np.zeros((count, dimension))]).ravel()[kept]
        values, vectors = np.linalg.eigh(-point.hessians)
        definite = np.einsum("kia,ka,kja->kij", vectors, np.maximum(values, 0.0), vectors)
        scale = point.weights[:, None, None]
        blocks = Blocks(-point.hessians / scale, definite / scale, -point.gradients / point.weights[:, None])
        return cls(point, kept, right, ones, _system(point, kept, ones), blocks)

    def step(self, damping: float) -> tuple[Array, Array, float]:
        """Return steps of weights (K,) and atoms (K, d), and the predicted increase of J."""
        count, dimension = self.point.u.shape
        ones = self.ones
        solved = self._solve(np.stack([self.right, ones], axis=1), damping)
        if solved is None:  # doubles resolve no direction any more: stay
            return np.zeros(count), np.zeros((count, dimension)), 0.0
        step = solved[:, 0] - solved[:, 1] * (ones @ solved[:, 0]) / (ones @ solved[:, 1])
        full = np.zeros(count * (1 + dimension))
        full[self.kept] = step
        full = full.reshape(count, 1 + dimension)
        return full[:, 0], full[:, 1:] / self.point.weights[:, None], float(step @ self.right) / 2

    def _solve(self, right: Array, damping: float) -> Array | None:
        """Solve with the exact Hessian where it is positive definite, else with less of it, else damped more."""
        blocks, nothing = self.blocks, np.zeros_like(self.blocks.cross)
        attempts = [
            (blocks.exact, blocks.cross, damping, False),
            (blocks.definite, blocks.cross, damping, False),
            (blocks.definite, nothing, damping, False),
            *((blocks.definite, nothing, damping + ROUNDING * 100.0**k, False) for k in range(7)),
            (blocks.definite, nothing, damping + ROUNDING, True),
        ]
        for diagonal, cross, more, hold in attempts:
            try:
                return self.system.solve(diagonal, cross, more, right, hold=hold)
            except LinAlgError:
                continue
        return None


class Blocks(NamedTuple):
    """The part of the Hessian that belongs to single atoms: −G''/π, the same made semidefinite, and −G'/π."""

    exact: Array  # (K, d, d)
    definite: Array  # (K, d, d)
    cross: Array  # (K, d)


class _Dense(NamedTuple):
    """The information matrix over the kept variables, which of all are kept, and which of those are weights (1)."""

    information: Array  # (V, V)
    kept: Index  # (V,)
    ones: Array  # (V,)

    def solve(self, diagonal: Array, cross: Array, damping: float, right: Array, *, hold: bool = False) -> Array:
        """Solve by Cholesky at unit diagonal; 1·1ᵀ is added, which the constraint Σ dπ = 0 undoes.

        `hold` keeps variables where they are along which nothing changes, such as an angle at its pole.
        """
        matrix = self.information + self._block_matrix(diagonal, cross)
        if hold:
            entries = np.diag(matrix)
            matrix = matrix + np.diag(np.where(entries <= ROUNDING * entries.max(), entries.max(), 0.0))
        matrix = matrix + np.outer(self.ones, self.ones)
        if not np.all(np.diag(matrix) > 0):
            raise LinAlgError("not positive definite")
        scale = 1 / np.sqrt(np.diag(matrix))
        scaled = matrix * scale * scale[:, None]
        scaled[np.diag_indices_from(scaled)] += damping
        factor = cho_factor(scaled, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(cho_solve(factor, right * scale[:, None], check_finite=False)) * scale[:, None]

    def _block_matrix(self, diagonal: Array, cross: Array) -> Array:
        """Return the blocks of all atoms as one matrix over the kept variables: (V, V)."""
        count, dimension = cross.shape
        width, atoms = 1 + dimension, np.arange(count)
        block = np.zeros((count, width, width))
        block[:, 1:, 1:] = diagonal
        block[:, 0, 1:] = block[:, 1:, 0] = cross
        matrix = np.zeros((count, width, count, width))
        matrix[atoms, :, atoms, :] = block
        return matrix.reshape(count * width, -1)[np.ix_(self.kept, self.kept)]


class _Banded(NamedTuple):
    """The same for atoms of which only neighbors share outcomes."""

    information: Band
    kept: Index  # (V,)

    def solve(self, diagonal: Array, cross: Array, damping: float, right: Array, *, hold: bool = False) -> Array:
        """Solve by Cholesky of the band; no coordinate of a long experiment is without effect, so none is held."""
        return self.information.with_blocks(diagonal[:, 0, 0], cross[:, 0]).solve(right, self.kept, damping)


def _system(point: Point, kept: Index, ones: Array) -> _Dense | _Banded:
    if not isinstance(point.table.p[0], WindowMatrix):
        information = information_matrix(point.table, point.weights, point.u.shape[1])
        return _Dense(information[np.ix_(kept, kept)], kept, ones)
    band = windowed_information(point.table, point.weights)
    if len(point.table.p) == 1:
        return _Banded(band, kept)
    return _Dense(band.dense()[np.ix_(kept, kept)], kept, ones)  # two stages: without 1·1ᵀ it is singular


def unit_of(objective: Objective) -> Array:
    """Return one standard deviation in coordinates, at most the whole axis: (d,)."""
    channel = objective.channel
    return np.asarray((channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axes.lengths, 1.0))


def merge_to_centers(u: Array, weights: Array, centers: Array) -> tuple[Array, Array]:
    """Give each point's weight to its nearest center, at the mean place: (M, d), (M,)."""
    nearest = cKDTree(centers).query(u)[1]
    total = np.bincount(nearest, weights, len(centers))
    moved = [np.bincount(nearest, weights * u[:, i], len(centers)) / total for i in range(u.shape[1])]
    return np.stack(moved, axis=1), total / total.sum()


def merge_close(channel: Channel, u: Array, weights: Array, distance: float) -> tuple[Array, Array]:
    """Merge atoms closer than `distance` standard deviations, at their mean place: (M, d), (M,).

    Coordinates that are far apart may have one likelihood, if a parameter has no effect there. If the mean place has
    another one, the heaviest atom stays where it is.
    """
    points = embedding(channel, u)
    chosen = separated(points, np.argsort(-weights, kind="stable"), distance)
    nearest = np.argmin(cdist(points, points[chosen]), axis=1)
    total = np.bincount(nearest, weights)
    moved = np.stack([np.bincount(nearest, weights * column) / total for column in u.T], axis=1)
    astray = np.linalg.norm(embedding(channel, moved) - points[chosen], axis=1) > distance
    return np.where(astray[:, None], u[chosen], moved), total / total.sum()


def embedding(channel: Channel, u: Array) -> Array:
    """Return points whose distance, where it is short, is the Fisher length between parameters: (K, d) -> (K, M)."""
    if isinstance(channel, NoisyMean):
        return channel.means(channel.parameter(u))
    return np.asarray(2 * np.exp(0.5 * channel.log_likelihood(u)))


def ascend_merged(
    objective: Objective,
    u: Array,
    weights: Array,
    unit: Array,
    tolerance: float,
    distance: float = MERGE_AFTER_ASCENT,
) -> Point:
    """Ascend jointly, and again if atoms came closer than `distance` and were merged."""
    channel = objective.channel
    many = channel.dimension > 2
    enough = 1e-3 * tolerance if many else 0.0
    problem = Problem(objective.table, channel.bounds, 0.5 * unit, enough, own_units=many)
    # kinks and plateaus of a measured likelihood stop Newton steps without a rise of J
    patience = PATIENCE if many else 25 if channel.axes.measured else 150
    for _ in range(3):
        point = equalize(problem, ascend(problem, evaluate(problem.make_table, u, weights), patience=patience))
        u, weights = merge_close(channel, canonical(channel, point.u), point.weights, distance)
        if len(u) == len(point.u):
            break
    return point


@dataclass
class Best:
    """Atoms in coordinates, weights and information of the best point so far; None before the first."""

    u: Array | None = None  # (K, d)
    weights: Array | None = None  # (K,)
    information: float = 0.0


_recorded: ContextVar[Best | None] = ContextVar("best", default=None)  # of the search that runs in this context


@contextmanager
def recording() -> Iterator[Best]:
    """Record the best point of the searches inside."""
    token = _recorded.set(best := Best())
    try:
        yield best
    finally:
        _recorded.reset(token)


def note(u: Array, weights: Array, information: float) -> None:
    """Record a point, (K, d) and (K,), if it is at least as good as those before, up to a change of quadrature."""
    best = _recorded.get()
    if best is not None and (best.u is None or information >= best.information - 1e-6):
        best.u, best.weights, best.information = u, weights, information
