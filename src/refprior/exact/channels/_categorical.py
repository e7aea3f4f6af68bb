"""A finite channel: a table of probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels._channel import Channel
from refprior.exact.channels._rows import Rows, check_row_sums
from refprior.exact.geometry import ListedAxes


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
        from refprior.exact.channels._repeated import repeated_table

        return repeated_table(self, whole_number("the number of samples n", n, at_least=1))
