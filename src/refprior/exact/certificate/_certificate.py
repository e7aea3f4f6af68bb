"""Bound the distance of a prior from the optimum without knowing how the prior was found.

Where J is concave in π, J* − J ≤ max_w G(w) − J, with the maximum over all w and not over a grid. It is taken on a grid
that is even in Fisher length and finer than the solver's. Around every peak of the grid and around every atom, a
polynomial through more values searches for what the grid missed, and parabolas refine the result.

For up to three parameters the gap uses values of G only. Derivatives of G enter in three places: the number of atoms
and their spread (`judge_atoms`), the search with more than three parameters (`maxima`), and the bound on whole cells
for Gaussian noise (`_bound`). No step of the solver is used anywhere.

The gap includes everything that can make G and J differ from the truth: omitted outcomes, the quadrature of continuous
outcomes (compared with a finer one), and rounding. If the likelihood was only sampled, the highest points are
approached until G no longer changes between neighbors; the remaining change is part of the gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import label

from refprior.exact._arrays import Array
from refprior.exact.certificate._bound import stays_below
from refprior.exact.certificate._maxima import (
    FLOOR,
    NEARLY,
    ROUNDING,
    Case,
    maxima,
    nearest_points,
    own_points,
    summits,
)
from refprior.exact.channels import SampledMean, canonical
from refprior.exact.oracle import Likelihoods, Objective, Point, evaluate, sensitivity
from refprior.exact.sampling import Mixture, fresh_noise, sampled_maxima

INDEPENDENT = 1e-10  # smallest curvature at which the rows of the atoms count as independent
ERRORS = 3.0  # standard errors of the information and of the largest gain that a sampled gap includes


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """J, the gap, where the gain is largest, whether the number of atoms is certain, and how well each is known."""

    information: float
    worst: Array  # (d,) coordinates of the largest gain
    gap: float = math.inf
    error: float = math.inf  # the part of the gap that rounding, quadrature and outcomes left out may hide
    spread: float = math.inf  # about how far atoms and weights are from those of the optimum
    proved: bool = False  # whether the gap bounds the gain on whole cells, and not on a grid that was looked at closely
    searched: bool = False  # whether that grid was too coarse to certify anything: many parameters
    atoms_certified: bool = False
    sampled: bool = False  # whether the error is that of samples


def judge(objective: Objective, u: Array, weights: Array, tolerance: float = 1e-12) -> Certificate:
    """Certify a prior given by coordinates (K, d) and weights (K,).

    A gap within the tolerance is proved if that is possible, to a bound slightly above it.
    """
    channel = objective.channel
    if isinstance(channel, SampledMean):
        return estimate(channel, u, weights)
    case, bounded = Case.of(objective, u, weights), False
    if not np.all(np.isfinite(case.values)):  # some w allows an outcome that the prior excludes
        worst = case.grid.points[int(np.argmax(case.values))]
        return Certificate(information=case.information, worst=worst, searched=case.grid.coarse)
    top, height = maxima(case)
    worst = top[int(np.argmax(height))]
    error = _error(case, worst)
    residual = max(0.0, float(height.max()) - case.information)
    gap = residual + error if objective.resolved else math.inf
    if channel.at_resolution("fine") is None:  # else the number of nodes of a quadrature bounds nothing
        most = math.log(channel.outcome_count) - case.information + FLOOR
        gap = max(0.0, min(gap, most)) if objective.resolved else most
    certified, spread = judge_atoms(case, residual, top, height)
    bound = residual + max(1e-14 * (1 + abs(case.information)), 0.05 * tolerance)
    if objective.resolved and bound + error <= tolerance and len(objective.channels) == 1:
        # with more than three parameters there would be too many cells
        bounded = channel.noise is not None and channel.dimension <= 3
        bounded = bounded and stays_below(channel, case.logs[0], case.information + bound)
        gap = bound + error if bounded else gap
    return Certificate(
        information=case.information,
        gap=gap,
        error=error,
        proved=bounded,
        searched=case.grid.coarse and not bounded,
        spread=spread,
        worst=worst,
        atoms_certified=certified,
    )


def _error(case: Case, worst: Array) -> float:
    """Bound the error of G − J: rounding, omitted outcomes, and the quadrature, compared with a finer one."""
    objective = case.objective
    error = FLOOR * (1 + abs(case.information))
    error += sum(abs(b) * c.tail for b, c in zip(objective.signs, objective.channels, strict=True))
    finer = [channel.at_resolution("fine") for channel in objective.channels]
    if all(channel is None for channel in finer):
        return error
    pairs = zip(finer, objective.channels, strict=True)
    other = Objective(tuple(c if f is None else f for f, c in pairs), objective.signs)
    places = np.vstack([case.u, worst])
    ours, theirs = objective.gain(places, case.logs), other.gain(places, other.log_marginals(case.u, case.weights))
    return error + 2 * float(np.abs(ours - theirs).max())


def judge_atoms(case: Case, gap: float, top: Array, height: Array) -> tuple[bool, float]:
    """Judge whether the optimum has exactly these atoms, as far as doubles can tell, and how far its atoms are.

    `top` (M, d) and `height` (M,) are the `maxima` of the gain.

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
    if len(u) > 150 or not objective.resolved or case.grid.coarse:  # doubles cannot count atoms that are so dense
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
    if radius is None:
        return False, spread
    if gap + tolerance > NEARLY:
        top, height, _ = summits(case, case.information - tolerance)
    apart = canonical(channel, top[height >= case.information - tolerance])[:, None] - canonical(channel, u)
    if not np.all(np.any(np.all(np.abs(apart) <= radius, axis=2), axis=1)):  # a summit as high is no atom
        return False, spread
    levels = case.information - np.geomspace(tolerance, 1.0, 25)
    return any(_one_atom_per_component(case, level) for level in levels), spread


