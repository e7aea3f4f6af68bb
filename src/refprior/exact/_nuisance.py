"""Nuisance parameters: the reference prior of some parameters when others are unknown but of no interest.

Berger and Bernardo's ordered groups, for finite data. With the parameter of interest θ held fixed, the nuisance λ has a
conditional reference prior π(λ | θ), the maximizer of I(λ; z | θ). It turns p(z | θ, λ) into the marginal channel
p(z | θ) = ∫ p(z | θ, λ) π(λ | θ) dλ, and the reference prior of that channel is the prior of θ.

p(z | θ) is the optimal output of the conditional problem. It is unique even where the prior is not, and a prior within
a gap ε of the optimum has an output within a divergence ε of it. So the conditional problem is solved at nodes of θ
only, and the rows are followed in between by polynomials (`_curve.py`); what they miss is a part of the gap.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array
from refprior.exact._posterior import Posterior, posterior_of
from refprior.exact._solution import STRONGEST_FIRST, Evidence, Solution
from refprior.exact.channels import Channel, Curve, Rows, Slice, check_channel, to_axis
from refprior.exact.oracle import Objective
from refprior.exact.show import gap_in_words
from refprior.exact.solve import continued, solve

SHARE = 0.02  # of the tolerance, which the polynomials may miss
COARSE = 1e-4  # nats that they may miss before it is known where that matters
LOOKS = 513  # places of a nuisance at which the polynomials of a sampled model are compared with it
PANEL_POINTS = 17  # of each panel, at which the gain is looked at for that


@dataclass(frozen=True, eq=False, kw_only=True)
class NuisancePrior:
    """A prior of a parameter of interest and of the others given it, with the evidence of both stages.

    >>> from refprior.exact import TwoCoins, reference_prior
    >>> prior = reference_prior(TwoCoins(2), interest=0, tolerance=1e-6)  # the second coin is a nuisance
    >>> prior.evidence, prior.interest.atoms.round(4).tolist()
    ('certified', [0.0, 0.5, 1.0])
    >>> prior.nuisance[0].atoms.round(4).tolist()  # of the second, given the first atom of the first
    [0.0, 0.5, 1.0]
    """

    channel: Channel
    interest: Solution  # the prior of the parameter of interest; its channel is p(z | θ)
    nuisance: tuple[Solution, ...]  # of the others, given each of its atoms
    nuisance_gap: float  # the largest gap of the conditional priors, at all nodes and atoms
    axes: tuple[tuple[int, ...], tuple[int, ...]]  # which parameters are of interest, and which are not

    @property
    def evidence(self) -> Evidence:
        """The weaker of the two stages."""
        return max([self.interest.evidence, self.nuisance_evidence], key=STRONGEST_FIRST.index)

    @property
    def nuisance_evidence(self) -> Evidence:
        """How the gaps of the conditional priors are known."""
        if not self.nuisance_gap <= self.interest.tolerance:
            return "unfinished"
        return max((part.evidence for part in self.nuisance), key=STRONGEST_FIRST.index)

    @property
    def shortfall(self) -> str | None:
        """Why the prior is unfinished, in one line; None if it is not."""
        if self.evidence != "unfinished":
            return None
        limit = self.interest.tolerance
        return self.interest.shortfall or f"the nuisance's gap is {self.nuisance_gap:.2g} nats, above {limit:.2g}"

    @property
    def coordinates(self) -> Array:
        """The joint atoms in the coordinates of the channel: (K, d)."""
        return np.vstack([part.channel.full(part.coordinates) for part in self.nuisance])  # type: ignore[attr-defined]

    @property
    def atoms(self) -> Array:
        """The joint atoms: (K, d), the parameters in the channel's order."""
        return self.channel.parameter(self.coordinates)

    @property
    def weights(self) -> Array:
        """π(θ) π(λ | θ) of the joint atoms: (K,)."""
        pairs = zip(self.interest.weights, self.nuisance, strict=True)
        return np.concatenate([weight * part.weights for weight, part in pairs])

    def posterior(self, z: ArrayLike) -> Posterior:
        """p(θ, λ | z) on the joint atoms; that of θ alone is `prior.interest.posterior(z)` for an outcome on a node."""
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
    """The conditional prior at nodes, the marginal channel through them, and its reference prior."""
    axes = _axes(check_channel(channel), interest, nuisance)
    stage = _Conditional(channel, axes, tolerance)
    marginal, u, weights = stage.marginal()
    first = Solution.from_coordinates(Objective((marginal,)), u, weights, tolerance)
    parts = tuple(stage.judged(float(place)) for place in marginal.to_axis(first.coordinates)[:, 0])
    gap = max([stage.largest_gap, *(part.gap for part in parts)])
    prior = NuisancePrior(channel=channel, interest=first, nuisance=parts, nuisance_gap=gap, axes=axes)
    if prior.shortfall is not None:
        warnings.warn(f"unfinished: {prior.shortfall}", stacklevel=4)
    return prior


