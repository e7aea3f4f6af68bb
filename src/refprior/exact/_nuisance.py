"""Nuisance parameters: the reference prior of one parameter when the others are unknown but of no interest.

Berger and Bernardo's ordered groups, for finite data. With the parameter of interest θ held fixed, the nuisance λ has a
conditional reference prior π(λ | θ), the maximizer of I(λ; z | θ). It turns p(z | θ, λ) into the marginal channel
p(z | θ) = ∫ p(z | θ, λ) π(λ | θ) dλ, and the reference prior of that channel is the prior of θ.

p(z | θ) is the optimal output of the conditional problem. It is unique even where the prior is not, and a prior within
a gap ε of the optimum has an output within a divergence ε of it. So the conditional problem is solved at nodes of θ
only, and polynomials interpolate the rows (`Curve`); their error is part of the gap.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array
from refprior.exact._posterior import Posterior, posterior_of
from refprior.exact._solution import Evidence, Solution, weakest
from refprior.exact.channels import Channel, Curve, Rows, Slice, check_channel, to_axis
from refprior.exact.oracle import Objective
from refprior.exact.show import gap_in_words
from refprior.exact.solve import continued, solve

SHARE = 0.02  # of the tolerance: the largest error of the interpolation that is left
COARSE = 1e-4  # nats: error of the first interpolation, before it is known where an error matters
LOOKS = 513  # places of a nuisance at which the interpolation of a sampled model is compared with the model
PANEL_POINTS = 17  # of each panel, at which the distance of the gain from J is measured


@dataclass(frozen=True, eq=False, kw_only=True)
class NuisancePrior:
    """A prior of a parameter of interest, and of the nuisance parameters given it.

    `reference_prior(channel, interest=…)` returns it. θ is the parameter of interest and λ the nuisance.

    Parameters
    ----------
    channel : Channel
        The channel of all parameters.
    interest : Solution
        The prior of θ. Its channel is the marginal channel p(z | θ) = ∫ p(z | θ, λ) π(λ | θ) dλ.
    nuisance : tuple of Solution
        The conditional priors π(λ | θ), one for each atom of `interest`.
    nuisance_gap : float
        The largest gap of all conditional problems that were solved, in nats.
    axes : tuple of two tuples of int
        The numbers of the parameters of interest, and of the nuisance parameters.

    Examples
    --------
    >>> from refprior.exact import TwoCoins, reference_prior
    >>> prior = reference_prior(TwoCoins(2), interest=0, tolerance=1e-6)  # the second coin is a nuisance
    >>> prior.evidence, round(prior.information, 6), prior.gap < 1e-6
    ('certified', 0.753772, True)
    >>> prior.interest.atoms.round(4).tolist()
    [0.0, 0.5, 1.0]
    >>> prior.nuisance[0].atoms.round(4).tolist()  # of the second coin, given the first atom of the first
    [0.0, 0.5, 1.0]
    """

    channel: Channel
    interest: Solution
    nuisance: tuple[Solution, ...]
    nuisance_gap: float
    axes: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def information(self) -> float:
        """The mutual information I(θ; z) between the parameter of interest and the data, in nats.

        The nuisance is integrated out with its conditional prior, so this is the information of the marginal channel
        p(z | θ). It is at most the information about θ and λ together.
        """
        return self.interest.information

    @property
    def gap(self) -> float:
        """How far `information` can be below the capacity of the marginal channel p(z | θ), in nats.

        The gap includes the error of the conditional priors and of the interpolation between them. The conditional
        priors have their own gap, `nuisance_gap`.
        """
        return self.interest.gap

    @property
    def evidence(self) -> Evidence:
        """How both gaps are known: the weaker of the two stages."""
        return weakest(self.interest.evidence, self.nuisance_evidence)

    @property
    def nuisance_evidence(self) -> Evidence:
        """How the gaps of the conditional priors are known."""
        if not self.nuisance_gap <= self.interest.tolerance:
            return "unfinished"
        return weakest(*(part.evidence for part in self.nuisance))

    @property
    def shortfall(self) -> str | None:
        """Why the prior is unfinished, in one line; None if it is finished."""
        if self.evidence != "unfinished":
            return None
        limit = self.interest.tolerance
        return self.interest.shortfall or (
            f"the gap of the conditional priors is {self.nuisance_gap:.2g} nats, above the tolerance {limit:.2g}"
        )

    @property
    def coordinates(self) -> Array:
        """The joint atoms in the coordinates of the channel: (K, d)."""
        return np.vstack([cast(Slice, part.channel).full(part.coordinates) for part in self.nuisance])

    @property
    def atoms(self) -> Array:
        """The joint atoms, parameters in the order of the channel: (K, d)."""
        return self.channel.parameter(self.coordinates)

    @property
    def weights(self) -> Array:
        """The joint weights π(θ) π(λ | θ): (K,)."""
        pairs = zip(self.interest.weights, self.nuisance, strict=True)
        return np.concatenate([weight * part.weights for weight, part in pairs])

    def posterior(self, z: ArrayLike) -> Posterior:
        """Compute the joint posterior p(θ, λ | z) on the atoms.

        `prior.interest.posterior(z)` is the posterior of θ alone.

        Parameters
        ----------
        z : array_like
            An outcome of the channel.

        Returns
        -------
        Posterior
            The posterior on the joint atoms.
        """
        return posterior_of(self.channel, self.coordinates, self.weights, z)

    def __repr__(self) -> str:
        return f"NuisancePrior({str(self).splitlines()[0]})"

    def __str__(self) -> str:
        nuisance = ", ".join(f"w{i + 1}" for i in self.axes[1])
        first = f"{self.evidence}: w{self.axes[0][0] + 1} is of interest, {nuisance} is not"
        second = f"given w{self.axes[0][0] + 1}, {self.nuisance_evidence}: {gap_in_words(self.nuisance_gap)} or less"
        return "\n".join([first, second, str(self.interest)])


def nuisance_prior(
    channel: Channel, interest: int | Sequence[int], nuisance: int | Sequence[int] | None, tolerance: float
) -> NuisancePrior:
    """Solve the conditional problem at nodes, then the marginal channel through them."""
    axes = _axes(check_channel(channel), interest, nuisance)
    stage = _Conditional(channel, axes, tolerance)
    marginal, u, weights = stage.marginal()
    first = Solution.from_coordinates(Objective((marginal,)), u, weights, tolerance)
    parts = tuple(stage.certified(float(place)) for place in marginal.to_axis(first.coordinates)[:, 0])
    gap = max([stage.largest_gap, *(part.gap for part in parts)])
    prior = NuisancePrior(channel=channel, interest=first, nuisance=parts, nuisance_gap=gap, axes=axes)
    if prior.shortfall is not None:
        warnings.warn(f"unfinished: {prior.shortfall}", stacklevel=3)
    return prior


def _axes(
    channel: Channel, interest: int | Sequence[int], nuisance: int | Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the parameters of both groups, checked."""
    one = _numbers("interest", interest)
    rest = tuple(i for i in range(channel.dimension) if i not in one)
    other = rest if nuisance is None else _numbers("nuisance", nuisance)
    unknown = [i for i in (*one, *other) if not 0 <= i < channel.dimension]
    if unknown:
        last = channel.dimension - 1
        known = f"parameters 0 to {last}, counted from 0" if last else "one parameter, number 0"
        raise ValueError(f"there is no parameter {unknown[0]}: this channel has {known}")
    if sorted([*one, *other]) != list(range(channel.dimension)):
        raise ValueError(
            f"interest {list(one)} and nuisance {list(other)} must list each parameter of the channel once: "
            f"{list(range(channel.dimension))}"
        )
    if len(one) != 1 or not 1 <= len(other) <= 2 or not channel.continuous:
        raise ValueError(
            f"expected one parameter of interest and one or two nuisances, got {len(one)} and {len(other)}"
        )
    return one, other


