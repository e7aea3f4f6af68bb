"""Two stages, known first stages, and what is refused."""

import math

import numpy as np
import pytest

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    Gaussian,
    certify,
    known_first_stage,
    models,
    reference_prior,
    two_stage_prior,
)
from refprior.exact.oracle import Likelihoods, Objective, require_concave


def test_one_and_one_toss_in_closed_form() -> None:
    solution = two_stage_prior(Coin, m=1, n=1)
    assert solution.information == pytest.approx(math.log(5 / 4), abs=1e-15)
    assert solution.atoms == pytest.approx([0, 0.5, 1], abs=1e-9)
    assert solution.weights == pytest.approx([0.3, 0.4, 0.3], abs=1e-9)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 10), (1, 40), (10, 1), (30, 1)])
def test_the_figures_cases_reach_rounding(m: int, n: int) -> None:
    solution = two_stage_prior(Coin, m=m, n=n)
    assert solution.gap <= 1e-14
    assert solution.information < reference_prior(Coin(n)).information
    assert solution.atoms == pytest.approx(1 - solution.atoms[::-1], abs=1e-5)


@pytest.mark.parametrize(("m", "n"), [(100, 100), (300, 300), (500, 10)])
def test_long_stages_are_certified_and_symmetric(m: int, n: int) -> None:
    solution = two_stage_prior(Coin, m=m, n=n)
    assert solution.certified
    assert solution.gap <= 1e-13
    assert solution.weights.tolist() == solution.weights[::-1].tolist()
    assert solution.atoms == pytest.approx(1 - solution.atoms[::-1], abs=1e-15)


def test_two_stages_of_a_table_are_certified() -> None:
    """The weights along which the curvature is singular no longer drift."""
    once = np.array([[0.9, 0.1], [0.2, 0.8]])
    tables = {1: once, 2: np.stack([np.kron(row, row) for row in once])}
    solution = two_stage_prior(lambda k: Categorical(tables[k]), m=1, n=1)
    assert solution.certified
    assert solution.atoms_certified


def test_information_is_that_of_the_second_stage_given_the_first() -> None:
    """I(w; z^{m+n}) − I(w; z^m) = Σ p(z^m) I(w; zⁿ | z^m), by brute force over the first stage."""
    solution = two_stage_prior(Coin, m=2, n=3)
    w, pi = solution.atoms, solution.weights
    first = np.exp(Coin(2).log_likelihood(solution.coordinates))
    second = np.exp(Coin(3).log_likelihood(solution.coordinates))
    total = 0.0
    for z in range(3):
        joint = pi * first[:, z]
        posterior = joint / joint.sum()
        predictive = posterior @ second
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(second > 0, second * np.log(second / predictive), 0.0)
        total += joint.sum() * float(posterior @ terms.sum(axis=1))
    assert len(w) == len(pi)
    assert solution.information == pytest.approx(total, abs=1e-14)


def test_no_first_stage_is_the_one_stage_prior() -> None:
    zero, one = two_stage_prior(Coin, m=0, n=7), reference_prior(Coin(7))
    assert zero.information == one.information
    assert zero.atoms.tolist() == one.atoms.tolist()


def test_beta_goes_from_the_joint_prior_to_the_two_stage_prior() -> None:
    information = [two_stage_prior(Coin, m=2, n=4, beta=beta).information for beta in (0.0, 0.3, 0.7, 1.0)]
    assert information[0] == pytest.approx(reference_prior(Coin(6)).information, abs=1e-13)
    assert np.all(np.diff(information) < 0)
    assert two_stage_prior(Coin, m=2, n=4, beta=0.5).gap <= 1e-13


@pytest.mark.parametrize("beta", [1.0001, 2.0, -0.1, math.nan])
def test_beta_outside_the_concave_range_is_rejected(beta: float) -> None:
    with pytest.raises(ValueError, match="concave"):
        two_stage_prior(Coin, m=1, n=1, beta=beta)


@pytest.mark.parametrize(("m", "n"), [(-1, 3), (1.5, 3), (2, 0), (2, -1), (True, 3)])
def test_stages_must_be_counts(m: int, n: int) -> None:
    with pytest.raises(ValueError, match=r"must be a whole number of at least [01]"):
        two_stage_prior(Coin, m=m, n=n)


def test_two_stages_of_noise() -> None:
    """n samples of a Gaussian are one with noise σ/√n; a second stage tells more after a shorter first."""

    def samples(n: int) -> Channel:
        return Gaussian(3.0, 1 / math.sqrt(n))

    assert (
        two_stage_prior(samples, m=1, n=2, tolerance=1e-13).information > two_stage_prior(samples, m=4, n=2).information
    )


