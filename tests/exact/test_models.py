"""Ready-made models, each against an independent number: another model, a formula, or brute force on a grid."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from refprior.exact import Channel, Coin, models, reference_prior, two_stage_prior
from refprior.exact.channels import to_coordinates


def brute_force(rows: Any, iterations: int = 20_000) -> tuple[float, float]:
    """Plain Blahut–Arimoto on a table p(z | w) of parameters on a grid: its information, and its largest gain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(rows > 0, rows * np.log(rows), 0.0).sum(axis=1)
    weights = np.full(len(rows), 1 / len(rows))
    for _ in range(iterations):
        gains = entropy - rows @ np.log(weights @ rows)
        weights = weights * np.exp(gains - gains.max())
        weights /= weights.sum()
    gains = entropy - rows @ np.log(weights @ rows)
    return float(weights @ gains), float(gains.max())


def test_brute_force_is_right_for_a_coin() -> None:
    low, high = brute_force(stats.binom.pmf(np.arange(3), 2, np.linspace(0, 1, 41)[:, None]))
    assert low <= math.log(17 / 8) + 1e-12 <= high + 1e-12 <= low + 1e-4


@pytest.mark.parametrize("r", [1, 4])
def test_waiting_for_successes(r: int) -> None:
    prior = reference_prior(models.negative_binomial(r, bounds=(0.2, 0.9)))
    low, high = brute_force(stats.nbinom.pmf(np.arange(400), r, np.linspace(0.2, 0.9, 141)[:, None]), 5000)
    assert prior.evidence == "certified"
    assert low - 1e-9 <= prior.information <= high + 1e-3
    assert high - low < 2e-3


def test_samples_of_a_waiting_time_add_up() -> None:
    channel = models.geometric(bounds=(0.3, 0.9))
    assert channel.repeat(4).log_likelihood_of(np.array([[0.0]]), 5) == pytest.approx(stats.nbinom.logpmf(5, 4, 0.3))
    assert two_stage_prior(channel.repeat, m=1, n=2).certified


def test_a_multinomial_of_one_draw_has_capacity_log_c() -> None:
    for categories in (3, 4):
        prior = reference_prior(models.multinomial(categories, 1), tolerance=1e-9)
        assert prior.information == pytest.approx(math.log(categories), abs=1e-9)
        assert len(prior.atoms) == categories


def test_a_multinomial_of_three_categories() -> None:
    """Against brute force on all multiples of 1/20."""
    prior = reference_prior(models.multinomial(3, 4), tolerance=1e-9)
    shares = np.array([(a, b, 20 - a - b) for a in range(21) for b in range(21 - a)]) / 20
    counts = np.array([(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)])
    rows = stats.multinomial.pmf(counts[None], 4, shares[:, None])
    low, high = brute_force(rows, 5000)
    assert prior.evidence == "certified"
    assert low - 1e-9 <= prior.information <= high + 2e-3
    assert high - low < 1e-3


def test_a_multinomial_takes_probabilities_and_counts() -> None:
    channel = models.multinomial(3, 5)
    w = np.array([[0.2, 0.5], [0.0, 1.0], [1.0, 0.0]])
    u = to_coordinates(channel, w)
    assert channel.parameter(u) == pytest.approx(w, abs=1e-12)
    expected = stats.multinomial.logpmf([1, 3, 1], 5, [0.2, 0.5, 0.3])
    assert channel.log_likelihood_of(u, [1, 3, 1])[0] == pytest.approx(expected)
    with pytest.raises(ValueError, match="out of bounds"):
        to_coordinates(channel, [[0.7, 0.7]])
    with pytest.raises(ValueError, match="3 counts that sum to 5"):
        channel.log_likelihood_of(u, [1, 3, 2])
    assert models.multinomial(2, 7) == Coin(7)
    assert channel.repeat(2) == models.multinomial(3, 10)


def test_genotypes_are_alleles() -> None:
    """The counts of three genotypes tell as much as those of two alleles."""

    def one(w: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.stack([w**2, 2 * w * (1 - w), (1 - w) ** 2], axis=1)))

    genotypes = Channel.from_function(one, bounds=(0, 1), outcomes=np.arange(3.0)).repeat(4)
    ours = reference_prior(models.hardy_weinberg(4))
    assert reference_prior(genotypes).information == pytest.approx(ours.information, abs=1e-10)


