"""Proofs by ball arithmetic that the capacity lies in [I, I + bound]. They need the extra `proof`.

Every number is a ball that contains the true value, whatever rounding does. The weights are made to sum to one as exact
rationals. The capacity is at least J(π) and at most the largest gain. A model (`_CoinGain`, `_PoissonGain`)
gives balls for the gain's derivatives and a bound of the highest. Cells then cover the parameter: one around each atom,
where a parabola bounds G; cells in between, halved until a Taylor bound suffices; and one at each end, by the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels import Categorical, Channel, Coin, Poisson

Flint = Any  # the module flint and its balls, which have no type annotations
Ball = Any

ORDER = 8  # of the Taylor bound
MOST_CELLS = 200_000  # that a proof may take before it gives up
WIDER = 1 + 1e-9  # cells overlap, so that rounding of their ends leaves no gap
NARROWEST = 1e-13  # relative width of a cell at which a proof gives up


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
            gaps = [abs(atom - other) for other in gain.atoms if other != atom]
            radius = min([min(atom - low, high - atom) / 2, *(0.4 * gap for gap in gaps)])  # cells of atoms stay apart
            while not largest(gain, atom, radius) <= upper:
                radius /= 2
                if radius < 1e-9 * max(1.0, abs(atom)):
                    raise refuse(f"near the atom {atom:.12g}", bound)
            edges += [atom - radius / WIDER, atom + radius / WIDER]
            cells += 1
    edges.append(high)
    pending = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
    while pending:  # intervals between atoms, halved until a Taylor bound suffices on each
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


def _differences(values: list[Ball], order: int) -> list[Ball]:
    """Return the differences Δᵏ of a sequence."""
    for _ in range(order):
        values = [b - a for a, b in itertools.pairwise(values)]
    return values


def _steepest(values: list[Ball], least: Ball) -> Ball:
    """Return an upper bound of the differences |Δ| of a sequence, at least `least`."""
    for difference in _differences(values, 1):
        least = least.max(abs(difference).upper())
    return least


def average(gain: Gain, weights: list[Ball], at: Callable[[float], Ball]) -> Ball:
    """Return J = Σ_k π_k G(w_k)."""
    terms = [weight * at(atom) for weight, atom in zip(weights, gain.atoms, strict=True)]
    return sum(terms[1:], terms[0])


MOST_TOSSES = 400  # of a coin in a proof


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
    """The gain of a coin in balls, in one stage and in two.

    G(w) = a (w log w + (1 − w) log(1 − w)) + Σ_z p(z | w) c_z with a = n is a Bernstein polynomial plus two logarithms,
    so its derivatives follow from differences of the c_z. In two stages, I(w; z^N) − β I(w; z^m), a = N − β m; the
    polynomial of degree m is raised to degree N, exactly, and subtracted.
    """

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
        differences = _differences(self.coefficients, k)
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
        # a width h with G ≤ G(0) on [0, h], and G ≤ G(1) on [1 − h, 1]: a log h + n max |Δc| ≤ 0
        slope, width = _steepest(self.coefficients, self.arb(0)), 0.25
        while not self.factor * self.arb(width).log() + self.n * slope <= 0:
            width /= 2
            if width == 0.0:
                raise refuse("near an end", self.bound)
        return width, 1 - width


def _entropy_derivative(x: Ball, k: int) -> Ball:
    """Return the k-th derivative of x log x + (1 − x) log(1 − x)."""
    if k == 0:
        return x * x.log() + (1 - x) * (1 - x).log()
    if k == 1:
        return x.log() - (1 - x).log()
    return math.factorial(k - 2) * ((-1) ** k * x ** (1 - k) + (1 - x) ** (1 - k))


MOST_COUNTS = 400.0  # the largest mean


def prove_poisson(
    ends: tuple[float, float], samples: int, atoms: Array, weights: Array, *, tolerance: float = 1e-12
) -> Proof:
    """Prove capacity ∈ [I, I + tolerance] for rates `dark + w` from ends[0] to ends[1], and atoms w."""
    if ends[1] * samples > MOST_COUNTS:
        raise ValueError(f"proofs are for mean counts of at most {MOST_COUNTS:g}, got {ends[1] * samples:g}")
    with balls() as flint:
        return cover(_PoissonGain(flint, ends, samples, atoms, weights, tolerance), tolerance)


class _PoissonGain:
    """The gain of Poisson counts in balls, all counts included.

    The parameter is the rate dark + w, of which `samples` counts are added up. Let λ be the mean count, and λ_K that of
    the largest atom. Then

        G(λ) = λ log(λ / λ_K) − λ + E_λ[d_z],   d_z = −log Σ_k π_k e^(−λ_k) (λ_k / λ_K)^z,

    and ∂ᵏ E_λ[d_z] = E_λ[Δᵏ d_z]. All d_z lie between 0 and L = λ_K − log π_K, so that counts beyond a last one add at
    most 2ᵏ L times the mass of the tail, which is largest at the largest λ.
    """

    def __init__(
        self, flint: Flint, ends: tuple[float, float], samples: int, atoms: Array, weights: Array, bound: float
    ) -> None:
        self.flint, self.arb, self.bound, self.ends, self.samples = flint, flint.arb, bound, ends, samples
        self.weights = exact_weights(flint, weights)
        self.atoms = [float(atom) for atom in atoms]
        rates = [self.arb(atom) * samples for atom in self.atoms]
        highest = max(range(len(self.atoms)), key=lambda k: self.atoms[k])
        self.top = rates[highest]
        if self.atoms[highest] <= 0:
            raise refuse("at the upper end", bound)
        largest = ends[1] * samples
        self.last = math.ceil(largest + 14 * math.sqrt(largest) + 80)
        base = [w * (-rate).exp() for w, rate in zip(self.weights, rates, strict=True)]
        ratios = [rate / self.top for rate in rates]
        self.d = [
            -sum((b * r**z for b, r in zip(base, ratios, strict=True)), self.arb(0)).log() for z in range(self.last)
        ]
        self.most = -base[highest].log()  # L
        # L times the mass of the counts that no polynomial holds, at the largest rate
        rate, first = self.arb(ends[1]) * samples, self.last - ORDER
        mass = (-rate).exp() * rate**first / self.arb(flint.fmpz.fac_ui(first)) / (1 - rate / (first + 1))
        self.tail = self.most * mass
        self.polynomials = [self._polynomial(k) for k in range(ORDER + 1)]
        self.information = average(self, self.weights, lambda atom: self.derivatives(atom, 0)[0])

    def _polynomial(self, k: int) -> tuple[Ball, Ball]:
        """Return Σ_z Δᵏ d_z xᶻ / z!, and the same with |Δᵏ d_z|."""
        differences = _differences(self.d, k)
        scaled = [d / self.arb(self.flint.fmpz.fac_ui(z)) for z, d in enumerate(differences)]
        return self.flint.arb_poly(scaled), self.flint.arb_poly([self.arb(abs(d).upper()) for d in scaled])

    def derivatives(self, w: float, order: int) -> list[Ball]:
        """Return G and its derivatives in the rate; at 0 only G itself exists."""
        if w == 0.0:
            return [self.d[0]]
        x = self.arb(w) * self.samples
        values = []
        for k in range(order + 1):
            beyond = self.arb(0, float((2**k * self.tail).upper()))  # a ball around zero
            smooth = (-x).exp() * self.polynomials[k][0](x) + beyond
            values.append(self.samples**k * (smooth + _log_derivative(x, self.top, k)))
        return values

    def remainder(self, low: float, high: float) -> Ball:
        """Return an upper bound of |G^(ORDER)| on [low, high]: e^(−λ) is largest at low, powers of λ at high."""
        a, b = self.arb(low) * self.samples, self.arb(high) * self.samples
        smooth = (-a).exp() * self.polynomials[ORDER][1](b) + 2**ORDER * self.tail * (b - a).exp()
        logs = math.factorial(ORDER - 2) * a ** (1 - ORDER)
        return self.arb((self.samples**ORDER * (smooth + logs)).upper())

    def inside(self, upper: Ball) -> tuple[float, float]:
        """Leave out both ends: at 0, λ log λ dominates; at others the gain is shown to fall inward."""
        low, high = self.ends
        if not all(self.derivatives(end, 0)[0] <= upper for end in self.ends):
            raise refuse("at an end", self.bound)
        left = self._zero_width() if low == 0.0 else low + monotone_reach(self, low, (high - low) / 8, 1)
        return left, high - monotone_reach(self, high, (high - max(low, left)) / 8, -1)

    def _zero_width(self) -> float:
        """Return a rate h with G ≤ G(0) on [0, h]: log(h / λ_K) − 1 + max |Δd| ≤ 0."""
        # d rises with z up to L, so that no difference beyond the last count is larger than what is left of it
        slope = _steepest(self.d, self.most - self.d[-1])
        width = self.ends[1] / 4
        while not (self.arb(width) * self.samples / self.top).log() - 1 + slope <= 0:
            width /= 2
            if width == 0.0:
                raise refuse("near zero", self.bound)
        return width


def _log_derivative(x: Ball, top: Ball, k: int) -> Ball:
    """Return the k-th derivative of x log(x / top) − x."""
    if k == 0:
        return x * (x / top).log() - x
    if k == 1:
        return (x / top).log()
    return (-1) ** k * math.factorial(k - 2) * x ** (1 - k)


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


MOST_ENTRIES = 1_000_000  # of a table in a proof


def prove_table(matrix: Array, rows: Array, weights: Array, *, tolerance: float = 1e-12) -> Proof:
    """Prove capacity ∈ [I, largest gain] for weights on some rows; ArithmeticError if that is above I + tolerance.

    The entries of a table are exact rationals, and its rows are all there is to cover.
    """
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
