"""Compare experiments: their capacity, the best of a family, and the growth of capacity with the number of samples.

For n samples of a smooth model of d parameters the capacity approaches d/2 log(n / 2πe) + log V, where V = ∫ √det g is
the Fisher volume of one sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import number, whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact._cost import LOG
from refprior.exact._posterior import Posterior
from refprior.exact._priors import prior_to_compare
from refprior.exact._solution import Evidence, Solution, weakest
from refprior.exact.ask._jeffreys import jeffreys_prior
from refprior.exact.channels import Channel, check_channel, to_coordinates
from refprior.exact.oracle import Objective
from refprior.exact.show import plot_capacity, plot_designs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FINEST = 1e-3  # share of an axis: the last step of the search for a design
MOST_DESIGNS = 400  # tried by one search
SHOWN = 12  # designs that are printed if there are no costs


@dataclass(frozen=True, kw_only=True)
class Design:
    """An experiment with its capacity and cost.

    Parameters
    ----------
    name : str
        The name of the design.
    evidence : str
        How the gap is known.
    information : float
        The largest information that the experiment can give about its parameter, in nats.
    gap : float
        How far the information can be below the capacity, in nats.
    atoms : int
        Number of atoms of the reference prior.
    cost : float, optional
        The cost of the experiment.

    Examples
    --------
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


def _design(name: str, prior: Solution, cost: float | None) -> Design:
    return Design(
        name=name,
        evidence=prior.evidence,
        information=prior.information,
        gap=prior.gap,
        atoms=len(prior.weights),
        cost=cost,
    )


def _judged(name: str, channel: Channel, w: Array, weights: Array, cost: float | None) -> Design:
    """Judge a design by the information I(w; z) under given weights: a sum over outcomes, or a sample of the noise."""
    u = to_coordinates(channel, w)
    information = float(weights @ Objective((channel,)).gain_under(u, u, weights))
    evidence: Evidence = "certified" if channel.listed else "searched"
    return Design(name=name, evidence=evidence, information=information, gap=0.0, atoms=len(weights), cost=cost)


def compare_designs(
    designs: Mapping[str, Channel], *, costs: Mapping[str, float] | None = None, tolerance: float | None = None
) -> list[Design]:
    """Compute the capacity of several experiments.

    Parameters
    ----------
    designs : mapping of str to Channel
        The experiments by name.
    costs : mapping of str to float, optional
        The cost of each experiment.
    tolerance : float, optional
        Largest acceptable gap, in nats. Default: 1e-9, or 1e-3 for channels whose gain is sampled.

    Returns
    -------
    list of Design
        The experiments, the most informative first.

    Examples
    --------
    >>> from refprior.exact import Gaussian, compare_designs
    >>> designs = {f"{n} samples": Gaussian(1.0).repeat(n) for n in (1, 4, 16)}
    >>> [(d.name, round(d.information, 4)) for d in compare_designs(designs)]
    [('16 samples', 1.0645), ('4 samples', 0.6529), ('1 samples', 0.3368)]
    """
    if not designs:
        raise ValueError("designs is empty: pass at least one experiment")
    missing = [] if costs is None else [name for name in designs if name not in costs]
    if missing:
        raise ValueError(f"costs has no entry for {missing[0]!r}")
    found = []
    for name, channel in designs.items():
        prior = prior_to_compare(check_channel(channel, repr(name)), tolerance)
        found.append(_design(name, prior, None if costs is None else float(costs[name])))
    return sorted(found, key=lambda design: -design.information)


Place = tuple[float, ...]  # the settings of a design


