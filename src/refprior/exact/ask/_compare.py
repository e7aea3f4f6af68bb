"""Compare priors of one channel: information, regret and coverage.

Predicting the data with the mixture p(z) of a prior costs a regret of KL(p(z | w), p(z)) nats at the parameter w. The
largest regret over w is smallest for the reference prior, where it equals the capacity.

Shapes: K points of a prior, M parameters, Z outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers
from refprior.exact._cost import SLICE_ENTRIES
from refprior.exact._posterior import ROUNDING
from refprior.exact._priors import prior_to_compare
from refprior.exact._solution import Evidence, Solution
from refprior.exact.ask._jeffreys import coordinate_information, quadrature, require_density, root_determinant
from refprior.exact.certificate import judge
from refprior.exact.channels import Channel, check_channel, check_instance, panel_nodes, to_coordinates
from refprior.exact.oracle import Objective
from refprior.exact.show import gap_in_words, plot_comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Prior = Solution | tuple[ArrayLike, ArrayLike] | str
NAMES = ("reference", "jeffreys", "uniform")
DENSITY_POINTS = 2000  # that represent a density of one parameter
LEAST_DENSITY_POINTS = 200  # if outcomes are so many that a table of more points would be large
PANEL_NODES = 8  # nodes of a panel
CURVE_POINTS = 401  # parameters, even in Fisher length, at which regret and coverage are evaluated
LEVEL = 0.95  # of the posterior intervals
CAVEAT = "coverage: of 95% intervals, over Fisher length; posteriors on few atoms miss what lies between them"


@dataclass(frozen=True, kw_only=True)
class ComparedPrior:
    """One prior of a comparison."""

    name: str
    information: float  # I(w; z), in nats
    worst_regret: float  # max over w of KL(p(z | w), p(z)), in nats, including numerical error
    worst_parameter: Array  # (d,) where the regret is largest
    parameters: Array = field(repr=False)  # (M,), even in Fisher length; empty for several parameters, or if sampled
    regret: Array = field(repr=False)  # (M,) KL(p(z | w), p(z))
    coverage: Array = field(repr=False)  # (M,) probability that the central 95% interval of the posterior holds w

    @property
    def mean_coverage(self) -> float:
        """The mean coverage over w, even in Fisher length; NaN if `parameters` is empty."""
        return float(self.coverage.mean()) if len(self.coverage) else float("nan")

    @property
    def least_coverage(self) -> float:
        """The smallest coverage at `parameters`; NaN if they are empty."""
        return float(self.coverage.min()) if len(self.coverage) else float("nan")


@dataclass(frozen=True, kw_only=True)
class PriorComparison:
    """Priors of one channel, in order of increasing worst regret.

    `compare_priors` returns it. It is a sequence of priors, and `comparison["jeffreys"]` is the prior of that name.
    Printing shows a table.

    Parameters
    ----------
    evidence : str
        How the gap of the reference prior is known.
    capacity : float
        The information of the reference prior, in nats.
    gap : float
        How far the reference prior can be from the optimum, in nats.
    priors : tuple of ComparedPrior
        Each has a `name`, `information`, `worst_regret` and `worst_parameter`. For one parameter it also has `regret`
        and `coverage` at `parameters`, arrays of shape (M,), with `mean_coverage` and `least_coverage`.

    Examples
    --------
    >>> from refprior.exact import Coin, compare_priors
    >>> print(compare_priors(Coin(10)))
    certified: capacity 1.232457 nats, gap below 1e-14; no prior has a smaller worst regret
    prior      information  worst regret       at w  coverage  least
    reference     1.232457      1.232457  its atoms     0.697  0.084
    jeffreys      1.053576      1.736152   0.000000     0.949  0.000
    uniform       0.853997      2.397895   0.000000     0.887  0.000
    coverage: of 95% intervals, over Fisher length; posteriors on few atoms miss what lies between them
    """

    evidence: Evidence
    capacity: float
    gap: float
    priors: tuple[ComparedPrior, ...]

    def __iter__(self) -> Iterator[ComparedPrior]:
        return iter(self.priors)

    def __len__(self) -> int:
        return len(self.priors)

    def __getitem__(self, key: int | str) -> ComparedPrior:
        if isinstance(key, str):
            return next(prior for prior in self.priors if prior.name == key)
        return self.priors[key]

    def __str__(self) -> str:
        width = max(9, *(len(prior.name) for prior in self.priors))
        words = f"capacity {self.capacity:.6f} nats, {gap_in_words(self.gap)}"
        lines = [f"{self.evidence}: {words}; no prior has a smaller worst regret"]
        lines.append(f"{'prior':{width}}  information  worst regret       at w  coverage  least")
        for prior in self.priors:
            where = ", ".join(f"{x:.6f}" for x in prior.worst_parameter)
            where = "its atoms" if prior.name == "reference" else where
            numbers = f"{prior.information:11.6f}  {prior.worst_regret:12.6f}  {where:>9}"
            lines.append(f"{prior.name:{width}}  {numbers}  {prior.mean_coverage:8.3f}  {prior.least_coverage:.3f}")
        if len(self.priors[0].parameters):
            lines.append(CAVEAT)
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw regret and coverage against w, for one parameter.

        Returns
        -------
        matplotlib.figure.Figure
            A figure with two panels.

        Examples
        --------
        >>> from refprior.exact import Coin, compare_priors
        >>> len(compare_priors(Coin(3)).plot().axes)
        2
        """
        return plot_comparison(self)


