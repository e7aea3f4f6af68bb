"""What the solver returns: atoms, weights, the information, and how far it can be from the optimum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array
from refprior.exact._certificate import judge
from refprior.exact._channels import Channel
from refprior.exact._objective import Objective
from refprior.exact._proof import Proof

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 24  # atoms in the printed table; of more, the middle is left out


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """A discrete prior with its certificate: capacity − information lies in [0, gap], in nats.

    >>> from refprior.exact import Coin, reference_prior
    >>> prior = reference_prior(Coin(1))
    >>> prior.atoms.tolist(), prior.weights.round(6).tolist(), round(prior.information, 6)
    ([0.0, 1.0], [0.5, 0.5], 0.693147)
    """

    objective: Objective = field(repr=False)
    coordinates: Array = field(repr=False)  # (K, d), the atoms in the coordinates of the channel
    weights: Array  # (K,)
    information: float
    gap: float
    atoms_certified: bool  # whether the optimum has exactly this many atoms
    proof: Proof | None = None  # an interval for the capacity by ball arithmetic, from `certify(…, proof=True)`

    @property
    def channel(self) -> Channel:
        """The channel of the prior; of two stages, the one that sees both."""
        return self.objective.channel

    @property
    def atoms(self) -> Array:
        """The parameters w_k: (K,) for one parameter, (K, 2) for two.

        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).atoms.round(6).tolist()
        [0.0, 0.5, 1.0]
        """
        w = self.channel.parameter(self.coordinates)
        return w[:, 0] if self.channel.dimension == 1 else w

    def gain(self, w: ArrayLike) -> Array:
        """G(w), the gray line of the figures, at most information + gap: (M,) or (M, 2) -> (M,).

        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).gain([0.0, 0.25, 0.5]).round(6).tolist()  # 0 and 0.5 are atoms
        [0.753772, 0.668822, 0.753772]
        """
        log_marginals = self.objective.log_marginals(self.coordinates, self.weights)
        return self.objective.gain(self.channel.to_coordinates(w), log_marginals)

    def posterior(self, z: ArrayLike) -> Array:
        """p(w_k | z) on the atoms for one outcome z: -> (K,).

        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).posterior(2).round(6).tolist()  # after two heads
        [0.0, 0.0625, 0.9375]
        """
        with np.errstate(divide="ignore"):
            log = self.channel.log_likelihood_of(self.coordinates, z) + np.log(self.weights)
        if not np.any(np.isfinite(log)):
            raise ValueError(f"the outcome {z!r} is impossible under every atom of this prior")
        posterior = np.exp(log - log.max())
        return np.asarray(posterior / posterior.sum())

    def predictive(self, z: ArrayLike | None = None) -> Array:
        """Distribution of the data, or, given z, of a second set of data after the first showed z: -> (Z,).

        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).predictive().round(6).tolist()
        [0.470588, 0.058824, 0.470588]
        """
        weights = self.weights if z is None else self.posterior(z)
        return np.asarray(np.exp(self.channel.log_marginal(self.coordinates, weights)))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Atoms as stems over the gain, as in the paper's figures, on `ax` or on a figure of its own.

        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).plot().get_xlabel()
        'w'
        """
        from refprior.exact._figures import plot_solution  # matplotlib is slow to import

        return plot_solution(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON.

        >>> from refprior.exact import Coin, reference_prior
        >>> sorted(reference_prior(Coin(2)).to_dict())
        ['atoms', 'atoms_certified', 'gap', 'information', 'weights']
        """
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


def with_certificate(objective: Objective, u: Array, weights: Array) -> Solution:
    """A prior in coordinates, sorted, with its certificate."""
    order = np.lexsort(u.T[::-1])
    u, weights = u[order], weights[order]
    certificate = judge(objective, u, weights)
    return Solution(
        objective=objective,
        coordinates=u,
        weights=weights,
        information=certificate.information,
        gap=certificate.gap,
        atoms_certified=certificate.atoms_certified,
    )
