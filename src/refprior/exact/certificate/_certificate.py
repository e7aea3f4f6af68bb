"""Bound the distance of a prior from the optimum without knowing how the prior was found.

Where J is concave in π, J* − J ≤ max_w G(w) − J, with the maximum over all w and not over a grid. It is taken on a grid
that is even in Fisher length and finer than the solver's. Around every peak of the grid and around every atom, a
polynomial through more values searches for what the grid missed, and parabolas refine the result.

For up to three parameters the gap uses values of G only. Derivatives of G enter in three places: the number of atoms
and their spread (`_atom_count`), the search with more than three parameters (`_summits`), and the bound on whole cells
for Gaussian noise (`_bound`). No step of the solver is used anywhere.

The gap includes everything that can make G and J differ from the truth: omitted outcomes, the quadrature of continuous
outcomes (compared with a finer one), and rounding. If the likelihood was only sampled, the highest points are
approached until G no longer changes between neighbors; the remaining change is part of the gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact.certificate._atom_count import judge_atoms
from refprior.exact.certificate._bound import stays_below
from refprior.exact.certificate._case import Case
from refprior.exact.certificate._samples import Estimate, estimate
from refprior.exact.certificate._summits import FLOOR, maxima
from refprior.exact.channels import SampledMean
from refprior.exact.oracle import Objective

SLACK, SLACK_SHARE = 1e-14, 0.05  # above the largest gain: of 1 + J, and of the tolerance, what a proof may leave


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """J, the gap, where the gain is largest, whether the number of atoms is certain, and how well each is known."""

    information: float
    gap: float
    error: float  # the part of the gap that rounding, quadrature and outcomes left out may hide
    proved: bool  # whether the gap bounds the gain on whole cells, and not on a grid that was looked at closely
    searched: bool  # whether that grid was too coarse to certify anything: many parameters
    spread: float  # about how far atoms and weights are from those of the optimum
    worst: Array  # (d,) coordinates of the largest gain
    atoms_certified: bool
    evaluations: int
    sampled: bool = False  # whether the error is that of samples


def judge(objective: Objective, u: Array, weights: Array, tolerance: float = 1e-12) -> Certificate:
    """Certificate of a prior given by coordinates (K, d) and weights (K,).

    A gap within the tolerance is proved where that is possible, to a bound slightly above it.
    """
    if isinstance(objective.channel, SampledMean):
        sampled = estimate(objective.channel, u, weights)
        return _of_samples(sampled if objective.resolved else sampled._replace(gap=math.inf))
    case, bounded = Case.of(objective, u, weights), False
    if np.all(np.isfinite(case.values)):
        top, height, count = maxima(case)
        worst = top[int(np.argmax(height))]
        error = _error(case, worst)
        residual = max(0.0, float(height.max()) - case.information)
        gap = _capped(case, residual + error)
        certified, spread = judge_atoms(case, residual)
        bound = residual + max(SLACK * (1 + abs(case.information)), SLACK_SHARE * tolerance)
        if objective.resolved and bound + error <= tolerance and _bounded(case, bound):
            bounded, gap = True, bound + error
    else:  # some w allows an outcome that the prior excludes
        worst, count, gap, error = case.grid.points[int(np.argmax(case.values))], 0, math.inf, math.inf
        certified, spread = False, math.inf
    return Certificate(
        information=case.information,
        gap=gap,
        error=error,
        proved=bounded,
        searched=case.grid.coarse and not bounded,
        spread=spread,
        worst=worst,
        atoms_certified=certified,
        evaluations=len(case.values) + len(u) + count,
    )


def _of_samples(sampled: Estimate) -> Certificate:
    """The certificate of a channel that samples its outcomes: what was found, and nothing for certain."""
    return Certificate(
        information=sampled.information,
        gap=sampled.gap,
        error=sampled.error,
        proved=False,
        searched=True,
        spread=math.sqrt(sampled.gap),
        worst=sampled.worst,
        atoms_certified=False,
        evaluations=sampled.evaluations,
        sampled=True,
    )


def _bounded(case: Case, bound: float) -> bool:
    """Whether the gain stays below J + bound on cells that cover the box: for one channel with Gaussian noise.

    With more than three parameters there would be too many cells.
    """
    channel = case.objective.channel
    if channel.dimension > 3 or len(case.objective.channels) > 1 or channel.noise is None:
        return False
    return stays_below(channel, case.logs[0], case.information + bound)


def _error(case: Case, worst: Array) -> float:
    """By how much G − J may err: rounding, outcomes left out, and the quadrature, compared with a finer one."""
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


def _capped(case: Case, gap: float) -> float:
    """The gap, never above the distance to the log of the number of outcomes, and that if no grid is fine enough."""
    channel = case.objective.channel
    if channel.at_resolution("fine") is not None:  # the number of nodes of a quadrature bounds nothing
        return gap if case.objective.resolved else math.inf
    most = math.log(channel.outcome_count) - case.information + FLOOR
    return max(0.0, min(gap, most)) if case.objective.resolved else most