def test_stages_that_are_not_one_experiment_are_rejected() -> None:
    """A later stage that sees less than the first makes the sum convex somewhere."""
    with pytest.raises(ValueError, match="not concave"):
        two_stage_prior(lambda n: Coin(1 if n > 3 else 3), m=3, n=1)
    with pytest.raises(ValueError, match="same bounds"):
        two_stage_prior(lambda n: Gaussian(float(n)), m=1, n=1)
    noisy = Categorical([[0.6, 0.4], [0.4, 0.6]])
    clear = Categorical([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="not concave"):
        require_concave(Objective((noisy, clear), (1.0, -1.0)), np.array([[0.0], [1.0]]))


def test_a_known_first_stage_gives_back_the_reference_prior_as_posterior() -> None:
    """eq:ref_pinm: the prior is chosen so that the posterior after z^m is π*_n."""
    prior = reference_prior(Coin(10))
    stage = known_first_stage(prior, 0, first=Coin(3))
    assert stage.excluded.tolist() == [False, False, False, False, True]  # w = 1 cannot show only tails
    kept = ~stage.excluded
    likelihood = (1 - prior.atoms[kept]) ** 3
    assert stage.weights[kept] == pytest.approx(
        prior.weights[kept] / likelihood / np.sum(prior.weights[kept] / likelihood)
    )
    assert stage.posterior[kept] == pytest.approx(prior.weights[kept] / prior.weights[kept].sum())


def test_a_known_first_stage_reports_what_excluded_atoms_cost() -> None:
    """Two heads of three rule out 0 and 1, and with them half of the information; just inside they stay possible."""
    prior = reference_prior(Coin(10))
    stage = known_first_stage(prior, 2, first=Coin(3))
    heads = np.arange(11)
    binomials = np.array([math.comb(10, k) for k in heads])
    rows = binomials * prior.atoms[1:4, None] ** heads * (1 - prior.atoms[1:4, None]) ** (10 - heads)
    shares = prior.weights[1:4] / prior.weights[1:4].sum()
    expected = float(shares @ np.sum(rows * np.log(rows / (shares @ rows)), axis=1))
    assert stage.information == pytest.approx(expected, abs=1e-12)
    assert stage.loss == pytest.approx(prior.information - expected, abs=1e-12)
    assert "2 of 5 atoms excluded" in str(stage)
    kept = known_first_stage(prior, 2, first=Coin(3), inward=1e-6)
    assert kept.information == pytest.approx(1.2324, abs=1e-4)
    assert kept.atoms[[0, -1]] == pytest.approx([5e-7, 1 - 5e-7], abs=1e-15)
    assert kept.posterior == pytest.approx(prior.weights)
    assert not np.any(kept.excluded)
    assert known_first_stage(prior, 0, first=Coin(3), inward=0.1).atoms[0] == 0.0  # only what is excluded moves
    with pytest.raises(ValueError, match="inward must be a share of the way"):
        known_first_stage(prior, 2, first=Coin(3), inward=1.0)
    corners = reference_prior(models.multinomial(4, 3), tolerance=1e-6)
    seen = known_first_stage(corners, [1, 1, 1, 0], inward=1e-6)  # convex combinations stay in the simplex
    assert not np.any(seen.excluded)
    assert seen.loss < 1e-4


def test_beta_softens_the_known_first_stage() -> None:
    """eq:ref_pinm_beta: posterior ∝ p(z^m | w)^(1−β) π*_n; at β = 0 the prior is untouched."""
    prior = reference_prior(Coin(10))
    remember = known_first_stage(prior, 2, beta=0.0, first=Coin(4))
    kept = ~remember.excluded
    assert remember.excluded.tolist() == [True, False, False, False, True]  # both faces were seen
    assert remember.weights[kept] == pytest.approx(prior.weights[kept] / prior.weights[kept].sum())
    likelihood = 6 * prior.atoms**2 * (1 - prior.atoms) ** 2
    bayes = prior.weights * likelihood
    assert remember.posterior == pytest.approx(bayes / bayes.sum())
    half = known_first_stage(prior, 2, beta=0.5, first=Coin(4))
    expected = np.sqrt(likelihood) * prior.weights
    assert half.posterior == pytest.approx(expected / expected.sum())
    assert np.all(half.weights[~kept] == 0)


def test_a_first_stage_that_rules_out_every_atom_is_rejected() -> None:
    with pytest.raises(ValueError, match="impossible under every atom"):
        known_first_stage(reference_prior(Coin(1)), 1, first=Coin(2))
    with pytest.raises(ValueError, match="beta must lie"):
        known_first_stage(reference_prior(Coin(1)), 0, beta=1.5)


def test_certify_gives_the_same_certificate_again() -> None:
    prior = reference_prior(Coin(12))
    assert certify(prior).gap == prior.gap


def test_pairs_that_are_concave_at_the_even_prior_only_are_rejected() -> None:
    rng = np.random.default_rng(1)
    rows, even, refused = np.arange(3.0)[:, None], np.full(3, 1 / 3), 0
    for _ in range(60):
        second, first = Categorical(rng.dirichlet(np.full(3, 0.7), 3)), Categorical(rng.dirichlet(np.full(3, 2.0), 3))
        table = Likelihoods.of_values(Objective((second, first), (1.0, -1.0)), rows)
        if np.linalg.eigvalsh(table.curvature(even))[0] < -1e-8:
            continue  # refused at the even prior already
        spots = np.vstack([even, np.random.default_rng(2).dirichlet(np.ones(3), 300)])
        if min(np.linalg.eigvalsh(table.curvature(spot))[0] for spot in spots) < -0.1:
            refused += 1
            with pytest.raises(ValueError, match="not concave"):
                two_stage_prior({1: first, 2: second}.__getitem__, m=1, n=1)
    assert refused > 3
