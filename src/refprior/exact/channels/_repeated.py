"""n independent samples of a channel with C outcomes: what counts is how often each outcome occurred, its type.

There are C(n + C − 1, C − 1) types; the probability of one is multinomial. Coordinates, bounds and grids are those of
the single sample, with √n times the Fisher length, so that channels of different n share their parameter.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from refprior._checks import whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels._categorical import Categorical
from refprior.exact.channels._channel import Channel
from refprior.exact.channels._rows import Rows
from refprior.exact.channels._traits import Symmetry
from refprior.exact.geometry import ScaledAxes


@dataclass(frozen=True, eq=False)
class Repeated(Channel):
    """n samples of `one`, as counts of its outcomes; `Channel.repeat` makes it."""

    one: Channel
    n: int
    bounds: Array = field(init=False, repr=False)
    outcomes: Array = field(init=False, repr=False)  # (Z, C) counts
    coefficient: Array = field(init=False, repr=False)  # (Z,) log multinomial coefficients

    def __post_init__(self) -> None:
        counts = types(whole_number("the number of samples n", self.n, at_least=1), self.one.outcome_count)
        coefficient = gammaln(self.n + 1.0) - gammaln(counts + 1).sum(axis=1)
        self._derive(bounds=self.one.bounds, outcomes=counts, coefficient=coefficient)

    def log_likelihood(self, u: Array) -> Array:
        log_p = self.one.log_likelihood(u)
        impossible = np.isneginf(log_p)
        log = np.where(impossible, 0.0, log_p) @ self.outcomes.T + self.coefficient
        excluded = impossible.astype(float) @ self.outcomes.T > 0
        return np.where(excluded, -np.inf, log)

    def rows(self, u: Array) -> Rows:
        log_p, first, summed, _ = self.one.rows(u)
        # not zero, so that derivatives stay finite; a type that contains such an outcome has no probability
        p = np.maximum(np.exp(log_p), 1e-150)
        second = np.stack([summed(column) for column in np.eye(p.shape[1])], axis=-1)  # (K, d, d, C)
        score = first / p[:, None]
        bend = second / p[:, None, None] - score[:, :, None] * score[:, None]
        scores, bends = score @ self.outcomes.T, bend @ self.outcomes.T
        likelihood = np.exp(np.log(p) @ self.outcomes.T + self.coefficient)
        first_of_p = likelihood[:, None] * scores
        second_of_p = likelihood[:, None, None] * (bends + scores[:, :, None] * scores[:, None])
        return Rows.from_derivatives(self.log_likelihood(u), first_of_p, second_of_p)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        seen = as_numbers("an outcome", z)
        if (
            seen.shape != self.outcomes.shape[1:]
            or seen.sum() != self.n
            or np.any((seen < 0) | (seen != np.round(seen)))
        ):
            raise ValueError(
                f"{z!r} is not an outcome: they are counts of {self.one.outcome_count} that sum to {self.n}"
            )
        return np.asarray(self.log_likelihood(u)[:, np.all(self.outcomes == seen, axis=1)][:, 0])

    def parameter(self, u: Array) -> Array:
        return self.one.parameter(u)

    def coordinate(self, w: Array) -> Array:
        return self.one.coordinate(w)

    def jacobian(self, u: Array) -> Array:
        return self.one.jacobian(u)

    @property
    def axes(self) -> ScaledAxes:
        return ScaledAxes(self.one.axes, math.sqrt(self.n))

    @property
    def mirror(self) -> bool | None:  # type: ignore[override]
        return self.one.mirror

    @property
    def symmetry(self) -> Symmetry | None:  # type: ignore[override]
        return self.one.symmetry

    @property
    def slope_error(self) -> float:  # type: ignore[override]
        return self.one.slope_error * math.sqrt(self.n)

    def repeat(self, n: int) -> Channel:
        return Repeated(self.one, self.n * whole_number("the number of samples n", n, at_least=1))


def types(n: int, outcomes: int) -> Array:
    """Return all counts of n samples over C outcomes: (Z, C)."""
    count = math.comb(n + outcomes - 1, outcomes - 1)
    what = f"{n} samples of {outcomes} outcomes, {count:,} different counts,"
    check_memory(200.0 * count * (outcomes + 20), what, "take fewer samples, or merge outcomes")
    bars = itertools.combinations(range(n + outcomes - 1), outcomes - 1)
    places = np.array(list(bars), dtype=float).reshape(count, outcomes - 1)
    ends = np.column_stack([np.full(count, -1.0), places, np.full(count, n + outcomes - 1.0)])
    return np.asarray(np.diff(ends, axis=1) - 1)


def repeated_table(table: Categorical, n: int) -> Categorical:
    """Return the table of n samples, its columns the types."""
    counts = types(n, table.outcome_count)
    coefficient = gammaln(n + 1.0) - gammaln(counts + 1).sum(axis=1)
    impossible = np.isneginf(table.log_p)
    log = np.where(impossible, 0.0, table.log_p) @ counts.T + coefficient
    p = np.where(impossible.astype(float) @ counts.T > 0, 0.0, np.exp(log))
    return Categorical(p / p.sum(axis=1, keepdims=True))
