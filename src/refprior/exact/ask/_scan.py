"""How the atoms change with a setting of the experiment: the classic picture, with its forks.

As the amplitude of the noise channel or the number of tosses grows, atoms appear, and atoms split in two. Both show in
the prior of as few atoms as before, continued past the fork. With K atoms held at their optimum, one *appears* where
the gain between them first reaches J, and one *splits* where the gain's curvature at it first reaches zero. Each is
the root of a smooth function of the setting; the smaller of the two is the fork.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import brentq

from refprior._checks import number
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
NEAR = 0.25  # standard deviations from an atom within which a peak of the gain is that atom's own
SPACING = 0.05  # standard deviations between the points on which peaks are looked for
PRECISION = 1e-9  # of the setting, relative, to which a fork is found
RESIDUAL = 1e-9  # nats: a continued prior that is further from its conditions is not used


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Where the number of atoms changes.

    >>> from refprior.exact import Gaussian, scan
    >>> [str(fork) for fork in scan(Gaussian, [1.5, 2.0]).forks]
    ['1.665926: an atom appears at 0.0000, 2 to 3 atoms']
    """

    low: float  # the fork lies between low
    high: float  # and high
    before: int  # atoms
    after: int
    kind: Literal["appears", "splits", "unknown"]
    place: float | None  # the parameter at which it happens

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
class Scan:
    """Priors along a setting, and the forks between them.

    >>> from refprior.exact import Coin, scan
    >>> found = scan(Coin, [1, 2, 3, 4, 5])
    >>> found.counts
    (2, 3, 3, 3, 4)
    >>> [(fork.low, fork.high) for fork in found.forks]
    [(1, 2), (4, 5)]
    """

    setting: str  # its name
    values: tuple[float, ...]
    priors: tuple[Solution, ...]
    forks: tuple[Fork, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of atoms at each value."""
        return tuple(len(prior.weights) for prior in self.priors)

    @property
    def evidence(self) -> Evidence:
        """The weakest of all priors."""
        return weakest(*(prior.evidence for prior in self.priors))

    def __str__(self) -> str:
        gap = max(prior.gap for prior in self.priors)
        lines = [f"{self.evidence}: {len(self.values)} priors, {len(self.forks)} forks, gaps of at most {gap:.1e}"]
        return "\n".join([*lines, *map(str, self.forks)])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON.

        >>> from refprior.exact import Coin, scan
        >>> list(scan(Coin, [1, 2]).to_dict())
        ['evidence', 'setting', 'values', 'priors', 'forks']
        """
        forks = [{"value": f.value, **{k: getattr(f, k) for k in Fork.__dataclass_fields__}} for f in self.forks]
        priors = [prior.to_dict() for prior in self.priors]
        values = list(self.values)
        return {"evidence": self.evidence, "setting": self.setting, "values": values, "priors": priors, "forks": forks}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Atoms against the setting, areas as weights, and dotted lines at the forks.

        >>> from refprior.exact import Coin, scan
        >>> scan(Coin, [1, 2, 3], setting="n").plot().get_xlabel()
        'n'
        """
        return plot_scan(self, ax)


def scan(model: Model, values: Sequence[float], *, setting: str = "setting", tolerance: float | None = None) -> Scan:
    """Priors at increasing values of a setting, and where their number of atoms changes, for one parameter.

    `model` maps a value to a channel, such as `Gaussian` or `Coin`, or to a prior, such as
    `lambda n: two_stage_prior(Coin, m=1, n=n)`. Between whole numbers forks are not looked for more closely. The
    tolerance is 1e-9. Models whose outcomes are sampled are refused: their atoms cannot be counted.

    >>> from refprior.exact import Poisson, scan
    >>> print(scan(Poisson, [3.0, 4.0]).forks[0])
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
    return Scan(setting=setting, values=tuple(values), priors=tuple(priors), forks=tuple(forks))


End = tuple[float, Solution]


def _solved(model: Model, value: float, tolerance: float | None) -> Solution:
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the scan says what is unfinished
        made = model(value)
        channel = made.channel if isinstance(made, Solution) else check_channel(made)
        if not channel.listed:
            raise ValueError("the outcomes of this model are sampled, which does not tell how many atoms there are")
        prior = made if isinstance(made, Solution) else prior_to_compare(channel, tolerance)
    if prior.channel.dimension != 1 or not prior.channel.continuous:
        raise ValueError("scans are for models of one continuous parameter")
    return prior


def _forks(model: Model, low: End, high: End, tolerance: float | None) -> list[Fork]:
    """All forks between two values: intervals are halved until each holds a change by one, then that is located."""
    before, after = len(low[1].weights), len(high[1].weights)
    if before == after:
        return []
    unknown = Fork(low=low[0], high=high[0], before=before, after=after, kind="unknown", place=None)
    if isinstance(low[0], int) and isinstance(high[0], int):
        return [unknown]
    if after == before + 1:
        return [_located(model, low, high) or unknown]
    if high[0] - low[0] < 1e-4 * abs(high[0]):
        return [unknown]
    middle = (low[0] + high[0]) / 2
    between = middle, _solved(model, middle, tolerance)
    return [*_forks(model, low, between, tolerance), *_forks(model, between, high, tolerance)]


def _located(model: Model, low: End, high: End) -> Fork | None:
    """The fork between K and K + 1 atoms: K atoms continued until an indicator changes its sign."""
    found = [_root(model, low, high, "appears", _highest_between), _root(model, low, high, "splits", _flattest)]
    return min((fork for fork in found if fork is not None), key=lambda fork: fork.low, default=None)


def _root(model: Model, low: End, high: End, kind: Literal["appears", "splits"], indicator: Indicator) -> Fork | None:
    """Where an indicator becomes positive; None if it does not, or the atoms cannot be continued."""
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
    """The atoms could not be continued to a value."""


@dataclass(frozen=True, eq=False)
class _Continued:
    """As many atoms as before, at their optimum for another value."""

    objective: Objective
    point: Point
    unit: Array  # one standard deviation, (1,)

    @classmethod
    def at(cls, model: Model, value: float, start: Solution) -> _Continued:
        """Move the prior of `start` to a value, its coordinates scaled with the box."""
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
    """Largest peak of the gain away from the atoms, minus J, and where it is."""
    objective, point = state.objective, state.point
    grid = fisher_grid(objective.channel, SPACING, least=201)
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
    """Largest second derivative of the gain at an atom that can move, in standard deviations, and which it is."""
    free = state.point.free(state.objective.channel.bounds)[:, 0]
    curvature = np.where(free, state.point.hessians[:, 0, 0] * state.unit[0] ** 2, -np.inf)
    best = int(np.argmax(curvature))
    place = float(state.objective.channel.parameter(state.point.u[best : best + 1])[0, 0])
    return float(curvature[best]), place