def _numbers(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    if not all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in numbers):
        raise ValueError(f"{name} must be one or more numbers of parameters, counted from 0, got {value!r}")
    return tuple(int(i) for i in numbers)


@dataclass(eq=False)
class _Conditional:
    """The conditional problem at any place of the parameter of interest."""

    channel: Channel
    axes: tuple[tuple[int, ...], tuple[int, ...]]
    tolerance: float
    largest_gap: float = 0.0
    largest_spread: float = 0.0
    known: dict[float, tuple[Array, Array, Array]] = field(default_factory=dict)  # place -> atoms, weights, output
    nuisance_places: dict[bytes, Array] = field(default_factory=dict)  # parameters of the nuisance -> coordinates

    def slice_at(self, place: float) -> Slice:
        """The channel with the parameter of interest fixed."""
        whole = np.zeros(self.channel.dimension)
        whole[self.axes[0][0]] = place
        return Slice(self.channel, self.axes[1], whole)

    def _solved(self, place: float) -> tuple[Array, Array, Array]:
        """Return atoms (K, f) and weights (K,) of the nuisance, and p(z | θ), (Z,)."""
        if place not in self.known:
            own = self.slice_at(place)
            channel = self._interpolated(own)
            prior = self._continued(channel, place)
            if prior is None:
                objective = Objective((channel,))
                prior = Solution.from_coordinates(objective, *solve(objective, self.tolerance), self.tolerance)
            self.largest_gap = max(self.largest_gap, prior.gap)
            self.largest_spread = max(self.largest_spread, prior.certificate.spread)
            u = channel.to_axis(prior.coordinates) if isinstance(channel, Curve) else prior.coordinates
            output = prior.weights @ np.exp(own.log_likelihood(u))
            self.known[place] = u, prior.weights, output / output.sum()
        return self.known[place]

    def _continued(self, channel: Channel, place: float) -> Solution | None:
        """Move the prior of the nearest place to its optimum here; None if the number of atoms changed."""
        if not self.known:
            return None
        u, weights, _ = self.known[min(self.known, key=lambda other: abs(other - place))]
        u = channel.from_axis(u) if isinstance(channel, Curve) else u
        objective = Objective((channel,))
        u, weights = continued(objective, u, weights, self.tolerance)
        prior = Solution.from_coordinates(objective, u, weights, self.tolerance)
        return prior if prior.gap <= self.tolerance else None

    def _interpolated(self, own: Slice) -> Channel:
        """Interpolate the rows of a single nuisance, so that a search does not evaluate them at every step."""
        if own.dimension > 1:
            return own

        def rows(x: Array) -> Array:
            key = x.tobytes()
            if key not in self.nuisance_places:  # the same for every slice
                self.nuisance_places[key] = to_axis(own, x[:, None])
            return np.exp(own.log_likelihood(self.nuisance_places[key]))

        # narrow structure may exist at this place of the other parameter only
        looks = LOOKS if own.axes.measured else 0
        return Curve.through(own, rows, SHARE * self.tolerance, looks=looks)

    def outputs(self, places: Array) -> Array:
        """Evaluate p(z | θ): (K, 1) -> (K, Z)."""
        return np.stack([self._solved(float(place))[2] for place in places[:, 0]])

    def log_output_of(self, place: float, z: ArrayLike) -> float:
        """Evaluate log p(z | θ) of one outcome."""
        u, weights, _ = self._solved(place)
        log = self.slice_at(place).log_likelihood_of(u, z)
        return float(np.logaddexp.reduce(log + np.log(weights)))

    def marginal(self) -> tuple[Curve, Array, Array]:
        """Return the marginal channel and its prior, refined where errors of the interpolation matter.

        They matter where the gain comes close to J. What is left of them there, and the errors of the conditional
        priors, are the channel's tail.
        """
        interest = Slice(self.channel, self.axes[0], self.channel.bounds.mean(axis=1))
        finer = self.channel.at_resolution("fine") or self.channel
        exact = _Direct(interest, _Conditional(finer, self.axes, self.tolerance / 4))
        curve = Curve.through(
            interest, lambda x: self.outputs(to_axis(interest, x[:, None])), max(COARSE, self.tolerance), exact=exact
        )
        while True:
            objective = Objective((curve,))
            u, weights = solve(objective, self.tolerance)
            allowed = np.maximum(SHARE * self.tolerance, _slack(curve, u, weights) / 10)
            finer = curve.halved(curve.errors > allowed)
            if finer is curve:
                break
            curve = finer
        left = max([SHARE * self.tolerance, *curve.errors[curve.errors > allowed]])
        return replace(curve, tail=self.channel.tail + left + self.largest_spread), u, weights

    def certified(self, place: float) -> Solution:
        """Return the conditional prior at a place, certified with the channel itself and not its interpolation."""
        u, weights, _ = self._solved(place)
        return Solution.from_coordinates(Objective((self.slice_at(place),)), u, weights, self.tolerance)


