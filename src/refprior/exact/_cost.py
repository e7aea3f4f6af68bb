"""Memory, time and progress: evaluation a slice at a time, the cost of a search before it starts, and log messages.

Messages go to the logger `refprior.exact`: steps at level INFO, and a duration of minutes, before it is spent, at
WARNING.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refprior._process import check_memory
from refprior._words import duration
from refprior.exact._arrays import Array

LOG = logging.getLogger("refprior.exact")
SLICE_ENTRIES = 4_000_000  # entries of one (points, outcomes) table: 32 MB
MULTIPLICATIONS = 1.5e10  # per second, in products of matrices
ENTRIES = 2e7  # probabilities per second that the search or the certificate evaluates
LONG_SEARCH = 120.0  # seconds; longer searches are announced
PRODUCTS = 20  # as many products take the time of one probability


class Work(NamedTuple):
    """The sizes of a search and its certificate."""

    candidates: int
    lengths: list[float]  # (d,) of the axes, in standard deviations
    outcomes: int  # of the first part of the search
    all_outcomes: int
    axes: int  # independent parts of an outcome: sums over them are products of matrices, and faster
    looked_at: float  # points at which the certificate evaluates the gain
    nodes: float = 0.0  # of the finer quadrature with which the certificate compares, if there is one

    @property
    def atoms(self) -> float:
        """About how many atoms there may be."""
        dimension = len(self.lengths)
        spacing = 1.5 if dimension == 1 else 2.5  # standard deviations between atoms
        count = math.prod(length / spacing + 2 for length in self.lengths)
        # most models of many parameters reach far in few directions only
        return count if dimension <= 2 else min(count, 200)

    @property
    def memory(self) -> float:
        """Bytes: tables of candidates, of atoms with their derivatives, and the nodes of the finest quadrature."""
        variables = self.atoms * (1 + len(self.lengths))
        tables = 8.0 * self.outcomes * max(4 * self.candidates, 5 * variables, 320) + 24.0 * float(self.candidates) ** 2
        return max(tables, 400.0 * self.nodes)

    @property
    def seconds(self) -> float:
        """Weights of the candidates, the ascent on few and on all outcomes, and the certificate's grid."""
        many = min(len(self.lengths), 3)
        variables = self.atoms * (1 + len(self.lengths))
        weights = 30 * (self.candidates**2 * self.outcomes + self.candidates**3 / 3)  # interior-point steps
        summed = {1: 600, 2: 50, 3: 60}[many] * self.outcomes  # steps of the ascent
        # more steps on all outcomes, after a search on fewer of them
        summed += 40 * self.all_outcomes if self.all_outcomes > self.outcomes else 0
        looked_at = (self.looked_at * self.all_outcomes + self.atoms * self.nodes) / (1 if self.axes == 1 else PRODUCTS)
        products = weights + summed * variables**2
        return products / MULTIPLICATIONS + (looked_at + summed * variables / self.axes) / ENTRIES


def check_search(work: Work) -> None:
    """Raise an error if a search does not fit into memory, and log its duration if it takes minutes."""
    check_memory(
        work.memory,
        f"the search over {work.candidates:,} candidates and {work.all_outcomes:,} outcomes",
        "take fewer samples, a larger sigma or narrower bounds",
    )
    say_time(work.seconds)


def check_tables(atoms: int, dimension: int, outcomes: int) -> None:
    """Raise an error if the tables of the atoms, with their derivatives, do not fit into memory."""
    check_memory(
        40.0 * outcomes * atoms * (1 + dimension),
        f"a table of {atoms:,} atoms and {outcomes:,} outcomes",
        "take a larger sigma or narrower bounds",
    )


def say_time(seconds: float) -> None:
    """Log a time of minutes or more before it is spent."""
    if seconds >= LONG_SEARCH:
        LOG.warning("this will take about %s", duration(seconds))


def in_slices(function: Callable[[Array], Array], points: Array, outcomes: int, *, least: int = 64) -> Array:
    """Evaluate a function on many points, a slice of at least `least` at a time, so that memory stays small."""
    size = max(least, SLICE_ENTRIES // outcomes)
    parts = []
    for i in range(0, max(len(points), 1), size):  # also for no points, whose values have a shape too
        if i:
            LOG.info("%d of %d points", i, len(points))
        parts.append(function(points[i : i + size]))
    return np.concatenate(parts)