def test_inbreeding_of_one_individual() -> None:
    """With f = 1 there are two genotypes for every w: three outcomes can be told apart perfectly by f and w."""
    prior = reference_prior(models.hardy_weinberg(1, inbreeding=(0, 1)), tolerance=1e-9)
    grid = np.array(list(itertools.product(np.linspace(0, 1, 41), np.linspace(0, 1, 11))))
    a, f = grid.T
    rows = np.stack([a**2 + f * a * (1 - a), 2 * (1 - f) * a * (1 - a), (1 - a) ** 2 + f * a * (1 - a)], axis=1)
    low, high = brute_force(rows, 5000)
    assert low - 1e-9 <= prior.information <= high + 1e-3
    assert high - low < 1e-3


def test_a_lifetime_in_other_units_tells_as_much() -> None:
    """Rates from 0.1 to 10 with censoring at 1 are rates from 1 to 100 with censoring at 0.1."""
    informations = [
        reference_prior(models.exponential_lifetime(bounds=box, censored_at=end), tolerance=1e-9).information
        for box, end in (((0.5, 4), 1.0), ((5, 40), 0.1))
    ]
    assert informations[0] == pytest.approx(informations[1], abs=1e-9)
    grid = np.geomspace(0.5, 4, 61)[:, None]
    edges = np.linspace(0, 1, 401)
    rows = np.hstack([np.diff(-np.exp(-grid * edges), axis=1), np.exp(-grid)])
    low, high = brute_force(rows, 3000)  # times seen to 1/400, which loses a little
    assert informations[0] - 1e-3 < low <= informations[0] <= high + 1e-3


def test_inspections_of_a_lifetime() -> None:
    """One inspection at time 1 is a coin with bias e^(−w)."""
    one = models.inspected_lifetime(lambda w: stats.expon(scale=1 / w), [1.0], bounds=(0.2, 3))
    coin = Channel.from_function(
        lambda w: np.log(np.stack([1 - np.exp(-w), np.exp(-w)], axis=1)), bounds=(0.2, 3), outcomes=np.arange(2.0)
    )
    assert reference_prior(one).information == pytest.approx(reference_prior(coin).information, abs=1e-12)
    more = models.inspected_lifetime(lambda w: stats.expon(scale=1 / w), [0.5, 1.0], bounds=(0.2, 3))
    assert reference_prior(more).information > reference_prior(one).information


def test_a_weibull_of_shape_one_is_exponential() -> None:
    """In a narrow band of shapes around one, the scale is all that can be told."""
    bounds = [(0.999, 1.001), (0.25, 2)]
    weibull = reference_prior(models.weibull_lifetime(bounds=bounds, censored_at=1.0), tolerance=1e-6)
    exponential = reference_prior(models.exponential_lifetime(bounds=(0.5, 4), censored_at=1.0), tolerance=1e-9)
    assert weibull.information == pytest.approx(exponential.information, abs=1e-3)
    assert weibull.information >= exponential.information - 1e-6


def test_one_rasch_item_is_a_coin_with_bounds() -> None:
    p = 1 / (1 + math.exp(-2))
    prior = reference_prior(models.rasch([0.5], bounds=(-1.5, 2.5)))
    assert prior.information == pytest.approx(math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p), abs=1e-12)


def test_equal_rasch_items_are_tosses() -> None:
    prior = reference_prior(models.rasch([0.0] * 10, bounds=(-3, 3)))
    heads = np.arange(11)
    tosses = Channel.from_function(
        lambda w: stats.binom.logpmf(heads, 10, w[:, None]), bounds=(1 / (1 + math.exp(3)), 1 / (1 + math.exp(-3))),
        outcomes=heads,
    )  # fmt: skip
    assert len(prior.channel.outcomes) == 11
    assert prior.information == pytest.approx(reference_prior(tosses).information, abs=1e-10)


