"""A proof by ball arithmetic that the capacity of a coin lies in [I, I + bound]. Needs the extra `proof`.

Every number is a ball that contains the true value, whatever rounding does. The weights are made to sum to one as
exact rationals. Below: I is a ball around J(π), the capacity is at least its lower end. Above: on every cell of a
cover of [0, 1], G ≤ I + bound by a Taylor form around the cell's middle; cells where the ball is too wide are halved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .models import Coin
from .solution import Solution

PRECISION = 160  # bits
MOST_TOSSES = 200
DEEPEST = 60  # halvings of a cell


@dataclass(frozen=True)
class Proof:
    """The capacity lies in [lower, upper]; `cells` were needed to cover all w."""

    lower: float
    upper: float
    cells: int


def prove_coin(solution: Solution, bound: float = 1e-12) -> Proof:
    """Prove capacity ∈ [I, I + bound] for the coin's prior, or raise ArithmeticError where it does not hold."""
    channel = solution.channel
    if not isinstance(channel, Coin) or len(solution.objective.channels) != 1:
        raise ValueError("proofs are for the one-stage prior of a coin; other models carry the gap only")
    if channel.n > MOST_TOSSES:
        raise ValueError(f"proofs are for coins of at most {MOST_TOSSES} tosses, got {channel.n}")
    flint = _flint()
    precision, flint.ctx.prec = flint.ctx.prec, PRECISION
    try:
        return _Prover(flint, channel.n, solution.atoms, solution.weights).prove(bound)
    finally:
        flint.ctx.prec = precision


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise ValueError("the proof needs python-flint: install refprior[proof]") from error
    return flint


class _Prover:
    """Balls of one problem: log p(z), the information, and G on cells."""

    def __init__(self, flint: Any, n: int, atoms: np.ndarray, weights: np.ndarray) -> None:
        self.flint, self.n = flint, n
        self.arb = flint.arb
        exact = [_fraction(flint, float(weight)) for weight in weights]
        total = sum(exact[1:], exact[0])
        self.weights = [self.arb(weight / total) for weight in exact]
        self.atoms = [self.arb(_fraction(flint, float(atom))) for atom in atoms]
        self.binomials = [self.arb(flint.fmpz.bin_uiui(n, z)) for z in range(n + 1)]
        self.log_marginal = [self._marginal(z).log() for z in range(n + 1)]
        # G(w) = n (w log w + (1 − w) log(1 − w)) + Σ_z p(z | w) c_z
        self.c = [b.log() - m for b, m in zip(self.binomials, self.log_marginal, strict=True)]
        self.information = self._information()

    def _power(self, w: Any, z: int) -> Any:
        return self.binomials[z] * w**z * (1 - w) ** (self.n - z)

    def _marginal(self, z: int) -> Any:
        terms = [weight * self._power(w, z) for weight, w in zip(self.weights, self.atoms, strict=True)]
        return sum(terms[1:], terms[0])

    def _information(self) -> Any:
        terms = [weight * self._gain(w) for weight, w in zip(self.weights, self.atoms, strict=True)]
        return sum(terms[1:], terms[0])

    def _xlogx(self, x: Any) -> Any:
        """x log x on a ball in [0, 1]; near zero by monotonicity: it lies in [−x |log x|, 0] at the upper end."""
        if x > 0:
            return x * x.log()
        top = x.upper()
        if not top > 0:
            return self.arb(0)
        low = top * top.log() if top < 0.3 else self.arb(-0.36787944117144233)
        return self._hull(low.lower(), self.arb(0))

    def _hull(self, low: Any, high: Any) -> Any:
        middle, radius = (low + high) / 2, (high - low) / 2
        return self.arb(middle, radius.upper()) if not middle.rad() else middle + self.arb(0, radius.upper())

    def _gain(self, w: Any) -> Any:
        mean = sum((self._power(w, z) * self.c[z] for z in range(1, self.n + 1)), self._power(w, 0) * self.c[0])
        return self.n * (self._xlogx(w) + self._xlogx(1 - w)) + mean

    def _bernstein(self, low: Any, high: Any) -> tuple[Any, Any]:
        return low, high

    def prove(self, bound: float) -> Proof:
        raise NotImplementedError


def _fraction(flint: Any, value: float) -> Any:
    numerator, denominator = value.as_integer_ratio()
    return flint.fmpq(numerator, denominator)
