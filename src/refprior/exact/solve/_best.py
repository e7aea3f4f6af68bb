"""What a search has found when it is interrupted: Ctrl-C still interrupts, and the best prior so far can be had.

The ascent notes every point that is at least as good as those before. A search that ends normally forgets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refprior.exact._arrays import Array
from refprior.exact.oracle import Objective

if TYPE_CHECKING:
    from refprior.exact._solution import Solution

SLIP = 1e-6  # nats by which a later point may be worse: it may come from a finer quadrature


@dataclass
class _Search:
    objective: Objective
    tolerance: float
    u: Array | None = None  # (K, d)
    weights: Array | None = None  # (K,)
    information: float = 0.0


_search: _Search | None = None


@contextmanager
def watched(objective: Objective, tolerance: float) -> Iterator[None]:
    """Note what is found inside, until it ends."""
    global _search
    own = _search = _Search(objective, tolerance)
    yield  # an exception leaves what was found
    if _search is own:
        _search = None


def note(u: Array, weights: Array, information: float) -> None:
    """A point of the ascent, (K, d) and (K,), kept if it is at least as good as those before."""
    if _search is not None and (_search.u is None or information >= _search.information - SLIP):
        _search.u, _search.weights, _search.information = u, weights, information


def best_so_far(*, judged: bool = True) -> Solution | None:
    """The best prior of the last search that was interrupted, by Ctrl-C or by an error; None if there is none.

    It is always "unfinished". `judged` gives it a gap, which can take as long as one step of the search.

    >>> from refprior.exact import Coin, best_so_far, reference_prior
    >>> prior = reference_prior(Coin(2))
    >>> best_so_far() is None  # that search came to its end
    True
    """
    from refprior.exact._solution import unfinished  # it needs the certificate, which the search does without

    found = _search
    if found is None or found.u is None or found.weights is None:
        return None
    inside = found.objective.channel.bounds
    if found.u.shape[1] != len(inside):
        return None
    information = None if judged else found.information
    return unfinished(found.objective, found.u.clip(*inside.T), found.weights, found.tolerance, information)
