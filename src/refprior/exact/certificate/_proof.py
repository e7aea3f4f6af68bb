"""Proofs by ball arithmetic that the capacity lies in [I, I + bound]. They need the extra `proof`.

Every number is a ball that contains the true value, whatever rounding does. The weights are made to sum to one as exact
rationals. The capacity is at least J(π) and at most the largest gain. A model (`_proof_coin.py`, `_proof_poisson.py`)
gives balls for the gain's derivatives and a bound of the highest. Cells then cover the parameter: one around each atom,
where a parabola bounds G; cells in between, halved until a Taylor bound suffices; and one at each end, by the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from refprior.exact._arrays import Array

Flint = Any  # the module flint and its balls, which have no type annotations
Ball = Any

ORDER = 8  # of the Taylor bound
MOST_CELLS = 200_000
WIDER = 1 + 1e-9  # cells overlap, so that rounding of their ends leaves no gap
NARROWEST = 1e-13


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The capacity lies in [lower, upper]; it took this number of cells to cover all w."""

    lower: float
    upper: float
    cells: int


class Gain(Protocol):
    """The gain of a prior in balls."""

    arb: Ball  # flint's type of balls
    atoms: list[float]
    information: Ball  # the ball of J

    def derivatives(self, w: float, order: int) -> list[Ball]:
        """Return G and its derivatives at a point inside."""

    def remainder(self, low: float, high: float) -> Ball:
        """Return an upper bound of |G^(ORDER)| on [low, high]."""

    def inside(self, upper: Ball) -> tuple[float, float]:
        """Return the range that is left to cover: on both ends beyond it, G ≤ upper is shown; else ArithmeticError."""


def refuse(where: str, bound: float) -> ArithmeticError:
    """Make the error of a prior that is not as good as claimed."""
    return ArithmeticError(f"the gain {where} exceeds I + {bound:g}: this prior is not within it")


@contextmanager
def balls() -> Iterator[Flint]:
    """Provide python-flint at a precision of 256 bits."""
    try:
        import flint
    except ImportError as error:
        raise ValueError("the proof needs python-flint: install refprior[proof]") from error
    precision, flint.ctx.prec = flint.ctx.prec, 256  # bits
    try:
        yield flint
    finally:
        flint.ctx.prec = precision


def exact_weights(flint: Flint, weights: Array) -> list[Ball]:
    """Return balls of the weights, which sum to one as rationals."""
    rational = [fraction(flint, float(weight)) for weight in weights]
    total = sum(rational[1:], rational[0])
    return [flint.arb(weight / total) for weight in rational]


def fraction(flint: Flint, value: float) -> Ball:
    """Return a double as an exact rational."""
    numerator, denominator = value.as_integer_ratio()
    return flint.fmpq(numerator, denominator)


def interval(information: Ball, upper: Ball, cells: int) -> Proof:
    """Return the proven interval, rounded outward."""
    lower, top = float(information.lower()), float(upper.upper())
    return Proof(lower=math.nextafter(lower, -math.inf), upper=math.nextafter(top, math.inf), cells=cells)


def cover(gain: Gain, bound: float) -> Proof:
    """Cover the range of the parameter by cells on which G ≤ I + bound."""
    upper = gain.arb(gain.information.lower()) + gain.arb(bound)
    low, high = gain.inside(upper)
    cells, edges = 2, [low]
    for atom in sorted(gain.atoms):
        if low < atom < high:
            radius = _radius_around(gain, atom, min(atom - low, high - atom) / 2, upper, bound)
            edges += [atom - radius / WIDER, atom + radius / WIDER]
            cells += 1
    edges.append(high)
    pending = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
    return _covered(gain, pending, upper, bound, cells)


def largest(gain: Gain, middle: float, radius: float) -> Ball:
    """Return an upper bound of G within `radius` of `middle`, by a parabola that bounds the Taylor series."""
    r = gain.arb(radius)
    g = gain.derivatives(middle, ORDER - 1)
    curvature = g[2] + sum((abs(g[k]) * r ** (k - 2) / math.factorial(k - 2) for k in range(3, ORDER)), gain.arb(0))
    remainder = gain.remainder(middle - WIDER * radius, middle + WIDER * radius)
    curvature += remainder * r ** (ORDER - 2) / math.factorial(ORDER - 2)
    linear = g[0] + abs(g[1]) * r
    if curvature < 0:
        if abs(g[1]) >= -curvature * r:  # the parabola still rises at the edge of the cell
            return linear + curvature * r**2 / 2
        return g[0] - g[1] ** 2 / (2 * curvature)
    return linear + abs(curvature) * r**2 / 2


def monotone_reach(gain: Gain, end: float, longest: float, sign: int) -> float:
    """Return how far from an end the gain is shown to fall, to the right (`sign` 1) or to the left (−1)."""
    g = gain.derivatives(end, ORDER - 1)
    radius = longest
    while radius > NARROWEST * max(1.0, abs(end)):
        r = gain.arb(radius) * WIDER
        change = sum((abs(g[k]) * r ** (k - 1) / math.factorial(k - 1) for k in range(2, ORDER)), gain.arb(0))
        ends = sorted((end, end + sign * radius * WIDER))
        change += gain.remainder(*ends) * r ** (ORDER - 1) / math.factorial(ORDER - 1)
        if sign * g[1] + change < 0:
            return radius
        radius /= 2
    raise ArithmeticError(f"the gain is not shown to fall from the end {end:.12g}: no proof")


def _radius_around(gain: Gain, atom: float, radius: float, upper: Ball, bound: float) -> float:
    """Return the radius of a cell around an atom on which the bound holds."""
    distances = [abs(atom - other) for other in gain.atoms if other != atom]
    radius = min([radius, *(0.4 * distance for distance in distances)])
    while not largest(gain, atom, radius) <= upper:
        radius /= 2
        if radius < 1e-9 * max(1.0, abs(atom)):
            raise refuse(f"near the atom {atom:.12g}", bound)
    return radius


def _covered(gain: Gain, pending: list[tuple[float, float]], upper: Ball, bound: float, cells: int) -> Proof:
    """Halve the intervals between atoms until a Taylor bound suffices on each."""
    while pending:
        a, b = pending.pop()
        middle = (a + b) / 2
        radius = max(middle - a, b - middle) * WIDER
        if largest(gain, middle, radius) <= upper:
            cells += 1
            continue
        if cells + len(pending) > MOST_CELLS or radius < NARROWEST * max(1.0, abs(middle)):
            raise refuse(f"near {middle:.12g}", bound)
        pending += [(a, middle), (middle, b)]
    return interval(gain.information, upper, cells)


def average(gain: Gain, weights: list[Ball], at: Callable[[float], Ball]) -> Ball:
    """Return J = Σ_k π_k G(w_k)."""
    terms = [weight * at(atom) for weight, atom in zip(weights, gain.atoms, strict=True)]
    return sum(terms[1:], terms[0])