def compare_priors(
    channel: Channel,
    priors: Iterable[str] | Mapping[str, Prior] = ("jeffreys", "uniform"),
    *,
    tolerance: float | None = None,
) -> PriorComparison:
    """Compare priors with the reference prior by information, worst regret and coverage.

    The regret at w is KL(p(z | w), p(z)). Coverage, for one parameter, is the probability that the interval between the
    2.5% and 97.5% quantiles of the posterior holds w. Posteriors on few atoms do not cover the values between them: the
    reference prior of a short experiment is made for prediction, not for intervals.

    Parameters
    ----------
    channel : Channel
        The model p(z | w).
    priors : iterable of str or mapping, default: ("jeffreys", "uniform")
        The priors to compare with: names, or a mapping from names to priors. A prior is "jeffreys", "uniform" (in w) or
        "reference"; a `Solution`; or a pair of parameters, (K,) or (K, d), and weights, (K,). The reference prior is
        always included.
    tolerance : float, optional
        Largest acceptable gap of the reference prior, in nats. Default: 1e-9, or 1e-3 for channels whose gain is
        sampled.

    Returns
    -------
    PriorComparison
        The priors in order of increasing worst regret.

    Examples
    --------
    >>> from refprior.exact import Coin, compare_priors
    >>> [(prior.name, round(prior.worst_regret, 3)) for prior in compare_priors(Coin(10))]
    [('reference', 1.232), ('jeffreys', 1.736), ('uniform', 2.398)]
    >>> ends = compare_priors(Coin(2), {"ends": ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25])})
    >>> [(prior.name, round(prior.worst_regret, 4)) for prior in ends]
    [('reference', 0.7538), ('ends', 0.9808)]
    """
    objective = Objective((check_channel(channel),))
    if channel.factors and not channel.listed:
        raise ValueError("a part of this product has sampled outcomes: compare the priors of its parts")
    named: Mapping[str, Prior] = priors if isinstance(priors, Mapping) else {name: name for name in priors}
    points = {name: _points(channel, name, prior) for name, prior in named.items() if prior != "reference"}
    reference = prior_to_compare(channel, tolerance)
    compared = [_compared(objective, "reference", reference.coordinates, reference.weights)]
    compared += [_compared(objective, name, u, weights) for name, (u, weights) in points.items()]
    return PriorComparison(
        evidence=reference.evidence,
        capacity=reference.information,
        gap=reference.gap,
        priors=tuple(sorted(compared, key=lambda prior: prior.worst_regret)),
    )


