"""Counts of many: a search sums over quadrature nodes instead of all whole numbers.

Nodes are the whole numbers near the ends and, further in, a fraction of a standard deviation apart, weighted by their
distance. p log p is analytic there, so the sums agree to rounding. The certificate does not use these nodes: it sums
over all outcomes.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf

from refprior.exact._arrays import Array

THIN_FROM = 3000.0  # tosses or counts from which leaving out outcomes pays
NODES = 8.0  # quadrature nodes per standard deviation, away from the ends
BLEND_FROM, BLEND_WIDTH = 1.7, 0.22  # where nodes leave the integers, in units of √z / NODES
BLENDED = 12.0  # z / NODES² from which nodes are even in Fisher length, to all digits


def coin_nodes(n: int) -> tuple[Array, Array]:
    """Nodes z and the logs of their weights, symmetric under z → n − z: (Z,), (Z,)."""
    density = NODES
    half = _node_number(np.array([n / 2.0]), n, density)[0][0]
    total = math.ceil(2 * half)
    for _ in range(30):  # scale the density until the middle is a node or halfway between two
        miss = total / 2 - _node_number(np.array([n / 2.0]), n, density)[0][0]
        density *= 1 + miss / (math.sqrt(n) * density * math.pi / 2)
    target = np.arange(total // 2 + 1.0)
    z = _invert(target, n / 2 * np.sin(np.linspace(0, np.pi / 2, 20 * len(target))) ** 2, n, density)
    far = z > BLENDED * density**2
    z[far] = n / 2 * (1 - np.sin((total / 2 - target[far]) / (density * math.sqrt(n))))  # its exact solution there
    weight = 1 / _node_number(z, n, density)[1]
    mirrored = target < total / 2
    z = np.concatenate([z, (n - z[mirrored])[::-1]])
    return z, np.log(np.concatenate([weight, weight[mirrored][::-1]]))


def count_nodes(most: float) -> tuple[Array, Array]:
    """Nodes z of counts without an end, from 0 to at least `most`, and the logs of their weights: (Z,), (Z,)."""
    last = math.ceil(_node_number(np.array([most]), math.inf, NODES)[0][0])
    table = 1.1 * most * np.linspace(0, 1, 40 * last) ** 2
    target = np.arange(last + 1.0)
    z = _invert(target, table, math.inf, NODES)
    z = np.where(z > BLENDED * NODES**2, ((target / NODES + NODES) / 2) ** 2, z)  # its exact solution there
    return z, -np.log(_node_number(z, math.inf, NODES)[1])


def _node_number(z: Array, n: float, density: float) -> tuple[Array, Array]:
    """The number t(z) of the node at z, and dt/dz: z itself near the ends, linear in Fisher length further in.

    n is the number of tosses, or infinite for Poisson counts, which are a coin of endless tosses.
    """
    touch = density**2  # here a standard deviation holds `density` integers: both formulas have the same slope
    safe = np.maximum(z, 1e-3)
    x = np.sqrt(z) / density
    blend = 0.5 * (1 + erf((x - BLEND_FROM) / BLEND_WIDTH))
    slope_x = 1 / (2 * density * np.sqrt(safe))
    slope_blend = np.exp(-(((x - BLEND_FROM) / BLEND_WIDTH) ** 2)) / (BLEND_WIDTH * math.sqrt(math.pi)) * slope_x
    slope = density / np.sqrt(safe * (1 - np.minimum(z, n - 1e-3) / n))
    excess = touch + density * (_length(z, n) - _length(np.array(touch), n)) - z
    return z + blend * excess, 1 + blend * (slope - 1) + slope_blend * excess


def _length(z: Array, n: float) -> Array:
    """Fisher length from 0 to a mean of z, in standard deviations."""
    if math.isinf(n):
        return 2 * np.sqrt(z)
    return 2 * math.sqrt(n) * np.arcsin(np.sqrt(np.minimum(z / n, 1.0)))


def _invert(target: Array, table: Array, n: float, density: float) -> Array:
    """z with t(z) = target, by Newton from a table that covers it."""
    z = np.interp(target, _node_number(table, n, density)[0], table)
    for _ in range(8):
        value, slope = _node_number(z, n, density)
        z = np.clip(z - (value - target) / slope, 0.0, table[-1])
    return z
