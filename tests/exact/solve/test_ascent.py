"""Ctrl-C during a search raises an exception that carries the best prior so far."""

from typing import Any

import pytest

from refprior.exact import Coin, SearchInterrupted, TwoCoins, certify, reference_prior, two_stage_prior
from refprior.exact.solve import _ascent


def interrupted_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of an ascent."""
    done, step = 0, _ascent._step_within

    def counted(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done > steps:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(_ascent, "_step_within", counted)


def test_the_exception_carries_the_best_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupted_after(3, patch)
        with pytest.raises(KeyboardInterrupt) as caught:
            reference_prior(Coin(30))
    assert isinstance(caught.value, SearchInterrupted)
    best = caught.value.best
    assert best.evidence == "unfinished"
    assert str(best).startswith("unfinished: interrupted; this is the best prior so far, and its gap is not known")
    assert best.to_dict()["gap"] is None
    judged = certify(best)
    truth = 1.6426952849
    assert judged.information <= truth + 1e-9
    assert judged.information + judged.gap >= truth - 1e-9


def test_two_stages_and_parts_of_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(2, monkeypatch)
    with pytest.raises(SearchInterrupted) as caught:
        two_stage_prior(Coin, m=5, n=20)
    assert len(caught.value.best.objective.channels) == 2
    with pytest.raises(SearchInterrupted) as caught:
        reference_prior(TwoCoins(20))
    assert caught.value.best.channel.dimension in (1, 2)


def test_nothing_found_yet_is_a_plain_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ascent, "note", lambda *arguments: None)
    interrupted_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as caught:
        reference_prior(Coin(30))
    assert not isinstance(caught.value, SearchInterrupted)
