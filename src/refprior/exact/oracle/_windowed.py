"""Tables of long experiments: rows are windows, and only neighboring atoms share outcomes.

The variables of a banded system are a weight and a coordinate per atom, atoms in the order of their coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded

from refprior.exact._arrays import Array, Index
from refprior.exact.channels import SMALLEST_LOG, WindowMatrix, whole_windows
from refprior.exact.oracle._objective import Likelihoods, Objective

CHUNK = 128  # outcomes whose part of the system is computed at once


def window_table(objective: Objective, u: Array) -> Likelihoods:
    """Return the table of an objective of one parameter whose rows are windows: sorted (K, 1) -> Likelihoods."""
    table = Likelihoods.empty(objective.signs, *u.shape)
    for sign, channel in zip(objective.signs, objective.channels, strict=True):
        size, windows = channel.outcome_count, channel.windows
        assert windows is not None
        start = np.zeros(len(u), dtype=np.intp)
        columns = whole_windows(windows.ends(u) if windows.long else (start, start + size - 1), size)
        log_p, (first, second) = windows.log_likelihood(u, columns), windows.score(u, columns)
        p, finite = np.exp(log_p), np.maximum(log_p, SMALLEST_LOG)
        first_of_p, second_of_p = p * first, p * (second + first * first)
        table.p.append(WindowMatrix(columns, p, size))
        table.first.append([WindowMatrix(columns, first_of_p, size)])
        second_rows = WindowMatrix(columns, second_of_p, size)
        table.second.append(lambda values, rows=second_rows: (rows @ values)[:, None, None])  # type: ignore[misc]
        table.value += sign * np.einsum("kw,kw->k", p, finite)
        table.gradient[:, 0] += sign * np.einsum("kw,kw->k", first_of_p, finite)
        hessian = np.einsum("kw,kw->k", second_of_p, finite) + np.einsum("kw,kw->k", first_of_p, first)
        table.hessian[:, 0, 0] += sign * hessian
    return table


@dataclass(frozen=True)
class Band:
    """A symmetric matrix (V, V) with few diagonals: entry (i, i + d) is `upper[i, d]`."""

    upper: Array  # (V, D)

    def dense(self) -> Array:
        """Return an ordinary matrix."""
        count, width = self.upper.shape
        matrix = np.zeros((count, count + width))
        rows = np.arange(count)[:, None]
        matrix[rows, rows + np.arange(width)] = self.upper
        matrix = matrix[:, :count]
        return np.asarray(matrix + np.triu(matrix, 1).T)

    def with_blocks(self, diagonal: Array, cross: Array) -> Band:
        """Add a block per atom: the diagonal entry of its coordinate (K,), and the one beside its weight (K,)."""
        upper = self.upper.copy()
        upper[1::2, 0] += diagonal
        upper[0::2, 1] += cross
        return Band(upper)

    def solve(self, right: Array, kept: Index, damping: float) -> Array:
        """Solve over the kept variables, the others being at rest, by Cholesky at unit diagonal: (V', R)."""
        count, width = self.upper.shape
        free = np.zeros(count + width, dtype=bool)
        free[kept] = True
        both = free[:count, None] & free[np.arange(count)[:, None] + np.arange(width)]
        upper = np.where(both, self.upper, 0.0)
        upper[~free[:count], 0] = 1.0
        if not np.all(upper[:, 0] > 0):
            raise LinAlgError("not positive definite")
        scale = np.zeros(count + width)
        scale[:count] = 1 / np.sqrt(upper[:, 0])
        upper *= scale[:count, None] * scale[np.arange(count)[:, None] + np.arange(width)]
        upper[:, 0] += damping
        factor = cholesky_banded(upper.T, lower=True, check_finite=False)
        full = np.zeros((count, right.shape[1]))
        full[kept] = right
        solved = cho_solve_banded((factor, True), full * scale[:count, None], check_finite=False)
        return np.asarray(solved * scale[:count, None])[kept]


def windowed_information(table: Likelihoods, weights: Array) -> Band:
    """Return Σ_c b_c A_c diag(1/p_c) A_cᵀ, A_c the rows (p; p') atom by atom, in chunks of outcomes: (2K, 2K)."""
    width = 2 * max(_neighbors(p.columns) for p in table.p)
    upper = np.zeros((2 * len(weights), width))
    flat = upper.ravel()
    for sign, p, first, mixture in zip(table.signs, table.p, table.first, table.mixtures(weights), strict=True):
        inverse = 1 / np.sqrt(np.maximum(mixture, 1e-300))
        low, high = p.columns[:, 0], p.columns[:, -1]
        for start in range(0, p.size, CHUNK):
            stop = min(start + CHUNK, p.size)
            rows = slice(int(np.searchsorted(high, start)), int(np.searchsorted(low, stop)))
            if rows.start == rows.stop:
                continue
            both = np.stack([p.block(rows, start, stop), first[0].block(rows, start, stop)], axis=1)
            both = both.reshape(-1, stop - start) * inverse[start:stop]
            i, j = np.triu_indices(len(both))
            near = j - i < width
            i, j = i[near], j[near]
            flat[(2 * rows.start + i) * width + j - i] += sign * (both @ both.T)[i, j]
    return Band(upper)


def _neighbors(columns: Index) -> int:
    """Return the largest number of atoms, each counted from itself on, whose windows overlap: (K, W) -> count."""
    low, high = columns[:, 0], columns[:, -1]
    return int((np.searchsorted(low, high, "right") - np.arange(len(low))).max())
