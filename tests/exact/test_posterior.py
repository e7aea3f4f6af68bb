"""What is read off a posterior: moments, quantiles, credible sets, draws, a figure."""

import numpy as np
import pytest

from refprior.exact import Categorical, Coin, Gaussian, TwoCoins, reference_prior

PRIOR = reference_prior(Coin(10))


def test_moments_and_quantiles_by_hand() -> None:
    posterior = PRIOR.posterior(7)
    joint = PRIOR.weights * PRIOR.atoms**7 * (1 - PRIOR.atoms) ** 3
    weights = joint / joint.sum()
    assert posterior.weights == pytest.approx(weights)
    assert posterior.mean == pytest.approx(weights @ PRIOR.atoms)
    assert posterior.standard_deviation == pytest.approx(np.sqrt(weights @ PRIOR.atoms**2 - posterior.mean**2))
    assert posterior.mode == PRIOR.atoms[np.argmax(weights)]
    drawn = np.sort(np.random.default_rng(0).choice(PRIOR.atoms, 20_001, p=weights))
    assert posterior.quantiles([0.05, 0.5, 0.95]).tolist() == drawn[[1000, 10_000, 19_000]].tolist()
    assert posterior.quantiles(0.0).tolist() == [PRIOR.atoms[1]]  # the first atom that is possible
    assert posterior.quantiles(1.0).tolist() == [PRIOR.atoms[3]]


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.95, 0.999, 1.0])
def test_a_credible_set_holds_its_mass_and_no_smaller_one_does(level: float) -> None:
    posterior = reference_prior(Coin(100)).posterior(37)
    found = posterior.credible_set(level)
    assert found.mass >= level - 1e-9
    assert found.mass - found.weights.min() < level
    assert np.all(np.diff(found.atoms) > 0)


def test_two_parameters_are_read_axis_by_axis() -> None:
    prior = reference_prior(TwoCoins(3))
    posterior, single = prior.posterior([3, 1]), reference_prior(Coin(3))
    assert posterior.mean == pytest.approx([single.posterior(3).mean, single.posterior(1).mean])
    assert posterior.quantiles([0.5])[0] == pytest.approx(
        [single.posterior(3).quantiles(0.5)[0], single.posterior(1).quantiles(0.5)[0]]
    )
    assert posterior.mode.shape == (2,)
    assert len(posterior.plot().collections) == 2


def test_rows_of_a_table_have_no_mean() -> None:
    posterior = reference_prior(Categorical([[0.9, 0.1], [0.1, 0.9]])).posterior(0)
    assert posterior.mode == 0.0
    with pytest.raises(ValueError, match="number of a row, and has no mean"):
        _ = posterior.mean
    assert str(posterior).startswith("after 0: mode 0")


@pytest.mark.parametrize("levels", [[1.5], -0.1, "half", [[0.5]]])
def test_levels_out_of_range_are_rejected(levels: object) -> None:
    with pytest.raises(ValueError, match="levels must be"):
        PRIOR.posterior(3).quantiles(levels)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level must be"):
        PRIOR.posterior(3).credible_set(1.5)


def test_it_prints_and_is_drawn() -> None:
    posterior = reference_prior(Gaussian(2.0)).posterior(0.3)
    assert str(posterior).startswith("after 0.3: mean 0.537901, standard deviation 1.30913, mode 0\n")
    assert "95% credible set: " in str(posterior)
    stems = posterior.plot().collections
    assert [len(stem.get_segments()) for stem in stems] == [3, 3]  # type: ignore[attr-defined]
