"""Which experiment, which prior; and priors that are drawn from, saved and read again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refprior.exact import (
    Coin,
    Gaussian,
    Solution,
    compare_designs,
    compare_priors,
    jeffreys,
    reference_prior,
)

W = (np.arange(2000) + 0.5) / 2000
PRIORS = {"uniform": (W, np.ones(2000)), "jeffreys": (np.sin(np.pi * W / 2) ** 2, np.ones(2000))}


def test_the_reference_prior_is_minimax() -> None:
    """Its worst regret is the capacity, and that of every other prior is larger."""
    judged = {prior.name: prior for prior in compare_priors(Coin(10), PRIORS)}
    capacity = reference_prior(Coin(10)).information
    assert judged["reference"].worst_regret == pytest.approx(capacity, abs=1e-12)
    assert judged["uniform"].worst_regret == pytest.approx(np.log(11), abs=1e-3)  # p(z) is even: at w = 0, log(n + 1)
    assert capacity < judged["jeffreys"].worst_regret < judged["uniform"].worst_regret
    assert judged["jeffreys"].information == pytest.approx(jeffreys(Coin(10)).information, abs=1e-4)
    assert judged["uniform"].worst_parameter[0] in (0.0, 1.0)


def test_solutions_can_be_compared_too() -> None:
    other = reference_prior(Coin(3))
    first, second = compare_priors(Coin(10), {"of three tosses": other})
    assert (first.name, second.name) == ("reference", "of three tosses")
    assert second.information < first.information


def test_more_samples_tell_more_by_half_a_log() -> None:
    designs = {str(n): Gaussian(1.0).repeat(n) for n in (100, 400)}
    first, second = compare_designs(designs, costs={"100": 100, "400": 400})
    assert (first.name, first.evidence) == ("400", "certified")
    assert first.information - second.information == pytest.approx(0.5 * np.log(4), abs=0.1)
    assert str(second).startswith(f"{second.evidence}: 100: ")
    assert "per unit of cost" in str(second)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_designs({}), "no design"),
        (lambda: compare_designs({"a": Coin(1)}, costs={}), "costs has no entry for 'a'"),
        (lambda: compare_designs({"a": 3}), "'a' must be a Channel"),  # type: ignore[dict-item]
        (lambda: compare_priors(Coin(1), {"a": ([0.5], [1, 2])}), "one weight, not negative, for each of its 1"),
        (lambda: compare_priors(Coin(1), {"a": ([2.0], [1])}), "out of bounds"),
        (lambda: compare_priors(Coin(1), {"a": 3}), "'a' must be a Solution"),  # type: ignore[dict-item]
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


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
