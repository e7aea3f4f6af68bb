"""Saving: when it is due, and what a disk without room does to it."""

import time
from pathlib import Path

import pytest

from refprior.training.loop._begin import State, begin
from refprior.training.store import _checkpoint
from refprior.training.store import _folder as folder
from refprior.training.store._checkpoint import Saver, checkpoint_steps
from tests.training.recipes import CPU, perceptron


@pytest.fixture(scope="module")
def state() -> State:
    recipe = perceptron()
    return begin(recipe, recipe.read_task(), CPU)


def full(*arguments: object) -> None:
    raise OSError(28, "no room")


def saver(path: Path, every: float | None = None) -> Saver:
    return Saver(path, folder.Metrics(path, folder.Written()), every)


def test_it_saves_every_thirty_seconds_or_as_often_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, always = saver(tmp_path), saver(tmp_path, 0.0)
    assert always.due()
    assert not usual.due()
    now = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: now + 31)
    assert usual.due()


def test_slow_saving_becomes_seldom(tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that takes two seconds may come every four minutes: less than 1 % of the time."""
    clock = iter([100.0, 102.0])
    usual, told = saver(tmp_path), saver(tmp_path, 5.0)
    with monkeypatch.context() as patched:
        patched.setattr(time, "perf_counter", lambda: next(clock))
        usual.save(state)
    assert usual.interval == 240
    told.save(state)
    assert told.interval == 5
    assert checkpoint_steps(tmp_path) == [0]


def test_a_save_that_fails_is_tried_again_later(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = saver(tmp_path, 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(_checkpoint, "save_checkpoint", full)
        one.try_save(state)
    assert "could not save step 0 ([Errno 28] no room): the old checkpoint stays, trying again later" in caplog.text
    assert checkpoint_steps(tmp_path) == []
    one.try_save(state)
    assert checkpoint_steps(tmp_path) == [0]


def test_a_save_that_must_be_is_tried_for_a_while_and_then_says_what_is_left(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = saver(tmp_path)
    one.must_save(state)
    monkeypatch.setattr(_checkpoint, "save_checkpoint", full)
    with pytest.raises(OSError, match=r"could not save step 0 in .*; the checkpoint of step 0 stays\. Free some space"):
        one.must_save(state, tries=3, wait=0.0)
    assert caplog.text.count("no room") == 3
    assert "try 3 of 3" in caplog.text
