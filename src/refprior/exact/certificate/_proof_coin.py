"""The gain of a coin in balls, in one stage and in two.

G(w) = a (w log w + (1 − w) log(1 − w)) + Σ_z p(z | w) c_z with a = n is a Bernstein polynomial plus two logarithms, so
its derivatives follow from differences of the c_z. In two stages, I(w; z^N) − β I(w; z^m), a = N − β m; the polynomial
of degree m is raised to degree N, exactly, and subtracted.
"""

from __future__ import annotations

import itertools
import math

from refprior.exact._arrays import Array
from refprior.exact.certificate._proof import (
    ORDER,
    Ball,
    Flint,
    Proof,
    average,
    balls,
    cover,
    exact_weights,
    fraction,
    refuse,
)

MOST_TOSSES = 400


def prove_coin(
    n: int, atoms: Array, weights: Array, *, tolerance: float = 1e-12, first: tuple[int, float] | None = None
) -> Proof:
    """Prove capacity ∈ [I, I + tolerance] for a prior of n tosses; ArithmeticError where that is not so.

    With `first` = (m, β), n is the number of tosses of both stages, and I is I(w; zⁿ) − β I(w; z^m).
    """
    if n > MOST_TOSSES:
        raise ValueError(f"proofs are for coins of at most {MOST_TOSSES} tosses, got {n}")
    with balls() as flint:
        return cover(_CoinGain(flint, n, atoms, weights, first, tolerance), tolerance)


class _CoinGain:
    """Balls of one problem: the coefficients c_z, the information, and bounds of derivatives."""

    def __init__(
        self, flint: Flint, n: int, atoms: Array, weights: Array, first: tuple[int, float] | None, bound: float
    ) -> None:
        self.flint, self.n, self.arb, self.bound = flint, n, flint.arb, bound
        self.weights = exact_weights(flint, weights)
        self.atoms = [float(atom) for atom in atoms]
        self.factor, self.coefficients = self.arb(n), self._coefficients(n)
        if first is not None:
            m, beta = first[0], self.arb(fraction(flint, float(first[1])))
            self.factor -= beta * m
            pairs = zip(self.coefficients, self._raised(self._coefficients(m), m), strict=True)
            self.coefficients = [c - beta * d for c, d in pairs]
        self.polynomials = [self._polynomial(k) for k in range(min(ORDER, n) + 1)]
        self.information = average(self, self.weights, lambda atom: self.derivatives(atom, 0)[0])

    def _coefficients(self, n: int) -> list[Ball]:
        """Return c_z = log binomial(n, z) − log p(z), p(z) = Σ_k π_k p(z | w_k)."""
        found = []
        for z in range(n + 1):
            binomial, total = self.arb(self.flint.fmpz.bin_uiui(n, z)), self.arb(0)
            for weight, atom in zip(self.weights, self.atoms, strict=True):
                w = self.arb(atom)
                total += weight * binomial * w**z * (1 - w) ** (n - z)
            found.append(binomial.log() - total.log())
        return found

    def _raised(self, coefficients: list[Ball], m: int) -> list[Ball]:
        """Return the same Bernstein polynomial in degree n: averages over which m of n tosses came first."""
        choose, raised = self.flint.fmpz.bin_uiui, []
        for z in range(self.n + 1):
            ways = range(max(0, z - (self.n - m)), min(m, z) + 1)
            total = self.arb(0)
            for j in ways:
                share = self.flint.fmpq(choose(m, j) * choose(self.n - m, z - j), choose(self.n, z))
                total += self.arb(share) * coefficients[j]
            raised.append(total)
        return raised

    def _polynomial(self, k: int) -> tuple[Ball, Ball]:
        """Return the polynomial in w/(1 − w) that times (1 − w)^(n−k) is ∂ᵏ Σ p(z|w) c_z; and one with |Δᵏ c|."""
        differences = self.coefficients
        for _ in range(k):
            differences = [b - a for a, b in itertools.pairwise(differences)]
        falling = math.prod(range(self.n - k + 1, self.n + 1))
        scale = [self.arb(self.flint.fmpz.bin_uiui(self.n - k, z) * falling) for z in range(self.n - k + 1)]
        signed = [d * s for d, s in zip(differences, scale, strict=True)]
        absolute = [self.arb(abs(d).upper()) * s for d, s in zip(differences, scale, strict=True)]
        return self.flint.arb_poly(signed), self.flint.arb_poly(absolute)

    def derivatives(self, w: float, order: int) -> list[Ball]:
        """Return G and its derivatives at a point; at 0 and 1 only G itself exists."""
        x = self.arb(w)
        if w in (0.0, 1.0):
            return [self.coefficients[0] if w == 0.0 else self.coefficients[self.n]]
        values = []
        for k in range(order + 1):
            polynomial = self.polynomials[k][0] if k <= self.n else None
            smooth = (1 - x) ** (self.n - k) * polynomial(x / (1 - x)) if polynomial is not None else self.arb(0)
            values.append(smooth + self.factor * _entropy_derivative(x, k))
        return values

    def remainder(self, low: float, high: float) -> Ball:
        """Return an upper bound of |G^(ORDER)| on [low, high], inside (0, 1)."""
        a, b = self.arb(low), self.arb(high)
        logs = self.factor * math.factorial(ORDER - 2) * (a ** (1 - ORDER) + (1 - b) ** (1 - ORDER))
        if self.n < ORDER:
            return self.arb(logs.upper())
        smooth = self.polynomials[ORDER][1](b / (1 - b)) * (1 - a) ** (self.n - ORDER)
        return self.arb((logs + smooth).upper())

    def inside(self, upper: Ball) -> tuple[float, float]:
        """Leave out both ends, where w log w dominates: G stays below its value there, which the bound must exceed."""
        if not all(value <= upper for value in (self.coefficients[0], self.coefficients[self.n])):
            raise refuse("at an end", self.bound)
        return self._end_width(reflected=False), 1 - self._end_width(reflected=True)

    def _end_width(self, *, reflected: bool) -> float:
        """Return a width h with G ≤ G(0) on [0, h], or its mirror image: a log h + n max |Δc| ≤ 0."""
        c = self.coefficients[::-1] if reflected else self.coefficients
        slope = self.arb(0)
        for a, b in itertools.pairwise(c):
            slope = slope.max(abs(b - a).upper())
        width = 0.25
        while not self.factor * self.arb(width).log() + self.n * slope <= 0:
            width /= 2
            if width == 0.0:
                raise refuse("near an end", self.bound)
        return width


def _entropy_derivative(x: Ball, k: int) -> Ball:
    """Return the k-th derivative of x log x + (1 − x) log(1 − x)."""
    if k == 0:
        return x * x.log() + (1 - x) * (1 - x).log()
    if k == 1:
        return x.log() - (1 - x).log()
    return math.factorial(k - 2) * ((-1) ** k * x ** (1 - k) + (1 - x) ** (1 - k))
