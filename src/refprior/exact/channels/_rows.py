"""Likelihoods at K parameters with their derivatives, what they must satisfy, and their mixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers

SMALLEST_LOG = -745.0  # replaces log 0 where it meets a factor of zero: exp of anything less is zero
ROW_SUM_TOLERANCE = 1e-9  # a likelihood that misses one by more than this is a mistake, not rounding


class Rows(NamedTuple):
    """Likelihoods p(z | w_k) with derivatives in the coordinates u, as `Channel.rows` returns them.

    Derivatives are those of p, not of log p, so they stay finite where p = 0. Second derivatives are large and only
    needed as sums over z, so they are given as a function that sums them.

    Parameters
    ----------
    log_p : ndarray of shape (K, Z)
        log p(z | w_k).
    first : ndarray of shape (K, d, Z)
        First derivatives of p.
    second : callable
        Takes values (Z,) and returns Σ_z ∂_i ∂_j p values, (K, d, d).
    negentropy_hessian : ndarray of shape (K, d, d)
        Second derivatives of Σ_z p log p.

    Examples
    --------
    >>> import numpy as np
    >>> from refprior.exact import Rows
    >>> w = np.array([[0.25], [0.5]])  # one toss of a coin: p = (1 - w, w)
    >>> first = np.tile([-1.0, 1.0], (2, 1, 1))
    >>> rows = Rows.from_derivatives(np.log(np.hstack([1 - w, w])), first, np.zeros((2, 1, 1, 2)))
    >>> rows.negentropy_hessian.round(6).ravel().tolist()  # 1 / (w (1 - w))
    [5.333333, 4.0]
    """

    log_p: Array
    first: Array
    second: Callable[[Array], Array]
    negentropy_hessian: Array

    @classmethod
    def from_derivatives(cls, log_p: Array, first: Array, second: Array) -> Rows:
        """Build rows from first and second derivatives of p.

        Parameters
        ----------
        log_p : ndarray of shape (K, Z)
            log p(z | w_k).
        first : ndarray of shape (K, d, Z)
            First derivatives of p.
        second : ndarray of shape (K, d, d, Z)
            Second derivatives of p.

        Returns
        -------
        Rows
            The rows.
        """
        shapes = tuple(np.shape(part) for part in (log_p, first, second))
        dimension = shapes[1][1] if len(shapes[1]) == 3 else 1
        count, outcomes = shapes[0] if len(shapes[0]) == 2 else (0, 0)
        if shapes != ((count, outcomes), (count, dimension, outcomes), (count, dimension, dimension, outcomes)):
            raise ValueError(f"log p and derivatives must be (K, Z), (K, d, Z) and (K, d, d, Z), got {shapes}")
        p = np.exp(log_p)[:, None]
        relative = np.divide(first, p, out=np.zeros_like(first), where=p > 0)
        hessian = np.einsum("kijz,kz->kij", second, np.maximum(log_p, SMALLEST_LOG))
        hessian += np.einsum("kiz,kjz->kij", first, relative)
        return cls(log_p, first, lambda values: np.asarray(second @ values), hessian)

    @classmethod
    def from_log_derivatives(cls, log_p: Array, first: Array, second: Array) -> Rows:
        """Build rows from first and second derivatives of log p.

        Parameters
        ----------
        log_p : ndarray of shape (K, Z)
            log p(z | w_k).
        first : ndarray of shape (K, d, Z)
            First derivatives of log p.
        second : ndarray of shape (K, d, d, Z)
            Second derivatives of log p.

        Returns
        -------
        Rows
            The rows.
        """
        return cls.from_derivatives(log_p, *derivatives_of_p(log_p, first, second))


def derivatives_of_p(log_p: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return first and second derivatives of p from those of log p, same shapes: (K, d, Z), (K, d, d, Z)."""
    p = np.exp(log_p)[:, None, :]
    outer = first[:, :, None, :] * first[:, None, :, :]
    return p * first, p[:, None] * (second + outer)


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


def check_rows(log_p: Array, u: Array, outcomes: int, name: str) -> Array:
    """Check the shape, values and normalization of log-likelihoods, and return the sums of p: (K,)."""
    expected, came = (len(u), outcomes), np.shape(log_p)
    if came != expected:
        raise ValueError(
            f"{name} returned shape {came}, expected {expected}: one row per parameter, one column per outcome"
        )
    if np.any(np.isnan(log_p)) or np.any(log_p == np.inf):
        bad = np.argwhere(np.isnan(log_p) | (log_p == np.inf))[0]
        raise ValueError(f"{name} is NaN or +inf at w = {u[bad[0]].tolist()}, outcome {bad[1]}")
    with np.errstate(over="ignore"):
        sums = np.exp(log_p).sum(axis=1)
    check_row_sums(sums, lambda row: f"at w = {u[row].tolist()} it")
    return np.asarray(sums)


def check_row_sums(sums: Array, name: Callable[[int], str] = lambda row: f"row {row}") -> None:
    """Raise ValueError for likelihoods that are not normalized, naming the worst."""
    worst = int(np.argmax(np.abs(sums - 1)))
    if not abs(sums[worst] - 1) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"the likelihood must sum to one over the outcomes: {name(worst)} sums to {sums[worst]:.12g}; "
            "normalize it, or multiply a density by its quadrature weights"
        )


def outcome_number(outcomes: Array, z: ArrayLike) -> int:
    """Return the number of an outcome given by a user; raise ValueError if it is none: (Z,) or (Z, t)."""
    seen = as_numbers("an outcome", z)
    shape = np.shape(outcomes)[1:]
    if seen.shape != shape or not np.all(np.isfinite(seen)):
        raise ValueError(f"an outcome is {'one number' if not shape else f'{shape[0]} numbers'}, got {z!r}")
    apart = np.abs(outcomes - seen).reshape(len(outcomes), -1).max(axis=1)
    nearest = int(np.argmin(apart))
    if apart[nearest] > 1e-9 * (1 + np.abs(seen).max()):
        raise ValueError(f"{z!r} is not an outcome: the nearest is {outcomes[nearest].tolist()}")
    return nearest
