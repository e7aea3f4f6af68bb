"""Channels are normalized, their derivatives are right, and their quadrature is as fine as claimed."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, poisson

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    TwoCoins,
)
from refprior.exact.channels import _one_parameter as models
from refprior.exact.channels import canonical
from refprior.exact.channels._one_parameter import deviance, log_binomial, normalizer, stirling_error
from refprior.exact.oracle import Objective

CHANNELS: list[Channel] = [
    Coin(1),
    Coin(7),
    Coin(300),
    Gaussian(3.0, 0.7),
    Poisson(6.0),
    Poisson(4.0, dark=1.5),
    TwoCoins(4),
    ExponentialDecay((1.0, 2.0), 0.3),
    ExponentialDecay((0.5, 1.7), 0.3),
]


def inside(channel: Channel, count: int = 6) -> np.ndarray:
    low, high = channel.bounds.T
    unit = np.random.default_rng(0).uniform(0.05, 0.95, (count, channel.dimension))
    return np.asarray(low + (high - low) * unit)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_rows_sum_to_one_everywhere(channel: Channel) -> None:
    low, high = channel.bounds.T
    points = np.vstack([inside(channel), low, high])
    assert np.exp(channel.log_likelihood(points)).sum(axis=1) == pytest.approx(1.0, abs=3e-15)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_derivatives_match_differences(channel: Channel) -> None:
    u = inside(channel)
    step = 1e-5
    rows = channel.rows(u)
    for i, shift in enumerate(step * np.eye(channel.dimension)):
        up, down = channel.rows(u + shift), channel.rows(u - shift)
        first = (np.exp(up.log_p) - np.exp(down.log_p)) / (2 * step)
        assert rows.first[:, i] == pytest.approx(first, abs=1e-6)
        values = np.random.default_rng(1).normal(size=(first.shape[1],))
        second = (up.first @ values - down.first @ values) / (2 * step)
        assert rows.second(values)[:, i] == pytest.approx(second, abs=2e-5)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_the_hessian_is_the_second_derivative_of_the_negative_entropy(channel: Channel) -> None:
    u, step = inside(channel), 1e-5

    def slope(points: np.ndarray) -> np.ndarray:
        rows = channel.rows(points)
        return np.asarray(np.einsum("kiz,kz->ki", rows.first, np.maximum(rows.log_p, -745.0)))

    for i in range(channel.dimension):
        shift = step * np.eye(channel.dimension)[i]
        second = (slope(u + shift) - slope(u - shift)) / (2 * step)
        assert channel.rows(u).negentropy_hessian[:, i] == pytest.approx(second, abs=1e-4)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_parameter_and_coordinate_are_inverse_and_the_jacobian_is_their_slope(channel: Channel) -> None:
    u = inside(channel)
    assert channel.coordinate(channel.parameter(u)) == pytest.approx(u, rel=1e-12)
    step = 1e-6
    slope = (channel.parameter(u + step) - channel.parameter(u - step)) / (2 * step)
    assert channel.jacobian(u) == pytest.approx(slope, rel=1e-6)


def test_coin_and_poisson_are_the_textbook_ones() -> None:
    w = np.array([0.0, 1e-9, 0.3, 0.5, 1.0])
    coin = Coin(40)
    p = np.exp(coin.log_likelihood(coin.coordinate(w[:, None])))
    assert p == pytest.approx(binom.pmf(np.arange(41), 40, w[:, None]), rel=1e-12, abs=1e-300)
    rate = np.array([0.0, 0.2, 3.0])
    count = Poisson(3.0, dark=0.5)
    p = np.exp(count.log_likelihood(count.coordinate(rate[:, None])))
    assert p == pytest.approx(poisson.pmf(count.outcomes, rate[:, None] + 0.5), rel=1e-12, abs=1e-300)


def test_the_fisher_information_is_even_in_the_coordinates() -> None:
    for channel, expected in ((Coin(30), 30.0), (Gaussian(2.0, 0.5), 4.0), (Poisson(5.0), 4.0)):
        rows = channel.rows(inside(channel))
        information = np.sum(rows.first[:, 0] ** 2 / np.exp(rows.log_p), axis=1)
        assert information == pytest.approx(expected, rel=1e-10)


def prior_gain(channel: Channel, u: np.ndarray, weights: np.ndarray) -> np.ndarray:
    objective = Objective((channel,))
    return objective.gain(inside(channel, 40), objective.log_marginals(u, weights))


def test_gaussian_quadrature_error_is_below_the_claimed_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many nodes and longer tails change nothing, at spacings wider than the prior's."""
    u, weights = np.linspace(-10, 10, 9)[:, None], np.full(9, 1 / 9)
    coarse = prior_gain(Gaussian(10.0), u, weights)
    monkeypatch.setattr(models, "NODES", 2 * models.NODES)
    monkeypatch.setattr(models, "TAIL", 11.0)
    assert prior_gain(Gaussian(10.0), u, weights) == pytest.approx(coarse, abs=2e-14)


