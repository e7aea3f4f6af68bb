"""Compare priors of one channel: information, regret, bias and coverage.

Predicting the data with the mixture p(z) of a prior costs a regret of KL(p(z | w), p(z)) nats at the parameter w. The
largest regret over w is smallest for the reference prior, where it equals the capacity.

Shapes: K points of a prior, M parameters, Z outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact._cost import SLICE_ENTRIES
from refprior.exact._posterior import ROUNDING
from refprior.exact._priors import prior_to_compare
from refprior.exact._solution import Evidence, Solution
from refprior.exact.ask._draws import DENSITIES, NOISE, displacements, true_parameters
from refprior.exact.ask._draws import draws as draws_of
from refprior.exact.ask._jeffreys import (
    coordinate_information,
    fits_quadrature,
    quadrature,
    require_density,
    root_determinant,
)
from refprior.exact.certificate import judge
from refprior.exact.channels import (
    Channel,
    NoisyMean,
    SampledMean,
    canonical,
    check_channel,
    check_instance,
    panel_nodes,
    to_coordinates,
)
from refprior.exact.oracle import Objective
from refprior.exact.sampling import Mixture, normals
from refprior.exact.show import gap_in_words, plot_comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[np.random.Generator, int], ArrayLike]  # returns so many parameters, (K,) or (K, d)
Prior = Solution | tuple[ArrayLike, ArrayLike] | str | Draw
NAMES = ("reference", *DENSITIES)
BLOCKS = 10  # of the draws, one of which is left out at a time for the standard error
MOST_AVERAGED = 512  # draws over which a gain is averaged for that error
REPEATS = 4  # of the noise, for the standard error of sampled gains
DENSITY_POINTS = 2000  # that represent a density of one parameter
LEAST_DENSITY_POINTS = 200  # if outcomes are so many that a table of more points would be large
PANEL_NODES = 8  # nodes of a panel
CURVE_POINTS = 401  # parameters, even in Fisher length, at which regret and coverage are evaluated
LEVEL = 0.95  # of the posterior intervals
CAVEAT = "coverage: of 95% intervals, over Fisher length; posteriors on few atoms miss what lies between them"
BIAS = "bias: of the posterior mean of the predictions, in standard deviations, on average over"


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
    biases: Array = field(repr=False)  # (N,) displacement of the posterior mean at the `truths` of the comparison
    information_error: float = 0.0  # standard error of `information`, by samples of the noise and draws of the prior
    bias_error: float = 0.0  # the same of `bias`

    @property
    def bias(self) -> float:
        """The mean of `biases`, in standard deviations of the noise."""
        return float(self.biases.mean())

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
        Each has a `name`, `information`, `worst_regret`, `worst_parameter` and `bias`, the mean of its `biases` at the
        `truths`; `information_error` and `bias_error` are standard errors of Monte Carlo. For one parameter it also has
        `regret` and `coverage` at `parameters`, arrays of shape (M,), with `mean_coverage` and `least_coverage`.
    truths : ndarray of shape (N, d)
        The true parameters at which the bias is evaluated.

    Examples
    --------
    >>> from refprior.exact import Coin, compare_priors
    >>> print(compare_priors(Coin(10)))
    certified: capacity 1.232457 nats, gap below 1e-14; no prior has a smaller worst regret
    prior      information  worst regret       at w    bias  coverage  least
    reference     1.232457      1.232457  its atoms   0.100     0.697  0.084
    jeffreys      1.053576      1.736152   0.000000   0.194     0.949  0.000
    uniform       0.853997      2.397895   0.000000   0.489     0.887  0.000
    bias: of the posterior mean of the predictions, in standard deviations, on average over 401 true parameters
    coverage: of 95% intervals, over Fisher length; posteriors on few atoms miss what lies between them
    """

    evidence: Evidence
    capacity: float
    gap: float
    priors: tuple[ComparedPrior, ...]
    truths: Array = field(repr=False)

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
        one, with_error = len(self.priors[0].worst_parameter) == 1, any(p.bias_error > 0 for p in self.priors)
        words = f"capacity {self.capacity:.6f} nats, {gap_in_words(self.gap)}"
        lines = [f"{self.evidence}: {words}; no prior has a smaller worst regret"]
        error = "       ±" if with_error else ""
        head = f"{'prior':{width}}  information{error}  worst regret" + ("       at w" if one else "")
        lines.append(f"{head}    bias{error}" + ("  coverage  least" if one else ""))
        for prior in self.priors:
            line = f"{prior.name:{width}}  {prior.information:11.6f}"
            line += f"  {prior.information_error:.4f}" if with_error else ""
            line += f"  {prior.worst_regret:12.6f}"
            if one:
                where = "its atoms" if prior.name == "reference" else f"{prior.worst_parameter[0]:.6f}"
                line += f"  {where:>9}"
            line += f"  {prior.bias:6.3f}" + (f"  {prior.bias_error:.4f}" if with_error else "")
            lines.append(line + (f"  {prior.mean_coverage:8.3f}  {prior.least_coverage:.3f}" if one else ""))
        lines.append(f"{BIAS} {len(self.truths)} true parameters")
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
    truths: ArrayLike | None = None,
    draws: int = 512,
    tolerance: float | None = None,
) -> PriorComparison:
    """Compare priors with the reference prior by information, worst regret, bias and coverage.

    The bias at a true parameter is the displacement of the posterior mean of the predictions, on average over the data,
    in standard deviations of the noise. For other than Gaussian noise it is that of the coordinates of the search, in
    the metric of the Fisher information. The regret at w is KL(p(z | w), p(z)). Coverage, for one parameter, is the
    probability that the interval between the 2.5% and 97.5% quantiles of the posterior holds w. Posteriors on few atoms
    do not cover the values between them: the reference prior of a short experiment is made for prediction, not for
    intervals.

    Parameters
    ----------
    channel : Channel
        The model p(z | w).
    priors : iterable of str or mapping, default: ("jeffreys", "uniform")
        The priors to compare with: names, or a mapping from names to priors. A prior is "jeffreys", "uniform" (in w),
        "projected" (maximum likelihood, see `draw_prior`) or "reference"; a `Solution`; a pair of parameters, (K,) or
        (K, d), and weights, (K,); or a function of a generator and a count that returns so many draws. The reference
        prior is always included.
    truths : array_like of shape (N,) or (N, d), optional
        True parameters at which the bias is evaluated. By default, 401 that are even in Fisher length, or with several
        parameters up to 200 that are spread evenly over what the model predicts.
    draws : int, default: 512
        Number of draws from priors that are functions, and from densities that no quadrature reaches.
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
    count = whole_number("draws", draws, at_least=BLOCKS)
    true = true_parameters(channel, CURVE_POINTS) if truths is None else to_coordinates(channel, truths)
    points = {name: _points(channel, name, prior, count) for name, prior in named.items() if prior != "reference"}
    reference = prior_to_compare(channel, tolerance)
    points = {"reference": Points(reference.coordinates, reference.weights), **points}
    compared = [_compared(objective, name, prior, true) for name, prior in points.items()]
    return PriorComparison(
        evidence=reference.evidence,
        capacity=reference.information,
        gap=reference.gap,
        priors=tuple(sorted(compared, key=lambda prior: prior.worst_regret)),
        truths=channel.parameter(true),
    )


class Points(NamedTuple):
    """Coordinates (K, d) and weights (K,) that represent a prior, and whether they are random draws from it."""

    u: Array
    weights: Array
    drawn: bool = False


def _compared(objective: Objective, name: str, prior: Points, truths: Array) -> ComparedPrior:
    channel, (u, weights, _) = objective.channel, prior
    certificate = judge(objective, u, weights)
    places = channel.axes.points(0, CURVE_POINTS)[:, None] if channel.dimension == 1 else channel.bounds[:0].T[:0]
    with_curve = channel.dimension == 1 and channel.listed
    biases, errors = _biases(objective, prior, truths)
    return ComparedPrior(
        name=name,
        information=certificate.information,
        worst_regret=certificate.information + certificate.gap,
        worst_parameter=channel.parameter(certificate.worst[None])[0],
        parameters=channel.parameter(places)[:, 0] if with_curve else np.empty(0),
        regret=objective.gain(places, objective.log_marginals(u, weights)) if with_curve else np.empty(0),
        coverage=coverage(channel, u, weights, places) if with_curve else np.empty(0),
        biases=biases,
        information_error=errors[0],
        bias_error=errors[1],
    )


def _biases(objective: Objective, prior: Points, truths: Array) -> tuple[Array, tuple[float, float]]:
    """Return the biases (N,), and standard errors of the information and of their mean.

    The noise is drawn several times. Draws of a prior have the jackknife's error: one block at a time is left out.
    """
    channel, (u, weights, drawn) = objective.channel, prior

    def judged(u: Array, weights: Array, seed: int) -> tuple[Array, float]:
        some = slice(MOST_AVERAGED if drawn else None)  # draws are in random order
        if isinstance(channel, SampledMean):
            mixture = Mixture.of(channel.at(u), weights, normals(NOISE, channel.width, seed))
            gain = mixture.gain(mixture.means[some])
        else:
            gain = objective.gain(u[some], objective.log_marginals(u, weights))
        return displacements(channel, u, weights, truths, seed), float(np.average(gain, weights=weights[some]))

    tried = [judged(u, weights, seed) for seed in range(1 if channel.listed else REPEATS)]
    biases, variance = np.mean([found for found, _ in tried], axis=0), np.zeros(2)
    if len(tried) > 1:
        variance += np.var([(information, found.mean()) for found, information in tried], axis=0, ddof=1) / REPEATS
    if drawn:
        block = np.random.default_rng(0).permutation(len(u)) % BLOCKS
        left = [judged(u[block != b], weights[block != b] / weights[block != b].sum(), 0) for b in range(BLOCKS)]
        variance += (BLOCKS - 1) * np.var([(information, found.mean()) for found, information in left], axis=0)
    return biases, (float(np.sqrt(variance[0])), float(np.sqrt(variance[1])))


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


def _points(channel: Channel, name: str, prior: Prior, count: int) -> Points:
    """Return coordinates and weights of a prior, checked."""
    if isinstance(prior, str):
        return _density_points(channel, prior, count)
    if isinstance(prior, tuple) and len(prior) == 2:
        u, weights = to_coordinates(channel, prior[0]), as_numbers(f"the weights of {name!r}", prior[1])
        if weights.shape != (len(u),) or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
            raise ValueError(f"{name!r} needs one nonnegative weight for each of its {len(u)} parameters")
        return Points(u[weights > 0], weights[weights > 0] / weights.sum())
    if callable(prior):
        u = to_coordinates(channel, prior(np.random.default_rng(0), count))
        if len(u) != count:
            raise ValueError(f"{name!r} returned {len(u)} draws, expected {count}")
        return Points(canonical(channel, u), np.full(count, 1 / count), drawn=True)
    check_instance(repr(name), prior, Solution, "reference_prior")
    return Points(to_coordinates(channel, prior.atoms), prior.weights)


def _density_points(channel: Channel, name: str, count: int) -> Points:
    """Return points and weights that represent a density given by name."""
    if name not in NAMES:
        raise ValueError(f"unknown prior {name!r}: pass {', '.join(NAMES)}, a Solution, or parameters with weights")
    if name in ("jeffreys", "projected"):
        require_density(channel)
    if not channel.continuous:
        rows = channel.axes.points(0, 0)[:, None]
        return Points(rows, np.full(len(rows), 1 / len(rows)))
    if name == "projected" or not channel.listed or not fits_quadrature(channel):
        drawn = name != "projected" or isinstance(channel, NoisyMean)
        return Points(*draws_of(channel, name, count, seed=0), drawn=drawn)
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
    return Points(u[mass > 0], mass[mass > 0] / mass.sum())
