"""The best point of a running search, kept for the case that the search is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from refprior.exact._arrays import Array

SLIP = 1e-6  # nats by which a later point may be worse: it may come from a finer quadrature


@dataclass
class Best:
    """Atoms in coordinates, weights and information of the best point so far; None before the first."""

    u: Array | None = None  # (K, d)
    weights: Array | None = None  # (K,)
    information: float = 0.0


_recorded: ContextVar[Best | None] = ContextVar("best", default=None)  # of the search that runs in this context


@contextmanager
def recording() -> Iterator[Best]:
    """Record the best point of the searches inside."""
    token = _recorded.set(best := Best())
    try:
        yield best
    finally:
        _recorded.reset(token)


def note(u: Array, weights: Array, information: float) -> None:
    """Record a point, (K, d) and (K,), if it is at least as good as those before."""
    best = _recorded.get()
    if best is not None and (best.u is None or information >= best.information - SLIP):
        best.u, best.weights, best.information = u, weights, information
