"""The posterior on the atoms of a prior, and its summaries.

Shapes: K atoms, d parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import number, whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels import Channel
from refprior.exact.show import plot_posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDING = 1e-12  # of cumulative weights


@dataclass(frozen=True, eq=False, kw_only=True)
class CredibleSet:
    """The fewest atoms that hold a share of the posterior."""

    atoms: Array  # (M,) or (M, d), in the order of the prior
    weights: Array  # (M,) their posterior weights
    mass: float  # the sum of these weights

    def __repr__(self) -> str:
        low, high = (
            ", ".join(f"{x:.6g}" for x in np.atleast_1d(end)) for end in (self.atoms.min(0), self.atoms.max(0))
        )
        return f"CredibleSet({len(self.atoms)} atoms from {low} to {high}, mass {self.mass:.4g})"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Posterior:
    """The posterior p(w_k | z) on the atoms of a prior after one outcome.

    `Solution.posterior` returns it.

    Parameters
    ----------
    channel : Channel
        The channel of the prior.
    atoms : ndarray of shape (K,) or (K, d)
        The atoms of the prior.
    weights : ndarray of shape (K,)
        Their weights after the outcome.
    before : ndarray of shape (K,)
        Their weights in the prior.
    outcome : array_like
        The outcome z.

    Examples
    --------
    >>> from refprior.exact import Coin, reference_prior
    >>> posterior = reference_prior(Coin(2)).posterior(2)  # after two heads
    >>> posterior.weights.round(6).tolist()
    [0.0, 0.0625, 0.9375]
    >>> posterior.mean, posterior.mode, posterior.quantiles([0.05, 0.5]).round(6).tolist()
    (0.96875, 1.0, [0.5, 1.0])
    """

    channel: Channel
    atoms: Array
    weights: Array
    before: Array
    outcome: ArrayLike

    @property
    def mean(self) -> Any:
        """E[w | z]: a float, or (d,) for several parameters."""
        self._require_numbers("mean")
        return _plain(self.weights @ self.atoms)

    @property
    def standard_deviation(self) -> Any:
        """√Var[w | z]: a float, or (d,) for several parameters."""
        self._require_numbers("standard deviation")
        return _plain(np.sqrt(self.weights @ (self.atoms - self.mean) ** 2))

    @property
    def mode(self) -> Any:
        """The atom with the largest weight: a float, or (d,) for several parameters."""
        return _plain(self.atoms[int(np.argmax(self.weights))])

    def quantiles(self, levels: ArrayLike) -> Array:
        """Compute quantiles: the smallest atom up to which the posterior holds each level.

        Parameters
        ----------
        levels : array_like of shape (Q,)
            Levels from 0 to 1.

        Returns
        -------
        ndarray of shape (Q,) or (Q, d)
            The quantiles, of each parameter on its own.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(10)).posterior(5).quantiles([0.025, 0.5, 0.975]).round(4).tolist()
        [0.2208, 0.5, 0.7792]
        """
        self._require_numbers("quantile")
        asked = np.atleast_1d(as_numbers("levels", levels))
        if asked.ndim != 1 or not np.all((asked >= 0) & (asked <= 1)):
            raise ValueError(f"levels must be numbers from 0 to 1, got {levels!r}")
        columns = []
        for atoms in np.atleast_2d(self.atoms.T):
            order = np.argsort(atoms, kind="stable")
            order = order[self.weights[order] > 0]
            places = np.searchsorted(np.cumsum(self.weights[order]), asked - ROUNDING)
            columns.append(atoms[order[np.minimum(places, len(order) - 1)]])
        return columns[0] if self.atoms.ndim == 1 else np.stack(columns, axis=1)

    def credible_set(self, level: float = 0.95) -> CredibleSet:
        """Find the fewest atoms that hold a share of the posterior.

        Parameters
        ----------
        level : float, default: 0.95
            The share, above 0 and at most 1.

        Returns
        -------
        CredibleSet
            `atoms` (M,) or (M, d) in the order of the prior, their posterior `weights` (M,), and their `mass`, the sum.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(10)).posterior(7).credible_set()
        CredibleSet(2 atoms from 0.5 to 0.779154, mass 0.9952)
        >>> reference_prior(Coin(2)).posterior(2).credible_set(0.9).atoms.tolist()
        [1.0]
        """
        number("level", level, above=0, at_most=1)
        order = np.argsort(-self.weights, kind="stable")
        mass = np.cumsum(self.weights[order])
        kept = np.sort(order[: int(np.searchsorted(mass, min(level, mass[-1]) - ROUNDING)) + 1])
        return CredibleSet(atoms=self.atoms[kept], weights=self.weights[kept], mass=float(self.weights[kept].sum()))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw parameters from the posterior.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, d)
            The parameters drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).posterior(2).sample(3, np.random.default_rng(0)).round(6).tolist()
        [1.0, 1.0, 0.5]
        """
        return self.atoms[rng.choice(len(self.weights), whole_number("n", n, at_least=0), p=self.weights)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the posterior as stems, with the prior next to it in gray.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. By default, on a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the plot.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(10)).posterior(7).plot().get_ylabel()
        'probability'
        """
        return plot_posterior(self, ax)

    def _require_numbers(self, what: str) -> None:
        if not self.channel.continuous:
            raise ValueError(f"the parameter of a table is the number of a row, and has no {what}: use mode or weights")

    def __repr__(self) -> str:
        return f"Posterior({len(self.weights)} atoms after {self.outcome!r})"

    def __str__(self) -> str:
        set_ = self.credible_set(0.95)
        center = f"mode {_shown(self.mode)}"
        if self.channel.continuous:
            center = f"mean {_shown(self.mean)}, standard deviation {_shown(self.standard_deviation)}, {center}"
        return f"after {self.outcome!r}: {center}\n95% credible set: {str(set_)[len('CredibleSet(') : -1]}"


def posterior_of(channel: Channel, u: Array, weights: Array, z: ArrayLike) -> Posterior:
    """Apply Bayes' rule to atoms in coordinates (K, d) with weights (K,)."""
    with np.errstate(divide="ignore"):
        log = channel.log_likelihood_of(u, z) + np.log(weights)
    if not np.any(np.isfinite(log)):
        raise ValueError(f"the outcome {z!r} is impossible under every atom of this prior")
    after = np.exp(log - log.max())
    atoms = channel.parameter(u)
    return Posterior(
        channel=channel,
        atoms=atoms[:, 0] if channel.dimension == 1 else atoms,
        weights=after / after.sum(),
        before=weights,
        outcome=z,
    )


def _plain(value: Array) -> Any:
    """Return a float for one parameter, else an array."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _shown(value: float | Array) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "(" + ", ".join(f"{x:.6g}" for x in value) + ")"