def _judge_rows(case: Case, residual: float) -> tuple[bool, float]:
    """Judge a table: are the rows in use independent, so that no other weights do as well, and the others below J?"""
    curvature = Likelihoods.of_values(case.objective, case.u).curvature(case.weights) + 1.0  # 1·1ᵀ: weights sum to one
    smallest = float(np.linalg.eigvalsh(curvature)[0])
    if smallest < INDEPENDENT:
        return False, math.sqrt(residual)
    spread = min(residual * len(case.u) / smallest, math.sqrt(residual))
    tolerance = residual * math.sqrt(len(case.u) / smallest / case.weights.min())
    used = np.ravel_multi_index(nearest_points(case.grid, case.u), case.grid.shape)
    unused = np.delete(case.values, used)
    return bool(case.weights.min() > tolerance and np.all(unused < case.information - tolerance)), spread


def _certain_radius(objective: Objective, point: Point, unit: Array, tolerance: float) -> Array | None:
    """Return how far from its atom a summit within the tolerance of J can be, (K, d); None if G is not concave there.

    An atom's place is uncertain by √(2 tolerance/|G''|). Where the optimum's gain differs by the tolerance, its
    second derivative in standard deviations differs by a little more. Axes on which an atom is fixed at a bound are
    left out; there the slope takes the place of the curvature.
    """
    bounds = objective.channel.bounds
    free = point.free(bounds)
    both, fixed = free[:, :, None] & free[:, None, :], ~free[:, :, None] * np.eye(len(unit))
    logs = point.table.own_logs(point.weights)

    def largest_curvature(places: Array) -> Array:
        """Return the largest eigenvalue of G'' on the free axes, below −1 without any: (K, d) -> (K,)."""
        hessians = objective.table(np.clip(places, bounds[:, 0], bounds[:, 1])).hessians(logs)
        scaled = np.where(both, hessians * unit * unit[:, None], 0.0)
        below = 1 + np.abs(scaled).max(axis=(1, 2), keepdims=True)  # below every eigenvalue of a free axis
        return np.asarray(np.linalg.eigvalsh(scaled - below * fixed)[:, -1])

    margin = -4 * tolerance  # by which the second derivative may err, if the gain errs by the tolerance
    curvature = largest_curvature(point.u)
    if not np.all(curvature < margin):
        return None
    radius = 2 * np.sqrt(2 * tolerance / -curvature)[:, None] * unit  # twice, as the curvature weakens outward
    moves = [sign * axis * radius for axis in np.eye(len(unit)) for sign in (-1.0, 1.0)]
    if not all(bool(np.all(largest_curvature(point.u + move) < margin)) for move in moves):
        return None
    return np.maximum(radius, 1e-6 * unit)  # parabolas find a summit this precisely


def _one_atom_per_component(case: Case, level: float) -> bool:
    """Return whether each connected component of {G ≥ level} on the grid holds exactly one atom."""
    grid, nearest = case.grid, nearest_points(case.grid, case.u)
    own = own_points(case.objective.channel, grid.points)
    above = ((case.values >= level) & own).reshape(grid.shape)
    above[nearest] = True  # an atom reaches J itself, however narrow its peak
    components, count = label(above, structure=np.ones([3] * len(grid.shape)))
    return bool(count == len(case.u) == len(np.unique(components[nearest])))


def estimate(channel: SampledMean, u: Array, weights: Array) -> Certificate:
    """Estimate information and gap with their standard errors from noise that the search has not seen."""
    means, (first, *others) = channel.at(u), fresh_noise(channel, len(u))
    found, _ = sampled_maxima(channel, Mixture.of(means, weights, first), u, seed=1000 + channel.seed, starts=120)
    places = np.vstack([found, u])
    at_places = channel.at(places)
    gains = np.stack([Mixture.of(means, weights, noise).gain(at_places) for noise in others])
    gain, gain_error = _mean_and_error(gains)
    information, information_error = _mean_and_error(gains[:, -len(u) :] @ weights)
    top = int(np.argmax(gain + ERRORS * gain_error))
    error = ERRORS * float(gain_error[top] + information_error) + channel.tail
    gap = max(0.0, float(gain[top] - information)) + error if channel.axes.resolved else math.inf
    return Certificate(
        information=float(information),
        gap=gap,
        error=error,
        searched=True,
        spread=math.sqrt(gap),
        worst=places[top],
        sampled=True,
    )


def _mean_and_error(values: Array) -> tuple[Array, Array]:
    """Return the mean over scrambles and its standard error: (N, …) -> (…), (…)."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
