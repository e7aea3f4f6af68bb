"""A proof by ball arithmetic that the capacity of a coin lies in [I, I + bound]. Needs the extra `proof`.

Every number is a ball that contains the true value, whatever rounding does. The weights are made to sum to
one as exact rationals. The capacity is at least J(π) and at most the largest gain. The gain of a coin is
G(w) = n (w log w + (1 − w) log(1 − w)) + Σ_z p(z | w) c_z, a Bernstein polynomial plus two logarithms, so its
derivatives follow from differences of the c_z. Cells cover the range of w: one around each atom, where a
parabola bounds G; cells in between, halved until a Taylor bound suffices; and one at each end, where w log w
dominates.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from refprior.exact._arrays import Array

PRECISION = 256  # bits
MOST_TOSSES = 400
ORDER = 8  # of the Taylor bound
MOST_CELLS = 200_000
WIDER = 1 + 1e-9  # cells overlap, so that rounding of their ends leaves no gap


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The capacity lies in [lower, upper]; it took this number of cells to cover all w."""

    lower: float
    upper: float
    cells: int


def prove_coin(n: int, atoms: Array, weights: Array, *, tolerance: float = 1e-12) -> Proof:
    """Prove capacity ∈ [I, I + tolerance] for a prior of n tosses; ArithmeticError where that is not so."""
    if n > MOST_TOSSES:
        raise ValueError(f"proofs are for coins of at most {MOST_TOSSES} tosses, got {n}")
    flint = _flint()
    precision, flint.ctx.prec = flint.ctx.prec, PRECISION
    try:
        return _Prover(flint, n, atoms, weights).prove(tolerance)
    finally:
        flint.ctx.prec = precision


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise ValueError("the proof needs python-flint: install refprior[proof]") from error
    return flint


