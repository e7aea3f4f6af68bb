"""Signals are heard at once, in the middle of a step too, and what is saved is a whole step."""

import os
import re
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from refprior.data import Standardize
from refprior.methods import Loss, Needs, Step, Supervised
from refprior.training import Stopped, train
from refprior.views import CTAugment
from tests.cli.running import start
from tests.training.interruption import assert_same_run, signal_at
from tests.training.recipes import convolutional


@dataclass(frozen=True)
class Slow:
    """A method that remembers, draws, and then takes very long at some steps, the first time; `begun` is then set."""

    at: tuple[int, ...] = ()
    seen: ClassVar[list[int]] = []
    begun: ClassVar[threading.Event] = threading.Event()
    needs: ClassVar[Needs] = Needs(views=("strong",))

    def __call__(self, step: Step) -> Loss:
        loss = Supervised()(step)
        step.memory["mean"] = 0.5 * step.memory.get("mean", torch.zeros(())) + 0.5 * loss.total.detach()
        noise = torch.rand((), generator=step.generator) + torch.rand(())
        if step.number in self.at and step.number not in self.seen:
            self.seen.append(step.number)
            self.begun.set()
            for _ in range(6000):
                time.sleep(0.01)
        return Loss(loss.total * (1 + step.memory["mean"] + noise), loss.terms)


def norm() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_step_is_given_up_at_once_and_the_run_goes_on_bit_for_bit(tmp_path: Path, number: signal.Signals) -> None:
    """Batch norm's statistics, the method's memory, streams, a view that learns and all generators are taken back."""

    recipe = convolutional(network=norm, strong=CTAugment(cutout=2), method=Slow((4,)), evaluate_every=1)
    Slow.seen[:] = [4]
    train(recipe, tmp_path / "whole")
    Slow.seen.clear()
    Slow.begun.clear()
    over = threading.Event()

    def interrupt() -> None:
        while not over.is_set():
            if Slow.begun.wait(0.05):
                os.kill(os.getpid(), number)
                break

    sender = threading.Thread(target=interrupt)
    sender.start()
    started = time.monotonic()
    try:
        with pytest.raises(Stopped, match=r"stopped at step 4 of 9 and saved") as stopped:
            train(recipe, tmp_path / "stopped")
    finally:
        over.set()
        sender.join()
    assert time.monotonic() - started < 30  # the step takes a minute
    assert stopped.value.signal_number == number
    train(recipe, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_fitting_the_inputs_is_given_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take a minute, and nothing is lost."""

    def fit(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
        pytest.fail("the signal was not heard")

    with monkeypatch.context() as patch:
        patch.setattr(Standardize, "fit", fit)
        with pytest.raises(Stopped, match=r"stopped; .*/run resumes it") as stopped:
            train(convolutional(), tmp_path / "run")
    assert stopped.value.signal_number == signal.SIGTERM
    assert train(convolutional(), tmp_path / "run").step == 9


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_schedulers_and_lost_terminals_leave_a_saved_run(tmp_path: Path, number: signal.Signals) -> None:
    with pytest.raises(Stopped, match="stopped at step 3 of 9 and saved"):
        train(convolutional(evaluate_every=1), tmp_path / "run", watch=signal_at(3, number))


def test_a_lost_terminal_that_is_to_be_ignored_is_ignored(tmp_path: Path) -> None:
    """As nohup asks."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert train(convolutional(evaluate_every=1), tmp_path / "run", watch=signal_at(3, signal.SIGHUP)).step == 9
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_enumeration_that_takes_minutes_hears_a_signal_within_a_second(tmp_path: Path) -> None:
    settings = ["method.order=7", "unlabeled_batch=70"]
    with start("train", "digits_ssl", "--out", "run", "--set", *settings, cwd=tmp_path) as process:
        while not list(tmp_path.glob("run/checkpoints/step-00000000.json")):
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(2)
        asked = time.monotonic()
        process.terminate()
        said = process.communicate(timeout=60)[1]
        assert time.monotonic() - asked < 4  # a second, on a machine that does nothing else
        assert process.returncode == 143
    assert re.search(r"stopped at step \d of 600 and saved", said)