def _compared(objective: Objective, name: str, u: Array, weights: Array) -> ComparedPrior:
    channel, certificate = objective.channel, judge(objective, u, weights)
    places = channel.axes.points(0, CURVE_POINTS)[:, None] if channel.dimension == 1 else channel.bounds[:0].T[:0]
    with_curve = channel.dimension == 1 and channel.listed
    return ComparedPrior(
        name=name,
        information=certificate.information,
        worst_regret=certificate.information + certificate.gap,
        worst_parameter=channel.parameter(certificate.worst[None])[0],
        parameters=channel.parameter(places)[:, 0] if with_curve else np.empty(0),
        regret=objective.gain(places, objective.log_marginals(u, weights)) if with_curve else np.empty(0),
        coverage=coverage(channel, u, weights, places) if with_curve else np.empty(0),
    )


def coverage(channel: Channel, u: Array, weights: Array, places: Array) -> Array:
    """Compute P(lower(z) ≤ w ≤ upper(z) | w) with the posterior's 2.5% and 97.5% quantiles: (M, 1) -> (M,)."""
    order = np.argsort(u[:, 0], kind="stable")
    u, weights = u[order], weights[order]
    p = np.exp(channel.log_likelihood(places))
    low, high = np.empty(p.shape[1]), np.empty(p.shape[1])
    below = np.cumsum(weights[:, None] * np.exp(channel.log_likelihood(u)), axis=0)  # (K, Z), not normalized
    for ends, level in ((low, (1 - LEVEL) / 2), (high, (1 + LEVEL) / 2)):
        first = np.argmax(below >= level * below[-1] * (1 - ROUNDING), axis=0)
        ends[:] = u[first, 0]
    inside = (places >= low - ROUNDING) & (places <= high + ROUNDING)
    return np.asarray(np.sum(p * inside, axis=1))


def _points(channel: Channel, name: str, prior: Prior) -> tuple[Array, Array]:
    """Return coordinates (K, d) and weights (K,) of a prior, checked."""
    if isinstance(prior, str):
        return _density_points(channel, prior)
    if isinstance(prior, tuple) and len(prior) == 2:
        u, weights = to_coordinates(channel, prior[0]), as_numbers(f"the weights of {name!r}", prior[1])
        if weights.shape != (len(u),) or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
            raise ValueError(f"{name!r} needs one nonnegative weight for each of its {len(u)} parameters")
        return u[weights > 0], weights[weights > 0] / weights.sum()
    check_instance(repr(name), prior, Solution, "reference_prior")
    assert isinstance(prior, Solution)
    return to_coordinates(channel, prior.atoms), prior.weights


def _density_points(channel: Channel, name: str) -> tuple[Array, Array]:
    """Return points and weights that represent the Jeffreys or the uniform density."""
    if name not in NAMES:
        raise ValueError(f"unknown prior {name!r}: pass {', '.join(NAMES)}, a Solution, or parameters with weights")
    if not channel.listed:
        raise ValueError(f"the prior {name!r} needs outcomes that are not sampled: pass parameters and weights")
    if name == "jeffreys":
        require_density(channel)
    if not channel.continuous:
        rows = channel.axes.points(0, 0)[:, None]
        return rows, np.full(len(rows), 1 / len(rows))
    if channel.dimension > 1:
        u, measure = quadrature(channel)
    else:  # Gauss–Legendre nodes of panels that are even in Fisher length
        count = int(min(DENSITY_POINTS, max(LEAST_DENSITY_POINTS, SLICE_ENTRIES // channel.outcome_count)))
        nodes, log_weights = panel_nodes(channel.axes.points(0, count // PANEL_NODES + 1), 1)
        u, measure = nodes[:, None], np.exp(log_weights)
    if name == "jeffreys":
        mass = measure * root_determinant(coordinate_information(channel, u))
    else:
        mass = measure * np.prod(channel.jacobian(u), axis=1)
    return u[mass > 0], mass[mass > 0] / mass.sum()