class _Prover:
    """Balls of one problem: the coefficients c_z, the information, and bounds on G over cells."""

    def __init__(self, flint: Any, n: int, atoms: Array, weights: Array) -> None:
        self.flint, self.n, self.arb = flint, n, flint.arb
        rational = [_fraction(flint, float(weight)) for weight in weights]
        total = sum(rational[1:], rational[0])
        self.weights = [self.arb(weight / total) for weight in rational]
        self.atoms = [float(atom) for atom in atoms]
        self.binomials = [self.arb(flint.fmpz.bin_uiui(n, z)) for z in range(n + 1)]
        self.coefficients = [b.log() - self._marginal(z).log() for z, b in enumerate(self.binomials)]
        self.polynomials = [self._polynomial(k) for k in range(min(ORDER, n) + 1)]
        gains = [weight * self.derivatives(atom, 0)[0] for weight, atom in zip(self.weights, self.atoms, strict=True)]
        self.information = sum(gains[1:], gains[0])

    def _marginal(self, z: int) -> Any:
        """p(z) = Σ_k π_k p(z | w_k)."""
        total = self.arb(0)
        for weight, atom in zip(self.weights, self.atoms, strict=True):
            w = self.arb(atom)
            total += weight * self.binomials[z] * w**z * (1 - w) ** (self.n - z)
        return total

    def _polynomial(self, k: int) -> tuple[Any, Any]:
        """Polynomial in w/(1 − w) that times (1 − w)^(n−k) is ∂ᵏ Σ p(z|w) c_z; and one with |Δᵏ c|."""
        differences = self.coefficients
        for _ in range(k):
            differences = [b - a for a, b in itertools.pairwise(differences)]
        falling = math.prod(range(self.n - k + 1, self.n + 1))
        scale = [self.arb(self.flint.fmpz.bin_uiui(self.n - k, z) * falling) for z in range(self.n - k + 1)]
        signed = [d * s for d, s in zip(differences, scale, strict=True)]
        absolute = [self.arb(abs(d).upper()) * s for d, s in zip(differences, scale, strict=True)]
        return self.flint.arb_poly(signed), self.flint.arb_poly(absolute)

    def derivatives(self, w: float, order: int) -> list[Any]:
        """G and its derivatives at a point; at 0 and 1 only G itself exists."""
        x = self.arb(w)
        if w in (0.0, 1.0):
            return [self.coefficients[0] if w == 0.0 else self.coefficients[self.n]]
        values = []
        for k in range(order + 1):
            polynomial = self.polynomials[k][0] if k <= self.n else None
            smooth = (1 - x) ** (self.n - k) * polynomial(x / (1 - x)) if polynomial is not None else self.arb(0)
            values.append(smooth + self.n * _entropy_derivative(x, k))
        return values

    def remainder(self, low: float, high: float) -> Any:
        """Upper bound of |G^(ORDER)| on [low, high], inside (0, 1)."""
        a, b = self.arb(low), self.arb(high)
        factorial = math.factorial(ORDER - 2)
        logs = self.n * factorial * (a ** (1 - ORDER) + (1 - b) ** (1 - ORDER))
        if self.n < ORDER:
            return self.arb(logs.upper())
        smooth = self.polynomials[ORDER][1](b / (1 - b)) * (1 - a) ** (self.n - ORDER)
        return self.arb((logs + smooth).upper())

    def largest(self, middle: float, radius: float) -> Any:
        """Upper bound of G within `radius` of `middle`, by a parabola that bounds the Taylor series."""
        r = self.arb(radius)
        g = self.derivatives(middle, ORDER - 1)
        curvature = g[2] + sum((abs(g[k]) * r ** (k - 2) / math.factorial(k - 2) for k in range(3, ORDER)), self.arb(0))
        remainder = self.remainder(middle - WIDER * radius, middle + WIDER * radius)
        curvature += remainder * r ** (ORDER - 2) / math.factorial(ORDER - 2)
        linear = g[0] + abs(g[1]) * r
        if curvature < 0:
            if abs(g[1]) >= -curvature * r:  # the parabola still rises at the edge of the cell
                return linear + curvature * r**2 / 2
            return g[0] - g[1] ** 2 / (2 * curvature)
        return linear + abs(curvature) * r**2 / 2

    def end_width(self, *, reflected: bool) -> float:
        """A width h with G ≤ G(0) on [0, h], or its mirror image: n log h + max |slope of the rest| ≤ 0."""
        c = self.coefficients[::-1] if reflected else self.coefficients
        slope = self.arb(0)
        for a, b in itertools.pairwise(c):
            slope = slope.max(abs(b - a).upper())
        width = 0.25
        while not self.n * self.arb(width).log() + self.n * slope <= 0:
            width /= 2
        return width

    def prove(self, bound: float) -> Proof:
        """Cover [0, 1] by cells on which G ≤ I + bound."""
        upper = self.arb(self.information.lower()) + self.arb(bound)
        low, high = self.end_width(reflected=False), 1 - self.end_width(reflected=True)
        ends = [self.coefficients[0], self.coefficients[self.n]]
        if not all(value <= upper for value in ends):
            raise ArithmeticError(f"the gain at an end exceeds I + {bound:g}: this prior is not within it")
        cells, edges = 2, [low]
        for atom in self.atoms:
            if low < atom < high:
                radius = self._radius_around(atom, min(atom - low, high - atom) / 2, upper)
                edges += [atom - radius / WIDER, atom + radius / WIDER]
                cells += 1
        edges.append(high)
        pending = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
        return self._cover(pending, upper, bound, cells)

    def _radius_around(self, atom: float, radius: float, upper: Any) -> float:
        """The radius of a cell around an atom on which the bound holds."""
        distances = [abs(atom - other) for other in self.atoms if other != atom]
        radius = min(radius, 0.4 * min(distances))
        while not self.largest(atom, radius) <= upper:
            radius /= 2
            if radius < 1e-9:
                raise ArithmeticError(f"the gain near the atom {atom:.12g} exceeds the bound: not within it")
        return radius

    def _cover(self, pending: list[tuple[float, float]], upper: Any, bound: float, cells: int) -> Proof:
        """Halve the intervals between atoms until a Taylor bound suffices on each."""
        while pending:
            a, b = pending.pop()
            middle = (a + b) / 2
            radius = max(middle - a, b - middle) * WIDER
            if self.largest(middle, radius) <= upper:
                cells += 1
                continue
            if cells + len(pending) > MOST_CELLS or radius < 1e-13:
                raise ArithmeticError(f"the gain near {middle:.12g} exceeds I + {bound:g}: this prior is not within it")
            pending += [(a, middle), (middle, b)]
        lower, top = float(self.information.lower()), float(upper.upper())
        return Proof(lower=math.nextafter(lower, -math.inf), upper=math.nextafter(top, math.inf), cells=cells)


def _entropy_derivative(x: Any, k: int) -> Any:
    """k-th derivative of x log x + (1 − x) log(1 − x)."""
    if k == 0:
        return x * x.log() + (1 - x) * (1 - x).log()
    if k == 1:
        return x.log() - (1 - x).log()
    return math.factorial(k - 2) * ((-1) ** k * x ** (1 - k) + (1 - x) ** (1 - k))


def _fraction(flint: Any, value: float) -> Any:
    numerator, denominator = value.as_integer_ratio()
    return flint.fmpq(numerator, denominator)
