"""What a solution tells: posteriors, predictions, gains, a table, a figure."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from refprior._files import write_record
from refprior.exact import Categorical, Coin, ExponentialDecay, Gaussian, Solution, TwoCoins, reference_prior
from refprior.exact.show import decimals_within


def test_posterior_is_bayes_rule() -> None:
    solution = reference_prior(Coin(10))
    joint = solution.weights * solution.atoms**3 * (1 - solution.atoms) ** 7
    assert solution.posterior(3).weights == pytest.approx(joint / joint.sum())
    assert solution.posterior(0).weights[-1] == 0.0


def test_posterior_of_any_real_outcome_for_noise() -> None:
    solution = reference_prior(Gaussian(2.0))
    joint = solution.weights * np.exp(-((0.123 - solution.atoms) ** 2) / 2)
    assert solution.posterior(0.123).weights == pytest.approx(joint / joint.sum())
    plane = reference_prior(ExponentialDecay(sigma=0.2), tolerance=1e-11)
    assert plane.posterior([0.5, 0.3]).weights.sum() == pytest.approx(1.0)


def test_predictive_before_and_after_data() -> None:
    solution = reference_prior(Coin(4))
    assert solution.predictive().sum() == pytest.approx(1.0)
    after = solution.predictive(4)
    likelihood = np.exp(Coin(4).log_likelihood(solution.coordinates))
    assert after == pytest.approx(solution.posterior(4).weights @ likelihood)


@pytest.mark.parametrize("outcome", [-1, 11, 2.5, [1, 2], math.nan])
def test_impossible_outcomes_are_named(outcome: object) -> None:
    with pytest.raises(ValueError, match="not an outcome"):
        reference_prior(Coin(10)).posterior(outcome)  # type: ignore[arg-type]


def test_outcomes_of_two_coins_are_pairs() -> None:
    solution = reference_prior(TwoCoins(1))
    assert solution.posterior([0, 1]).weights.max() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="not an outcome"):
        solution.posterior([0, 2])


def test_gain_is_even_at_the_atoms_and_below_elsewhere() -> None:
    solution = reference_prior(Coin(20))
    assert solution.gain(solution.atoms) == pytest.approx(solution.information, abs=1e-13)
    assert solution.gain(np.linspace(0, 1, 999)).max() <= solution.information + solution.gap + 1e-14
    with pytest.raises(ValueError, match="out of bounds"):
        solution.gain([1.2])


def test_it_prints_as_a_small_table() -> None:
    text = str(reference_prior(Coin(2)))
    assert text.splitlines()[:2] == [
        "certified: information 0.753771802376 nats, gap below 1e-14",
        "support: 3 atoms, w in [0, 1]",
    ]
    assert "0.500000000000  0.117647058824" in text
    long = str(reference_prior(Coin(400)))
    assert "more ..." in long
    assert len(long.splitlines()) < 30


def test_it_survives_json() -> None:
    solution = reference_prior(Coin(2))
    plain = json.loads(json.dumps(solution.to_dict()))
    assert plain["atoms"] == solution.atoms.tolist()
    assert plain["gap"] == solution.gap
    assert plain["atoms_certified"] is True


def test_tables_use_row_numbers() -> None:
    solution = reference_prior(Categorical([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    assert set(solution.atoms) <= {0.0, 1.0, 2.0}


def test_plots_show_the_atoms() -> None:
    solution = reference_prior(Coin(10))
    axes = solution.plot()
    drawn = axes.lines[-1].get_xydata()
    assert np.asarray(drawn) == pytest.approx(np.column_stack([solution.atoms, solution.weights]))
    plane = reference_prior(TwoCoins(2)).plot()
    assert len(plane.collections[-1].get_offsets()) == 9  # type: ignore[arg-type]


def test_plots_go_where_they_are_told() -> None:
    ax = Figure().subplots()
    assert reference_prior(Coin(2)).plot(ax) is ax
    assert reference_prior(Categorical(np.eye(3))).plot().get_xlabel() == "w"


def test_plotting_neither_loads_pyplot_nor_sets_a_backend() -> None:
    code = (
        "import sys; from refprior.exact import Coin, reference_prior; reference_prior(Coin(2)).plot(); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("error", "decimals"), [(0.0, 12), (1e-15, 12), (3e-5, 4), (0.2, 0), (230.0, 0), (math.inf, 0), (math.nan, 0)]
)
def test_an_error_leaves_so_many_decimals(error: float, decimals: int) -> None:
    assert decimals_within(error) == decimals


def test_digits_are_those_that_the_gap_supports() -> None:
    """Weights off by 1e-4 leave a gap near 1e-4, and four or two decimals, in text and in JSON."""
    prior = reference_prior(Coin(10))
    weights = prior.weights + np.array([1e-4, 0, 0, 0, -1e-4])
    moved = Solution.from_coordinates(prior.objective, prior.coordinates, weights, 1e-12)
    assert not moved.certified
    lines = str(moved).splitlines()
    assert lines[0].startswith("unfinished: the gap is 0.00")
    assert all(len(word) <= 5 for word in " ".join(lines[4:]).split())
    plain = moved.to_dict()
    assert plain["information"] == round(plain["information"], 4)
    assert plain["weights"] == [round(weight, 3) for weight in plain["weights"]]


def test_samples_follow_the_weights() -> None:
    prior = reference_prior(Coin(2))
    drawn = prior.sample(20_000, np.random.default_rng(0))
    assert np.mean(drawn == prior.atoms[1]) == pytest.approx(prior.weights[1], abs=0.01)


def test_a_saved_prior_is_judged_again(tmp_path: Path) -> None:
    prior, file = reference_prior(Gaussian(2.0)), tmp_path / "prior.json"
    prior.save(file)
    again = Solution.load(file, Gaussian(2.0))
    assert again.coordinates.tolist() == prior.coordinates.tolist()
    assert (again.evidence, again.gap) == (prior.evidence, prior.gap)
    assert Solution.load(file, Gaussian(2.5)).evidence == "unfinished"  # another channel: the gap shows it
    with pytest.raises(ValueError, match="not a prior of this channel"):
        Solution.load(file, Gaussian(1.0))
    file.write_text(file.read_text().replace("weights", "heights"))
    with pytest.raises(ValueError, match="damaged"):
        Solution.load(file, Gaussian(2.0))
    file.write_text("{}")
    with pytest.raises(ValueError, match=r"has an earlier format, .* make it again"):
        Solution.load(file, Gaussian(2.0))


def test_a_file_with_a_number_for_weights_is_no_prior(tmp_path: Path) -> None:
    write_record(tmp_path / "prior.json", 1, {"coordinates": [[0.5]], "exact_weights": 1.0, "tolerance": 1e-9})
    with pytest.raises(ValueError, match="is not a prior of this channel"):
        Solution.load(tmp_path / "prior.json", Coin(2))
