"""Gaps, digits and atoms as text, and a prior as HTML."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from refprior._style import ATOM
from refprior.exact._arrays import Array

if TYPE_CHECKING:
    from refprior.exact._solution import Solution

NEAR_ROUNDING = 1e-13  # smaller gaps are printed as a power of ten: their digits depend on the machine
MOST_DECIMALS = 12  # that are printed
SHOWN = 24  # atoms of a printed table; the middle of a longer one is left out
BAR = 8  # em: width of the bar of the largest weight in HTML


def gap_in_words(gap: float) -> str:
    """Format a gap, or, near rounding, the power of ten above it: "gap 3.1e-05", "gap below 1e-14"."""
    if 0 < gap < NEAR_ROUNDING:
        return f"gap below {10.0 ** math.ceil(math.log10(gap)):.0e}"
    return f"gap {gap:.1e}"


def decimals_within(error: float) -> int:
    """Return the number of decimals that an error leaves, at most 12: 3e-5 leaves 4, 2 leaves none."""
    if error <= 0:
        return MOST_DECIMALS
    return min(max(0, math.floor(-math.log10(error))), MOST_DECIMALS) if math.isfinite(error) else 0


def atom_lines(atoms: Array, weights: Array, digits: int) -> list[str]:
    """Format a heading and a line for each atom: (K,) or (K, d), (K,)."""
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


def as_html(prior: Solution) -> str:
    """Format the headline and a table of atoms with bars for their weights, for notebooks."""
    head, *rest = str(prior).splitlines()
    word, _, words = head.partition(": ")
    found = f"<p><b>{escape(word)}</b>: {escape(words)}</p>"
    table = [line for line in rest if line[:1] in " -0123456789." and not line.startswith("...")]
    if not prior.decimals or len(table) != len(prior.weights):
        return found + "".join(f"<pre>{escape(line)}</pre>" for line in ["\n".join(rest)] if line)
    columns = [f"w<sub>{i + 1}</sub>" for i in range(prior.channel.dimension)]
    columns = ["w"] if len(columns) == 1 else columns
    rows = []
    for line, weight in zip(table, prior.weights, strict=True):
        width = BAR * weight / prior.weights.max()
        bar = f'<div style="background:{ATOM};height:0.7em;width:{width:.2f}em"></div>'
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in [*line.split(), bar]) + "</tr>")
    heads = "".join(f"<th>{name}</th>" for name in [*columns, "weight", ""])
    return f"{found}<table><tr>{heads}</tr>{''.join(rows)}</table>"
