"""Follow the atoms along a setting of the experiment, and locate the forks at which their number changes.

As the amplitude of the noise channel or the number of tosses grows, atoms appear, and atoms split in two. Both show in
the prior of K atoms, continued past the fork. With K atoms at their optimum, an atom *appears* where the gain between
them first reaches J, and an atom *splits* where the curvature of the gain at it first reaches zero. Each is the root of
a smooth function of the setting; the smaller of the two is the fork.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import brentq

from refprior._checks import number
from refprior._files import Json
from refprior.exact._arrays import Array
from refprior.exact._cost import LOG
from refprior.exact._priors import prior_to_compare
from refprior.exact._solution import Evidence, Solution, weakest
from refprior.exact.channels import Channel, check_channel
from refprior.exact.oracle import Objective, Point, evaluate
from refprior.exact.show import plot_scan
from refprior.exact.solve import Problem, ascend, climb, equalize, fisher_grid, peaks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Model = Callable[[Any], Channel | Solution]
NEAR = 0.25  # standard deviations: a peak of the gain this close to an atom belongs to the atom
SPACING = 0.05  # standard deviations between the points of the grid on which peaks are searched
LEAST_POINTS = 201  # of that grid
CLOSEST = 1e-4  # relative: values this close that still differ by several atoms are not halved further
PRECISION = 1e-9  # of a fork, relative to the setting
RESIDUAL = 1e-9  # nats: a continued prior that is further from the conditions of the optimum is not used


@dataclass(frozen=True, kw_only=True)
class Fork:
    """A setting at which the number of atoms changes."""

    low: float  # the fork lies between low
    high: float  # and high
    before: int  # number of atoms below the fork
    after: int  # and above
    kind: Literal["appears", "splits", "unknown"]
    place: float | None  # the parameter of the atom that appears or splits

    @property
    def value(self) -> float:
        """The setting of the fork."""
        return (self.low + self.high) / 2

    def __str__(self) -> str:
        if self.place is None:
            return f"between {self.low:g} and {self.high:g}: {self.before} to {self.after} atoms"
        place = round(self.place, 4) + 0.0  # never -0.0000
        return f"{self.value:.6f}: an atom {self.kind} at {place:.4f}, {self.before} to {self.after} atoms"


@dataclass(frozen=True, eq=False, kw_only=True)
class PriorScan:
    """Priors along a setting, and the forks between them.

    `scan_priors` returns it.

    Parameters
    ----------
    setting : str
        The name of the setting.
    values : tuple of float
        The values of the setting.
    priors : tuple of Solution
        The prior at each value.
    forks : tuple of Fork
        Where the number of atoms changes: between `low` and `high`, from `before` to `after` atoms. `kind` is
        "appears", "splits" or "unknown", and `place` the parameter at which that happens.

    Examples
    --------
    >>> from refprior.exact import Coin, scan_priors
    >>> found = scan_priors(Coin, [1, 2, 3, 4, 5])
    >>> found.counts
    (2, 3, 3, 3, 4)
    >>> [(fork.low, fork.high) for fork in found.forks]
    [(1, 2), (4, 5)]
    """

    setting: str
    values: tuple[float, ...]
    priors: tuple[Solution, ...]
    forks: tuple[Fork, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of atoms at each value."""
        return tuple(len(prior.weights) for prior in self.priors)

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence of all priors."""
        return weakest(*(prior.evidence for prior in self.priors))

    def __str__(self) -> str:
        gap = max(prior.gap for prior in self.priors)
        lines = [f"{self.evidence}: {len(self.values)} priors, {len(self.forks)} forks, gaps of at most {gap:.1e}"]
        return "\n".join([*lines, *map(str, self.forks)])

    def to_dict(self) -> Json:
        """Convert the scan to plain numbers for JSON.

        Returns
        -------
        dict
            Evidence, setting, values, priors and forks.

        Examples
        --------
        >>> from refprior.exact import Coin, scan_priors
        >>> list(scan_priors(Coin, [1, 2]).to_dict())
        ['evidence', 'setting', 'values', 'priors', 'forks']
        """
        forks = [{"value": f.value, **{k: getattr(f, k) for k in Fork.__dataclass_fields__}} for f in self.forks]
        priors = [prior.to_dict() for prior in self.priors]
        values = list(self.values)
        return {"evidence": self.evidence, "setting": self.setting, "values": values, "priors": priors, "forks": forks}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw atoms against the setting, with areas by weight and dotted lines at the forks.

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
        >>> from refprior.exact import Coin, scan_priors
        >>> scan_priors(Coin, [1, 2, 3], setting="n").plot().get_xlabel()
        'n'
        """
        return plot_scan(self, ax)


def scan_priors(
    model: Model, values: Sequence[float], *, setting: str = "setting", tolerance: float | None = None
) -> PriorScan:
    """Compute priors along a setting, and locate where their number of atoms changes.

    The model has one continuous parameter, and its outcomes are not sampled.

    Parameters
    ----------
    model : callable
        Returns the channel at a value of the setting, such as `Gaussian` or `Coin`, or the prior, such as
        `lambda n: two_stage_prior(Coin, m=1, n=n)`.
    values : sequence of float
        At least two increasing values. Between two integers, forks are not located more closely.
    setting : str, default: "setting"
        The name of the setting, for the plot.
    tolerance : float, default: 1e-9
        Largest acceptable gap of each prior, in nats.

    Returns
    -------
    PriorScan
        The priors and the forks between them.

    Examples
    --------
    >>> from refprior.exact import Poisson, scan_priors
    >>> print(scan_priors(Poisson, [3.0, 4.0]).forks[0])
    3.367940: an atom appears at 1.2928, 2 to 3 atoms
    """
    numbers = [number("a value", value) for value in values]
    if len(numbers) < 2 or sorted(set(numbers)) != numbers:
        raise ValueError(f"values must be at least two increasing numbers, got {list(values)!r}")
    priors, forks = [], []
    for k, value in enumerate(values):
        LOG.info("%s = %g, %d of %d", setting, value, k + 1, len(values))
        priors.append(_solved(model, value, tolerance))
    for k in range(1, len(priors)):
        forks += _forks(model, (values[k - 1], priors[k - 1]), (values[k], priors[k]), tolerance)
    return PriorScan(setting=setting, values=tuple(values), priors=tuple(priors), forks=tuple(forks))