def test_decay_quadrature_error_is_below_the_claimed_gap() -> None:
    line = np.linspace(0, 1, 6)
    u = np.vstack([np.column_stack([line, line]), [[0.0, 1.0], [0.0, 0.7], [0.6, 1.0]]])
    weights = np.full(9, 1 / 9)
    coarse = prior_gain(ExponentialDecay((1.0, 2.0), 0.1), u, weights)
    fine = prior_gain(ExponentialDecay((1.0, 2.0), 0.1, nodes=8), u, weights)
    assert fine == pytest.approx(coarse, abs=5e-13)


def test_poisson_leaves_out_a_negligible_tail() -> None:
    for amplitude in (0.1, 1.0, 20.0, 300.0):
        channel = Poisson(amplitude)
        assert poisson.sf(channel.outcomes[-1], amplitude) < 1e-21


@pytest.mark.parametrize("n", [0, -3, 2.5, True, "4", math.nan])
def test_coins_refuse_odd_numbers_of_tosses(n: object) -> None:
    with pytest.raises(ValueError, match="number of tosses n must be a whole number of at least 1"):
        Coin(n)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_sizes_must_be_positive_and_finite(value: float) -> None:
    with pytest.raises(ValueError, match=r"must be above 0, got"):
        Gaussian(value)
    with pytest.raises(ValueError, match=r"must be above 0, got"):
        Gaussian(1.0, value)
    with pytest.raises(ValueError, match=r"must be above 0, got"):
        Poisson(value)
    with pytest.raises(ValueError, match=r"must be above 0, got"):
        ExponentialDecay((1.0, 2.0), value)


def test_models_refuse_what_they_cannot_do() -> None:
    with pytest.raises(ValueError, match="dark current must be at least 0"):
        Poisson(1.0, dark=-0.1)
    with pytest.raises(ValueError, match="at most 1e5"):
        Poisson(1e6)
    with pytest.raises(ValueError, match="at most 500"):
        Gaussian(1e4, 1.0)
    with pytest.raises(ValueError, match="two different times"):
        ExponentialDecay((1.0, 1.0), 0.1)
    with pytest.raises(ValueError, match="too fine a grid"):
        ExponentialDecay((1.0, 2.0), 1e-3)


def test_exchanging_the_decays_changes_nothing() -> None:
    channel = ExponentialDecay((1.0, 2.5), 0.2)
    u = inside(channel)
    assert channel.log_likelihood(u) == pytest.approx(channel.log_likelihood(u[:, ::-1]), abs=1e-12)
    assert np.all(np.diff(canonical(channel, u), axis=1) >= 0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.5, 0.6]], "row 0 sums to 1.1"),
        ([[0.5, 0.5], [math.nan, 1.0]], "NaN"),
        ([[1.5, -0.5]], "negative"),
        ([], "shape"),
        ([0.5, 0.5], "shape"),
    ],
)
def test_tables_are_checked(table: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Categorical(table)


def test_channels_compare_by_what_they_are() -> None:
    for make in (
        lambda: Coin(3),
        lambda: Gaussian(2.0),
        lambda: Poisson(2.0, 0.1),
        lambda: TwoCoins(2),
        ExponentialDecay,
    ):
        assert make() == make()
        assert hash(make()) == hash(make())
    assert Coin(3) != Coin(4)
    assert Categorical([[1, 0], [0, 1]]) == Categorical(np.eye(2))
    assert len({Categorical(np.eye(2)), Categorical(np.eye(2)), Categorical(np.eye(3))}) == 2


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
