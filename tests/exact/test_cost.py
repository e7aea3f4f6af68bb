"""What a search will take is said, or refused, before it begins: with three parameters too."""

import logging

import numpy as np
import pytest

from refprior import _process
from refprior.exact import Channel, ExponentialDecay, models, reference_prior
from refprior.exact._cost import check_tables
from refprior.exact.oracle import Objective
from refprior.exact.solve import _solver, check_cost


def said_before(channel: Channel, caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level(logging.WARNING, "refprior.exact"):
        check_cost(Objective((channel,)))
    return caplog.text


def test_three_parameters_say_their_minutes(caplog: pytest.LogCaptureFixture) -> None:
    channel = models.exponentials([1, 2, 3, 4, 5], terms=3, sigma=0.1)
    assert "this will take about" in said_before(channel, caplog)


@pytest.mark.parametrize(
    "channel",
    [
        models.exponentials([1, 2, 3, 4, 5], terms=3, sigma=0.3),
        models.multinomial(4, 20),
        ExponentialDecay((1, 3), 0.05),
    ],
    ids=["three decays", "four categories", "two decays"],
)
def test_seconds_are_not_said(channel: Channel, caplog: pytest.LogCaptureFixture) -> None:
    """Each takes 4 to 20 s of one processor."""
    assert said_before(channel, caplog) == ""


def test_what_does_not_fit_is_refused_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = models.exponentials([1, 2, 3, 4, 5], terms=3, sigma=0.1)
    monkeypatch.setattr(_process, "available_memory", lambda: 100_000_000)
    monkeypatch.setattr(_solver, "start_from_grid", lambda *_: pytest.fail("the search has begun"))
    with pytest.raises(
        ValueError, match=r"1,000 candidates and \d+,\d+ outcomes needs about .* GB of memory, and 100 MB"
    ):
        reference_prior(channel, tolerance=1e-4)


def test_tables_of_the_atoms_that_were_found_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_process, "available_memory", lambda: 100_000_000)
    check_tables(5, 3, 100_000)
    with pytest.raises(ValueError, match="a table of 50 atoms and 100,000 outcomes needs about 800 MB"):
        check_tables(50, 3, 100_000)


def test_narrow_components_do_not_multiply_outcomes() -> None:
    """Two wide directions and three narrow ones: a million outcomes and 2 GB, where some thousand say the same."""
    channel = models.exponentials([1, 2, 3, 4, 5], terms=3, sigma=0.6)
    assert len(channel.outcomes) < 200_000
    assert np.exp(channel.log_likelihood(channel.bounds.T)).sum(axis=1) == pytest.approx(1, abs=1e-7)


def test_a_noisy_likelihood_is_rejected_before_any_work() -> None:
    """It announced half an hour, and then asked for 64 GiB."""
    rng = np.random.default_rng(0)

    def noisy(w: np.ndarray) -> np.ndarray:
        logits = 0.1 * np.arange(5) * w[:, None] + rng.normal(size=(len(w), 5))
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    with pytest.raises(ValueError, match="as if it were noisy"):
        reference_prior(Channel.from_function(noisy, bounds=(0.0, 1.0), outcomes=np.arange(5.0)))
