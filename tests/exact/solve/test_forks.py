"""Just after a fork, where J is too flat to tell the atoms: coins whose number of atoms has just changed."""

import numpy as np
import pytest

from refprior.exact import Coin, reference_prior
from refprior.exact.oracle import Objective


@pytest.mark.parametrize(("n", "atoms"), [(123, 20), (132, 21), (142, 22), (153, 23), (175, 25), (248, 31)])
def test_a_coin_just_after_a_fork(n: int, atoms: int) -> None:
    prior = reference_prior(Coin(n))
    assert prior.certified
    assert prior.gap <= 1e-12
    assert len(prior.atoms) == atoms
    assert prior.atoms == pytest.approx(1 - prior.atoms[::-1], abs=1e-9)


LONGER = sorted(
    {*range(301, 900, 50), *np.random.default_rng(7).choice(np.arange(301, 900), 40, replace=False).tolist()}
)


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(1, 301), *LONGER])
def test_every_coin_is_certified(n: int) -> None:
    assert reference_prior(Coin(n)).gap <= 1e-12


def test_a_mixed_table_is_that_of_the_mixed_likelihoods() -> None:
    objective, u = Objective((Coin(5),)), np.array([[0.5], [1.5], [2.5]])
    table = objective.table(u)
    mean = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    mixed, weights = table.mixed(mean, mean), np.array([0.4, 0.6])
    spread = np.array([0.4, 0.3, 0.3])
    assert mixed.mixtures(weights)[0] == pytest.approx(table.mixtures(spread)[0], abs=1e-15)
    logs = table.own_logs(spread)
    assert mixed.gains(logs) == pytest.approx(mean @ table.gains(logs), abs=1e-14)
    assert mixed.gradients(logs)[:, 0] == pytest.approx(mean @ table.gradients(logs)[:, 0], abs=1e-13)
    assert mixed.hessians(logs)[:, 0, 0] == pytest.approx(mean @ table.hessians(logs)[:, 0, 0], abs=1e-12)
