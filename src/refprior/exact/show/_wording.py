"""Gaps, digits and atoms as they are printed."""

from __future__ import annotations

import math

import numpy as np

from refprior.exact._arrays import Array

NEAR_ROUNDING = 1e-13  # gaps below are printed as a power of ten: their digits depend on the machine
MOST_DECIMALS = 12  # that are printed
SHOWN = 24  # atoms in the printed table; of more, the middle is left out


def gap_in_words(gap: float) -> str:
    """The gap, or, near rounding, the power of ten above it: "gap 3.1e-05", "gap below 1e-14"."""
    if 0 < gap < NEAR_ROUNDING:
        return f"gap below {10.0 ** math.ceil(math.log10(gap)):.0e}"
    return f"gap {gap:.1e}"


def decimals_within(error: float) -> int:
    """Decimals that an error of this size leaves, at most 12: 3e-5 leaves 4, 2 leaves none."""
    if error <= 0:
        return MOST_DECIMALS
    return min(max(0, math.floor(-math.log10(error))), MOST_DECIMALS) if math.isfinite(error) else 0


def atom_lines(atoms: Array, weights: Array, digits: int) -> list[str]:
    """A heading, and a line for each atom: (K,) or (K, d), (K,)."""
    columns = np.atleast_2d(atoms.T).T
    rows = [
        [f"{round(x, digits) + 0.0:.{digits}f}" for x in (*atom, weight)]
        for atom, weight in zip(columns, weights, strict=True)
    ]
    width = max(len(cell) for row in rows for cell in row)
    lines = ["  ".join(f"{cell:>{width}}" for cell in row) for row in rows]
    if len(lines) > SHOWN:
        half = SHOWN // 2
        lines = [*lines[:half], f"... {len(lines) - SHOWN} more ...", *lines[-half:]]
    return [f"{'atom':{columns.shape[1] * (width + 2)}}weight", *lines]
