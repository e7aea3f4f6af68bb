"""What a search will take, told from shapes before anything large is allocated; and progress, as log messages.

Messages go to the logger `refprior.exact`: steps at level INFO, and a time of minutes, before it is spent, at WARNING.
"""

from __future__ import annotations

import logging
import math

from refprior._limits import check_memory
from refprior._words import duration

LOG = logging.getLogger("refprior.exact")
MINUTES = 120.0  # seconds from which a time is said
MULTIPLICATIONS = 1.5e10  # per second, in products of matrices
ENTRIES = 2e7  # probabilities per second that the search or the certificate evaluates
PRODUCTS = 20  # as many products take the time of one probability
WEIGHT_STEPS = 30  # of the interior-point method
ASCENT_STEPS = {1: 600, 2: 100, 3: 100}  # in one, two and three dimensions
ATOM_SPACING = 1.5  # standard deviations between atoms, about
MOST_ATOMS = 200  # of three parameters and more, about: most models of many parameters reach far in few directions


def check_search(candidates: int, lengths: list[float], outcomes: int, spacing: float, *, factors: int = 1) -> None:
    """Refuse a search that does not fit into memory, and say if it will take minutes.

    Tables of candidates and of atoms with their derivatives are the largest arrays; the certificate looks at
    points `spacing` standard deviations apart, a slice at a time. Sums over several independent outcomes (`factors`)
    are products of matrices, and faster.
    """
    dimension = len(lengths)
    atoms = math.prod(length / ATOM_SPACING + 2 for length in lengths)
    atoms = atoms if dimension <= 2 else min(atoms, MOST_ATOMS)
    variables = atoms * (1 + dimension)
    tables = 8.0 * outcomes * max(4 * candidates, 5 * variables, 320)
    check_memory(
        tables + 24.0 * float(candidates) ** 2,
        f"the search over {candidates:,} candidates and {outcomes:,} outcomes",
        "take fewer samples, a larger sigma or narrower bounds",
    )
    steps = ASCENT_STEPS[min(dimension, 3)]
    products = WEIGHT_STEPS * (candidates**2 * outcomes + candidates**3 / 3) + steps * variables**2 * outcomes
    looked_at = outcomes / (1 if factors == 1 else PRODUCTS) * math.prod(length / spacing + 40 for length in lengths)
    say_time(products / MULTIPLICATIONS + (looked_at + steps * variables * outcomes / factors) / ENTRIES)


def say_time(seconds: float) -> None:
    """Log a time of minutes or more before it is spent."""
    if seconds >= MINUTES:
        LOG.warning("this will take about %s", duration(seconds))
