"""Signed sums of mutual informations, J(π) = Σ_c b_c I_π(w; z_c), and the gain G(w) whose average J is.

One stage: I(w; zⁿ), eq:ref_pin. Two stages: I(w; z^{m+n}) − β I(w; z^m), eq:ref_pinm_avg at β = 1.
Both are concave in π, for 0 ≤ β ≤ 1: I(w; z^{m+n}) − I(w; z^m) is the information of zⁿ given z^m.

In long experiments rows are windows, and only neighboring atoms share outcomes: Newton's system is banded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded

from refprior.exact._arrays import Array, Index, Mask
from refprior.exact._cost import LOG, SLICE_ENTRIES, in_slices
from refprior.exact.channels import SMALLEST_LOG, Channel, Gains, SampledMean, Windows, check_row_sums, is_long
from refprior.exact.sampling import sampled_gain


def log_mixture(log_p: Array, weights: Array) -> Array:
    """Return log Σ_k π_k p(z | w_k), safe where every p underflows: (K, Z), (K,) -> (Z,)."""
    mixture = weights @ np.exp(log_p)
    with np.errstate(divide="ignore"):
        log = np.log(mixture)
        tiny = mixture < 1e-250
        if np.any(tiny):
            joint = log_p[:, tiny] + np.log(weights)[:, None]
            top = joint.max(axis=0)
            shift = np.where(np.isfinite(top), top, 0.0)
            log[tiny] = np.log(np.exp(joint - shift).sum(axis=0)) + shift
    return np.asarray(log)


def log_marginal(channel: Channel, u: Array, weights: Array) -> Array:
    """Return log p(z) = log Σ_k π_k p(z | w_k): (K, d), (K,) -> (Z,)."""
    if channel.sums.log_marginal is not None:
        return channel.sums.log_marginal(u, weights)
    windows = channel.windows
    if windows is None or not windows.long:
        return log_mixture(channel.log_likelihood(u), weights)
    mixture = np.zeros(channel.outcome_count)
    for part, columns, log_p in slices(channel, windows, u):
        mixture += np.bincount(columns.ravel(), (weights[part, None] * np.exp(log_p)).ravel(), len(mixture))
    with np.errstate(divide="ignore"):
        return np.log(mixture)


def divergence(channel: Channel, u: Array, log_marginal: Array) -> Array:
    """Return KL(p(z | w), p(z)), infinite where w allows what the marginal excludes: (K, d), (Z,) -> (K,)."""
    if channel.sums.divergence is not None:
        return channel.sums.divergence(u, log_marginal)
    windows = channel.windows
    if windows is not None and windows.long:
        result = np.empty(len(u))
        for part, columns, log_p in slices(channel, windows, u):
            result[part] = _summed(np.exp(log_p), log_p, log_marginal[columns])
        return result
    log_p = channel.log_likelihood(u)
    p = np.exp(log_p)
    check_row_sums(p.sum(axis=1), lambda row: f"at w = {channel.parameter(u[row : row + 1])[0].tolist()} it")
    return _summed(p, log_p, log_marginal)


def _summed(p: Array, log_p: Array, log_q: Array) -> Array:
    """Return Σ_z p log(p/q), with 0 log 0 = 0: (K, Z), (K, Z), (K, Z) or (Z,) -> (K,)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(np.where(p > 0, p * (log_p - log_q), 0.0), axis=1))


def gains(channel: Channel, u: Array, log_marginal: Array) -> Gains:
    """Return KL(p(z | w), p(z)) with its derivatives in u, for a search: (K, d), finite (Z,) -> Gains."""
    if channel.sums.gains is not None:
        return channel.sums.gains(u, log_marginal)
    log_p, first, second, negentropy_hessian = channel.rows(u)
    ratio = np.maximum(log_p, SMALLEST_LOG) - log_marginal
    gradient = np.einsum("kiz,kz->ki", first, ratio)
    return Gains(np.sum(np.exp(log_p) * ratio, axis=1), gradient, negentropy_hessian - second(log_marginal))