def _slack(curve: Curve, u: Array, weights: Array) -> Array:
    """Return how far the gain stays below J on each panel, at least 0: (P,)."""
    objective = Objective((curve,))
    logs = objective.log_marginals(u, weights)
    places = np.linspace(curve.edges[:-1], curve.edges[1:], PANEL_POINTS)  # (PANEL_POINTS, P)
    gains = objective.gain(places.reshape(-1, 1), logs).reshape(places.shape)
    return np.asarray(np.maximum(float(weights @ objective.gain(u, logs)) - gains.max(axis=0), 0.0))


@dataclass(frozen=True, eq=False)
class _Direct(Channel):
    """The marginal channel without interpolation: the conditional problem is solved for every row."""

    axis: Slice
    stage: _Conditional

    @property
    def bounds(self) -> Array:  # type: ignore[override]
        return self.axis.bounds

    @property
    def outcomes(self) -> Array:  # type: ignore[override]
        return self.stage.channel.outcomes

    @property
    def outcome_count(self) -> int:
        return self.stage.channel.outcome_count

    def log_likelihood(self, u: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.stage.outputs(to_axis(self.axis, u))))

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        """Evaluate log Σ_k π(λ_k | θ) p(z | θ, λ_k) for any outcome of the whole channel."""
        return np.array([self.stage.log_output_of(float(place), z) for place in to_axis(self.axis, u)[:, 0]])

    def rows(self, u: Array) -> Rows:
        raise NotImplementedError("this channel is for comparison only")
