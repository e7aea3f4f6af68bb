"""Draws from densities against closed forms, and biases against posteriors computed one by one."""

import math
from typing import Any

import numpy as np
import pytest
from experiments.asymptopia import jeffreys_draws
from scipy import stats

from refprior.exact import Channel, Coin, Gaussian, compare_priors, draw_prior, models, reference_prior
from refprior.exact.ask._draws import displacements, log_volume, true_parameters
from refprior.exact.channels import NoisyMean, SampledMean


def decays(d: int, times: int | None = None, sigma: float = 0.1) -> NoisyMean:
    channel = models.exponentials(np.arange(1.0, (times or d) + 1), terms=d, sigma=sigma)
    assert isinstance(channel, NoisyMean)
    return channel


def line(width: float) -> Channel:
    return Channel.from_mean(lambda w: w, sigma=1.0, bounds=(-width, width), curvature=0)


def test_the_volume_of_decays_is_a_vandermonde_determinant() -> None:
    channel = decays(4)
    w = np.random.default_rng(0).uniform(size=(20, 4))
    u = channel.coordinate(w)
    gaps = [np.abs(w[:, i] - w[:, j]) for i in range(4) for j in range(i)]
    expected = sum(np.log(gap) for gap in gaps) + math.log(math.factorial(4)) - 4 * math.log(4 * 0.1)
    assert log_volume(channel, u) - np.log(channel.jacobian(u)).sum(axis=1) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("d", [3, pytest.param(5, marks=pytest.mark.thorough)])
def test_jeffreys_draws_are_eigenvalues_of_random_matrices(d: int) -> None:
    """∏ |w_i − w_j| on the unit cube is a Jacobi ensemble: an exact sampler that shares nothing with ours."""
    ours, weights = draw_prior(decays(d), "jeffreys", 2000)
    theirs = jeffreys_draws(np.random.default_rng(1), 20_000, d)
    assert weights == pytest.approx(1 / 2000)
    for i, column in enumerate(np.sort(ours, axis=1).T):
        assert stats.ks_2samp(column, theirs[:, i]).pvalue > 1e-3


def test_jeffreys_draws_of_a_coin_are_even_in_fisher_length() -> None:
    w, _ = draw_prior(Coin(5), "jeffreys", 1000, seed=3)
    assert stats.kstest(2 * np.arcsin(np.sqrt(w[:, 0])) / math.pi, "uniform").pvalue > 1e-3


def test_estimates_of_a_bounded_mean_pile_up_at_the_bounds() -> None:
    """p(z) is flat between them and half a normal beyond: ends weigh √(2π)/2 each, against a length of 2."""
    w, weights = draw_prior(line(1.0), "projected", 4000)
    end = math.sqrt(2 * math.pi) / 2
    for bound in (-1.0, 1.0):
        assert weights[w[:, 0] == bound].sum() == pytest.approx(end / (2 * end + 2), abs=0.02)
    inside = np.abs(w[:, 0]) < 1
    assert weights[inside] @ w[inside, 0] ** 2 / weights[inside].sum() == pytest.approx(1 / 3, abs=0.03)


def test_estimates_of_a_coin_are_shares_of_heads() -> None:
    w, weights = draw_prior(Coin(6), "projected")
    heads = np.arange(7)
    largest = np.asarray(stats.binom.pmf(heads, 6, heads / 6))
    assert w[:, 0] == pytest.approx(heads / 6, abs=1e-3)
    assert weights == pytest.approx(largest / largest.sum(), abs=1e-5)


def test_displacements_are_those_of_posterior_means() -> None:
    """Minus the slope of the gain, for listed and for sampled noise, and posteriors by hand."""
    listed = decays(2, times=3, sigma=0.2)
    settings = listed.function, listed.box, listed.scalar, listed.sigma, None, listed.bounds, True
    sampled = SampledMean(*settings, partner=listed, derivative=listed.derivative)
    rng = np.random.default_rng(0)
    u, weights, truths = rng.uniform(size=(6, 2)), rng.dirichlet(np.ones(6)), rng.uniform(size=(3, 2))
    means = listed.means(listed.parameter(u))
    noise = rng.normal(size=(50_000, means.shape[1]))
    for k, mean in enumerate(listed.means(listed.parameter(truths))):
        seen = mean + noise
        logs = np.log(weights) - np.sum((seen[:, None] - means) ** 2, axis=2) / 2
        posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
        center = (posterior / posterior.sum(axis=1, keepdims=True)) @ means
        expected = np.linalg.norm(center.mean(axis=0) - mean)
        assert displacements(listed, u, weights, truths)[k] == pytest.approx(expected, abs=0.02)
        assert displacements(sampled, u, weights, truths)[k] == pytest.approx(expected, abs=0.02)
    fixed = Gaussian(2.0)
    flat = np.linspace(-2, 2, 2001)[:, None]
    assert displacements(fixed, flat, np.full(2001, 1 / 2001), np.array([[0.0], [2.0]])) == pytest.approx(
        [0.0, 2 - _truncated_mean(2.0)], abs=2e-3
    )


