"""Gaussian noise in too many directions for a grid: gains from samples, against quadrature and known answers."""

import math
from pathlib import Path

import numpy as np
import pytest

from refprior.exact import (
    Channel,
    Coin,
    Gaussian,
    Product,
    Solution,
    certify,
    compare_designs,
    compare_priors,
    models,
    reference_prior,
    scan_priors,
    two_stage_prior,
)
from refprior.exact.channels import NoisyMean, SampledMean
from refprior.exact.oracle import divergence, log_marginal
from refprior.exact.sampling import Mixture, normals
from refprior.exact.solve import _sampled as sampled


def forced(channel: Channel, seed: int = 0) -> SampledMean:
    """The same model with samples of the noise, although a grid would do."""
    assert isinstance(channel, NoisyMean)
    c = channel
    return SampledMean(c.function, c.box, c.scalar, c.sigma, c.curvature, c.bounds, c.exchangeable, seed=seed)


def five_means() -> Channel:
    """Five Gaussians side by side: 32 atoms at the corners, and a grid of 28 million outcomes."""
    return Channel.from_mean(lambda w: w, sigma=1.0, bounds=[(-1, 1)] * 5)


def far_means() -> SampledMean:
    """45 standard deviations from the middle to a corner."""
    channel = Channel.from_mean(lambda w: w, sigma=0.05, bounds=[(-1, 1)] * 5)
    assert isinstance(channel, SampledMean)
    return channel


@pytest.fixture(scope="module")
def prior() -> Solution:
    return reference_prior(five_means(), tolerance=5e-3)


def atoms(count: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.uniform(0, 1, (count, 2)), rng.dirichlet(np.ones(count))


def test_the_gain_is_that_of_a_quadrature() -> None:
    channel = models.exponentials([1.0, 2.0, 3.0], sigma=0.2)
    u, weights = atoms()
    points = np.random.default_rng(4).uniform(0, 1, (20, 2))
    exact = divergence(channel, points, log_marginal(channel, u, weights))
    means = forced(channel).at
    found = np.stack([Mixture.of(means(u), weights, normals(2048, 3, s)).gain(means(points)) for s in range(8)])
    error = found.std(axis=0, ddof=1) / math.sqrt(8)
    assert error.max() < 2e-3
    assert np.all(np.abs(found.mean(axis=0) - exact) < 4 * error + 1e-9)  # of twenty points, one may be 3 errors away
    assert np.mean(np.abs(found.mean(axis=0) - exact) < 3 * error + 1e-9) >= 0.9


def test_slopes_of_the_gain_are_those_of_the_sample() -> None:
    rng = np.random.default_rng(0)
    mixture = Mixture.of(rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5)), normals(64, 3, 0))
    m, step = rng.normal(size=(4, 3)), 1e-5
    _, slope = mixture.gain_and_slope(m)
    for axis in np.eye(3):
        difference = (mixture.gain(m + step * axis) - mixture.gain(m - step * axis)) / (2 * step)
        assert slope @ axis == pytest.approx(difference, abs=1e-8)


def test_slopes_of_the_information_are_those_of_the_sample() -> None:
    """In means and weights; weights need not sum to one for that."""
    rng = np.random.default_rng(1)
    means, weights, noise, step = rng.normal(size=(4, 2)), rng.dirichlet(np.ones(4)), normals(64, 2, 0), 1e-5
    value, by_weight, by_mean = Mixture.of(means, weights, noise).information()
    assert value == pytest.approx(weights @ Mixture.of(means, weights, noise).gain(means))
    for k in range(4):
        moved = weights + step * np.eye(4)[k], weights - step * np.eye(4)[k]
        up, down = (Mixture.of(means, w, noise).information()[0] for w in moved)
        assert by_weight[k] == pytest.approx((up - down) / (2 * step), abs=1e-7)
        for axis in range(2):
            change = np.zeros((4, 2))
            change[k, axis] = step
            up, down = (Mixture.of(m, weights, noise).information()[0] for m in (means + change, means - change))
            assert by_mean[k, axis] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_the_answer_is_that_of_a_grid() -> None:
    """Two decays at three times: the capacity, certified by a quadrature, lies within the searched gap."""
    channel = models.exponentials([1.0, 2.0, 3.0], sigma=0.2)
    grid, found = reference_prior(channel, tolerance=1e-6), reference_prior(forced(channel), tolerance=2e-3)
    assert found.evidence == "searched"
    assert found.sampling_error is not None
    assert found.information - found.sampling_error <= grid.information <= found.information + found.gap
    assert found.gap < 2e-3


