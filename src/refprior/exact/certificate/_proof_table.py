"""The capacity of a table in balls: its entries are exact rationals, and its rows are all there is to cover."""

from __future__ import annotations

from typing import Any

from refprior.exact._arrays import Array
from refprior.exact.certificate._proof import Proof, balls, exact_weights, fraction, interval, refuse

MOST_ENTRIES = 1_000_000


def prove_table(matrix: Array, rows: Array, weights: Array, *, tolerance: float = 1e-12) -> Proof:
    """Prove capacity ∈ [I, largest gain] for weights on some rows; ArithmeticError if that is above I + tolerance."""
    if matrix.size > MOST_ENTRIES:
        raise ValueError(f"proofs are for tables of at most {MOST_ENTRIES:,} entries, got {matrix.size:,}")
    with balls() as flint:
        table = [_normalized(flint, row) for row in matrix]
        used = list(zip(exact_weights(flint, weights), (round(float(k)) for k in rows), strict=True))
        output = [sum((w * table[k][z] for w, k in used), flint.arb(0)) for z in range(matrix.shape[1])]
        gains = [_divergence(flint, row, output) for row in table]
        information = sum((w * gains[k] for w, k in used), flint.arb(0))
        upper = information
        for number, gain in enumerate(gains):
            if not gain <= flint.arb(information.lower()) + flint.arb(tolerance):
                raise refuse(f"of row {number}", tolerance)
            upper = upper.max(gain)
        return interval(information, upper, len(table))


def _normalized(flint: Any, row: Array) -> list[Any]:
    """A row as balls of exact rationals that sum to one."""
    rational = [fraction(flint, float(p)) for p in row]
    total = sum(rational[1:], rational[0])
    return [flint.arb(p / total) for p in rational]


def _divergence(flint: Any, row: list[Any], output: list[Any]) -> Any:
    """Σ p log(p / q), where p > 0."""
    total = flint.arb(0)
    for p, q in zip(row, output, strict=True):
        if p != 0:
            total += p * (p / q).log()
    return total