def _truncated_mean(truth: float) -> float:
    """Return E over z of the posterior mean of a uniform prior on [−2, 2]."""
    z = np.linspace(-10, 14, 4801)
    center = [stats.truncnorm.mean(-2 - x, 2 - x, loc=x) for x in z]
    return float(np.trapezoid(np.array(center) * stats.norm.pdf(z, truth), z))


def test_the_bias_of_a_coin_is_that_of_beta_posteriors() -> None:
    """The uniform prior: the mean of φ = 2 arcsin √w under Beta(k + 1, n − k + 1), in units of 1/√n."""
    found = compare_priors(Coin(9), ["uniform"], truths=[0.3])["uniform"]
    k, w = np.arange(10), np.linspace(0, 1, 20_001)
    center = [np.trapezoid(2 * np.arcsin(np.sqrt(w)) * stats.beta.pdf(w, j + 1, 10 - j), w) for j in k]
    moved = stats.binom.pmf(k, 9, 0.3) @ center - 2 * math.asin(math.sqrt(0.3))
    assert found.bias == pytest.approx(3 * abs(moved), abs=1e-5)
    assert found.bias_error == 0


def test_atoms_inside_are_unbiased() -> None:
    """The gain of the optimum is flat at them, and its slope is the bias."""
    prior = reference_prior(Gaussian(4.0))
    inside = prior.coordinates[1:-1]
    assert displacements(prior.channel, prior.coordinates, prior.weights, inside) == pytest.approx(0, abs=1e-6)


@pytest.mark.thorough
def test_jeffreys_is_biased_by_irrelevant_parameters() -> None:
    """Sums of six exponentials: three of four priors lose information and pull predictions, with errors of both."""
    channel = models.exponentials(5 * np.arange(1, 7) / 6, terms=6, sigma=0.1 * math.sqrt(6 / 5))
    found = compare_priors(channel, {"jeffreys": "jeffreys", "exact": lambda rng, n: jeffreys_draws(rng, n, 6)})
    reference, jeffreys, exact = (found[name] for name in ("reference", "jeffreys", "exact"))
    assert reference.bias < 0.3 < jeffreys.bias - 3 * jeffreys.bias_error
    assert reference.information - jeffreys.information > 1
    for key in ("information", "bias"):
        error = math.hypot(getattr(jeffreys, f"{key}_error"), getattr(exact, f"{key}_error"))
        assert 0 < error < 0.6
        assert getattr(jeffreys, key) == pytest.approx(getattr(exact, key), abs=4 * error)
    assert "±" in str(found)
    assert len(true_parameters(channel, 5)) == len(found.truths) <= 200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw_prior(decays(26), "jeffreys"), "√det g is rounding"),
        (lambda: draw_prior(decays(4, times=3), "jeffreys"), "det g is zero with 3 observations of 4"),
        (lambda: draw_prior(Coin(2), "jeffrey"), "unknown prior 'jeffrey'"),
        (lambda: compare_priors(Coin(2), {"mine": lambda rng, n: [0.5]}), "'mine' returned 1 draws, expected 512"),
        (lambda: Channel.from_mean(np.sin, sigma=1, bounds=(0, 1), slopes=lambda w: 2 * np.cos(w)), "not the deriv"),
        (lambda: Channel.from_mean(np.sin, sigma=1, bounds=(0, 1), slopes=lambda w: [1.0]), "slopes must return"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_slopes_that_are_given_are_used() -> None:
    given = Channel.from_mean(np.sin, sigma=0.5, bounds=(-1.5, 1.5), slopes=np.cos)
    found = Channel.from_mean(np.sin, sigma=0.5, bounds=(-1.5, 1.5))
    a, b = (reference_prior(channel, tolerance=1e-9) for channel in (given, found))
    assert a.information == pytest.approx(b.information, abs=1e-9)
    assert given.repeat(2).derivative is not None  # type: ignore[attr-defined]
