"""log of the binomial by Loader's saddle-point form: Stirling error + deviance.

Differences of log-gamma lose log10(n) digits. This form loses none that matter, even for n = 10⁶ and for
outcomes between the integers (used as quadrature nodes for large n).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, rel_entr

from refprior.exact._arrays import Array

SERIES_FROM = 16.0  # the Stirling series is exact to rounding from here on
SERIES_RADIUS = 0.1  # |v| below which the deviance is summed as a series, free of cancellation
SMALL_COUNT = 32.0  # counts below which cancellation costs less than the rounding of the result
PRECISE_FROM = 900  # tosses from which the digits that n sin² loses near the upper end matter
TERMS = 8  # v^16 is below rounding at |v| = SERIES_RADIUS


def stirling_error(x: Array) -> Array:
    """log Γ(x+1) − log(√(2πx) (x/e)^x), and 0 at x = 0, where it is not needed: (Z,) -> (Z,)."""
    large = np.maximum(x, SERIES_FROM)
    square = 1.0 / (large * large)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / large
    few = np.clip(x, 1e-300, SERIES_FROM)
    direct = gammaln(few + 1) - (few + 0.5) * np.log(few) + few - 0.5 * np.log(2 * np.pi)
    return np.where(x >= SERIES_FROM, series, np.where(x > 0, direct, 0.0))


def deviance(x: Array, mean: Array) -> Array:
    """x log(x/mean) + mean − x without cancellation near x = mean; shapes broadcast."""
    if np.max(x, initial=0.0) < SMALL_COUNT:
        return _direct_deviance(x, mean)
    x, mean = np.broadcast_arrays(x, mean)
    total = x + mean
    v = np.divide(x - mean, total, out=np.zeros_like(total), where=total > 0)
    square = v * v
    if square.size and square.max() < SERIES_RADIUS**2:
        return _series_deviance(x, mean, v, square)
    return np.where(square < SERIES_RADIUS**2, _series_deviance(x, mean, v, square), _direct_deviance(x, mean))


def _direct_deviance(x: Array, mean: Array) -> Array:
    return np.asarray(rel_entr(x, mean) + mean - x)


def _series_deviance(x: Array, mean: Array, v: Array, square: Array) -> Array:
    tail = np.full_like(square, 1 / (2 * TERMS + 1))
    for j in range(TERMS - 1, 0, -1):
        tail *= square
        tail += 1 / (2 * j + 1)
    return (x - mean) * v + 2 * x * v * square * tail


def normalizer(n: float, z: Array) -> Array:
    """The part of log p(z | w) that does not depend on w: (Z,) -> (Z,)."""
    inside = (z > 0) & (z < n)
    safe = np.where(inside, z, 0.5 * n)
    root = 0.5 * np.log(n / (2 * np.pi * safe * (n - safe)))
    stirling = stirling_error(np.array([float(n)])) - stirling_error(z) - stirling_error(n - z)
    return np.where(inside, stirling + root, 0.0)


def log_binomial(n: float, z: Array, angle: Array, constant: Array) -> Array:
    """log p(z | w) at w = sin²(angle / 2); `constant` is `normalizer(n, z)`; shapes broadcast."""
    sine, cosine = np.sin(angle / 2), np.sin((np.pi - angle) / 2)  # cos that is exactly 0 at π
    return constant - deviance(z, n * sine**2) - deviance(n - z, n * cosine**2)


def score(n: float, z: Array, angle: Array) -> tuple[Array, Array]:
    """First and second derivative of log p(z | w) in the angle; the angle is inside (0, π)."""
    sine, cosine = np.sin(angle / 2), np.sin((np.pi - angle) / 2)
    if n < PRECISE_FROM:
        first = (z - n * sine**2) / (sine * cosine)
    else:  # no large numbers cancel near the upper end
        first = z * (cosine / sine) - (n - z) * (sine / cosine)
    second = -0.5 * (z / sine**2 + (n - z) / cosine**2)
    return first, second