def _axes(
    channel: Channel, interest: int | Sequence[int], nuisance: int | Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers of the parameters of both groups, checked."""
    one = _numbers("interest", interest)
    rest = tuple(i for i in range(channel.dimension) if i not in one)
    other = rest if nuisance is None else _numbers("nuisance", nuisance)
    if sorted([*one, *other]) != list(range(channel.dimension)):
        raise ValueError(
            f"interest {list(one)} and nuisance {list(other)} must be all parameters of the channel, each once: "
            f"{list(range(channel.dimension))}"
        )
    if len(one) != 1 or not 1 <= len(other) <= 2 or not channel.continuous:
        raise ValueError(
            f"one parameter of interest and one or two nuisances are supported, got {len(one)} and {len(other)}"
        )
    return one, other


def _numbers(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    if not all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in numbers):
        raise ValueError(f"{name} must be the number of a parameter, or several, counted from 0, got {value!r}")
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
        """Atoms (K, f) and weights (K,) of the nuisance, and p(z | θ): (Z,)."""
        if place not in self.known:
            own = self.slice_at(place)
            channel = self._followed(own)
            prior = self._continued(channel, place) or self._judged(
                channel, *solve(Objective((channel,)), self.tolerance)
            )
            self.largest_gap = max(self.largest_gap, prior.gap)
            self.largest_spread = max(self.largest_spread, prior.certificate.spread)
            u = channel.to_axis(prior.coordinates) if isinstance(channel, Curve) else prior.coordinates
            output = prior.weights @ np.exp(own.log_likelihood(u))
            self.known[place] = u, prior.weights, output / output.sum()
        return self.known[place]

    def _judged(self, channel: Channel, u: Array, weights: Array) -> Solution:
        return Solution.from_coordinates(Objective((channel,)), u, weights, self.tolerance)

    def _continued(self, channel: Channel, place: float) -> Solution | None:
        """The prior of the nearest place, moved to its optimum here; None if the number of atoms changed."""
        if not self.known:
            return None
        u, weights, _ = self.known[min(self.known, key=lambda other: abs(other - place))]
        u = channel.from_axis(u) if isinstance(channel, Curve) else u
        prior = self._judged(channel, *continued(Objective((channel,)), u, weights, self.tolerance))
        return prior if prior.gap <= self.tolerance else None

    def _followed(self, own: Slice) -> Channel:
        """One nuisance: polynomials through its rows, which are evaluated once and not at every step of a search."""
        if own.dimension > 1:
            return own

        def rows(x: Array) -> Array:
            key = x.tobytes()
            if key not in self.nuisance_places:  # the same for every slice
                self.nuisance_places[key] = to_axis(own, x[:, None])
            return np.exp(own.log_likelihood(self.nuisance_places[key]))

        looks = LOOKS if own.measured else 0  # narrow structure may exist at this place of the other parameter only
        return Curve.through(own, rows, SHARE * self.tolerance, looks=looks)

    def outputs(self, places: Array) -> Array:
        """p(z | θ): (K, 1) -> (K, Z)."""
        return np.stack([self._solved(float(place))[2] for place in places[:, 0]])

    def log_output_of(self, place: float, z: ArrayLike) -> float:
        """log p(z | θ) of one outcome."""
        u, weights, _ = self._solved(place)
        log = self.slice_at(place).log_likelihood_of(u, z)
        return float(np.logaddexp.reduce(log + np.log(weights)))

    def marginal(self) -> tuple[Curve, Array, Array]:
        """The marginal channel and its prior, refined where errors of the polynomials could matter.

        They matter as far as the gain comes up to J. What is left of them there, and the errors of the conditional
        priors, are the channel's tail.
        """
        interest = Slice(self.channel, self.axes[0], self.channel.bounds.mean(axis=1))
        exact = _Direct(interest, _Conditional(self.channel.finer() or self.channel, self.axes, self.tolerance / 4))
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

    def judged(self, place: float) -> Solution:
        """The conditional prior at a place, judged by the channel itself and not by polynomials."""
        u, weights, _ = self._solved(place)
        return Solution.from_coordinates(Objective((self.slice_at(place),)), u, weights, self.tolerance)


def _slack(curve: Curve, u: Array, weights: Array) -> Array:
    """How far the gain stays below J on each panel, at least 0: (P,)."""
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
        """log Σ_k π(λ_k | θ) p(z | θ, λ_k), for any outcome of the whole channel."""
        return np.array([self.stage.log_output_of(float(place), z) for place in to_axis(self.axis, u)[:, 0]])

    def rows(self, u: Array) -> Rows:
        raise NotImplementedError("this channel is for comparison only")
