"""Long experiments: windows equal whole rows, thinned outcomes equal all of them, the certificate judges."""

import numpy as np
import pytest

from refprior.exact import Coin, reference_prior
from refprior.exact._binomial import log_binomial
from refprior.exact._large import quadrature_nodes, sparse_table
from refprior.exact._objective import Objective
from refprior.exact._rows import log_mixture
from refprior.exact._windows import windowed_divergence, windowed_log_marginal


def test_windows_equal_whole_rows() -> None:
    coin = Coin(5000)
    u = np.concatenate([[0.0, 1e-3], np.linspace(0.01, np.pi, 60)])
    weights = np.full(len(u), 1 / len(u))
    log_p = log_binomial(5000, coin.outcomes, u[:, None], coin.constant)
    whole = log_mixture(log_p, weights)
    ours = windowed_log_marginal(5000, coin.constant, u, weights)
    assert np.exp(ours) == pytest.approx(np.exp(whole), abs=1e-17, rel=1e-12)
    p = np.exp(log_p)
    divergence = np.sum(p * np.where(p > 0, log_p - whole, 0.0), axis=1)
    assert windowed_divergence(5000, coin.constant, u, whole) == pytest.approx(divergence, abs=1e-14)


@pytest.mark.parametrize("n", [3000, 20_000, 1_000_000])
def test_thinned_outcomes_still_sum_to_one(n: int) -> None:
    nodes = quadrature_nodes(n)
    assert len(nodes.z) < n
    assert nodes.z == pytest.approx(n - nodes.z[::-1], abs=1e-6)
    for distance in (0.0, 0.3, 3.0, 10.0, 20.0, 27.0, 40.0):
        angle = np.array(distance / np.sqrt(n))
        p = np.exp(log_binomial(n, nodes.z, angle, nodes.constant) + nodes.log_weight)
        assert p.sum() == pytest.approx(1.0, abs=1e-13)


def test_sparse_tables_equal_dense_ones() -> None:
    coin = Coin(1000)
    u = np.linspace(0, np.pi, 40)[:, None]
    dense, sparse = Objective((coin,)).table(u), sparse_table(1000, quadrature_nodes(1000), u)
    assert sparse.p[0].toarray() == pytest.approx(dense.p[0], abs=1e-15)
    assert sparse.value == pytest.approx(dense.value, abs=1e-12)
    assert sparse.gradient[1:-1] == pytest.approx(dense.gradient[1:-1], abs=1e-9)


def test_a_thousand_tosses() -> None:
    solution = reference_prior(Coin(1000))
    assert solution.gap <= 1e-12
    assert not solution.atoms_certified  # the ripple is below what doubles see
    assert solution.information == pytest.approx(3.2197881745586, abs=1e-12)


def test_ten_thousand_tosses() -> None:
    solution = reference_prior(Coin(10_000))
    assert solution.gap <= 1e-12
    assert solution.information == pytest.approx(4.3437868429, abs=1e-10)  # independent prototype


@pytest.mark.slow
def test_a_million_tosses() -> None:
    solution = reference_prior(Coin(1_000_000), tolerance=1e-9)
    assert solution.gap <= 1e-9
    assert solution.information == pytest.approx(6.6348350827, abs=3e-9)  # independent prototype
