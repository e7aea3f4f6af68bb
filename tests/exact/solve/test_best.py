"""An interrupted search: it is interrupted, and what it found can be had."""

from typing import Any

import pytest

from refprior.exact import Coin, best_so_far, reference_prior, two_stage_prior
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


def test_the_best_prior_so_far_is_judged_and_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reference_prior(Coin(30))
    best = best_so_far()
    assert best is not None
    assert best.evidence == "unfinished"
    assert str(best).startswith("unfinished: stopped; this is the best prior so far, and its gap is ")
    truth = 1.6426952849
    assert best.information <= truth + 1e-9
    assert best.information + best.gap >= truth - 1e-9
    rough = best_so_far(judged=False)
    assert rough is not None
    assert "gap is not known" in str(rough)
    assert rough.to_dict()["gap"] is None


def test_two_stages_are_remembered_too_and_an_end_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            two_stage_prior(Coin, m=5, n=20)
    best = best_so_far()
    assert best is not None
    assert len(best.objective.channels) == 2
    reference_prior(Coin(3))
    assert best_so_far() is None
