"""Fisher information and the Jeffreys prior π_J(w) ∝ √det g(w), the limit of the reference prior for many samples.

For the coin g = n / (w (1 − w)), so the exponent is −1/2: π_J ∝ (w (1 − w))^(−1/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refprior._process import check_memory
from refprior.exact._arrays import Array, grid_of
from refprior.exact._cost import ENTRIES, LOG, SLICE_ENTRIES, in_slices, say_time
from refprior.exact.channels import Channel, check_channel, to_coordinates
from refprior.exact.oracle import divergence, log_marginal

PANEL = 1.0  # standard deviations per Gauss–Legendre panel
ORDER = 8  # nodes per panel
EDGE = 1e-6  # share of an axis: distance from a bound at which some p(z | w) vanishes, where the limit is taken
MOST_NODES = 200_000  # of the quadrature: 20 s with a thousand outcomes


def fisher_information(channel: Channel, w: ArrayLike) -> Array:
    """Compute the Fisher information of a channel.

    g_ij(w) = Σ_z ∂_i p(z | w) ∂_j p(z | w) / p(z | w), for one outcome of the channel.

    Parameters
    ----------
    channel : Channel
        The model p(z | w).
    w : array_like of shape (M,) or (M, d)
        Parameters.

    Returns
    -------
    ndarray of shape (M, d, d)
        The matrix g at each of them.

    Examples
    --------
    >>> from refprior.exact import Coin, fisher_information
    >>> fisher_information(Coin(10), [0.5]).round(6).tolist()  # n / (w (1 - w))
    [[[40.0]]]
    """
    u = to_coordinates(check_channel(channel), w)
    information = coordinate_information(channel, u)
    size = np.sqrt(np.einsum("kii->ki", information))
    independent = np.abs(information) < 1e-12 * size[:, :, None] * size[:, None, :]  # up to rounding
    information[independent] = 0.0
    jacobian = channel.jacobian(u)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = information / jacobian[:, :, None] / jacobian[:, None, :]
    return np.where(information == 0, 0.0, scaled)


def coordinate_information(channel: Channel, u: Array) -> Array:
    """Compute Σ_z ∂_i p ∂_j p / p in the coordinates u: (M, d) -> (M, d, d)."""
    low, high = channel.bounds.T
    vanishing = np.any(np.isneginf(channel.log_likelihood(u)), axis=1, keepdims=True)
    inside = np.clip(u, low + EDGE * (high - low), high - EDGE * (high - low))
    log_p, first, _, _ = channel.rows(np.where(vanishing, inside, u))  # the limit at a bound where p vanishes
    p = np.exp(log_p)[:, None, :]
    relative = np.divide(first, p, out=np.zeros_like(first), where=p > 0)
    return np.asarray(np.einsum("kiz,kjz->kij", first, relative))


@dataclass(frozen=True, kw_only=True)
class JeffreysPrior:
    """The Jeffreys prior of a channel."""

    channel: Channel
    volume: float  # ∫ √det g
    information: float  # I(w; z) under this prior, in nats

    def density(self, w: ArrayLike) -> Array:
        """Evaluate the normalized density π_J(w).

        Parameters
        ----------
        w : array_like of shape (M,) or (M, d)
            Parameters.

        Returns
        -------
        ndarray of shape (M,)
            The density at each of them.

        Examples
        --------
        >>> from refprior.exact import Coin, jeffreys_prior
        >>> jeffreys_prior(Coin(4)).density([0.5]).round(6).tolist()  # 2/π
        [0.63662]
        """
        u = to_coordinates(self.channel, w)
        with np.errstate(divide="ignore"):
            determinant = np.prod(self.channel.jacobian(u), axis=1)
            return np.asarray(root_determinant(coordinate_information(self.channel, u)) / determinant / self.volume)


def root_determinant(information: Array) -> Array:
    """Compute √det g: (M, d, d) -> (M,)."""
    return np.asarray(np.sqrt(np.maximum(np.linalg.det(information), 0.0)))


def jeffreys_prior(channel: Channel) -> JeffreysPrior:
    """Compute the Jeffreys prior of a channel.

    π_J(w) ∝ √det g(w), with g the Fisher information. Integrals are sums over Gauss–Legendre panels.

    Parameters
    ----------
    channel : Channel
        The model p(z | w), with continuous parameters.

    Returns
    -------
    JeffreysPrior
        Its `volume` ∫ √det g, its `information` in nats, and the function `density`.

    Raises
    ------
    ValueError
        If the channel is a table, or the quadrature would need too many nodes.

    Examples
    --------
    >>> from refprior.exact import Coin, jeffreys_prior, reference_prior
    >>> prior = jeffreys_prior(Coin(10))
    >>> prior.information < reference_prior(Coin(10)).information
    True
    >>> round(jeffreys_prior(Coin(4)).volume, 6)  # 2π
    6.283185
    """
    require_density(check_channel(channel))
    outcomes = channel.outcome_count
    u, measure = quadrature(channel)
    check_memory(8.0 * outcomes * 30, f"the Jeffreys prior over {outcomes:,} outcomes", "take fewer samples")
    say_time(2 * len(u) * outcomes / ENTRIES)
    information = in_slices(lambda part: coordinate_information(channel, part), u, outcomes, least=1)
    mass = measure * root_determinant(information)
    volume = float(mass.sum())
    weights = mass / volume
    size = max(1, SLICE_ENTRIES // outcomes)
    logs = log_marginal(channel, u[:size], weights[:size])
    for i in range(size, len(u), size):  # one slice of nodes at a time
        LOG.info("%d of %d points", i, len(u))
        logs = np.logaddexp(logs, log_marginal(channel, u[i : i + size], weights[i : i + size]))
    gains = in_slices(lambda part: divergence(channel, part, logs), u, outcomes, least=1)
    return JeffreysPrior(channel=channel, volume=volume, information=float(weights @ gains))


def require_density(channel: Channel) -> None:
    """Raise if a channel has no continuous parameter."""
    if not channel.continuous:
        raise ValueError("a table has no continuous parameter, so it has no Jeffreys prior")


def fits_quadrature(channel: Channel) -> bool:
    """Return whether the nodes of `quadrature` are few enough."""
    panels = [max(4, math.ceil(length / PANEL)) for length in channel.axes.lengths]
    return bool(math.prod(ORDER * count for count in panels) <= MOST_NODES)


def quadrature(channel: Channel) -> tuple[Array, Array]:
    """Return quadrature nodes (N, d) and measures (N,) over the box of coordinates."""
    x, weight = np.polynomial.legendre.leggauss(ORDER)
    if not fits_quadrature(channel):
        raise ValueError(
            f"the Jeffreys prior of this channel needs more than {MOST_NODES} nodes: draw_prior(channel, 'jeffreys') "
            "draws from it"
        )
    axes = []
    for (low, high), length in zip(channel.bounds, channel.axes.lengths, strict=True):
        panels = max(4, math.ceil(length / PANEL))
        edges = np.linspace(low, high, panels + 1)
        half = np.diff(edges) / 2
        nodes = (edges[:-1] + half)[:, None] + half[:, None] * x
        axes.append((nodes.ravel(), (half[:, None] * weight).ravel()))
    points = grid_of([nodes for nodes, _ in axes])
    measure = np.prod(grid_of([weights for _, weights in axes]), axis=1)
    return points, measure