def test_five_means_are_five_gaussians(prior: Solution) -> None:
    """A model whose grid was refused, with an answer that is known."""
    assert isinstance(prior.channel, SampledMean)
    assert prior.evidence == "searched"
    assert not prior.atoms_certified
    truth = 5 * reference_prior(Gaussian(1.0)).information
    assert prior.sampling_error is not None
    assert prior.information - prior.sampling_error <= truth <= prior.information + prior.gap
    assert prior.gap < 5e-3
    assert len(prior.weights) == 32
    assert np.all(np.abs(prior.atoms) == 1)


def test_without_a_tolerance_it_is_one_that_samples_reach() -> None:
    found = reference_prior(forced(models.exponentials([1.0, 2.0], sigma=0.3)))
    assert (found.evidence, found.tolerance) == ("searched", 1e-3)


def test_the_same_seed_gives_the_same_answer() -> None:
    channel = models.exponentials([1.0, 2.0], sigma=0.3)
    first, again, other = (reference_prior(forced(channel, s), tolerance=1e-2) for s in (0, 0, 1))
    assert np.array_equal(first.coordinates, again.coordinates)
    assert (first.information, first.gap) == (again.information, again.gap)
    assert first.information != other.information
    assert first.information == pytest.approx(other.information, abs=first.gap + other.gap)


