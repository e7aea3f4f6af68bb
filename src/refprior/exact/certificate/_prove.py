"""Proofs by ball arithmetic, by the kind of channel: coins, Poisson counts and tables.

The entries of a table are exact rationals, and its rows are all there is to cover.
"""

from __future__ import annotations

import numpy as np

from refprior.exact._arrays import Array, as_numbers
from refprior.exact.certificate._proof import Ball, Flint, Proof, balls, exact_weights, fraction, interval, refuse
from refprior.exact.certificate._proof_coin import prove_coin
from refprior.exact.certificate._proof_poisson import prove_poisson
from refprior.exact.channels import Categorical, Channel, Coin, Poisson


def prove(
    channel: Channel, atoms: Array, weights: Array, *, tolerance: float, first: tuple[Channel, float] | None = None
) -> Proof:
    """Prove by ball arithmetic that a prior is within `tolerance` of the capacity.

    Parameters
    ----------
    channel : Channel
        A coin, Poisson counts or a table.
    atoms, weights : ndarray
        The prior.
    tolerance : float
        Largest gap to prove, in nats.
    first : tuple of Channel and float, optional
        The channel of a first stage and the weight β of its information; for coins only.

    Returns
    -------
    Proof
        The interval that contains the capacity.

    Raises
    ------
    ValueError
        If there is no proof for this kind of channel.
    ArithmeticError
        If the gap of the prior exceeds the tolerance.
    """
    match channel, first:
        case Coin(), None:
            return prove_coin(channel.n, atoms, weights, tolerance=tolerance)
        case Coin(), (Coin() as stage, beta):
            return prove_coin(channel.n, atoms, weights, tolerance=tolerance, first=(stage.n, beta))
        case Poisson(), None:
            ends = channel.dark, channel.dark + channel.amplitude
            rates = np.where(atoms >= channel.amplitude * (1 - 1e-15), ends[1], channel.dark + atoms)
            return prove_poisson(ends, channel.samples, rates, weights, tolerance=tolerance)
        case Categorical(), None:
            return prove_table(as_numbers("the table", channel.matrix), atoms, weights, tolerance=tolerance)
    raise ValueError("proofs are for coins in one or two stages, Poisson counts and tables; others carry the gap only")


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


def _normalized(flint: Flint, row: Array) -> list[Ball]:
    """Return a row as balls of exact rationals that sum to one."""
    rational = [fraction(flint, float(p)) for p in row]
    total = sum(rational[1:], rational[0])
    return [flint.arb(p / total) for p in rational]


def _divergence(flint: Flint, row: list[Ball], output: list[Ball]) -> Ball:
    """Return Σ p log(p / q), where p > 0."""
    total = flint.arb(0)
    for p, q in zip(row, output, strict=True):
        if p != 0:
            total += p * (p / q).log()
    return total
