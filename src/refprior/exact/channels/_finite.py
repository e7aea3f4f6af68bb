"""Finite channels: tables of probabilities, and n samples of a channel as counts of its outcomes.

The counts of n samples of C outcomes are their type. There are C(n + C − 1, C − 1) types, with multinomial
probabilities. Coordinates, bounds and grids are those of the single sample, with √n times the Fisher length, so that
channels of different n share their parameter.
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
from refprior.exact.channels._channel import Channel, Rows, Symmetry, check_row_sums
from refprior.exact.geometry import ListedAxes, ScaledAxes


@dataclass(frozen=True, eq=False)
class Categorical(Channel):
    """A finite channel, given by a table of probabilities p(z | w); the parameter w is the row's number.

    Parameters
    ----------
    matrix : array_like of shape (inputs, outcomes)
        Probabilities. Every row sums to one.

    Examples
    --------
    >>> from refprior.exact import Categorical, reference_prior
    >>> erasure = Categorical([[0.8, 0.2, 0.0], [0.0, 0.2, 0.8]])
    >>> round(reference_prior(erasure).information, 6)  # 0.8 log 2
    0.554518
    """

    continuous = False

    matrix: ArrayLike
    log_p: Array = field(init=False, repr=False)
    bounds: Array = field(init=False, repr=False)
    outcomes: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        matrix = as_numbers("the table", self.matrix)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(f"need a table of shape (inputs, outcomes), got shape {matrix.shape}")
        if not np.all(np.isfinite(matrix)) or matrix.min() < 0:
            raise ValueError("the table holds NaN, infinite or negative probabilities: correct those entries")
        check_row_sums(matrix.sum(axis=1))
        with np.errstate(divide="ignore"):
            log_p = np.log(matrix / matrix.sum(axis=1, keepdims=True))
        inputs, outcomes = matrix.shape
        self._derive(log_p=log_p, bounds=np.array([[0.0, inputs - 1.0]]), outcomes=np.arange(float(outcomes)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categorical) and np.array_equal(self.log_p, other.log_p)

    def __hash__(self) -> int:
        return hash(self.log_p.tobytes())

    def log_likelihood(self, u: Array) -> Array:
        return np.asarray(self.log_p[np.round(u[:, 0]).astype(int)])

    def rows(self, u: Array) -> Rows:
        log_p = self.log_likelihood(u)
        zero = np.zeros_like(log_p)
        return Rows.from_derivatives(log_p, zero[:, None, :], zero[:, None, None, :])

    @property
    def axes(self) -> ListedAxes:
        return ListedAxes(np.arange(float(len(self.log_p))))

    def repeat(self, n: int) -> Channel:
        p = np.exp(Repeated(self, n).log_likelihood(self.axes.places[:, None]))
        return Categorical(p / p.sum(axis=1, keepdims=True))


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
        return np.asarray(self.log_likelihood(u)[:, type_number(self.outcomes, self.n, z)])

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


def type_number(counts: Array, n: int, z: ArrayLike) -> int:
    """Return the number of a type given by a user among the types (Z, C) of n samples; raise ValueError if none."""
    seen = as_numbers("an outcome", z)
    same = np.flatnonzero(np.all(counts == seen, axis=1)) if seen.shape == counts.shape[1:] else np.empty(0)
    if not len(same):
        raise ValueError(f"{z!r} is not an outcome: they are {counts.shape[1]} counts that sum to {n}")
    return int(same[0])


def types(n: int, outcomes: int) -> Array:
    """Return all counts of n samples over C outcomes: (Z, C)."""
    count = math.comb(n + outcomes - 1, outcomes - 1)
    what = f"{n} samples of {outcomes} outcomes, {count:,} different counts,"
    check_memory(200.0 * count * (outcomes + 20), what, "take fewer samples, or merge outcomes")
    bars = itertools.combinations(range(n + outcomes - 1), outcomes - 1)
    places = np.array(list(bars), dtype=float).reshape(count, outcomes - 1)
    ends = np.column_stack([np.full(count, -1.0), places, np.full(count, n + outcomes - 1.0)])
    return np.asarray(np.diff(ends, axis=1) - 1)
