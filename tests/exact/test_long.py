"""Long experiments of one parameter start from a shorter one's edges, whatever the model."""

import numpy as np
import pytest

from refprior.exact import Gaussian, Poisson, reference_prior
from refprior.exact._large import resampled, starting_atoms, thinned
from refprior.exact._objective import Objective


def test_a_long_gaussian_reaches_rounding_and_is_symmetric() -> None:
    prior = reference_prior(Gaussian(36.0))
    assert prior.certified
    assert prior.information == pytest.approx(2.911552777099, abs=1e-11)
    assert prior.atoms == pytest.approx(-prior.atoms[::-1], abs=1e-9)
    assert prior.gain(np.linspace(-36, 36, 20_001)).max() <= prior.information + prior.gap


def test_the_start_is_near_the_answer() -> None:
    """Its gap is a thousandth of a nat or so; an even spacing has more than ten times that."""
    channel = Gaussian(40.0)
    u, weights = starting_atoms(Gaussian(20.0), 80.0, channel.bounds)
    objective = Objective((channel,))
    grid = np.linspace(-40, 40, 4001)[:, None]

    def gap(places: np.ndarray, shares: np.ndarray) -> float:
        gain = objective.gain(np.vstack([grid, places]), objective.log_marginals(places, shares))
        return float(gain.max() - shares @ gain[len(grid) :])

    even = np.linspace(-40, 40, len(u))[:, None]
    assert gap(u, weights) < 0.1 * gap(even, np.full(len(u), 1 / len(u)))
    for more in (-2, 1):
        places, shares = resampled(u, weights, more)
        assert len(places) == len(u) + more
        assert shares.sum() == pytest.approx(1)
        assert places[[0, -1], 0].tolist() == [-40.0, 40.0]


def test_thin_rows_leave_out_nothing_that_matters() -> None:
    objective, u = Objective((Gaussian(30.0),)), np.linspace(-30, 30, 9)[:, None]
    full, thin = objective.table(u), thinned(objective.table(u))
    weights = np.full(9, 1 / 9)
    assert thin.mixtures(weights)[0] == pytest.approx(full.mixtures(weights)[0], abs=1e-17)
    assert thin.p[0].nnz < 0.7 * full.p[0].size


def test_probabilities_of_large_counts_sum_to_one() -> None:
    """Differences of log-gamma would miss one by 4e-12 here."""
    channel = Poisson(3000.0)
    u = np.linspace(0, channel.bounds[0, 1], 30)[:, None]
    assert np.exp(channel.log_likelihood(u)).sum(axis=1) == pytest.approx(1, abs=3e-15)
