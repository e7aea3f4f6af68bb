"""Fisher information and the Jeffreys prior π_J(w) ∝ √det g(w), the limit for many samples.

For the coin g = n / (w (1 − w)), so the exponent is −1/2: π_J ∝ (w (1 − w))^(−1/2).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._channels import Array, Categorical, Channel

PANEL = 1.0  # standard deviations a Gauss–Legendre panel
ORDER = 8  # nodes a panel
EDGE = 1e-6  # of an axis
MOST_NODES = 200_000


def fisher_information(channel: Channel, w: ArrayLike) -> Array:
    """g(w) of one outcome of the channel, in the parameter w: (M,) or (M, d) -> (M, d, d)."""
    u = channel.inside(w)
    information = coordinate_information(channel, u)
    size = np.sqrt(np.einsum("kii->ki", information))
    information[np.abs(information) < 1e-12 * size[:, :, None] * size[:, None, :]] = (
        0.0  # independent, but for rounding
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = information / channel.stretch(u)[:, :, None] / channel.stretch(u)[:, None, :]
    return np.where(information == 0, 0.0, scaled)


def coordinate_information(channel: Channel, u: Array) -> Array:
    """Σ_z ∂_i p ∂_j p / p in the coordinates u: (M, d) -> (M, d, d)."""
    low, high = channel.bounds.T
    vanishing = np.any(np.isneginf(channel.log_likelihood(u)), axis=1, keepdims=True)
    inside = np.clip(u, low + EDGE * (high - low), high - EDGE * (high - low))
    log_p, first, _, _ = channel.rows(np.where(vanishing, inside, u))  # at a bound where p vanishes: the limit
    p = np.exp(log_p)[:, None, :]
    relative = np.divide(first, p, out=np.zeros_like(first), where=p > 0)
    return np.asarray(np.einsum("kiz,kjz->kij", first, relative))


@dataclass(frozen=True)
class Jeffreys:
    """The Jeffreys prior of a channel: its density, √det g integrated (its volume), and its information."""

    channel: Channel
    volume: float
    information: float  # I(w; z) in nats under this prior

    def density(self, w: ArrayLike) -> Array:
        """π_J(w), normalised: (M,) or (M, d) -> (M,)."""
        u = self.channel.inside(w)
        with np.errstate(divide="ignore"):
            stretch = np.prod(self.channel.stretch(u), axis=1)
            root = np.sqrt(np.maximum(np.linalg.det(coordinate_information(self.channel, u)), 0.0))
            return np.asarray(root / stretch / self.volume)


def jeffreys(channel: Channel) -> Jeffreys:
    """Density and information of the Jeffreys prior, by Gauss–Legendre panels in the coordinates u."""
    if isinstance(channel, Categorical):
        raise ValueError("a table has no continuous parameter, so it has no Jeffreys prior")
    u, measure = _nodes(channel)
    size = max(1, 2_000_000 // len(channel.outcomes))
    parts = [coordinate_information(channel, u[i : i + size]) for i in range(0, len(u), size)]
    mass = measure * np.sqrt(np.maximum(np.linalg.det(np.concatenate(parts)), 0.0))
    volume = float(mass.sum())
    weights = mass / volume
    log_marginal = channel.log_marginal(u, weights)
    divergence = [channel.divergence(u[i : i + size], log_marginal) for i in range(0, len(u), size)]
    return Jeffreys(channel, volume, float(weights @ np.concatenate(divergence)))


def _nodes(channel: Channel) -> tuple[Array, Array]:
    """Quadrature nodes (N, d) and measures (N,) over the box of coordinates."""
    x, weight = np.polynomial.legendre.leggauss(ORDER)
    axes = []
    for (low, high), length in zip(channel.bounds, channel.axis_lengths(), strict=True):
        panels = max(4, math.ceil(length / PANEL))
        edges = np.linspace(low, high, panels + 1)
        half = np.diff(edges) / 2
        nodes = (edges[:-1] + half)[:, None] + half[:, None] * x
        axes.append((nodes.ravel(), (half[:, None] * weight).ravel()))
    if math.prod(len(nodes) for nodes, _ in axes) > MOST_NODES:
        raise ValueError(f"the Jeffreys prior of this channel needs more than {MOST_NODES} nodes; take fewer samples")
    points = np.array(list(itertools.product(*(nodes for nodes, _ in axes))))
    measure = np.array([math.prod(m) for m in itertools.product(*(weights for _, weights in axes))])
    return points, measure
