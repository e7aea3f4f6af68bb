"""The saddle-point binomial against exact integers and high precision."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from refprior.exact.channels._binomial import deviance, log_binomial, normalizer, stirling_error


def exact_log(n: int, z: int, w: float) -> float:
    """log of the binomial in exact rational arithmetic, rounded once."""
    value = comb(n, z) * Fraction(w) ** z * (1 - Fraction(w)) ** (n - z)
    with localcontext() as context:
        context.prec = 40
        return float((Decimal(value.numerator) / Decimal(value.denominator)).ln())


@pytest.mark.parametrize("n", [1, 5, 31, 33, 200])
def test_against_rational_arithmetic(n: int) -> None:
    z = np.arange(n + 1.0)
    for angle in (0.1, 1.0, 2.5):
        w = np.sin(angle / 2) ** 2
        ours = log_binomial(n, z, np.array(angle), normalizer(n, z))
        expected = [exact_log(n, int(k), float(w)) for k in z]
        assert ours == pytest.approx(expected, rel=1e-14, abs=1e-13)


@pytest.mark.parametrize("n", [1000, 100_000, 1_000_000])
def test_long_experiments_lose_no_digits(n: int) -> None:
    """Sum, mean and variance agree with theory; by differences of log-gamma they would not."""
    z = np.arange(n + 1.0)
    p = np.exp(log_binomial(n, z, np.array(1.1), normalizer(n, z)))
    w = np.sin(0.55) ** 2
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p @ z == pytest.approx(n * w, rel=1e-12)
    assert p @ (z - n * w) ** 2 == pytest.approx(n * w * (1 - w), rel=1e-11)


def test_deviance_has_no_cancellation() -> None:
    mean = 1e6
    x = mean * (1 + np.array([0.0, 1e-9, 1e-6, 1e-3]))
    e = x / mean - 1
    assert deviance(x, np.array(mean)) == pytest.approx(mean * (e**2 / 2 - e**3 / 6 + e**4 / 12), rel=1e-6)


def test_stirling_error_meets_its_series() -> None:
    x = np.array([15.9999999, 16.0000001])
    assert stirling_error(x)[0] == pytest.approx(stirling_error(x)[1], rel=1e-7)
    assert stirling_error(np.array([1.0]))[0] == pytest.approx(1 - 0.5 * np.log(2 * np.pi), abs=1e-15)
