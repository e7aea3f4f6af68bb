"""Long experiments of one parameter: sparse rows, a banded Newton system, a start from a shorter experiment.

For coins tossed many times, there are fewer outcomes than tosses:

The search sums over quadrature nodes instead of all n + 1 outcomes: the integers near both ends and, further
in, nodes a fraction of a standard deviation apart, weighted by their distance. p log p is analytic there, so
the sums agree to rounding. The certificate does not use these nodes: it sums over all outcomes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.special import erf

from refprior.exact._arrays import Array, Index
from refprior.exact._ascent import MIRRORINGS, Problem, ascend, average_with_mirror_image, equalise
from refprior.exact._binomial import log_binomial, normaliser, score
from refprior.exact._channels import Channel
from refprior.exact._cost import LOG
from refprior.exact._objective import Objective, Table
from refprior.exact._optimality import Point
from refprior.exact._rows import SMALLEST_LOG
from refprior.exact._search import fisher_grid
from refprior.exact._solver import solve
from refprior.exact._windows import window_ends

LARGE_FROM = 900  # tosses from which this solver is used
THIN_FROM = 3000  # tosses from which leaving out outcomes pays
SHORT_TOSSES = 400  # of the coin whose prior gives the first atoms near both ends
STEPS = 20
ATTEMPTS = 4  # far from the ends J is so flat that an ascent may end early; the next one starts there
NODES = 8.0  # quadrature nodes per standard deviation, away from the ends
BLEND_FROM, BLEND_WIDTH = 1.7, 0.22  # where nodes leave the integers, in units of √z / NODES
GRID_SPACING = 0.2  # standard deviations between points on which missing atoms are looked for
CHANGES = (0, -1, 1, -2, 2)  # of the number of atoms that a start has
TRUST = 0.3  # standard deviations that an atom may move in a step
NEGLIGIBLE = 1e-40  # probability that is left out of sparse rows
HOPELESS = 1e-3  # nats of unevenness after mirroring: the model is not symmetric
LEAST_SPACING = 1.02  # standard deviations between atoms: the ripple 2 exp(−4π²/δ²) is below rounding


@dataclass(frozen=True)
class Nodes:
    """Outcomes z, the logs of their quadrature weights, and the constant part of log p at them: (Z,) each."""

    z: Array
    log_weight: Array
    constant: Array


def quadrature_nodes(n: int) -> Nodes:
    """Nodes that are the integers near 0 and n and sparser in between, symmetric under z → n − z."""
    if n < THIN_FROM:
        z = np.arange(n + 1.0)
        return Nodes(z, np.zeros(n + 1), normaliser(n, z))
    density = NODES
    half = _node_number(np.array([n / 2.0]), n, density)[0][0]
    total = math.ceil(2 * half)
    for _ in range(30):  # scale the density until the middle is a node or halfway between two
        miss = total / 2 - _node_number(np.array([n / 2.0]), n, density)[0][0]
        density *= 1 + miss / (math.sqrt(n) * density * math.pi / 2)
    target = np.arange(total // 2 + 1.0)
    z = _invert(target, n, density)
    weight = 1 / _node_number(z, n, density)[1]
    mirrored = target < total / 2
    z = np.concatenate([z, (n - z[mirrored])[::-1]])
    weight = np.concatenate([weight, weight[mirrored][::-1]])
    return Nodes(z, np.log(weight), normaliser(n, z))


def _node_number(z: Array, n: int, density: float) -> tuple[Array, Array]:
    """The number t(z) of the node at z, and dt/dz: z itself near the ends, linear in the angle further in."""
    angle = 2 * np.arcsin(np.sqrt(z / n))
    rate = density * math.sqrt(n)
    touch = density**2  # here a standard deviation holds `density` integers: both formulas have the same slope
    offset = touch - rate * 2 * math.asin(math.sqrt(min(touch / n, 1.0)))
    x = np.sqrt(z) / density
    blend = 0.5 * (1 + erf((x - BLEND_FROM) / BLEND_WIDTH))
    safe = np.maximum(z, 1e-3)
    slope_angle = 1 / np.sqrt(safe * (n - np.minimum(z, n - 1e-3)))
    slope_x = 1 / (2 * density * np.sqrt(safe))
    slope_blend = np.exp(-(((x - BLEND_FROM) / BLEND_WIDTH) ** 2)) / (BLEND_WIDTH * math.sqrt(math.pi)) * slope_x
    excess = rate * angle + offset - z
    return z + blend * excess, 1 + blend * (rate * slope_angle - 1) + slope_blend * excess


def _invert(target: Array, n: int, density: float) -> Array:
    """z with t(z) = target, by Newton from a table."""
    table = n / 2 * np.sin(np.linspace(0, np.pi / 2, 20 * len(target))) ** 2
    z = np.interp(target, _node_number(table, n, density)[0], table)
    for _ in range(8):
        value, slope = _node_number(z, n, density)
        z = np.clip(z - (value - target) / slope, 0.0, n / 2)
    return z


def sparse_table(n: int, nodes: Nodes, u: Array) -> Table:
    """The table of an objective with windows as sparse rows: (K, 1) -> Table."""
    columns, counts = _node_windows(n, nodes, u[:, 0])
    angle, z = np.repeat(u[:, 0], counts), nodes.z[columns]
    log_p = log_binomial(n, z, angle, nodes.constant[columns]) + nodes.log_weight[columns]
    first, second = score(n, z, np.clip(angle, 1e-9, np.pi - 1e-9))
    p = np.exp(log_p)
    rows = np.concatenate([[0], np.cumsum(counts)])
    shape = (len(u), len(nodes.z))

    def matrix(data: Array) -> sparse.csr_array:
        return sparse.csr_array((data, columns, rows), shape=shape)

    def total(data: Array) -> Array:
        return np.add.reduceat(data, rows[:-1])

    finite = np.maximum(log_p, SMALLEST_LOG)
    first_of_p, second_of_p = p * first, p * (second + first**2)
    second_matrix = matrix(second_of_p)
    return Table(
        signs=(1.0,),
        p=[matrix(p)],
        first=[[matrix(first_of_p)]],
        second=[lambda values: np.asarray(second_matrix @ values)[:, None, None]],
        value=total(p * finite),
        gradient=total(first_of_p * finite)[:, None],
        hessian=total(second_of_p * finite + p * first**2)[:, None, None],
    )


def _node_windows(n: int, nodes: Nodes, angle: Array) -> tuple[Index, Index]:
    """Columns of the nodes that each angle can show, row after row, and their number per row."""
    ends = window_ends(n, angle)
    low, high = np.searchsorted(nodes.z, ends[0], "left"), np.searchsorted(nodes.z, ends[1], "right")
    counts = np.maximum(high - low, 1)
    low = np.minimum(low, len(nodes.z) - counts)
    columns = np.concatenate([np.arange(a, a + c) for a, c in zip(low, counts, strict=True)])
    return columns, counts


def solve_long_coin(n: int, short: Channel, tolerance: float) -> tuple[Array, Array]:
    """Atoms as angles (K, 1) and weights (K,): the profile of a coin of SHORT_TOSSES, then the joint ascent."""
    nodes = quadrature_nodes(n)
    start = starting_atoms(short, math.pi * math.sqrt(n), short.bounds)
    trust = np.array([TRUST / math.sqrt(n)])
    return _ascend_from(Problem(lambda points: sparse_table(n, nodes, points), short.bounds, trust), *start, tolerance)


def solve_long(channel: Channel, short: Channel, tolerance: float) -> tuple[Array, Array]:
    """The same for any channel of one parameter with known length: `short` looks like it near both ends."""
    objective, length = Objective((channel,)), float(channel.axis_lengths()[0])
    trust = TRUST * (channel.bounds[:, 1] - channel.bounds[:, 0]) / length
    problem = Problem(lambda points: thinned(objective.table(points)), channel.bounds, trust)
    grid = fisher_grid(channel, GRID_SPACING).points
    start, attempts = starting_atoms(short, length, channel.bounds), []
    for more in CHANGES:  # one atom too many or too few, and the ascent does not come to an end
        point = problem.evaluate(*_ascend_from(problem, *resampled(*start, more), tolerance, most=2))
        logs = objective.log_marginals(point.u, point.weights)
        attempts.append((float(objective.gain(grid, logs).max()) - point.information, point))
        LOG.info("%d atoms, excess %.0e nats", len(point.u), attempts[-1][0])
        if attempts[-1][0] <= tolerance / 3:
            break
    best = min(attempts, key=lambda pair: pair[0])[1]
    return best.u, best.weights


def resampled(u: Array, weights: Array, more: int) -> tuple[Array, Array]:
    """The same density with more atoms, or fewer, away from both ends: (K, 1), (K,) -> (M, 1), (M,)."""
    numbers = np.arange(len(u))
    inside = np.clip((numbers - len(u) // 4) / (len(u) - 1 - 2 * (len(u) // 4)), 0, 1)
    places = np.interp(np.arange(len(u) + more), numbers + more * inside, u[:, 0])
    density = np.interp(places, u[:, 0], weights / np.gradient(u[:, 0]))
    new = density * np.gradient(places)
    return places[:, None], new / new.sum()


def thinned(table: Table) -> Table:
    """The same table with sparse rows: probabilities below NEGLIGIBLE are left out."""
    for c, p in enumerate(table.p):
        kept = p > NEGLIGIBLE
        table.first[c] = [sparse.csr_array(np.where(kept, first, 0.0)) for first in table.first[c]]
        table.p[c] = sparse.csr_array(np.where(kept, p, 0.0))
    return table


def _ascend_from(
    problem: Problem, u: Array, weights: Array, tolerance: float, most: int = ATTEMPTS
) -> tuple[Array, Array]:
    """The joint ascent, again from where it ended as long as gains are uneven: (K, 1), (K,)."""
    attempts = []
    for _ in range(most):
        point = equalise(problem, ascend(problem, u, weights, steps=STEPS))
        attempts.append((problem.residual(point), point))
        if attempts[-1][0] < 0.7 * tolerance:
            break
        u, weights = point.u, point.weights
    best = _symmetric(problem, min(attempts, key=lambda pair: pair[0])[1], tolerance)
    return best.u, best.weights


def _symmetric(problem: Problem, point: Point, tolerance: float) -> Point:
    """The point averaged with its mirror image and evened out in turn, until that costs nothing."""
    allowed, trial = max(problem.residual(point), 0.7 * tolerance), point
    for _ in range(MIRRORINGS):
        mirrored = average_with_mirror_image(problem, trial)
        if problem.residual(mirrored) <= allowed:
            return mirrored
        if problem.residual(mirrored) > HOPELESS:  # the model is not symmetric
            return point
        trial = equalise(problem, mirrored)
    return point


def starting_atoms(short: Channel, length: float, bounds: Array) -> tuple[Array, Array]:
    """Near both ends the places and weights of a shorter experiment, in between a slowly falling spacing.

    Near an end the prior is the same for every length in units of a standard deviation. Further in, the spacing
    falls like the cube root of the distance, down to LEAST_SPACING; weights there follow the spacing.
    """
    small, small_weights = solve(Objective((short,)), 1e-13)
    order = np.argsort(small[:, 0])
    low, high = short.bounds[0]
    whole = float(short.axis_lengths()[0])
    places, weights = (small[order, 0] - low) / (high - low) * whole, small_weights[order]
    left, left_weights = _from_one_end(places, weights, length / 2)
    right, right_weights = _from_one_end((whole - places)[::-1], weights[::-1], length / 2)
    both = np.concatenate([left, (length - right[:-1])[::-1]]) / length
    all_weights = np.concatenate([left_weights, right_weights[:-1][::-1]])
    u = bounds[0, 0] + np.clip(both, 0, 1) * (bounds[0, 1] - bounds[0, 0])
    return u[:, None], all_weights / all_weights.sum()


def _from_one_end(places: Array, weights: Array, half: float) -> tuple[Array, Array]:
    """Places from an end to the middle, which is the last one, and weights relative to those of the middle."""
    edge = places[: len(places) // 3]
    line = _extend_to_middle(edge, half)
    relative = weights[: len(edge)] / np.gradient(edge)
    return line, np.interp(line, edge, relative / relative[-1]) * np.gradient(line)


def _extend_to_middle(edge: Array, half: float) -> Array:
    """Continue the places from the edge to the middle, which is the last place."""
    places = list(edge)
    gap, at = edge[-1] - edge[-2], (edge[-1] + edge[-2]) / 2
    while places[-1] < half:
        places.append(places[-1] + max(LEAST_SPACING, gap * (at / (places[-1] + gap / 2)) ** (1 / 3)))
    line = np.array(places)
    inner = line[len(edge) - 1 :]
    line[len(edge) - 1 :] = inner[0] + (inner - inner[0]) * (half - inner[0]) / (inner[-1] - inner[0])
    return line
