"""Charts: the Fisher coordinate of a sampled likelihood, its inverse, and what is said where it cannot be measured."""

import numpy as np
import pytest
from scipy.stats import binom

from refprior.exact import Channel, Coin, reference_prior
from refprior.exact.geometry import measure, unclear_between

HEADS = np.arange(101)


def decaying(scale: float) -> Channel:
    """A hundred tosses of a coin whose bias decays with w: the same model for every scale, up to its far end."""
    return Channel.from_function(
        lambda w: binom.logpmf(HEADS, 100, 0.02 + 0.96 * np.exp(-w[:, None] / scale)), bounds=(0.0, 1.0), outcomes=HEADS
    )


@pytest.mark.parametrize(("scale", "gap"), [(0.3, 1e-12), (0.1, 1e-12), (0.01, 1e-12), (1e-4, 1e-12), (1e-9, 1e-9)])
def test_a_change_of_parametrization_costs_nothing(scale: float, gap: float) -> None:
    solution = reference_prior(decaying(scale), tolerance=gap)
    assert solution.evidence == "certified"
    if scale < 0.02:  # the far end of w is then that of the bias, and the information is the same for all
        assert solution.information == pytest.approx(1.975616006699, abs=1e-9)


def test_lengths_are_those_of_the_coin() -> None:
    """π √n, for the bias as the parameter, whose Fisher information is infinite at both ends."""
    coin = Coin(50)
    chart = measure(lambda w: np.exp(0.5 * coin.log_likelihood(coin.coordinate(w))), np.array([[0.0, 1.0]]), 51)
    assert chart.resolved
    assert chart.lengths[0] == pytest.approx(np.pi * np.sqrt(50), rel=3e-3)
    middle = chart.to_box(np.array([[0.25], [0.5], [0.75]]))[:, 0]
    assert middle == pytest.approx(np.sin(np.pi * np.array([0.125, 0.25, 0.375])) ** 2, abs=2e-3)


def test_the_inverse_of_a_chart_and_its_slopes() -> None:
    chart = measure(lambda w: np.sqrt(binom.pmf(np.arange(6), 5, w**3)), np.array([[0.1, 0.9]]), 6)
    x = np.linspace(0, 1, 23)[:, None]
    assert chart.from_box(chart.to_box(x)) == pytest.approx(x, abs=1e-12)
    assert chart.to_box(np.array([[0.0], [1.0]])).ravel().tolist() == [0.1, 0.9]
    difference = (chart.to_box(x[1:-1] + 1e-7) - chart.to_box(x[1:-1] - 1e-7)) / 2e-7
    assert chart.slopes(x[1:-1]) == pytest.approx(difference, rel=1e-5)
    assert chart.from_box(np.array([[0.0], [1.0]])).ravel() == pytest.approx([-0.125, 1.125])  # out of bounds shows


def test_turns_and_long_steps_are_unclear_and_straight_lines_are_not() -> None:
    step = np.array([0.1, 0.0, 0.0])
    assert not unclear_between(step, step)
    assert unclear_between(step, -step)
    assert unclear_between(step, 5 * step)
    assert not unclear_between(step / 1000, -step / 1000)  # too short to matter


def test_a_model_that_says_nothing_has_a_chart() -> None:
    chart = measure(lambda w: np.full((len(w), 2), 0.5**0.5), np.array([[0.0, 2.0]]), 2)
    assert chart.lengths[0] == 0
    assert chart.to_box(np.array([[0.25]])) == pytest.approx(0.5)