@dataclass(frozen=True)
class Objective:
    """Channels of the same parameter, with the signs of their informations."""

    channels: tuple[Channel, ...]
    signs: tuple[float, ...] = (1.0,)

    @property
    def channel(self) -> Channel:
        """The channel that carries the parameter's box and coordinates."""
        return self.channels[0]

    @property
    def resolved(self) -> bool:
        """Whether a grid can be trusted to see all that the channels do."""
        return all(channel.axes.resolved for channel in self.channels)

    def with_fewer_outcomes(self) -> Objective:
        """Return the objective on fewer outcomes if the experiment is long; a search sees no difference."""
        return self.coarse() if is_long(self.channel) else self

    def coarse(self) -> Objective:
        """Return the objective on fewer outcomes; the same object if no channel has fewer."""
        fewer = tuple(channel.at_resolution("coarse") for channel in self.channels)
        if all(channel is None for channel in fewer):
            return self
        return Objective(tuple(c or d for c, d in zip(fewer, self.channels, strict=True)), self.signs)

    @property
    def mirror(self) -> bool | None:
        """Whether the model is declared to be its own mirror image; None if that is not known of all channels."""
        declared = {channel.mirror for channel in self.channels}
        return declared.pop() if len(declared) == 1 else False if False in declared else None

    def log_marginals(self, u: Array, weights: Array) -> list[Array]:
        """Return log p_c(z) = log Σ_k π_k p_c(z | w_k), one array per channel: (K, d), (K,) -> [(Z_c,)]."""
        return [log_marginal(channel, u, weights) for channel in self.channels]

    def gain(self, u: Array, log_marginals: list[Array]) -> Array:
        """Return G(w) = Σ_c b_c KL(p_c(z | w), p_c(z)), the gray line of the figures, in slices: (K, d) -> (K,)."""

        def gain(part: Array) -> Array:
            terms = zip(self.signs, self.channels, log_marginals, strict=True)
            return np.asarray(sum(sign * divergence(channel, part, log) for sign, channel, log in terms))

        return in_slices(gain, u, max(map(len, log_marginals)))

    def gain_under(self, u: Array, atoms: Array, weights: Array) -> Array:
        """Return G under a prior, from samples if outcomes are not listed: (M, d), (K, d), (K,) -> (M,)."""
        if isinstance(self.channel, SampledMean):
            return sampled_gain(self.channel, u, atoms, weights)
        return self.gain(u, self.log_marginals(atoms, weights))

    def gains(self, u: Array, log_marginals: list[Array]) -> Gains:
        """Return G with its gradient and Hessian, in slices: (K, d) -> Gains."""
        size = max(1, SLICE_ENTRIES // (max(map(len, log_marginals)) * (1 + u.shape[1])))
        parts = [self._gains(u[i : i + size], log_marginals) for i in range(0, len(u), size)]
        return Gains(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _gains(self, u: Array, log_marginals: list[Array]) -> Gains:
        total: list[Array | float] = [0.0, 0.0, 0.0]
        for sign, channel, log_marginal in zip(self.signs, self.channels, log_marginals, strict=True):
            total = [a + sign * b for a, b in zip(total, gains(channel, u, log_marginal), strict=True)]
        return Gains(*(np.asarray(part) for part in total))

    def table(self, u: Array) -> Likelihoods:
        """Return all that does not depend on the weights, at the points u: (K, d) -> Likelihoods."""
        return Likelihoods.build(self, u)


@dataclass(kw_only=True)
class Likelihoods:
    """p and its derivatives at K points, with the sums that need no prior.

    Matrices are (K, Z_c), arrays or `Windows`: `p[c]`, `first[c][i]`; `second[c]` sums second derivatives over z.
    """

    signs: tuple[float, ...]
    p: list[Any]
    first: list[list[Any]]
    second: list[Callable[[Array], Array]]
    value: Array  # (K,) Σ_c b_c Σ_z p log p
    gradient: Array  # (K, d) its first derivative
    hessian: Array  # (K, d, d) its second derivative

    @classmethod
    def empty(cls, signs: tuple[float, ...], count: int, dimension: int) -> Likelihoods:
        """Return a table without channels."""
        gradient, hessian = np.zeros((count, dimension)), np.zeros((count, dimension, dimension))
        return cls(signs=signs, p=[], first=[], second=[], value=np.zeros(count), gradient=gradient, hessian=hessian)

    @classmethod
    def build(cls, objective: Objective, u: Array) -> Likelihoods:
        """Return the likelihoods of points that may move: (K, d) -> Likelihoods."""
        table = cls.empty(objective.signs, *u.shape)
        for sign, channel in zip(objective.signs, objective.channels, strict=True):
            log_p, first, second, hessian = channel.rows(u)
            table._append_values(sign, log_p)
            table.gradient += sign * np.einsum("kiz,kz->ki", first, np.maximum(log_p, SMALLEST_LOG))
            table.hessian += sign * hessian
            table.first.append([first[:, i] for i in range(u.shape[1])])
            table.second.append(second)
        return table

    @classmethod
    def of_values(cls, objective: Objective, u: Array) -> Likelihoods:
        """Return a table without derivatives: enough for the weights of points that do not move."""
        table = cls.empty(objective.signs, len(u), 0)
        for sign, channel in zip(objective.signs, objective.channels, strict=True):
            table._append_values(sign, channel.log_likelihood(u))
        return table

    def mixed(self, values: Array, derivatives: Array) -> Likelihoods:
        """Return the table of points whose likelihoods are mixtures of these, and their derivatives: (M, K), (M, K)."""
        return Likelihoods(
            signs=self.signs,
            p=[values @ p for p in self.p],
            first=[[derivatives @ axis for axis in first] for first in self.first],
            second=[partial(_mixed_second, derivatives, second) for second in self.second],
            value=values @ self.value,
            gradient=derivatives @ self.gradient,
            hessian=np.tensordot(derivatives, self.hessian, 1),
        )

    def _append_values(self, sign: float, log_p: Array) -> None:
        self.p.append(np.exp(log_p))
        self.value += sign * np.einsum("kz,kz->k", self.p[-1], np.maximum(log_p, SMALLEST_LOG))

    def mixtures(self, weights: Array) -> list[Array]:
        """Return p_c(z) = Σ_k π_k p_c(z | w_k): (K,) -> [(Z_c,)]."""
        return [p.T @ weights if isinstance(p, np.ndarray) else weights @ p for p in self.p]

    def curvature(self, weights: Array) -> Array:
        """Return −∂²J/∂π² = Σ_c b_c P_c diag(1/p_c) P_cᵀ: (K,) -> (K, K)."""
        total = np.zeros((len(weights), len(weights)))
        for sign, p, mixture in zip(self.signs, self.p, self.mixtures(weights), strict=True):
            size = max(1, SLICE_ENTRIES // len(weights))
            for i in range(0, len(mixture), size):
                part = p[:, i : i + size]
                total += (part * (sign / np.maximum(mixture[i : i + size], 1e-300))) @ part.T
        return total

    def gains(self, logs: list[Array]) -> Array:
        """Return G at the points, given log p_c(z): -> (K,)."""
        gains = self.value.copy()
        for sign, p, log in zip(self.signs, self.p, logs, strict=True):
            gains -= sign * (p @ log)
        return gains

    def gradients(self, logs: list[Array]) -> Array:
        """Return G' at the points: -> (K, d)."""
        gradient = self.gradient.copy()
        for sign, first, log in zip(self.signs, self.first, logs, strict=True):
            gradient -= sign * np.stack([f @ log for f in first], axis=1)
        return gradient

    def hessians(self, logs: list[Array]) -> Array:
        """Return G'' at the points: -> (K, d, d)."""
        hessian = self.hessian.copy()
        for sign, second, log in zip(self.signs, self.second, logs, strict=True):
            hessian -= sign * second(log)
        return hessian

    def own_logs(self, weights: Array) -> list[Array]:
        """Return log p_c(z) of the mixture of these points, finite everywhere: (K,) -> [(Z_c,)]."""
        return [safe_log(mixture) for mixture in self.mixtures(weights)]


def _mixed_second(matrix: Array, second: Callable[[Array], Array], values: Array) -> Array:
    return np.tensordot(matrix, second(values), 1)


def safe_log(mixture: Array) -> Array:
    """Return a log that stays finite where an outcome has no probability: there only zeros multiply it."""
    return np.log(np.maximum(mixture, 1e-320))


def is_share(value: object) -> bool:
    """Return whether a value is a number from 0 to 1."""
    return isinstance(value, int | float | np.number) and bool(0 <= value <= 1)


def two_stage_signs(beta: float) -> tuple[float, float]:
    """Return the signs of I(w; z^{m+n}) and I(w; z^m); raise ValueError if the sum is not concave."""
    if not is_share(beta):
        raise ValueError(
            f"beta = {beta!r}: I(w; z^(m+n)) - beta I(w; z^m) is concave for 0 <= beta <= 1 only; "
            "outside, no gap would bound the distance from the optimum"
        )
    return 1.0, -float(beta)


def require_concave(objective: Objective, u: Array, weights: Array | None = None) -> None:
    """Raise ValueError if a signed sum is not concave at some prior over the points u: a spot check, no proof.

    Without weights it tries the uniform prior and random ones. The channels of one experiment, where z^m is a part of
    z^{m+n}, always pass.
    """
    table = Likelihoods.of_values(objective, u)
    uniform = np.full(len(u), 1 / len(u))
    drawn = np.random.default_rng(0).dirichlet(np.full(len(u), 0.5), 32)
    for trial in np.vstack([uniform, drawn]) if weights is None else weights[None, :]:
        trial = 0.999 * trial + 1e-3 * uniform  # so that no outcome is excluded
        eigenvalues = np.linalg.eigvalsh(table.curvature(trial))
        smallest = float(eigenvalues[0] / max(1.0, eigenvalues[-1]))
        if smallest < -1e-8:  # more than rounding
            raise ValueError(
                f"the two-stage objective is not concave for these channels (relative curvature {smallest:.2g} at "
                "some prior), so no gap would bound anything: the first stage must be a part of what the second sees"
            )


class Point(NamedTuple):
    """Atoms (K, d), weights (K,), and the gain with its derivatives there."""

    u: Array
    weights: Array
    table: Likelihoods
    gains: Array  # (K,)
    gradients: Array  # (K, d)
    hessians: Array  # (K, d, d)

    @property
    def information(self) -> float:
        """J, the mean of the gains."""
        return float(self.weights @ self.gains)

    def residual(self, bounds: Array, unit: Array) -> float:
        """Return how far the atoms are from even gains and zero gradients, in nats."""
        slopes = np.where(self.free(bounds), np.abs(self.gradients) * unit, 0.0)
        return float(max(np.abs(self.gains - self.information).max(), slopes.max()))

    def free(self, bounds: Array) -> Mask:
        """Return which coordinates may move: all but those at a bound whose gain does not rise inward: (K, d)."""
        inward = 1e-7  # an atom may leave a bound only if the gain rises inward by more than this
        low = (self.u <= bounds[:, 0]) & (self.gradients <= inward)
        high = (self.u >= bounds[:, 1]) & (self.gradients >= -inward)
        return np.asarray(~(low | high))

    def variables(self, bounds: Array) -> Index:
        """Return indices of the weights and the free coordinates, interleaved atom by atom: (V,)."""
        return np.flatnonzero(np.column_stack([np.ones(len(self.u), dtype=bool), self.free(bounds)]))


def evaluate(make_table: Callable[[Array], Likelihoods], u: Array, weights: Array) -> Point:
    """Return G, G', G'' at the atoms under their own mixture."""
    table = make_table(u)
    logs = table.own_logs(weights)
    return Point(u, weights, table, table.gains(logs), table.gradients(logs), table.hessians(logs))


def information_matrix(table: Likelihoods, weights: Array, dimension: int) -> Array:
    """Return Σ_c b_c A_c diag(1/p_c) A_cᵀ, A_c the rows (p; p') atom by atom: (K(1+d), K(1+d))."""
    count = len(weights)
    order = np.arange(count * (1 + dimension)).reshape(1 + dimension, count).T.ravel()
    total = np.zeros((len(order), len(order)))
    for sign, p, first, mixture in zip(table.signs, table.p, table.first, table.mixtures(weights), strict=True):
        inverse = 1 / np.sqrt(np.maximum(mixture, 1e-300))
        stacked = np.concatenate([p, *first])[order] * inverse
        total += sign * (stacked @ stacked.T)
    return total


def sensitivity(point: Point, bounds: Array, unit: Array) -> tuple[float, float]:
    """Return the smallest curvature, and how far a residual of one can move the marginal, at most infinity."""
    count, dimension = point.u.shape
    block = np.zeros((count, 1 + dimension, count, 1 + dimension))
    block[np.arange(count), 1:, np.arange(count), 1:] = -point.hessians / point.weights[:, None, None]
    scale = np.tile(np.concatenate([[1.0], unit]), count)
    ones = np.tile(np.concatenate([[1.0], np.zeros(dimension)]), count)
    matrix = information_matrix(point.table, point.weights, dimension) + block.reshape(len(scale), -1)
    kept = point.variables(bounds)
    matrix = (matrix * scale * scale[:, None] + np.outer(ones, ones))[np.ix_(kept, kept)]
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    return smallest, float(np.sqrt(len(kept) / smallest)) if smallest > 0 else np.inf


CHUNK = 128  # outcomes whose part of the system is computed at once


def whole_windows(ends: tuple[Index, Index], size: int) -> Index:
    """Return columns of windows that are all as wide as the widest: (K,), (K,) -> (K, W)."""
    width = int((ends[1] - ends[0]).max()) + 1
    return np.asarray(np.minimum(ends[0], size - width)[:, None] + np.arange(width))


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
    width = 0
    for p in table.p:  # atoms whose windows overlap, each counted from itself on
        low, high = p.columns[:, 0], p.columns[:, -1]
        width = max(width, 2 * int((np.searchsorted(low, high, "right") - np.arange(len(low))).max()))
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
