"""Sums over the outcomes of long experiments: a coin of many tosses shows only outcomes near its mean.

p(z | w) ≤ exp(−y²/4) at a distance of y standard deviations in angle, and nearly exp(−y²/2) away from the
ends of the range: windows of 13 and of 9.2 leave out less than 1e-17 of the mass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact._binomial import log_binomial
from refprior.exact._cost import LOG

WINDOWS_FROM = 3000  # tosses from which windows are faster than whole rows
SLICE_ENTRIES = 2_000_000  # entries of one table of windows
WIDE, NARROW, NARROW_FROM = 13.0, 9.2, 4000.0  # standard deviations; narrow from this variance on


def window_ends(n: int, angle: Array) -> tuple[Array, Array]:
    """Real numbers between which lie all outcomes that a coin at this angle can show: (K,) -> (K,), (K,)."""
    variance = n * np.sin(angle) ** 2 / 4
    reach = np.where(variance > NARROW_FROM, NARROW, WIDE) / np.sqrt(n)
    low = n * np.sin(np.maximum(angle - reach, 0.0) / 2) ** 2
    return low, n * np.sin(np.minimum(angle + reach, np.pi) / 2) ** 2


def windows(n: int, constant: Array, angle: Array) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Slices of the points with their outcomes z, indices and log p(z | w), each (k, width)."""
    low, high = window_ends(n, angle)
    low, high = np.floor(low), np.minimum(np.ceil(high), float(n))
    start = 0
    while start < len(angle):
        stop = start + 1
        width = int(high[start] - low[start]) + 1
        while stop < len(angle):
            wider = max(width, int(high[stop] - low[stop]) + 1)
            if wider * (stop - start + 1) > SLICE_ENTRIES:
                break
            width, stop = wider, stop + 1
        if start:
            LOG.info("%d of %d points", start, len(angle))
        part = slice(start, stop)
        z = np.minimum(low[part, None], n + 1.0 - width) + np.arange(float(width))
        index = z.astype(np.int64)
        yield part, z, index, log_binomial(n, z, angle[part, None], constant[index])
        start = stop


def windowed_log_marginal(n: int, constant: Array, angle: Array, weights: Array) -> Array:
    """log Σ_k π_k p(z | w_k) over all n + 1 outcomes: (K,), (K,) -> (n + 1,)."""
    mixture = np.zeros(n + 1)
    for part, _, index, log_p in windows(n, constant, angle):
        mixture += np.bincount(index.ravel(), (weights[part, None] * np.exp(log_p)).ravel(), n + 1)
    with np.errstate(divide="ignore"):
        return np.log(mixture)


def windowed_divergence(n: int, constant: Array, angle: Array, log_marginal: Array) -> Array:
    """KL(p(z | w), p(z)): (K,), (n + 1,) -> (K,)."""
    divergence = np.empty(len(angle))
    for part, _, index, log_p in windows(n, constant, angle):
        p = np.exp(log_p)
        with np.errstate(invalid="ignore"):
            terms = p * (log_p - log_marginal[index])
        divergence[part] = np.sum(np.where(p > 0, terms, 0.0), axis=1)
    return divergence
