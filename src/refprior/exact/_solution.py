"""What the solver hands back: atoms, weights, the information, and how far it can be from the optimum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._certificate import judge
from refprior.exact._channels import Array, Channel
from refprior.exact._objective import Objective

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from refprior.exact._proof import Proof

SHOWN = 24  # atoms in the printed table; the middle of longer ones is left out


@dataclass(frozen=True, eq=False)
class Solution:
    """A discrete prior with its certificate: capacity − information lies in [0, gap], in nats."""

    objective: Objective = field(repr=False)
    coordinates: Array = field(repr=False)  # (K, d), the solver's own coordinates of the atoms
    weights: Array  # (K,)
    information: float
    gap: float
    atoms_certified: bool  # the optimum has this many atoms; if not, they are those used to reach the gap
    proof: Proof | None = None  # an interval for the capacity by ball arithmetic, from `certify(…, proof=True)`

    @property
    def channel(self) -> Channel:
        return self.objective.channel

    @property
    def atoms(self) -> Array:
        """The parameters w_k: (K,) for one parameter, (K, 2) for two."""
        w = self.channel.parameter(self.coordinates)
        return w[:, 0] if self.channel.dimension == 1 else w

    def gain(self, w: ArrayLike) -> Array:
        """G(w), the gray line of the figures, at most information + gap: (M,) or (M, 2) -> (M,)."""
        return self.objective.gain(self.channel.inside(w), self._log_marginals())

    def posterior(self, z: ArrayLike) -> Array:
        """p(w_k | z) on the atoms for one outcome z: -> (K,)."""
        with np.errstate(divide="ignore"):
            log = self.channel.column(self.coordinates, z) + np.log(self.weights)
        if not np.any(np.isfinite(log)):
            raise ValueError(f"the outcome {z!r} is impossible under every atom of this prior")
        posterior = np.exp(log - log.max())
        return np.asarray(posterior / posterior.sum())

    def predictive(self, z: ArrayLike | None = None) -> Array:
        """Distribution of the data to come, or of a second set of data after the first showed z: -> (Z,)."""
        weights = self.weights if z is None else self.posterior(z)
        return np.asarray(np.exp(self.channel.log_marginal(self.coordinates, weights)))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Atoms as stems over the gain, as in the paper's figures."""
        from refprior.exact._figures import plot_solution

        return plot_solution(self, axes)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        plain = {
            "atoms": self.atoms.tolist(),
            "weights": self.weights.tolist(),
            "information": self.information,
            "gap": self.gap,
            "atoms_certified": self.atoms_certified,
        }
        if self.proof is not None:
            plain["proof"] = {"lower": self.proof.lower, "upper": self.proof.upper, "cells": self.proof.cells}
        return plain

    def __str__(self) -> str:
        kind = "certified" if self.atoms_certified else "used"
        head = f"{len(self.weights)} atoms ({kind}), "
        head += f"information {self.information:.12f} nats, gap {self.gap:.1e}"
        if self.proof is not None:
            head += f"\nproven by ball arithmetic: capacity in [{self.proof.lower:.15g}, {self.proof.upper:.15g}]"
        atoms = np.atleast_2d(self.atoms.T).T
        lines = [
            f"{'  '.join(f'{round(x, 12) + 0.0:.12f}' for x in np.atleast_1d(atom))}  {weight:.12f}"
            for atom, weight in zip(atoms, self.weights, strict=True)
        ]
        if len(lines) > SHOWN:
            half = SHOWN // 2
            lines = [*lines[:half], f"... {len(lines) - SHOWN} more ...", *lines[-half:]]
        return "\n".join([head, "atom" + " " * (16 * self.channel.dimension - 4) + "weight", *lines])

    def _log_marginals(self) -> list[Array]:
        return self.objective.log_marginals(self.coordinates, self.weights)


def judged(objective: Objective, u: Array, weights: Array) -> Solution:
    """A prior in coordinates, sorted, with its certificate."""
    order = np.lexsort(u.T[::-1])
    u, weights = u[order], weights[order]
    certificate = judge(objective, u, weights)
    return Solution(objective, u, weights, certificate.information, certificate.gap, certificate.atoms_certified)
