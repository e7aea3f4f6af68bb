"""Signed sums of mutual informations, J(π) = Σ_c b_c I_π(w; z_c), and the gain G(w) whose average J is.

One stage: I(w; zⁿ), eq:ref_pin. Two stages: I(w; z^{m+n}) − β I(w; z^m), eq:ref_pinm_avg at β = 1.
Both are concave in π, for 0 ≤ β ≤ 1: I(w; z^{m+n}) − I(w; z^m) is the information of zⁿ given z^m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refprior.exact._channels import SMALLEST_LOG, Array, Channel


@dataclass(frozen=True)
class Objective:
    """Channels of one parameter with the signs of their informations."""

    channels: tuple[Channel, ...]
    signs: tuple[float, ...] = (1.0,)

    @property
    def channel(self) -> Channel:
        """The channel that carries the parameter's box and coordinates."""
        return self.channels[0]

    @property
    def resolved(self) -> bool:
        """Whether a grid can be trusted to see all that the channels do."""
        return all(channel.resolved for channel in self.channels)

    def log_marginals(self, u: Array, weights: Array) -> list[Array]:
        """log p_c(z) = log Σ_k π_k p_c(z | w_k), one array a channel: (K, d), (K,) -> [(Z_c,)]."""
        return [channel.log_marginal(u, weights) for channel in self.channels]

    def gain(self, u: Array, log_marginals: list[Array]) -> Array:
        """G(w) = Σ_c b_c KL(p_c(z | w), p_c(z)), the gray line of the figures: (K, d) -> (K,)."""
        gain = np.zeros(len(u))
        for sign, channel, log_marginal in zip(self.signs, self.channels, log_marginals, strict=True):
            gain += sign * channel.divergence(u, log_marginal)
        return gain

    def table(self, u: Array) -> Table:
        """Everything about the points u that does not depend on the weights."""
        return Table.build(self, u)


@dataclass
class Table:
    """p and its derivatives at K points, with the sums that need no prior.

    Matrices are (K, Z_c), dense or sparse: `p[c]`, `first[c][i]`; `second[c]` sums second derivatives over z.
    """

    signs: tuple[float, ...]
    p: list[Any]
    first: list[list[Any]]
    second: list[Callable[[Array], Array]]
    value: Array  # (K,) Σ_c b_c Σ_z p log p
    slope: Array  # (K, d) its derivative
    bend: Array  # (K, d, d) its second derivative

    @classmethod
    def build(cls, objective: Objective, u: Array) -> Table:
        count, dimension = u.shape
        table = cls(objective.signs, [], [], [], np.zeros(count), np.zeros(u.shape), np.zeros((*u.shape, dimension)))
        for sign, channel in zip(objective.signs, objective.channels, strict=True):
            log_p, first, second, bend = channel.rows(u)
            p = np.exp(log_p)
            finite_log = np.maximum(log_p, SMALLEST_LOG)
            table.value += sign * np.einsum("kz,kz->k", p, finite_log)
            table.slope += sign * np.einsum("kiz,kz->ki", first, finite_log)
            table.bend += sign * bend
            table.p.append(p)
            table.first.append([first[:, i] for i in range(dimension)])
            table.second.append(second)
        return table

    @classmethod
    def of_values(cls, objective: Objective, u: Array) -> Table:
        """A table without derivatives: enough for the weights of points that do not move."""
        table = cls(objective.signs, [], [], [], np.zeros(len(u)), np.empty(0), np.empty(0))
        for sign, channel in zip(objective.signs, objective.channels, strict=True):
            log_p = channel.log_likelihood(u)
            table.p.append(np.exp(log_p))
            table.value += sign * np.einsum("kz,kz->k", table.p[-1], np.maximum(log_p, SMALLEST_LOG))
        return table

    def mixtures(self, weights: Array) -> list[Array]:
        """p_c(z) = Σ_k π_k p_c(z | w_k): (K,) -> [(Z_c,)]."""
        return [p.T @ weights for p in self.p]

    def curvature(self, weights: Array) -> Array:
        """−∂²J/∂π² = Σ_c b_c P_c diag(1/p_c) P_cᵀ: (K,) -> (K, K)."""
        total = np.zeros((len(weights), len(weights)))
        for sign, p, mixture in zip(self.signs, self.p, self.mixtures(weights), strict=True):
            total += sign * (p / np.maximum(mixture, 1e-300)) @ p.T
        return total

    def gains(self, logs: list[Array]) -> Array:
        """G at the points, given log p_c(z): -> (K,)."""
        gains = self.value.copy()
        for sign, p, log in zip(self.signs, self.p, logs, strict=True):
            gains -= sign * (p @ log)
        return gains

    def slopes(self, logs: list[Array]) -> Array:
        """G' at the points: -> (K, d)."""
        slope = self.slope.copy()
        for sign, first, log in zip(self.signs, self.first, logs, strict=True):
            slope -= sign * np.stack([f @ log for f in first], axis=1)
        return slope

    def bends(self, logs: list[Array]) -> Array:
        """G'' at the points: -> (K, d, d)."""
        bend = self.bend.copy()
        for sign, second, log in zip(self.signs, self.second, logs, strict=True):
            bend -= sign * second(log)
        return bend


def safe_log(mixture: Array) -> Array:
    """log that stays finite where an outcome has no probability (there it meets only zeros)."""
    return np.log(np.maximum(mixture, 1e-320))


def two_stage_signs(beta: float) -> tuple[float, float]:
    """Signs of I(w; z^{m+n}) and I(w; z^m); refused where the sum is not concave."""
    if not (np.isfinite(beta) and 0 <= beta <= 1):
        raise ValueError(
            f"beta = {beta!r}: I(w; z^(m+n)) - beta I(w; z^m) is concave for 0 <= beta <= 1 only; "
            "outside, no gap would bound the distance from the optimum"
        )
    return 1.0, -float(beta)


SPOTS = 32  # random priors at which concavity is tried
EVEN_PART = 1e-3  # of the even prior in every spot, so that no outcome is excluded
CONVEX = -1e-8  # relative curvature beyond rounding


def require_concave(objective: Objective, u: Array, weights: Array | None = None) -> None:
    """Refuse signed sums whose curvature is positive at some prior over the points u: a spot check, no proof.

    Without weights the spots are the even prior and random ones. For the channels of one experiment, z^m a part
    of z^{m+n}, this never fires; for arbitrary pairs it may.
    """
    table = Table.of_values(objective, u)
    even = np.full(len(u), 1 / len(u))
    drawn = np.random.default_rng(0).dirichlet(np.full(len(u), 0.5), SPOTS)
    for spot in np.vstack([even, drawn]) if weights is None else weights[None, :]:
        eigenvalues = np.linalg.eigvalsh(table.curvature((1 - EVEN_PART) * spot + EVEN_PART * even))
        smallest = float(eigenvalues[0] / max(1.0, eigenvalues[-1]))
        if smallest < CONVEX:
            raise ValueError(
                f"the two-stage objective is not concave for these channels (relative curvature {smallest:.2g} at "
                "some prior), so no gap would bound anything: the first stage must be a part of what the second sees"
            )
