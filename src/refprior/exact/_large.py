"""Coins tossed many times: sparse rows, a banded Newton system, and fewer outcomes than tosses.

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
from refprior.exact._channels import SMALLEST_LOG, Channel
from refprior.exact._objective import Objective, Table
from refprior.exact._optimality import Point
from refprior.exact._solver import solve
from refprior.exact._windows import window_ends

LARGE_FROM = 900  # tosses from which this solver is used
THIN_FROM = 3000  # tosses from which leaving out outcomes pays
SHORT_TOSSES = 400  # of the coin whose prior gives the first atoms near both ends
STEPS = 20
ATTEMPTS = 4  # far from the ends J is so flat that an ascent may end early; the next one starts there
NODES = 8.0  # quadrature nodes per standard deviation, away from the ends
BLEND_FROM, BLEND_WIDTH = 1.7, 0.22  # where nodes leave the integers, in units of √z / NODES
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
    u, weights = starting_atoms(n, short)
    trust = np.array([0.3 * (1 / math.sqrt(n))])
    problem = Problem(lambda points: sparse_table(n, nodes, points), short.bounds, trust)
    attempts = []
    for _ in range(ATTEMPTS):
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
        trial = equalise(problem, mirrored)
    return point


def starting_atoms(n: int, short: Channel) -> tuple[Array, Array]:
    """Near both ends the places and weights of a coin of SHORT_TOSSES, in between a slowly falling spacing.

    Near an end the prior is the same for every n in units of a standard deviation. Further in, the spacing
    falls like the cube root of the distance, down to LEAST_SPACING; weights there follow the spacing.
    """
    small, small_weights = solve(Objective((short,)), 1e-13)
    order = np.argsort(small[:, 0])[: len(small) // 3]
    edge = small[order, 0] * math.sqrt(SHORT_TOSSES)
    half = math.pi * math.sqrt(n) / 2
    places = _extend_to_middle(edge, half)
    relative = small_weights[order] / np.gradient(edge)
    weights = np.interp(places, edge, relative / relative[-1]) * np.gradient(places)
    u = np.concatenate([places, 2 * half - places[places < half - 1e-9][::-1]]) / math.sqrt(n)
    both = np.concatenate([weights, weights[places < half - 1e-9][::-1]])
    return np.clip(u, 0, math.pi)[:, None], both / both.sum()


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
