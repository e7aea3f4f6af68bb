"""Forks of the classic channels against the literature, and what a scan says and draws."""

import numpy as np
import pytest

from refprior.exact import Categorical, Coin, Gaussian, Poisson, TwoCoins, scan_priors, two_stage_prior

FORKS = scan_priors(Gaussian, [1.0, 2.5, 3.2], setting="amplitude")


def test_the_forks_of_the_gaussian_channel() -> None:
    """The third atom appears at 1.6659; the middle one splits at 2.9075."""
    first, second = FORKS.forks
    assert first.value == pytest.approx(1.665926, abs=2e-6)
    assert (first.kind, first.before, first.after) == ("appears", 2, 3)
    assert second.value == pytest.approx(2.907464, abs=2e-6)
    assert (second.kind, second.before, second.after) == ("splits", 3, 4)
    assert [fork.place for fork in FORKS.forks] == pytest.approx([0, 0], abs=1e-6)


@pytest.mark.parametrize("fork", FORKS.forks, ids=["appears", "splits"])
def test_priors_on_both_sides_of_a_fork_have_its_numbers_of_atoms(fork: object) -> None:
    """A little below and above, where the number is certain again."""
    assert isinstance(fork, type(FORKS.forks[0]))
    both = scan_priors(Gaussian, [fork.value - 0.02, fork.value + 0.02])
    assert both.counts == (fork.before, fork.after)
    assert all(prior.atoms_certified for prior in both.priors)


def test_the_third_atom_of_poisson_counts() -> None:
    (fork,) = scan_priors(Poisson, [2.0, 5.0]).forks
    assert fork.value == pytest.approx(3.36794, abs=1e-5)
    assert fork.high - fork.low < 1e-7


def test_several_forks_between_two_values_are_all_found() -> None:
    assert [fork.before for fork in scan_priors(Gaussian, [1.0, 4.5]).forks] == [2, 3, 4]


def test_numbers_of_tosses_are_not_split() -> None:
    found = scan_priors(lambda n: two_stage_prior(Coin, m=1, n=n), [1, 2, 3, 4, 5], setting="n")
    assert found.counts == (3, 3, 3, 4, 4)
    assert [str(fork) for fork in found.forks] == ["between 3 and 4: 3 to 4 atoms"]
    assert found.to_dict()["forks"][0]["place"] is None


def test_the_figure_shows_every_atom_and_fork() -> None:
    ax = FORKS.plot()
    drawn = [np.asarray(part.get_offsets()) for part in ax.collections]
    assert [len(part) for part in drawn] == list(FORKS.counts)
    assert len(ax.lines) == 4  # a line and a ring for each fork
    assert ax.get_xlabel() == "amplitude"


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        (Gaussian, [1.0], "at least two increasing numbers"),
        (Gaussian, [2.0, 1.0], "at least two increasing numbers"),
        (lambda n: TwoCoins(n), [1, 2], "one continuous parameter"),
        (lambda n: Categorical(np.eye(n)), [2, 3], "one continuous parameter"),
    ],
)
def test_what_cannot_be_scanned_is_rejected(model: object, values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scan_priors(model, values)  # type: ignore[arg-type]