def test_sums_of_answers_tell_all() -> None:
    """Regression on sums against the table of all answers."""
    x, w = np.array([[1.0, -1.0], [1.0, 0.5], [1.0, 2.0], [1.0, 0.5]]), np.array([[0.3, -0.7], [1.2, 0.4]])
    channel = models.logistic_regression(x, bounds=[(-2, 2), (-2, 2)], offset=[0.1, 0, 0, 0])
    assert len(channel.outcomes) == 11  # 2⁴ answers: two inputs are equal, and the first plus the third is twice those
    answers = np.array(list(itertools.product((0, 1), repeat=4)))
    p = 1 / (1 + np.exp(-(w @ x.T + [0.1, 0, 0, 0])))
    each = np.prod(np.where(answers[None] == 1, p[:, None], 1 - p[:, None]), axis=2)
    for outcome in channel.outcomes:
        same = np.all(np.isclose(answers @ x, outcome), axis=1)
        ours = np.exp(channel.log_likelihood_of(channel.coordinate(w), outcome))
        assert ours == pytest.approx(each[:, same].sum(axis=1))


def test_two_doses_are_two_coins() -> None:
    """A wide range of midpoints and slopes lets the responses at two doses be anything, almost."""
    prior = reference_prior(models.dose_response([-1.0, 1.0], bounds=[(-12, 12), (-12, 12)]), tolerance=1e-7)
    assert prior.information == pytest.approx(2 * math.log(2), abs=1e-3)


def test_one_sample_of_a_normal_is_scipys() -> None:
    ours = reference_prior(models.normal(), tolerance=1e-9)
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 21), np.linspace(0.5, 2, 16))))
    z = np.linspace(-14, 14, 561)
    rows = stats.norm.pdf(z, grid[:, :1], grid[:, 1:]) * (z[1] - z[0])
    low, high = brute_force(rows, 3000)
    assert low - 1e-8 <= ours.information <= high + 2e-3
    assert high - low < 3e-3


def test_samples_of_a_normal_are_a_mean_and_a_deviation() -> None:
    channel = models.normal(5)
    u = np.array([[0.2, 0.3], [0.9, 0.8]])
    assert np.exp(channel.log_likelihood(u)).sum(axis=1) == pytest.approx(1, abs=1e-9)
    z = np.array([0.3, -1.2, 0.8, 1.5, 0.1])
    m, s = channel.parameter(u).T
    exact = stats.norm.logpdf(z[:, None], m, s).sum(axis=0)
    ours = channel.log_likelihood_of(u, [z.mean(), z.std(ddof=1)])
    assert np.diff(ours) == pytest.approx(np.diff(exact))  # up to what does not depend on w
    assert models.normal().repeat(5).outcomes.shape == channel.outcomes.shape


def test_an_enzyme_that_is_saturated_shows_its_speed_only() -> None:
    """At a huge concentration the mean is V: the Gaussian channel."""
    from refprior.exact import Gaussian

    prior = reference_prior(models.michaelis_menten([1e6], sigma=0.5), tolerance=1e-6)
    assert prior.information == pytest.approx(reference_prior(Gaussian(1.0)).information, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.negative_binomial(0), "successes must be a whole number of at least 1"),
        (lambda: models.multinomial(6, 2), "at most 5"),
        (lambda: models.multinomial(3, 0), "draws n must be a whole number"),
        (lambda: models.hardy_weinberg(1, inbreeding=(0.5, 0.2)), "within 0 and 1"),
        (lambda: models.exponential_lifetime(censored_at=-1.0), "censored_at must be above 0"),
        (lambda: models.inspected_lifetime(stats.expon, [2.0, 1.0], bounds=(1, 2)), "increasing order"),
        (lambda: models.logistic_regression([[1, 2]], bounds=(0, 1)), "one column for each of 1 weights"),
        (lambda: models.logistic_regression(np.ones((60, 1)), bounds=(0, 1)), "take fewer inputs"),
        (lambda: models.dose_response([np.nan]), "doses must be a list of finite numbers"),
        (lambda: models.two_parameter_logistic([0.0], [-1.0]), "discriminations above 0"),
        (lambda: models.michaelis_menten([1.0], sigma=1, bounds=[(0, 1), (0, 1)]), "with K above 0"),
        (lambda: models.michaelis_menten([-1.0], sigma=1), "of at least 0"),
        (lambda: models.exponentials([0.0, 1.0], sigma=1), "times must be above 0"),
        (lambda: models.normal(2, bounds=[(0, 1), (0, 1)]), "the scale above 0"),
    ],
)
def test_mistakes_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
