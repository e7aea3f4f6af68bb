"""Exact, particles and variational priors side by side: same likelihoods, same judge, all below the capacity."""

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.variational import Model, Prior, coin, compare, draw, gaussian, jeffreys, main, models, table

from refprior.exact import reference_prior
from refprior.exact.channels import to_coordinates


@pytest.mark.parametrize("model", models(), ids=lambda m: m.name)
def test_torch_and_the_exact_half_have_the_same_likelihood(model: Model) -> None:
    w = model.low + (model.high - model.low) * np.array([0.001, 0.3, 0.5, 0.9])
    exact = model.channel.log_likelihood(to_coordinates(model.channel, w))
    np.testing.assert_allclose(model.log_likelihood(torch.from_numpy(w)), exact, atol=1e-9)


@pytest.mark.parametrize("model", [coin(10), coin(50), gaussian(10.0)], ids=lambda m: m.name)
def test_modes_count_the_atoms_of_an_exact_prior_and_one_plateau(model: Model) -> None:
    solution = reference_prior(model.channel)
    exact = Prior("exact", model.channel, solution.atoms, solution.weights)
    assert exact.modes() == len(solution.atoms)
    assert exact.near(exact) == pytest.approx(1)
    assert exact.information == pytest.approx(solution.information, abs=1e-12)
    flat = jeffreys(model)
    assert flat.modes() == 1
    ends = 0.5 * (len(solution.atoms) - 1)  # a quarter of a standard deviation on each side of an atom
    assert flat.near(exact) == pytest.approx(ends / model.channel.axes.lengths[0], abs=2e-3)


def test_no_prior_is_above_the_capacity_and_particles_come_nearest(tmp_path: Path) -> None:
    found = compare(coin(2), count=12, steps=200)
    assert [prior.name for prior in found.priors][:3] == ["exact", "particles", "Jeffreys"]
    missing = [found.shortfall(prior) for prior in found.priors]
    assert min(missing) >= -1e-12
    assert missing[1] < 0.02
    assert missing[1] < min(missing[2:])
    assert all(prior.weights.sum() == pytest.approx(1) for prior in found.priors)
    assert len(table(found).splitlines()) == len(found.priors)
    draw([found]).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_file_to_write_is_asked_for_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "name the picture to write, or use --study or --repeat" in capsys.readouterr().err
