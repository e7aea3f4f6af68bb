"""A prior with its certificate: atoms, weights, information, and the distance from the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior._files import Json, read_record, write_record
from refprior.exact._arrays import Array, as_numbers, grid_of
from refprior.exact._posterior import Posterior, posterior_of
from refprior.exact.certificate import Certificate, Proof, judge
from refprior.exact.channels import Channel, to_coordinates
from refprior.exact.oracle import Objective, log_marginal
from refprior.exact.show import as_arviz, as_code, as_html, atom_lines, decimals_within, gap_in_words, plot_solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Evidence = Literal["proved", "certified", "searched", "unfinished"]
MOST_CORNERS = 10  # parameters of a box whose corners are all evaluated
FILE_FORMAT = 1  # of saved priors


def weakest(*evidence: Evidence) -> Evidence:
    """Return the weakest of several kinds of evidence."""
    return max(evidence, key=("proved", "certified", "searched", "unfinished").index)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution:
    """A discrete prior with its certificate.

    The capacity exceeds the information by at most `gap` nats. `evidence` states how that is known:

    - "proved": the gain is bounded on cells that cover all parameters, or the capacity by ball arithmetic;
    - "certified": the gain was maximized on a grid that is finer than any structure the likelihood can have (for a
      custom model, than any structure found), and around every peak of that grid;
    - "searched": the gain was maximized from many starts, and may be larger elsewhere;
    - "unfinished": the gap is above the tolerance.

    Parameters
    ----------
    objective : Objective
        What the prior maximizes: the information of a channel, or a difference of two.
    coordinates : ndarray of shape (K, d)
        The atoms in the coordinates of the channel.
    weights : ndarray of shape (K,)
        The weights of the atoms.
    certificate : Certificate
        Information, gap, and how they are known.
    tolerance : float
        The largest acceptable gap, in nats.
    parts : tuple of Solution, default: ()
        The priors of independent experiments whose product this prior is.
    stopped : bool, default: False
        Whether the search was interrupted, which leaves the gap unknown.
    proof : Proof, optional
        An interval for the capacity by ball arithmetic, from `certify(prior, proof=True)`.

    Examples
    --------
    >>> from refprior.exact import Coin, reference_prior
    >>> prior = reference_prior(Coin(1))
    >>> prior.atoms.tolist(), prior.weights.round(6).tolist(), round(prior.information, 6)
    ([0.0, 1.0], [0.5, 0.5], 0.693147)
    >>> prior.evidence
    'certified'
    """

    objective: Objective
    coordinates: Array
    weights: Array
    certificate: Certificate
    tolerance: float
    parts: tuple[Solution, ...] = ()
    stopped: bool = False
    proof: Proof | None = None

    @property
    def information(self) -> float:
        """The mutual information between parameter and data, in nats; for two stages, the objective J."""
        return self.certificate.information

    @property
    def gap(self) -> float:
        """How far the information can be below the capacity, in nats."""
        return self.certificate.gap if self.proof is None else self.proof.upper - self.proof.lower

    @property
    def atoms_certified(self) -> bool:
        """Whether the optimum has exactly this many atoms."""
        return self.certificate.atoms_certified

    @property
    def sampling_error(self) -> float | None:
        """The part of the gap that is due to sampled outcomes, in nats; None if no outcome is sampled."""
        if self.parts:
            sampled = [part.sampling_error for part in self.parts if part.sampling_error is not None]
            return sum(sampled) if sampled else None
        return self.certificate.error if self.certificate.sampled else None

    @property
    def evidence(self) -> Evidence:
        """How the gap is known: "proved", "certified", "searched" or "unfinished".

        Examples
        --------
        >>> from refprior.exact import Coin, Gaussian, reference_prior
        >>> reference_prior(Coin(2)).evidence, reference_prior(Gaussian(1.0)).evidence
        ('certified', 'proved')
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     reference_prior(Coin(2), tolerance=1e-18).evidence  # below what doubles can tell
        'unfinished'
        """
        return self._method if self.shortfall is None else "unfinished"

    @property
    def _method(self) -> Evidence:
        """How the gap is known, whatever its size."""
        if self.parts:
            return weakest(*(part._method for part in self.parts))
        if self.certificate.proved or self.proof is not None:
            return "proved"
        return "searched" if self.certificate.searched else "certified"

    @property
    def certified(self) -> bool:
        """Whether the gap is within the tolerance and bounds the gain over all parameters.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).certified, reference_prior(Coin(2), tolerance=1e-18).certified
        (True, False)
        """
        return self.evidence in ("proved", "certified")

    @property
    def shortfall(self) -> str | None:
        """Why the prior is unfinished, in one line; None if it is finished.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).shortfall is None
        True
        """
        if self.stopped:
            return "interrupted; this is the best prior so far, and its gap is not known"
        if not self.objective.resolved:
            bound = f"the gap of {self.gap:.2g} nats is the distance to the log of the number of outcomes"
            return (
                "the likelihood varies on scales too fine to resolve, so the largest gain is not known, and "
                f"{'nothing bounds it' if math.isinf(self.gap) else bound}: narrow the bounds"
            )
        if math.isinf(self.gap):
            return "the gap is infinite: some parameter allows outcomes that every atom of this prior excludes"
        if not self.gap <= self.tolerance:
            known = "is an estimate" if self.certificate.searched else "still bounds its distance from the optimum"
            return (
                f"the gap is {self.gap:.2g} nats, above the tolerance {self.tolerance:.2g}: the prior is the best "
                f"found, and the gap {known}"
            )
        return None

    @property
    def channel(self) -> Channel:
        """The channel of the prior; for two stages, the channel of both together."""
        return self.objective.channel

    @property
    def atoms(self) -> Array:
        """The parameters of the atoms: (K,) for one parameter, (K, d) for several.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).atoms.round(6).tolist()
        [0.0, 0.5, 1.0]
        """
        w = self.channel.parameter(self.coordinates)
        return w[:, 0] if self.channel.dimension == 1 else w

    @property
    def bounds(self) -> Array:
        """The lowest and highest value of each parameter, on which the prior depends: (d, 2).

        Examples
        --------
        >>> from refprior.exact import Gaussian, reference_prior
        >>> reference_prior(Gaussian(2.0)).bounds.tolist()
        [[-2.0, 2.0]]
        """
        bounds = self.channel.bounds
        corners = self.channel.parameter(grid_of(list(bounds)) if len(bounds) <= MOST_CORNERS else bounds.T)
        ends = np.stack([corners.min(axis=0), corners.max(axis=0)], axis=1)
        return np.where(np.abs(ends) < 1e-12 * np.ptp(ends, axis=1)[:, None], 0.0, ends)  # less is rounding

    def gain(self, w: ArrayLike) -> Array:
        """Evaluate the gain, the gray line of the figures.

        G(w) = KL(p(z | w), p(z)) is the information that the data give at the parameter w; for two stages, a difference
        of two such terms. It nowhere exceeds `information` + `gap`, and equals `information` at the atoms of an optimal
        prior.

        Parameters
        ----------
        w : array_like of shape (M,) or (M, d)
            Parameters.

        Returns
        -------
        ndarray of shape (M,)
            The gain at each of them, in nats.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).gain([0.0, 0.25, 0.5]).round(6).tolist()  # 0 and 0.5 are atoms
        [0.753772, 0.668822, 0.753772]
        """
        u = to_coordinates(self.channel, w)
        if not self.parts:
            return self.objective.gain_under(u, self.coordinates, self.weights)
        columns = np.split(u, np.cumsum([part.channel.dimension for part in self.parts])[:-1], axis=1)
        pairs = zip(self.parts, columns, strict=True)
        gains = [part.objective.gain_under(own, part.coordinates, part.weights) for part, own in pairs]
        return np.asarray(np.sum(gains, axis=0))

    def posterior(self, z: ArrayLike) -> Posterior:
        """Compute the posterior on the atoms after one outcome.

        Parameters
        ----------
        z : array_like
            An outcome of the channel.

        Returns
        -------
        Posterior
            Weights p(w_k | z), with mean, mode, quantiles, credible sets and a plot.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> posterior = reference_prior(Coin(2)).posterior(2)  # after two heads
        >>> posterior.weights.round(6).tolist(), posterior.mean
        ([0.0, 0.0625, 0.9375], 0.96875)
        """
        return posterior_of(self.channel, self.coordinates, self.weights, z)

    def predictive(self, z: ArrayLike | None = None) -> Array:
        """Compute the predictive distribution of the data.

        Parameters
        ----------
        z : array_like, optional
            An outcome of a first experiment. If given, the prediction is for a second experiment after it.

        Returns
        -------
        ndarray of shape (Z,)
            The probability of each outcome of the channel.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> reference_prior(Coin(2)).predictive().round(6).tolist()
        [0.470588, 0.058824, 0.470588]
        """
        weights = self.weights if z is None else self.posterior(z).weights
        return np.asarray(np.exp(log_marginal(self.channel, self.coordinates, weights)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw parameters from the prior.

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
        >>> reference_prior(Coin(1)).sample(5, np.random.default_rng(0)).tolist()
        [1.0, 0.0, 0.0, 0.0, 1.0]
        """
        return self.atoms[rng.choice(len(self.weights), whole_number("n", n, at_least=0), p=self.weights)]

    def save(self, path: str | Path) -> None:
        """Write the prior to a JSON file, atomically.

        Parameters
        ----------
        path : str or Path
            The file. `Solution.load` reads it.
        """
        content = {**self.to_dict(), "coordinates": self.coordinates.tolist(), "exact_weights": self.weights.tolist()}
        write_record(Path(path), FILE_FORMAT, {**content, "tolerance": self.tolerance})

    @classmethod
    def from_coordinates(cls, objective: Objective, coordinates: Array, weights: Array, tolerance: float) -> Solution:
        """Sort the atoms of a prior and compute its certificate.

        Parameters
        ----------
        objective : Objective
            What the prior should maximize: the information, or a difference of two.
        coordinates : ndarray of shape (K, d)
            The atoms in the coordinates of the channel.
        weights : ndarray of shape (K,)
            Their weights, which sum to 1.
        tolerance : float
            Largest acceptable gap, in nats.

        Returns
        -------
        Solution
            The prior with its certificate.
        """
        order = np.lexsort(coordinates.T[::-1])
        u, weights = coordinates[order], weights[order]
        certificate = judge(objective, u, weights, tolerance)
        return cls(objective=objective, coordinates=u, weights=weights, certificate=certificate, tolerance=tolerance)

    @classmethod
    def load(cls, path: str | Path, channel: Channel) -> Solution:
        """Read a saved prior of one stage, and recompute its certificate.

        Parameters
        ----------
        path : str or Path
            A file written by `save`.
        channel : Channel
            The channel of the prior.

        Returns
        -------
        Solution
            The prior with a new certificate.

        Raises
        ------
        ValueError
            If the file does not hold a prior of this channel.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from refprior.exact import Coin, Solution, reference_prior
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "coin.json"
        ...     reference_prior(Coin(2)).save(file)
        ...     Solution.load(file, Coin(2)).evidence
        'certified'
        """
        content = read_record(Path(path), FILE_FORMAT)
        try:
            u = as_numbers("coordinates", content["coordinates"]).reshape(-1, channel.dimension)
            weights, tolerance = as_numbers("weights", content["exact_weights"]), float(content["tolerance"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a prior of this channel: {error}") from error
        inside = np.all((u >= channel.bounds[:, 0]) & (u <= channel.bounds[:, 1]))
        if weights.shape != (len(u),) or not inside or not np.all(weights > 0) or abs(weights.sum() - 1) > 1e-9:
            raise ValueError(f"{path} is not a prior of this channel: {len(u)} atoms and {weights.size} weights")
        return Solution.from_coordinates(Objective((channel,)), u, weights, tolerance)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the atoms as stems over the gain, as in the paper's figures.

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
        >>> reference_prior(Coin(2)).plot().get_xlabel()
        'w'
        """
        return plot_solution(self, ax)

    def to_code(self, language: str) -> str:
        """Write the model with this prior as a program of another language.

        The prior becomes a finite mixture. The likelihood is included for coins, Gaussian noise and Poisson counts; for
        other models a TODO marks its place.

        Parameters
        ----------
        language : {"stan", "pymc", "numpyro"}
            The language of the program.

        Returns
        -------
        str
            The program.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> "binomial_lpmf(z | 2, w[k])" in reference_prior(Coin(2)).to_code("stan")
        True
        """
        return as_code(self, language)

    def to_arviz(self, rng: np.random.Generator, *, z: ArrayLike | None = None, draws: int = 1000) -> Any:
        """Draw parameters and data for ArviZ; needs the extra `arviz`.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        z : array_like, optional
            An outcome of the channel. If given, the posterior and its predictions are included.
        draws : int, default: 1000
            Number of draws of each group.

        Returns
        -------
        arviz.InferenceData
            The groups prior and prior_predictive, and, given `z`, posterior, posterior_predictive and observed_data.
        """
        return as_arviz(self, z, draws, rng)

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_dict(self) -> Json:
        """Convert the prior to plain numbers for JSON.

        Numbers of an unfinished prior are rounded to the digits that its gap supports.

        Returns
        -------
        dict
            Evidence, reason, gap, information, atoms, weights, whether the number of atoms is certified, and bounds.

        Examples
        --------
        >>> from refprior.exact import Coin, reference_prior
        >>> list(reference_prior(Coin(2)).to_dict())
        ['evidence', 'reason', 'gap', 'information', 'atoms', 'weights', 'atoms_certified', 'bounds']
        """
        rough = self.shortfall is not None
        shown = self.decimals > 0 or not rough
        plain = {
            "evidence": self.evidence,
            "reason": self.shortfall,
            "gap": (float(f"{self.gap:.2g}") if rough else self.gap) if math.isfinite(self.gap) else None,
            "information": round(self.information, decimals_within(self.gap)) if rough else self.information,
            "atoms": (self.atoms.round(self.decimals) if rough else self.atoms).tolist() if shown else None,
            "weights": (self.weights.round(self.decimals) if rough else self.weights).tolist() if shown else None,
            "atoms_certified": self.atoms_certified,
            "bounds": self.bounds.tolist(),
        }
        if self.sampling_error is not None:
            plain["sampling_error"] = float(f"{self.sampling_error:.2g}") if rough else self.sampling_error
        if self.proof is not None:
            plain["proof"] = {"lower": self.proof.lower, "upper": self.proof.upper, "cells": self.proof.cells}
        return plain

    @property
    def decimals(self) -> int:
        """The number of significant decimals of atoms and weights; 0 if there are none."""
        return decimals_within(self.certificate.spread)

    def __repr__(self) -> str:
        return f"Solution({self.evidence}: {'; '.join(self._headline)})"

    def __str__(self) -> str:
        information, atoms = self._headline
        first = [self.shortfall, information] if self.shortfall else [information]
        head = [f"{self.evidence}: {first[0]}", *first[1:], atoms]
        if self.proof is not None:
            head.append(f"proved by ball arithmetic: capacity in [{self.proof.lower:.15g}, {self.proof.upper:.15g}]")
        if self.decimals == 0:
            return "\n".join([*head, "atoms and weights are not shown: the gap supports no digit of them"])
        return "\n".join([*head, *atom_lines(self.atoms, self.weights, self.decimals)])

    @property
    def _headline(self) -> tuple[str, str]:
        """Information and gap, with the digits that the gap supports; the number of atoms and the bounds."""
        digits = decimals_within(self.gap)
        information = f"{round(self.information, digits) + 0.0:.{digits}f}"  # never -0.000
        information = f"about {self.information:.3g}" if self.stopped else information
        sampling = "" if self.sampling_error is None else f", of which sampling {self.sampling_error:.1e}"
        atoms = f"{'' if self.atoms_certified else 'about '}{len(self.weights)} atoms"
        box = " × ".join(f"[{low:g}, {high:g}]" for low, high in self.bounds)
        return f"information {information} nats, {gap_in_words(self.gap)}{sampling}", f"support: {atoms}, w in {box}"


class SearchInterrupted(KeyboardInterrupt):
    """Ctrl-C during a search; carries the best prior so far.

    Parameters
    ----------
    best : Solution
        The best prior of the interrupted search. Its evidence is "unfinished" and its gap is infinite until
        `certify(best)` bounds it. For a product of independent experiments, the prior of the part being solved.

    Examples
    --------
    >>> from refprior.exact import Coin, SearchInterrupted, certify, reference_prior
    >>> try:
    ...     prior = reference_prior(Coin(10))
    ... except SearchInterrupted as stopped:
    ...     prior = certify(stopped.best)
    >>> prior.evidence
    'certified'
    """

    def __init__(self, best: Solution) -> None:
        super().__init__("interrupted; the best prior so far is the attribute `best` of this exception")
        self.best = best
