"""Priors with nuisance parameters against exact identities, brute force and the asymptotic theory."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from refprior.exact import Channel, Coin, NuisancePrior, Product, TwoCoins, reference_prior
from refprior.exact.channels import to_coordinates

HEADS = np.arange(5.0)
PAIRS = np.stack(np.meshgrid(HEADS, HEADS, indexing="ij"), axis=-1).reshape(-1, 2)


def two_binomials(w: np.ndarray, n: int = 4) -> np.ndarray:
    """Heads of two coins with biases w₁ w₂ and w₂: w₁ is their ratio."""
    heads = np.arange(n + 1.0)
    first, second = (np.asarray(stats.binom.logpmf(heads, n, p[:, None])) for p in (w[:, 0] * w[:, 1], w[:, 1]))
    return np.asarray((first[:, :, None] + second[:, None, :]).reshape(len(w), -1))


RATIO = Channel.from_function(two_binomials, bounds=[(0.2, 1.0), (0.3, 0.9)], outcomes=PAIRS)


@pytest.fixture(scope="module")
def ratio() -> NuisancePrior:
    return reference_prior(RATIO, interest=0, tolerance=1e-7)


def blahut(p: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Plain Blahut–Arimoto on a table: weights and output."""
    weights = np.full(len(p), 1 / len(p))
    for _ in range(steps):
        gain = np.sum(p * np.log(p / (weights @ p)), axis=1)
        weights = weights * np.exp(gain - gain.max())
        weights /= weights.sum()
    return weights, weights @ p


def test_a_nuisance_that_says_nothing_of_the_interest_changes_nothing() -> None:
    """Two coins: given the first, the second has its own prior, and the first has that of a coin alone."""
    prior = reference_prior(TwoCoins(3), interest=1, tolerance=1e-9)
    alone = reference_prior(Coin(3))
    assert prior.evidence == "certified"
    assert prior.information == prior.interest.information == pytest.approx(alone.information, abs=1e-10)
    assert prior.gap == prior.interest.gap <= 1e-9
    assert prior.interest.atoms == pytest.approx(alone.atoms, abs=1e-6)
    assert prior.nuisance[0].atoms == pytest.approx(alone.atoms, abs=1e-6)
    assert prior.weights.sum() == pytest.approx(1.0)
    assert prior.atoms.shape == (9, 2)


def test_the_ratio_of_two_binomials_against_brute_force(ratio: NuisancePrior) -> None:
    """Both stages on grids: the capacity of the marginal channel from below, its gain at any ratio from above."""
    ratios, seconds = np.linspace(0.2, 1.0, 41), np.linspace(0.3, 0.9, 61)
    outputs = []
    for r in ratios:
        table = np.exp(two_binomials(np.column_stack([np.full(61, r), seconds])))
        outputs.append(blahut(table, 3000)[1])
    weights, output = blahut(np.array(outputs), 3000)
    gains = np.sum(np.array(outputs) * np.log(np.array(outputs) / output), axis=1)
    assert ratio.evidence == "certified"
    assert weights @ gains - 2e-5 <= ratio.interest.information <= gains.max() + 2e-5
    assert ratio.nuisance_gap < 1e-7


def test_the_marginal_channel_is_the_optimal_output_between_the_nodes(ratio: NuisancePrior) -> None:
    """Rows of the marginal channel at places that the polynomials were not made from."""
    marginal = ratio.interest.channel
    for r in (0.2513, 0.6071, 0.93):
        table = np.exp(two_binomials(np.column_stack([np.full(601, r), np.linspace(0.3, 0.9, 601)])))
        found = np.exp(marginal.log_likelihood(to_coordinates(marginal, [r])))[0]
        gain = np.sum(table * np.log(table / found), axis=1)  # at most the capacity at the optimal output
        weights, output = blahut(table, 4000)
        assert gain.max() <= float(weights @ np.sum(table * np.log(table / output), axis=1)) + 1e-5
        assert found == pytest.approx(output, abs=1e-4)