End = tuple[float, Solution]


def _solved(model: Model, value: float, tolerance: float | None) -> Solution:
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # `evidence` reports it
        made = model(value)
        channel = made.channel if isinstance(made, Solution) else check_channel(made)
        if not channel.listed:
            raise ValueError("the outcomes of this model are sampled, so its atoms cannot be counted")
        prior = made if isinstance(made, Solution) else prior_to_compare(channel, tolerance)
    if prior.channel.dimension != 1 or not prior.channel.continuous:
        raise ValueError("scan_priors needs a model of one continuous parameter")
    return prior


def _forks(model: Model, low: End, high: End, tolerance: float | None) -> list[Fork]:
    """Halve the interval until each part holds a change by one atom, and locate that fork."""
    before, after = len(low[1].weights), len(high[1].weights)
    if before == after:
        return []
    unknown = Fork(low=low[0], high=high[0], before=before, after=after, kind="unknown", place=None)
    if isinstance(low[0], int) and isinstance(high[0], int):
        return [unknown]
    if after == before + 1:
        roots = [_root(model, low, high, "appears", _highest_between), _root(model, low, high, "splits", _flattest)]
        return [min((fork for fork in roots if fork is not None), key=lambda fork: fork.low, default=unknown)]
    if high[0] - low[0] < CLOSEST * abs(high[0]):
        return [unknown]
    middle = (low[0] + high[0]) / 2
    between = middle, _solved(model, middle, tolerance)
    return [*_forks(model, low, between, tolerance), *_forks(model, between, high, tolerance)]


def _root(model: Model, low: End, high: End, kind: Literal["appears", "splits"], indicator: Indicator) -> Fork | None:
    """Continue K atoms until an indicator becomes positive; None if it does not, or atoms cannot be continued."""
    start, count = low[1], len(low[1].weights)

    def sign(value: float) -> float:
        return indicator(_Continued.at(model, value, start))[0]

    try:
        if not sign(low[0]) < 0 < sign(high[0]):
            return None
        width = PRECISION * max(1.0, abs(high[0]))
        value = float(brentq(sign, low[0], high[0], xtol=width, rtol=1e-13))
        place = indicator(_Continued.at(model, value, start))[1]
    except _LostError:
        return None
    return Fork(low=value - width, high=value + width, before=count, after=count + 1, kind=kind, place=place)


class _LostError(Exception):
    """The atoms could not be continued to a value of the setting."""


@dataclass(frozen=True, eq=False)
class _Continued:
    """The atoms of a prior at their optimum for another value of the setting."""

    objective: Objective
    point: Point
    unit: Array  # one standard deviation, (1,)

    @classmethod
    def at(cls, model: Model, value: float, start: Solution) -> _Continued:
        """Move the prior of `start` to a value, with its coordinates scaled to the bounds."""
        made = model(value)
        objective = made.objective if isinstance(made, Solution) else Objective((made,))
        channel = objective.channel
        (a, b), (c, d) = start.channel.bounds[0], channel.bounds[0]
        u = c + (start.coordinates - a) * (d - c) / (b - a)
        unit = (channel.bounds[:, 1] - channel.bounds[:, 0]) / np.maximum(channel.axes.lengths, 1.0)
        problem = Problem(objective.table, channel.bounds, 0.5 * unit)
        point = equalize(problem, ascend(problem, evaluate(problem.make_table, u, start.weights)))
        if len(point.u) != len(u) or problem.residual(point) > RESIDUAL:
            raise _LostError
        return cls(objective, point, unit)


Indicator = Callable[[_Continued], tuple[float, float]]


def _highest_between(state: _Continued) -> tuple[float, float]:
    """Return the largest peak of the gain away from the atoms, minus J, and its place."""
    objective, point = state.objective, state.point
    grid = fisher_grid(objective.channel, SPACING, least=LEAST_POINTS)
    logs = point.table.own_logs(point.weights)
    values = objective.gain(grid.points, logs)
    top = grid.points[peaks(values, grid.shape)]
    far = np.abs(top - point.u[:, 0]).min(axis=1) > NEAR * state.unit[0]
    if not np.any(far):
        return -1.0, 0.0
    places, height = climb(objective, top[far], logs, SPACING * state.unit)
    best = int(np.argmax(height))
    return float(height[best]) - point.information, float(objective.channel.parameter(places[best : best + 1])[0, 0])


def _flattest(state: _Continued) -> tuple[float, float]:
    """Return the largest second derivative of the gain at an inner atom, in standard deviations, and its place."""
    free = state.point.free(state.objective.channel.bounds)[:, 0]
    curvature = np.where(free, state.point.hessians[:, 0, 0] * state.unit[0] ** 2, -np.inf)
    best = int(np.argmax(curvature))
    place = float(state.objective.channel.parameter(state.point.u[best : best + 1])[0, 0])
    return float(curvature[best]), place
