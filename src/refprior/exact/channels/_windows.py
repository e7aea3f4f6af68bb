"""Sums over the outcomes of long experiments: w shows only outcomes near its mean, a window of all of them.

For coins and Poisson counts p(z | w) ≤ exp(−y²/4) at a distance of y standard deviations on the Fisher line, and
nearly exp(−y²/2) away from the ends of the range and for Gaussian noise: windows of 13 and of 9.2 leave out less than
1e-17 of the mass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from refprior.exact._arrays import Array, Index
from refprior.exact._cost import LOG

if TYPE_CHECKING:
    from refprior.exact.channels._channel import Channel

LONG_FROM = 90.0  # standard deviations from end to end: of a long experiment, whose rows are windows
WIDE, NARROW, NARROW_FROM = 13.0, 9.2, 4000.0  # standard deviations; narrow from this variance on


def reach(variance: Array) -> Array:
    """Return standard deviations within which all outcomes of a count with this variance lie: (K,) -> (K,)."""
    return np.where(variance > NARROW_FROM, NARROW, WIDE)


def columns_between(outcomes: Array, low: Array, high: Array) -> tuple[Index, Index]:
    """Return the first and the last of the sorted outcomes between real numbers: (Z,), (K,), (K,) -> (K,), (K,)."""
    first = np.searchsorted(outcomes, low, "left")
    last = np.searchsorted(outcomes, high, "right") - 1
    first = np.minimum(first, len(outcomes) - 1)
    return first, np.maximum(first, last)


def whole_windows(ends: tuple[Index, Index], size: int) -> Index:
    """Return columns of windows that are all as wide as the widest: (K,), (K,) -> (K, W)."""
    width = int((ends[1] - ends[0]).max()) + 1
    return np.asarray(np.minimum(ends[0], size - width)[:, None] + np.arange(width))


@dataclass(frozen=True)
class Windows:
    """The outcomes that a parameter can show in a long experiment of one parameter; all others are impossible.

    `ends` returns the first and the last outcome of each window: (K, 1) -> (K,), (K,). `log_likelihood` returns
    log p(z | w) at some outcomes of each w: (K, 1), (K, W) -> (K, W). `score` returns the first and second derivatives
    of log p in u there. `shortened` returns a shorter experiment, of about a share of the Fisher length, that looks
    the same near both ends. Windows are used if the experiment is `long`.
    """

    long: bool
    ends: Callable[[Array], tuple[Index, Index]]
    log_likelihood: Callable[[Array, Index], Array]
    score: Callable[[Array, Index], tuple[Array, Array]]
    shortened: Callable[[float], Channel]


def slices(channel: Channel, windows: Windows, u: Array) -> Iterator[tuple[slice, Index, Array]]:
    """Yield slices of the points with the columns of their windows and log p(z | w) there, each (k, width)."""
    ends = windows.ends(u)
    widths, start = ends[1] - ends[0] + 1, 0
    while start < len(u):
        stop, width = start + 1, int(widths[start])
        # a larger table of windows leaves the processor's cache
        while stop < len(u) and max(width, int(widths[stop])) * (stop - start + 1) <= 500_000:
            width, stop = max(width, int(widths[stop])), stop + 1
        if start:
            LOG.info("%d of %d points", start, len(u))
        part = slice(start, stop)
        columns = whole_windows((ends[0][part], ends[1][part]), channel.outcome_count)
        yield part, columns, windows.log_likelihood(u[part], columns)
        start = stop


def windowed_log_marginal(channel: Channel, windows: Windows, u: Array, weights: Array) -> Array:
    """Return log Σ_k π_k p(z | w_k) over all outcomes: (K, 1), (K,) -> (Z,)."""
    mixture = np.zeros(channel.outcome_count)
    for part, columns, log_p in slices(channel, windows, u):
        mixture += np.bincount(columns.ravel(), (weights[part, None] * np.exp(log_p)).ravel(), len(mixture))
    with np.errstate(divide="ignore"):
        return np.log(mixture)


def windowed_divergence(channel: Channel, windows: Windows, u: Array, log_marginal: Array) -> Array:
    """Return KL(p(z | w), p(z)): (K, 1), (Z,) -> (K,)."""
    divergence = np.empty(len(u))
    for part, columns, log_p in slices(channel, windows, u):
        p = np.exp(log_p)
        with np.errstate(invalid="ignore"):
            terms = p * (log_p - log_marginal[columns])
        divergence[part] = np.sum(np.where(p > 0, terms, 0.0), axis=1)
    return divergence


@dataclass(frozen=True)
class WindowMatrix:
    """A matrix (K, Z) of which only windows are not zero: their columns and values, (K, W) each."""

    columns: Index
    values: Array
    size: int

    __array_ufunc__: ClassVar[None] = None  # numpy leaves products to the methods below

    def __matmul__(self, other: Array) -> Array:
        """Return the product with a vector over the outcomes: (Z,) -> (K,)."""
        return np.asarray(np.einsum("kw,kw->k", self.values, other[self.columns]))

    def __rmatmul__(self, other: Array) -> Array:
        """Return the product of a vector over the points with this matrix: (K,) -> (Z,)."""
        return np.bincount(self.columns.ravel(), (other[:, None] * self.values).ravel(), self.size).astype(float)

    def block(self, rows: slice, start: int, stop: int) -> Array:
        """Return some neighboring rows and columns as an ordinary matrix: (rows, stop − start)."""
        columns = self.columns[rows]
        place = np.arange(start, stop) - columns[:, :1]
        inside = (place >= 0) & (place < columns.shape[1])
        taken = np.take_along_axis(self.values[rows], np.clip(place, 0, columns.shape[1] - 1), axis=1)
        return np.where(inside, taken, 0.0)