@dataclass(frozen=True, kw_only=True)
class DesignSearch:
    """The best design of a search, its prior, and all designs that were tried.

    `best_design` returns it. Printing shows the front if there are costs, else the best designs.

    Parameters
    ----------
    place : tuple of float
        The settings of the best design.
    prior : Solution or None
        The reference prior of the best design; None if designs were judged under what is known.
    cost : float or None
        The cost of the best design.
    tried : tuple of Design
        All designs that were tried, the most informative first.
    places : tuple of tuple of float
        Their settings, in the same order.

    Examples
    --------
    >>> from refprior.exact import ExponentialDecay, best_design
    >>> found = best_design(lambda t: ExponentialDecay((1.0, t), 0.3), (1.5, 3.5), points=3, tolerance=1e-4)
    >>> found.evidence, len(found.tried) > 3
    ('searched', True)
    """

    place: Place
    prior: Solution | None
    cost: float | None
    tried: tuple[Design, ...]
    places: tuple[Place, ...] = field(repr=False)

    @property
    def information(self) -> float:
        """The information of the best design, in nats."""
        return self.tried[0].information

    @property
    def evidence(self) -> Evidence:
        """At most "searched": each information is certified, but another design may give more."""
        return weakest("searched", self.tried[0].evidence)

    def front(self) -> list[Design]:
        """Select the designs that give more information than every cheaper one.

        Returns
        -------
        list of Design
            The Pareto front, the cheapest first. Meaningful only with costs.
        """
        chosen: list[Design] = []
        for design in sorted(self.tried, key=lambda d: (d.cost or 0.0, -d.information)):
            if not chosen or design.information > chosen[-1].information:
                chosen.append(design)
        return chosen

    def __str__(self) -> str:
        first = f"{self.evidence}: best of {len(self.tried)} designs: {_named(self.place)}, {self.information:.6f} nats"
        shown = self.front() if self.cost is not None else list(self.tried[:SHOWN])
        return "\n".join([first, *map(str, shown)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw information against cost with the front, or, without costs, against the first setting.

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
        >>> from refprior.exact import Coin, best_design
        >>> best_design(Coin, (1, 4), cost=lambda n: 2.0 + n, budget=5.0).plot().get_xlabel()
        'cost'
        """
        return plot_designs(self, ax)


def best_design(
    channel_of_design: Callable[..., Channel],
    bounds: ArrayLike,
    *,
    cost: Callable[..., float] | None = None,
    budget: float | None = None,
    given: Posterior | tuple[ArrayLike, ArrayLike] | None = None,
    points: int = 7,
    tolerance: float | None = None,
) -> DesignSearch:
    """Search for the most informative experiment within bounds and a budget.

    The search tries a grid of settings, then steps around the best one, which are halved until they are small. Every
    information is certified; that no other design gives more is not.

    Parameters
    ----------
    channel_of_design : callable
        Returns the channel of a design. Takes one argument per setting.
    bounds : pair or sequence of pairs
        The lowest and highest value of each setting. If both are integers, the setting takes integers only.
    cost : callable, optional
        Returns the cost of a design. Takes the same arguments.
    budget : float, optional
        The highest cost. Needs `cost`.
    given : Posterior or pair of array_like, optional
        What is known from earlier data: a posterior, or parameters (K,) or (K, d) with weights (K,). Designs are then
        judged by their information under these weights, I(w; z | data), instead of their capacity.
    points : int, default: 7
        Grid points per setting.
    tolerance : float, optional
        Largest acceptable gap of each design, in nats. Default: 1e-9, or 1e-3 for channels whose gain is sampled.

    Returns
    -------
    DesignSearch
        The best design, its prior, and all designs that were tried.

    Examples
    --------
    >>> from refprior.exact import Coin, best_design, reference_prior
    >>> found = best_design(Coin, (1, 50), cost=lambda n: 2.0 + n, budget=12.5)
    >>> found.place, round(found.information, 6)
    ((10,), 1.232457)
    >>> seen = reference_prior(Coin(4)).posterior(4)  # four heads: the coin is nearly certain
    >>> again = best_design(Coin, (1, 8), given=seen)
    >>> again.place, round(again.information, 4)
    ((8,), 0.1728)
    """
    box, whole = _box(bounds)
    whole_number("points", points, at_least=2)
    if budget is not None and cost is None:
        raise ValueError("budget is given without cost: also pass cost, a function of the settings")
    search = _Search(channel_of_design, cost, budget, tolerance, None if given is None else _weighted(given))
    axes: list[list[float]] = []
    for (low, high), isint in zip(box, whole, strict=True):
        values = [float(x) for x in np.linspace(low, high, points)]
        axes.append(sorted({round(x) for x in values}) if isint else values)
    for place in itertools.product(*axes):
        search.attempt(place)
    if not search.known:
        raise ValueError(f"no design of the first grid costs at most {budget:g}: raise the budget or widen the bounds")
    search.refine(box, whole, [np.diff(axis).max() if len(axis) > 1 else 0.0 for axis in axes])
    order = sorted(search.known, key=lambda place: -search.known[place].information)
    return DesignSearch(
        place=order[0],
        prior=search.priors.get(order[0]),
        cost=search.known[order[0]].cost,
        tried=tuple(search.known[place] for place in order),
        places=tuple(order),
    )


def _weighted(given: Posterior | tuple[ArrayLike, ArrayLike]) -> tuple[Array, Array]:
    """Return the parameters and weights of what is known, checked: (K,) or (K, d), (K,)."""
    w, weights = (given.atoms, given.weights) if isinstance(given, Posterior) else given
    w, weights = as_numbers("given", w), as_numbers("the weights of given", weights)
    if weights.shape != w.shape[:1] or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
        raise ValueError(f"given needs one nonnegative weight for each of its {len(w)} parameters")
    return w[weights > 0], weights[weights > 0] / weights.sum()


@dataclass
class _Search:
    channel_of_design: Callable[..., Channel]
    cost: Callable[..., float] | None
    budget: float | None
    tolerance: float | None
    given: tuple[Array, Array] | None = None  # parameters and weights
    known: dict[Place, Design] = field(default_factory=dict)
    priors: dict[Place, Solution] = field(default_factory=dict)

    def attempt(self, place: Place) -> None:
        """Solve a design unless it is known or too expensive."""
        cost = None if self.cost is None else number("the cost", self.cost(*place))
        if place in self.known or (self.budget is not None and cost is not None and cost > self.budget):
            return
        LOG.info("design %d: %s", len(self.known) + 1, _named(place))
        channel = check_channel(self.channel_of_design(*place), f"channel_of_design{place}")
        if self.given is None:
            self.priors[place] = prior_to_compare(channel, self.tolerance)
            self.known[place] = _design(_named(place), self.priors[place], cost)
        else:
            self.known[place] = _judged(_named(place), channel, *self.given, cost)

    def best(self) -> Place:
        """Return the most informative place so far."""
        return max(self.known, key=lambda place: self.known[place].information)

    def refine(self, box: list[tuple[float, float]], whole: list[bool], steps: list[float]) -> None:
        """Try both sides of the best along each setting, and halve the steps where that does not help."""
        while len(self.known) < MOST_DESIGNS:
            best = self.best()
            for i, (low, high) in enumerate(box):
                step = max(1, round(steps[i])) if whole[i] else steps[i]
                for moved in (best[i] - step, best[i] + step):
                    if low <= moved <= high:
                        self.attempt((*best[:i], moved, *best[i + 1 :]))
            if self.best() != best:
                continue
            small = [
                (w and s <= 1) or s <= FINEST * (high - low)
                for w, s, (low, high) in zip(whole, steps, box, strict=True)
            ]
            if all(small):
                return
            steps = [step / 2 for step in steps]


def _box(bounds: ArrayLike) -> tuple[list[tuple[float, float]], list[bool]]:
    """Return one pair per setting, and which settings are integers."""
    pairs: Any = bounds if isinstance(bounds, Sequence) and isinstance(bounds[0], Sequence) else [bounds]
    values = as_numbers("bounds", pairs)
    shaped = values.ndim == 2 and values.shape[1] == 2
    if not shaped or not np.all(np.isfinite(values)) or np.any(values[:, 0] > values[:, 1]):
        raise ValueError(f"bounds must be (low, high), or one such pair for each setting, got {bounds!r}")
    whole = [all(isinstance(x, int | np.integer) for x in pair) for pair in pairs]
    return [(pair[0], pair[1]) for pair in pairs], whole


def _named(place: Place) -> str:
    return ", ".join(f"{x:.4g}" if not isinstance(x, int) else str(x) for x in place)


@dataclass(frozen=True, kw_only=True)
class CapacityCurve:
    """Capacity against the number of samples, next to its asymptotic law."""

    samples: tuple[int, ...]
    information: tuple[float, ...]  # the capacity of each number of samples, in nats
    gap: float  # the largest gap
    evidence: Evidence  # the weakest evidence
    law: tuple[float, ...]  # d/2 log(n / 2πe) + log V

    @property
    def above_law(self) -> tuple[float, ...]:
        """The capacity minus the law, in nats."""
        return tuple(a - b for a, b in zip(self.information, self.law, strict=True))

    def __str__(self) -> str:
        lines = [f"{self.evidence}: capacity against the number of samples, gaps of at most {self.gap:.1e}"]
        lines.append(f"{'n':>8}  {'capacity':>10}  {'law':>10}  {'above':>8}")
        rows = zip(self.samples, self.information, self.law, self.above_law, strict=True)
        return "\n".join([*lines, *(f"{n:8d}  {a:10.6f}  {b:10.6f}  {c:8.4f}" for n, a, b, c in rows)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the capacity and its law against log n.

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
        >>> from refprior.exact import Coin, capacity_curve
        >>> capacity_curve(Coin, (1, 10)).plot().get_xscale()
        'log'
        """
        return plot_capacity(self, ax)


def capacity_curve(
    channel_of_n: Callable[[int], Channel],
    samples: Sequence[int] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    *,
    tolerance: float | None = None,
) -> CapacityCurve:
    """Compute the capacity of several numbers of samples, next to its asymptotic law.

    The law is d/2 log(n / 2πe) + log V, where V is the Fisher volume of one sample.

    Parameters
    ----------
    channel_of_n : callable
        Returns the channel of n samples: for example `Coin`, or `channel.repeat`.
    samples : sequence of int, default: (1, 2, 5, ..., 1000)
        Numbers of samples.
    tolerance : float, optional
        Largest acceptable gap of each capacity, in nats. Default: 1e-9, or 1e-3 for channels whose gain is sampled.

    Returns
    -------
    CapacityCurve
        For each of `samples` the `information` and the `law`, their difference `above_law`, the largest `gap`, the
        weakest `evidence`, and the function `plot`.

    Examples
    --------
    >>> from refprior.exact import Coin, capacity_curve
    >>> curve = capacity_curve(Coin, (1, 10, 100))
    >>> [round(x, 4) for x in curve.above_law]  # falls like 1/√n
    [0.9674, 0.3554, 0.1228]
    >>> from refprior.exact import Gaussian, capacity_curve
    >>> [round(x, 4) for x in capacity_curve(Gaussian(1.0).repeat, (1, 4, 16)).information]
    [0.3368, 0.6529, 1.0645]
    """
    numbers = tuple(whole_number("a number of samples", n, at_least=1) for n in samples)
    if not numbers:
        raise ValueError("samples is empty: pass at least one number of samples")
    one = check_channel(channel_of_n(1), "channel_of_n(1)")
    constant = math.log(jeffreys_prior(one).volume) - one.dimension / 2 * math.log(2 * math.pi * math.e)
    priors = []
    for n in numbers:
        LOG.info("%d samples", n)
        priors.append(prior_to_compare(check_channel(channel_of_n(n), f"channel_of_n({n})"), tolerance))
    return CapacityCurve(
        samples=numbers,
        information=tuple(prior.information for prior in priors),
        gap=max(prior.gap for prior in priors),
        evidence=weakest(*(prior.evidence for prior in priors)),
        law=tuple(constant + one.dimension / 2 * math.log(n) for n in numbers),
    )