def test_a_search_that_trusts_few_samples_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits 16 samples of the noise is far from the optimum, and fresh samples say so."""
    monkeypatch.setattr(sampled, "STAGES", ((16, 1e-4),))
    channel = models.exponentials([1.0, 2.0, 3.0], sigma=0.2)
    capacity = reference_prior(channel, tolerance=1e-6).information
    with pytest.warns(UserWarning, match="the gap is an estimate"):
        found = reference_prior(forced(channel), tolerance=1e-4)
    assert found.evidence == "unfinished"
    assert capacity - found.information > 1e-3
    assert capacity <= found.information + found.gap


def test_a_prior_can_be_used_and_kept(prior: Solution, tmp_path: Path) -> None:
    assert "of which sampling" in repr(prior)
    assert prior.to_dict()["sampling_error"] == prior.sampling_error
    assert prior.weights @ prior.gain(prior.atoms) == pytest.approx(prior.information, abs=1e-12)
    posterior = prior.posterior([0.9, -1.2, 0.4, 2.0, 0.0])
    signs = np.exp(prior.atoms @ [0.9, -1.2, 0.4, 2.0, 0.0]) * prior.weights
    assert posterior.weights == pytest.approx(signs / signs.sum(), abs=1e-12)
    prior.save(tmp_path / "prior.json")
    loaded = Solution.load(tmp_path / "prior.json", five_means())
    assert (loaded.information, loaded.gap) == (prior.information, prior.gap)
    assert prior.plot().get_xlabel() == "$w_1$"


def test_what_needs_all_outcomes_is_rejected(prior: Solution) -> None:
    with pytest.raises(ValueError, match="too many to be listed"):
        prior.predictive()
    with pytest.raises(ValueError, match="too many to be listed"):
        two_stage_prior(five_means().repeat, m=1, n=1)
    with pytest.raises(ValueError, match="too many to be listed"):
        reference_prior(models.exponentials(range(1, 11), terms=3, sigma=0.1), interest=0)
    with pytest.raises(ValueError, match=r"means reach 224 standard deviations .* take a larger sigma, narrower"):
        Channel.from_mean(lambda w: w, sigma=0.01, bounds=[(-1, 1)] * 5)


def test_more_samples_may_be_too_many_for_a_grid() -> None:
    channel = Channel.from_mean(lambda w: w, sigma=1.0, bounds=[(-0.5, 0.5)] * 4)
    assert not isinstance(channel.repeat(2), SampledMean)
    assert isinstance(channel.repeat(100), SampledMean)


def test_means_may_be_far_from_every_atom() -> None:
    """Far from every atom the density is too small for a double, and its logarithm is not."""
    channel = far_means()
    mixture = Mixture.of(channel.at(np.zeros((1, 5))), np.ones(1), normals(256, 5, 0))  # one atom, at a corner
    far = channel.at(np.ones((1, 5)))
    gain, slope = mixture.gain_and_slope(far)
    assert gain == pytest.approx([5 * 40**2 / 2], rel=0.01)  # |m − m_0|²/2
    assert slope == pytest.approx(far - mixture.means, rel=0.01)


def test_first_atoms_are_on_all_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "completed", lambda channel, u, weights, noise, above: (u, weights))
    first, _ = sampled.search(far_means())
    assert np.all(first.max(axis=0) > 0.9)
    assert np.all(first.min(axis=0) < 0.1)


def test_a_mean_of_two_values() -> None:
    """Every start of a search is at an atom, so that no others are left."""
    found = reference_prior(Channel.from_mean(np.sign, sigma=0.9, bounds=[(-1, 1)] * 5))
    truth = 5 * reference_prior(Gaussian(1 / 0.9)).information
    assert found.evidence == "searched"
    assert found.information == pytest.approx(truth, abs=found.gap)


def test_a_mean_that_cannot_be_followed_has_no_gap(prior: Solution, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = prior.channel.axes
    axes.resolved = False
    monkeypatch.setattr(SampledMean, "axes", axes)
    found = certify(prior)
    assert (found.evidence, found.gap) == ("unfinished", math.inf)
    assert found.shortfall is not None
    assert "nothing bounds it" in found.shortfall


def test_an_unfinished_product_with_a_sampled_part_does_not_claim_a_bound() -> None:
    with pytest.warns(UserWarning, match="the gap is an estimate"):
        reference_prior(Product(five_means(), Coin(2)), tolerance=1e-9)


def one_mean() -> SampledMean:
    """A mean between −1 and 1 in unit noise, sampled: two atoms at the ends, 0.336831 nats."""
    return forced(Channel.from_mean(lambda w: w, sigma=1.0, bounds=(-1, 1)))


def test_tolerances_that_nobody_asked_for_can_be_reached() -> None:
    channel = one_mean()
    product = reference_prior(Product(Coin(2), channel))
    assert (product.evidence, product.tolerance) == ("searched", 1e-3 + 1e-12)
    coin, part = product.parts
    assert coin.gap < 1e-12  # the coin has its own tolerance, not half of the product's
    assert product.sampling_error == part.sampling_error
    assert two_stage_prior(lambda n: channel, m=0, n=1).evidence == "searched"
    designs = compare_designs({"sampled": channel, "coin": Coin(2)})
    assert [(design.name, design.evidence) for design in designs] == [("coin", "certified"), ("sampled", "searched")]


def test_priors_of_a_sampled_model_are_compared_without_coverage() -> None:
    found = compare_priors(one_mean(), {"middle": ([-0.5, 0.5], [0.5, 0.5])})
    assert found.evidence == "searched"
    assert [prior.name for prior in found] == ["reference", "middle"]
    assert found["reference"].worst_regret == pytest.approx(0.336831, abs=1e-3)
    assert math.isnan(found["middle"].mean_coverage)
    listed = compare_priors(Gaussian(1.0), ["uniform"], truths=[0.0, 1.0])["uniform"]
    drawn = compare_priors(one_mean(), ["uniform"], truths=[0.0, 1.0])["uniform"]
    assert drawn.information == pytest.approx(listed.information, abs=4 * drawn.information_error)
    assert drawn.bias == pytest.approx(listed.bias, abs=4 * drawn.bias_error)


def test_questions_that_samples_do_not_answer_are_rejected_first() -> None:
    with pytest.raises(ValueError, match="its atoms cannot be counted"):
        scan_priors(lambda b: one_mean(), [1.0, 2.0])
    with pytest.raises(ValueError, match="compare the priors of its parts"):
        compare_priors(Product(Coin(2), one_mean()), [])
