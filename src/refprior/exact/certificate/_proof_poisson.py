"""The gain of Poisson counts in balls, all counts included.

Let λ be the mean count, and λ_K that of the largest atom. Then

    G(λ) = λ log(λ / λ_K) − λ + E_λ[d_z],   d_z = −log Σ_k π_k e^(−λ_k) (λ_k / λ_K)^z,

and ∂ᵏ E_λ[d_z] = E_λ[Δᵏ d_z]. All d_z lie between 0 and L = λ_K − log π_K, so that counts beyond a last one add at most
2ᵏ L times the mass of the tail, which is largest at the largest λ.
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
    monotone_reach,
    refuse,
)

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
    """Balls of one problem; the parameter is the rate dark + w, of which `samples` counts are added up."""

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
        self.d = [self._d(base, ratios, z) for z in range(self.last)]
        self.most = -base[highest].log()  # L
        self.tail = self._tail()
        self.polynomials = [self._polynomial(k) for k in range(ORDER + 1)]
        self.information = average(self, self.weights, lambda atom: self.derivatives(atom, 0)[0])

    def _d(self, base: list[Ball], ratios: list[Ball], z: int) -> Ball:
        """Return d_z = −log Σ_k π_k e^(−λ_k) (λ_k / λ_K)^z."""
        return -sum((b * r**z for b, r in zip(base, ratios, strict=True)), self.arb(0)).log()

    def _tail(self) -> Ball:
        """Return L times the mass of the counts that no polynomial holds, at the largest rate."""
        rate, first = self.arb(self.ends[1]) * self.samples, self.last - ORDER
        mass = (-rate).exp() * rate**first / self.arb(self.flint.fmpz.fac_ui(first)) / (1 - rate / (first + 1))
        return self.most * mass

    def _polynomial(self, k: int) -> tuple[Ball, Ball]:
        """Return Σ_z Δᵏ d_z xᶻ / z!, and the same with |Δᵏ d_z|."""
        differences = self.d
        for _ in range(k):
            differences = [b - a for a, b in itertools.pairwise(differences)]
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
        slope = self.most - self.d[-1]  # d rises with z up to L, so that no difference beyond the last count is larger
        for a, b in itertools.pairwise(self.d):
            slope = slope.max(abs(b - a).upper())
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
