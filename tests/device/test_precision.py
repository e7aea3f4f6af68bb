"""Precision, execution and memory on a device: chosen by what it has, kept by a run, and restored."""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from refprior.data import task_from_arrays
from refprior.methods import Loss, Needs, ReferencePrior, Step
from refprior.networks import MLP
from refprior.training import NotFiniteError, Recipe, train
from refprior.training.loop import _begin, _loop
from refprior.training.loop._begin import FIRST_SCALE, begin
from refprior.training.loop._draw import arithmetic
from refprior.training.store._checkpoint import checkpoint_steps, read_summary
from tests.device.pretend import CUDA, pretend_cuda
from tests.training.interruption import assert_same_run, final_weights, metrics
from tests.training.recipes import CPU, convolutional, perceptron


@dataclass(frozen=True)
class Steep:
    """A loss whose gradient overflows in float16 while its scale is above 2¹⁴."""

    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __call__(self, step: Step) -> Loss:
        loss = ReferencePrior()(step)
        return Loss(loss.total + _Limited.apply(loss.total), loss.terms)  # type: ignore[no-untyped-call]


class _Limited(torch.autograd.Function):
    """Zero, whose gradient is infinite if what comes back exceeds 2¹⁴."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
        return torch.where(slope > 2.0**14, math.inf, 0.0).to(slope)


def half(**changes: Any) -> Recipe:
    return replace(perceptron(method=Steep(), precision="float16", steps=12, evaluate_every=20), **changes)


def test_overflows_halve_the_scale_are_counted_and_spend_nothing_of_the_users_skips(tmp_path: Path) -> None:
    """Two steps are skipped, 2¹⁶ → 2¹⁴; a run that is interrupted keeps the scale, on the CPU and on the device."""
    train(half(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(half(), tmp_path / "stopped", save_every=0.0, watch=_stop)
    summary = read_summary(tmp_path / "stopped", checkpoint_steps(tmp_path / "stopped")[0])
    assert (summary.overflows, summary.scale) == (2, FIRST_SCALE / 4)
    train(half(), tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    assert metrics(tmp_path / "whole")[-1]["skipped"] == 2
    with pretend_cuda(bf16=False):
        train(half(precision="auto"), tmp_path / "cuda", device="cuda")
    whole, cuda = final_weights(tmp_path / "whole"), final_weights(tmp_path / "cuda")
    assert metrics(tmp_path / "cuda") == metrics(tmp_path / "whole")
    assert all(torch.equal(tensor, cuda[name]) for name, tensor in whole.items())


def _stop(record: object) -> None:
    raise KeyboardInterrupt


def test_the_scale_grows_back_and_what_stays_infinite_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loop, "GROWTH", 4)
    run = train(half())
    assert run.result.skipped == 4  # two at first, and one after each four good steps
    recipe = half(optimizer=replace(half().optimizer, learning_rate=3e38))
    with pytest.raises(NotFiniteError, match="the weights after it are not finite"):
        train(recipe)


def test_float16_trains_close_to_float32() -> None:
    full, small = (train(perceptron(precision=p)).result.loss for p in ("float32", "float16"))
    assert small == pytest.approx(full, rel=0.05)
    assert small != full


@pytest.mark.parametrize(("bf16", "found"), [(True, "bfloat16"), (False, "float16")])
def test_auto_decides_by_the_device(bf16: bool, found: str) -> None:
    recipe = perceptron(precision="auto", steps=2)
    with pretend_cuda(bf16=bf16):
        task = recipe.read_task().to(CUDA)
        state = begin(recipe, task, CUDA)
        list(_loop.optimize(recipe, task, state))
        assert state.precision == found


def test_the_execution_is_measured_on_the_device_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vectorized call is made the faster one, for networks that loop on a CPU."""
    calls = []

    def seconds(particles: Any, x: torch.Tensor, half: Any) -> float:
        calls.append(particles.execution)
        return 1.0 if particles.execution == "loop" else 0.5

    monkeypatch.setattr(_loop, "_seconds", seconds)
    recipe = convolutional(steps=3, evaluate_every=9, particles=2)
    with pretend_cuda():
        train(recipe, tmp_path / "run", device="cuda")
        assert set(calls) == {"loop", "vectorized"}
        assert read_summary(tmp_path / "run", 3).execution == "vectorized"
        calls.clear()
        train(replace(recipe), tmp_path / "run", device="cuda")
    assert calls == []
    train(recipe)
    assert calls == []


def test_networks_that_vmap_cannot_run_restore_the_devices_generator(caplog: pytest.LogCaptureFixture) -> None:
    class Drawing(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            noise = torch.rand(())
            return super().forward(x) if float(self.weight.detach().sum()) > 0 else super().forward(-x) + noise

    from refprior.particles import Particles

    with pretend_cuda():
        particles = Particles(lambda: Drawing(3, 2), 2, execution="auto").to(CUDA)
        torch.cuda.set_rng_state(torch.arange(16, dtype=torch.uint8))
        restored: list[torch.Tensor] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.cuda, "set_rng_state", lambda state, *_: restored.append(state))
            particles(torch.ones(4, 3).to(CUDA))
    assert len(restored) == 1
    assert "one after another" in caplog.text


def test_flags_of_cuda_follow_the_recipe_and_are_restored() -> None:
    def flags() -> tuple[bool, ...]:
        cudnn = torch.backends.cudnn
        tf32 = torch.backends.cuda.matmul.allow_tf32
        deterministic = torch.are_deterministic_algorithms_enabled()
        return cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, tf32, deterministic

    before = flags()
    with arithmetic(perceptron(), CUDA):
        assert flags() == (True, False, False, False, False)
    with arithmetic(perceptron(precision="tf32", deterministic=True), CUDA):
        assert flags() == (False, True, True, True, True)
    with arithmetic(perceptron(precision="tf32", deterministic=True), CPU):
        assert flags() == before
    assert flags() == before


def test_memory_is_that_of_the_device() -> None:
    recipe = perceptron(particles=2000)
    with pretend_cuda(memory=10**8), pytest.raises(ValueError, match=r"particles=2,000.*100 MB are available"):
        train(recipe, device="cuda")


def test_data_that_do_not_fit_on_the_device_are_rejected() -> None:
    images = torch.zeros(4000, 3, 60, 60, dtype=torch.uint8)
    task = task_from_arrays((images[:8], torch.arange(8) % 2), unlabeled=images[8:], name="photos")
    recipe = perceptron(task=task, network=partial(MLP, (3, 60, 60), 2, hidden=4))
    with pretend_cuda(memory=4 * 10**7), pytest.raises(ValueError, match=r"the data of 'photos' on cuda needs about"):
        train(recipe, device="cuda")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_whose_activations_cannot_fit_are_rejected_before_work(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take 1.0 GB; with one particle at a time and half of the labels, 0.13 GB."""
    monkeypatch.setattr(_begin, "free_memory", lambda place: 4 * 10**8)
    recipe = convolutional(labeled_batch=200_000)
    with pretend_cuda(), pytest.raises(ValueError, match=r"activations of 200,008 inputs in each of 4 particles and"):
        train(recipe, device=device)
    begin(replace(recipe, execution="recomputed", labeled_batch=100_000), recipe.read_task(), CPU)  # one at a time fits