def test_the_location_of_a_normal_with_unknown_scale() -> None:
    """The scale's prior is the same for every mean, and the mean's is that of the mixture of both normals."""
    z = np.linspace(-13, 13, 261)
    normal = Channel.from_function(
        lambda w: stats.norm.logpdf(z, w[:, :1], w[:, 1:]) + math.log(z[1] - z[0]),
        bounds=[(-1.5, 1.5), (0.8, 1.6)],
        outcomes=z,
    )
    prior = reference_prior(normal, interest=(0,), nuisance=(1,), tolerance=1e-7)
    assert prior.evidence == "certified"
    for part in prior.nuisance:
        assert part.atoms == pytest.approx([0.8, 1.6])
        assert part.weights == pytest.approx(prior.nuisance[0].weights, abs=1e-6)
    first, second = prior.nuisance[0].weights

    def mixture(w: np.ndarray) -> np.ndarray:
        density = first * stats.norm.pdf(z, w[:, None], 0.8) + second * stats.norm.pdf(z, w[:, None], 1.6)
        return np.asarray(np.log(density * (z[1] - z[0])))

    direct = reference_prior(Channel.from_function(mixture, bounds=(-1.5, 1.5), outcomes=z), tolerance=1e-9)
    assert prior.interest.information == pytest.approx(direct.information, abs=1e-7)
    assert prior.interest.atoms == pytest.approx(direct.atoms, abs=1e-4)
    after = prior.posterior(z[131])
    joint = prior.weights * stats.norm.pdf(z[131], prior.atoms[:, 0], prior.atoms[:, 1])
    assert after.weights == pytest.approx(joint / joint.sum())
    by_mean = [after.weights[np.isclose(prior.atoms[:, 0], m)].sum() for m in prior.interest.atoms]
    assert prior.interest.posterior(z[131]).weights == pytest.approx(by_mean, abs=1e-6)


def berger_bernardo(ratios: np.ndarray) -> np.ndarray:
    """Density of the ratio for many tosses: exp ½ ∫ π(λ | θ) log(det g / g_λλ), π(λ | θ) ∝ √g_λλ (not normalized)."""
    x, weight = np.polynomial.legendre.leggauss(40)
    second = 0.6 + 0.3 * x
    density = []
    for r in ratios:
        p = r * second
        first_part, second_part = 1 / (p * (1 - p)), 1 / (second * (1 - second))
        g11, g12, g22 = second**2 * first_part, p * first_part, r * r * first_part + second_part
        conditional = weight * np.sqrt(g22)
        conditional /= conditional.sum()
        density.append(math.exp(0.5 * conditional @ np.log((g11 * g22 - g12**2) / g22)))
    return np.array(density)


@pytest.mark.slow
def test_many_tosses_approach_the_prior_of_berger_and_bernardo() -> None:
    """The distribution function of the ratio, for n = 30 closer than for n = 4. What is left are the atoms at the ends,
    half of whose weight the density cannot have there."""
    ratios = np.linspace(0.2, 1.0, 801)
    limit = np.cumsum(berger_bernardo(ratios))
    limit /= limit[-1]
    distances = []
    for n in (4, 30):
        heads = np.arange(n + 1.0)
        pairs = np.stack(np.meshgrid(heads, heads, indexing="ij"), axis=-1).reshape(-1, 2)
        channel = Channel.from_function(
            functools.partial(two_binomials, n=n), bounds=[(0.2, 1.0), (0.3, 0.9)], outcomes=pairs
        )
        prior = reference_prior(channel, interest=0, tolerance=1e-6)
        atoms, mass = prior.interest.atoms, np.cumsum(prior.interest.weights)
        middle = mass - prior.interest.weights / 2
        distances.append(float(np.abs(np.interp(atoms, ratios, limit) - middle).max()))
    assert distances[1] < distances[0]
    assert distances[1] < 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"interest": 5}, "there is no parameter 5: this channel has parameters 0 to 1"),
        ({"interest": (0, 1)}, "one parameter of interest and one or two nuisances"),
        ({"interest": 0, "nuisance": 0}, "each parameter of the channel once"),
        ({"interest": "first"}, "must be one or more numbers of parameters"),
        ({"nuisance": 1}, "nuisance is given without interest"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reference_prior(TwoCoins(1), **arguments)


def test_two_nuisances() -> None:
    """Of three coins, each on its own, the last is a coin."""
    prior = reference_prior(Product(Coin(1), Coin(1), Coin(1)), interest=2, tolerance=1e-6)
    assert prior.interest.information == pytest.approx(math.log(2), abs=1e-6)
    assert prior.atoms.shape == (8, 3)
    assert set(prior.atoms[:, 2].round(9)) == {0.0, 1.0}
