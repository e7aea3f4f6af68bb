"""The bridge: particles of a small torch model approach the certified capacity from below and sit at its atoms."""

import math

import numpy as np
import pytest
from experiments.bridge import Experiment, compare, experiments, main


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(e, id=e.name, marks=[pytest.mark.thorough] * (n > 0)) for n, e in enumerate(experiments())],
)
def test_particles_approach_the_capacity_from_below_and_sit_at_the_atoms(experiment: Experiment) -> None:
    found = compare(experiment)
    solution = found.solution
    assert max(found.history) <= solution.information + solution.gap + 1e-6  # single precision
    assert found.history[-1] > solution.information - 2e-3
    at_atoms = found.at_atoms()
    assert (found.log_prior.exp() * at_atoms.distance).sum().item() < 1e-4
    np.testing.assert_allclose(at_atoms.weights.numpy(), solution.weights, atol=1e-3)


def test_more_particles_come_closer_and_two_stay_below_log_2() -> None:
    coin = experiments()[0]
    few, more, many = (compare(coin, count, steps=200) for count in (2, 3, 20))
    assert 0.6 < few.history[-1] <= math.log(2) + 1e-6
    assert few.history[-1] < more.history[-1] < many.history[-1] < many.solution.information


def test_the_file_to_write_is_asked_for_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "required: figure" in capsys.readouterr().err
