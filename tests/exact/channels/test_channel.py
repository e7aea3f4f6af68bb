"""A channel made by subclassing alone goes through solver, certificate and Jeffreys prior like the built-in ones."""

import numpy as np
import pytest

from refprior.exact import Categorical, Channel, Coin, Gaussian, Rows, jeffreys_prior, reference_prior
from refprior.exact.certificate import _case
from refprior.exact.certificate._case import Grid
from refprior.exact.channels import is_long
from refprior.exact.geometry import ListedAxes
from refprior.exact.oracle import Objective
from refprior.exact.solve._long import shorter


class Geometric(Channel):
    """The number of failures before the first success, or six and more; w is the probability of failure."""

    bounds = np.array([[0.05, 0.9]])
    outcomes = np.arange(7.0)

    def log_likelihood(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(self.outcomes * np.log(u) + np.log(1 - u) * (self.outcomes < 6))

    def rows(self, u: np.ndarray) -> Rows:
        last = self.outcomes < 6
        first = self.outcomes / u - last / (1 - u)
        second = -self.outcomes / u**2 - last / (1 - u) ** 2
        return Rows.from_log_derivatives(self.log_likelihood(u), first[:, None], second[:, None, None])


class Rowwise(Channel):
    """The table of `Categorical` as a user's own finite channel, on parameters that are not 0, 1, 2."""

    continuous = False
    bounds = np.array([[-1.0, 1.0]])
    outcomes = np.array([0.0, 1.0])
    matrix = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])

    def log_likelihood(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(self.matrix[np.round(u[:, 0]).astype(int) + 1]))

    def rows(self, u: np.ndarray) -> Rows:
        zero = np.zeros((len(u), 1, 2))
        return Rows.from_derivatives(self.log_likelihood(u), zero, zero[:, None])

    @property
    def axes(self) -> ListedAxes:
        return ListedAxes(np.array([-1.0, 0.0, 1.0]))


def test_a_subclass_with_two_methods_is_solved_and_certified() -> None:
    solution = reference_prior(Geometric())
    assert solution.gap <= 1e-12
    same = Channel.from_function(
        lambda w: Geometric().log_likelihood(w[:, None]), bounds=(0.05, 0.9), outcomes=np.arange(7.0)
    )
    assert solution.information == pytest.approx(reference_prior(same).information, abs=1e-12)
    assert jeffreys_prior(Geometric()).information < solution.information
    assert solution.posterior(3).weights.sum() == pytest.approx(1.0)


def test_a_subclass_is_checked_as_closely_as_a_function() -> None:
    """Lengths are measured, and the certificate adds even points, unless the channel knows its lengths."""
    assert Geometric().axes.resolved
    assert len(Grid.of(Geometric()).points) > 4000
    assert len(Grid.of(Gaussian(1.0)).points) == _case.GRIDS[1][1]


def test_a_finite_subclass_is_solved_as_a_table() -> None:
    ours, table = reference_prior(Rowwise()), reference_prior(Categorical(Rowwise.matrix))
    assert ours.information == table.information
    assert (ours.atoms + 1).tolist() == table.atoms.tolist()
    assert ours.atoms_certified == table.atoms_certified
    with pytest.raises(ValueError, match="no Jeffreys prior"):
        jeffreys_prior(Rowwise())


def test_only_long_experiments_are_summed_in_windows() -> None:
    for channel, long in ((Coin(899), False), (Coin(900), True), (Geometric(), False)):
        assert is_long(channel) is long
        assert (shorter(Objective((channel,))) is not None) is long
