"""Proofs by ball arithmetic, by the kind of channel."""

from __future__ import annotations

import numpy as np

from refprior.exact._arrays import Array, as_numbers
from refprior.exact.certificate._proof import Proof
from refprior.exact.certificate._proof_coin import prove_coin
from refprior.exact.certificate._proof_poisson import prove_poisson
from refprior.exact.certificate._proof_table import prove_table
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
