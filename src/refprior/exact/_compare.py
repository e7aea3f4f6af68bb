"""Which experiment tells most, and which prior loses least: tables of exact answers.

A prior π is worth J(π) nats on average. Whoever predicts the data with its mixture p(z) loses KL(p(z | w), p(z)) nats
at the parameter w; its worst case over w is least for the reference prior, where it is the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers
from refprior.exact._certificate import judge
from refprior.exact._channels import Channel
from refprior.exact._inputs import check_channel, check_instance
from refprior.exact._objective import Objective
from refprior.exact._priors import reference_prior
from refprior.exact._solution import Evidence, Solution


@dataclass(frozen=True, kw_only=True)
class Design:
    """An experiment: what it can tell at most, its cost, and how that is known.

    >>> from refprior.exact import Coin, compare_designs
    >>> compare_designs({"once": Coin(1), "twice": Coin(2)})[0].name
    'twice'
    """

    name: str
    evidence: Evidence
    information: float
    gap: float
    atoms: int
    cost: float | None = None

    def __str__(self) -> str:
        cost = "" if self.cost is None else f", {self.information / self.cost:.4g} nats per unit of cost"
        return (
            f"{self.evidence}: {self.name}: {self.information:.6f} nats, {self.atoms} atoms, gap {self.gap:.1e}{cost}"
        )


def compare_designs(
    designs: Mapping[str, Channel], *, costs: Mapping[str, float] | None = None, tolerance: float = 1e-9
) -> list[Design]:
    """What each experiment can tell about its parameter, the most informative first.

    >>> from refprior.exact import Gaussian, compare_designs
    >>> designs = {f"{n} samples": Gaussian(1.0).repeat(n) for n in (1, 4, 16)}
    >>> [(d.name, round(d.information, 4)) for d in compare_designs(designs)]
    [('16 samples', 1.0645), ('4 samples', 0.6529), ('1 samples', 0.3368)]
    """
    if not designs:
        raise ValueError("there is no design to compare")
    missing = [] if costs is None else [name for name in designs if name not in costs]
    if missing:
        raise ValueError(f"costs has no entry for {missing[0]!r}")
    found = []
    for name, channel in designs.items():
        prior = reference_prior(check_channel(channel, repr(name)), tolerance=tolerance)
        found.append(
            Design(
                name=name,
                evidence=prior.evidence,
                information=prior.information,
                gap=prior.gap,
                atoms=len(prior.weights),
                cost=None if costs is None else float(costs[name]),
            )
        )
    return sorted(found, key=lambda design: -design.information)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A prior of a channel: its information, and the largest divergence of the data from its prediction over all w.

    >>> from refprior.exact import Coin, compare_priors
    >>> ends = compare_priors(Coin(2), {"ends": ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25])})
    >>> [(prior.name, round(prior.worst_regret, 4)) for prior in ends]
    [('reference', 0.7538), ('ends', 0.9808)]
    """

    name: str
    information: float
    worst_regret: float  # max over w of KL(p(z | w), p(z)), in nats, the gap's errors included
    worst_parameter: Array  # (d,) where that is


def compare_priors(
    channel: Channel, priors: Mapping[str, Solution | tuple[ArrayLike, ArrayLike]], *, tolerance: float = 1e-9
) -> list[Judged]:
    """Information and worst-case regret of priors next to the reference prior, the least regret first.

    A prior is a `Solution`, or parameters (K,) or (K, d) with their weights (K,); a density is given by many points.

    >>> import numpy as np
    >>> from refprior.exact import Coin, compare_priors
    >>> w = (np.arange(400) + 0.5) / 400
    >>> priors = {"uniform": (w, np.ones(400)), "jeffreys": (np.sin(np.pi * w / 2) ** 2, np.ones(400))}
    >>> [(prior.name, round(prior.information, 3)) for prior in compare_priors(Coin(10), priors)]
    [('reference', 1.232), ('jeffreys', 1.054), ('uniform', 0.854)]
    """
    objective = Objective((check_channel(channel),))
    reference = reference_prior(channel, tolerance=tolerance)
    judged = []
    for name, u, weights in [("reference", reference.coordinates, reference.weights), *_named(channel, priors)]:
        certificate = judge(objective, u, weights)
        judged.append(
            Judged(
                name=name,
                information=certificate.information,
                worst_regret=certificate.information + certificate.gap,
                worst_parameter=channel.parameter(certificate.worst[None])[0],
            )
        )
    return sorted(judged, key=lambda prior: prior.worst_regret)


def _named(
    channel: Channel, priors: Mapping[str, Solution | tuple[ArrayLike, ArrayLike]]
) -> Iterator[tuple[str, Array, Array]]:
    """Coordinates and weights of every prior, checked."""
    for name, prior in priors.items():
        if isinstance(prior, tuple) and len(prior) == 2:
            u, weights = channel.to_coordinates(prior[0]), as_numbers(f"the weights of {name!r}", prior[1])
            if weights.shape != (len(u),) or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
                raise ValueError(f"{name!r} needs one weight, not negative, for each of its {len(u)} parameters")
            yield name, u[weights > 0], weights[weights > 0] / weights.sum()
        else:
            check_instance(repr(name), prior, Solution, "reference_prior")
            assert isinstance(prior, Solution)
            yield name, channel.to_coordinates(prior.atoms), prior.weights
