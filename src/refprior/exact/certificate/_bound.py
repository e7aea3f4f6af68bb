"""A bound of the gain that cannot miss anything: branch and bound for Gaussian noise.

Let z = m + noise of unit variance, with m the mean in standard deviations. As a function of m, the Hessian of the gain
G(m) = KL(p(z | m), p(z)) is 1 − E[Cov(m | z)], at most the identity, whatever the prior. On a cell of parameters with
center c and half widths h, let m = m_c + S δ + r with |δ| ≤ h and |r| ≤ R. Then

    G ≤ G(m_c) + Σ_i |Sᵀ∇G|_i h_i + Σ_t |∇G|_t R_t + ½ Σ_t (Σ_i |S_ti| h_i + R_t)².

Cells on which this exceeds the level are halved. Around a maximum their number grows with the log of the precision.
Doubles are used: the bound is proved up to rounding, which the certificate's error covers.

Shapes: N cells, d parameters, T means.
"""

from __future__ import annotations

import math

import numpy as np

from refprior.exact._arrays import Array, grid_of
from refprior.exact._cost import LOG, PRODUCTS, SLICE_ENTRIES
from refprior.exact.channels import Channel

MOST_CELLS = 400_000  # that may be evaluated
MOST_ENTRIES = {1: 4e8, 2: 4e8, 3: 2e9}  # probabilities that all of them may take, by the number of parameters


def stays_below(channel: Channel, log_marginal: Array, level: float) -> bool:
    """Return whether the gain is proved to be at most `level` on the whole box within the allowed work."""
    counts = [max(1, math.ceil(length / 2)) for length in channel.axes.lengths]  # cells of two standard deviations
    edges = [np.linspace(b[0], b[1], count + 1) for b, count in zip(channel.bounds, counts, strict=True)]
    low = grid_of([edge[:-1] for edge in edges])
    high = grid_of([edge[1:] for edge in edges])
    entries = channel.outcome_count / (1 if channel.outcome_axes == 1 else PRODUCTS)
    work, most = 0, min(MOST_CELLS, int(MOST_ENTRIES[low.shape[1]] / entries))
    while len(low):
        work += len(low)
        if work > most:
            return False
        LOG.info("branch and bound: %d open cells", len(low))
        size = max(64, SLICE_ENTRIES // channel.outcome_count)
        kept: list[tuple[Array, Array]] = []
        for i in range(0, len(low), size):
            first, last = low[i : i + size], high[i : i + size]
            values, bound, longest = _bounds(channel, log_marginal, first, last)
            if np.any(values > level):
                return False
            open_ = bound > level
            first, last, axis = first[open_], last[open_], longest[open_]
            rows, middle = np.arange(len(first)), (first + last) / 2
            left, right = last.copy(), first.copy()
            left[rows, axis] = right[rows, axis] = middle[rows, axis]
            kept.append((np.concatenate([first, right]), np.concatenate([left, last])))
        low, high = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return True


def _bounds(channel: Channel, log_marginal: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return G at the centers of cells, its bound on the cells, and the axis to halve: (N,) each."""
    assert channel.noise is not None
    cells = channel.noise.cells(low, high)
    gain, gradient = channel.noise.gain(cells.mean, log_marginal)
    half = cells.half
    linear = np.abs(np.einsum("ntd,nt->nd", cells.slope, gradient)) * half
    reach = np.einsum("ntd,nd->nt", np.abs(cells.slope), half) + cells.remainder
    bent = np.sum(np.abs(gradient) * cells.remainder, axis=1) + 0.5 * np.sum(reach**2, axis=1)
    longest = np.argmax(np.sum(cells.slope**2, axis=1) * half**2, axis=1)
    return gain, gain + linear.sum(axis=1) + bent, longest
