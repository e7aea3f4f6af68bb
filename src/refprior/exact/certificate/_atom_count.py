"""Whether the optimum has exactly as many atoms as a prior, and how far they are from its atoms."""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import label

from refprior.exact._arrays import Array
from refprior.exact.certificate._case import Case, nearest_points, own_points
from refprior.exact.certificate._summits import ROUNDING, summits
from refprior.exact.channels import canonical
from refprior.exact.oracle import Objective, Point, Table, evaluate, sensitivity

CURVATURE_MARGIN = 4.0  # times the error of the gain: how much its second derivative may err, in standard deviations
INDEPENDENT = 1e-10  # smallest curvature at which the rows of the atoms count as independent
SAME_PLACE = 1e-6  # standard deviations between a summit and its atom, as far as parabolas find it
MOST_ATOMS = 150  # with more, spacings are so narrow that doubles cannot tell the number


def judge_atoms(case: Case, gap: float) -> tuple[bool, float]:
    """Whether the optimum has exactly these atoms, as far as doubles can tell, and how far they are from its atoms.

    These atoms satisfy the conditions of the optimum up to a residual. Solving the linearized conditions for
    it moves the marginal, and with it the gain, by at most the residual times a factor that grows where the
    gain is flat. The optimum's atoms lie where our gain is within that tolerance of J. The number is certified
    if every summit that high is an atom, the atoms' rows are independent (else other weights do as well), that set,
    or a larger one of the same form, has as many connected components as there are atoms, one in each, and the gain
    is so concave at every atom that no component holds two maxima. The same equations say how far the atoms move;
    where they cannot, a change by √gap costs about the gap.
    """
    objective, u, weights, channel = case.objective, case.u, case.weights, case.objective.channel
    residual = gap + ROUNDING * (1 + abs(case.information))
    if not channel.continuous:
        return _judge_rows(case, residual)
    if len(u) > MOST_ATOMS or not objective.resolved or case.grid.coarse:
        return False, math.sqrt(residual)
    unit = (channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axes.lengths, 1e-3)
    point = evaluate(objective.table, u, weights)
    smallest, factor = sensitivity(point, channel.bounds, unit)
    spread = min((residual + channel.slope_error) * factor**2, math.sqrt(residual))
    # Σ_z p(z|w)²/p(z) is at most 1/π at an atom
    tolerance = residual * factor / math.sqrt(weights.min())
    if smallest < INDEPENDENT or not weights.min() > tolerance:
        return False, spread
    radius = _certain_radius(objective, point, unit, tolerance)
    if radius is None or not _only_atoms(case, radius, tolerance):
        return False, spread
    levels = case.information - np.geomspace(tolerance, 1.0, 25)
    return any(_one_atom_per_component(case, level) for level in levels), spread


def _only_atoms(case: Case, radius: Array, tolerance: float) -> bool:
    """Whether every summit of the gain within the tolerance of J lies within the radius (K, d) of an atom."""
    channel, level = case.objective.channel, case.information - tolerance
    top, height, _, _ = summits(case, level)
    reached = canonical(channel, top[height >= level])
    apart = np.abs(reached[:, None] - canonical(channel, case.u)) <= radius
    return bool(np.all(np.any(np.all(apart, axis=2), axis=1)))


def _judge_rows(case: Case, residual: float) -> tuple[bool, float]:
    """A table: the rows in use are independent, so that no other weights do as well, and all others are below J."""
    curvature = Table.of_values(case.objective, case.u).curvature(case.weights) + 1.0  # 1·1ᵀ: weights sum to one
    smallest = float(np.linalg.eigvalsh(curvature)[0])
    if smallest < INDEPENDENT:
        return False, math.sqrt(residual)
    spread = min(residual * len(case.u) / smallest, math.sqrt(residual))
    tolerance = residual * math.sqrt(len(case.u) / smallest / case.weights.min())
    used = np.ravel_multi_index(nearest_points(case.grid, case.u), case.grid.shape)
    unused = np.delete(case.values, used)
    return bool(case.weights.min() > tolerance and np.all(unused < case.information - tolerance)), spread


def _certain_radius(objective: Objective, point: Point, unit: Array, tolerance: float) -> Array | None:
    """How far from its atom a summit within the tolerance of J can be, (K, d); None if the gain is not concave there.

    An atom's place is uncertain by √(2 tolerance/|G''|). Where the optimum's gain differs by the tolerance, its
    second derivative in standard deviations differs by a little more. Axes on which an atom is fixed at a bound are
    left out; there the slope takes the place of the curvature.
    """
    bounds = objective.channel.bounds
    free = point.free(bounds)
    both, fixed = free[:, :, None] & free[:, None, :], ~free[:, :, None] * np.eye(len(unit))
    logs = point.table.own_logs(point.weights)

    def largest_curvature(places: Array) -> Array:
        """Largest eigenvalue of G'' on the free axes, in standard deviations, below −1 without any: (K, d) -> (K,)."""
        hessians = objective.table(np.clip(places, bounds[:, 0], bounds[:, 1])).hessians(logs)
        scaled = np.where(both, hessians * unit * unit[:, None], 0.0)
        below = 1 + np.abs(scaled).max(axis=(1, 2), keepdims=True)  # below every eigenvalue of a free axis
        return np.asarray(np.linalg.eigvalsh(scaled - below * fixed)[:, -1])

    margin = -CURVATURE_MARGIN * tolerance
    curvature = largest_curvature(point.u)
    if not np.all(curvature < margin):
        return None
    radius = 2 * np.sqrt(2 * tolerance / -curvature)[:, None] * unit  # twice, as the curvature weakens outward
    moves = [sign * axis * radius for axis in np.eye(len(unit)) for sign in (-1.0, 1.0)]
    if not all(bool(np.all(largest_curvature(point.u + move) < margin)) for move in moves):
        return None
    return np.maximum(radius, SAME_PLACE * unit)


def _one_atom_per_component(case: Case, level: float) -> bool:
    """Whether each connected component of {G ≥ level} on the grid holds exactly one atom."""
    grid, nearest = case.grid, nearest_points(case.grid, case.u)
    own = own_points(case.objective.channel, grid.points)
    above = ((case.values >= level) & own).reshape(grid.shape)
    above[nearest] = True  # an atom reaches J itself, however narrow its peak
    components, count = label(above, structure=np.ones([3] * len(grid.shape)))
    return bool(count == len(case.u) == len(np.unique(components[nearest])))
