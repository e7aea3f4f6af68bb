"""A loss or gradient that is not finite: named, dumped, and skipped only as often as allowed."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file

from refprior.methods import Loss, Needs, Step
from refprior.training import NotFiniteError, train
from refprior.training.loop._evaluate import evaluate_all
from refprior.training.loop._loop import begin, differentiate, draw, optimize
from refprior.training.loop._trouble import Trouble, all_finite, find_bad_scores, find_trouble
from refprior.training.store._checkpoint import checkpoint_steps, read_checkpoint
from tests.training.recipes import CPU, convolutional

RECIPE = convolutional(steps=8)
TASK = RECIPE.read_task()


@dataclass(frozen=True)
class Breaks:
    """A loss of two terms whose second breaks at some steps, for one particle or for all."""

    at: tuple[int, ...]
    particle: int | None = None
    gradient_only: bool = False
    needs: ClassVar[Needs] = Needs()

    def __call__(self, step: Step) -> Loss:
        (log_p,) = step.predict(step.batch.labeled)
        values = log_p.square().mean((1, 2))  # (K,)
        broken = torch.zeros_like(values)
        if step.number + 1 in self.at:
            where = slice(None) if self.particle is None else slice(self.particle, self.particle + 1)
            if self.gradient_only:
                chosen = log_p[where].square().mean((1, 2))
                broken[where] = (chosen - chosen.detach()).square().sqrt()  # 0, with gradient 0 / 0
            else:
                broken[where] = math.inf
        return Loss((values + broken).sum(), {"fine": values.sum().detach(), "broken": broken.sum().detach()})


def test_the_step_and_the_term_are_named_and_the_last_good_checkpoint_stays(tmp_path: Path) -> None:
    with pytest.raises(NotFiniteError, match=r"step 5: term broken is not finite.*lower the .*trouble-step-00000005"):
        train(replace(RECIPE, method=Breaks((5,))), tmp_path / "run", save_every=0.0)
    assert checkpoint_steps(tmp_path / "run")[0] == 4
    batch = load_file(tmp_path / "run" / "trouble-step-00000005.safetensors")
    assert batch["labeled"].shape == (10, 1, 8, 8)
    assert batch["labels"].shape == (10,)


def test_the_particle_is_named() -> None:
    with pytest.raises(NotFiniteError, match="step 3: the gradient is not finite, particle 2:"):
        train(replace(RECIPE, method=Breaks((3,), particle=2, gradient_only=True)))


def test_a_particle_with_bad_weights_is_named() -> None:
    state = begin(RECIPE, TASK, CPU)
    with torch.no_grad():
        next(state.particles.network.parameters())[1] = math.nan
    with pytest.raises(NotFiniteError, match=r"particle 1: lower the learning rate$"):
        list(optimize(RECIPE, TASK, state))


def test_a_skipped_step_leaves_batch_norm_and_memory_as_they_were() -> None:
    class Norm(torch.nn.Sequential):
        def __init__(self) -> None:
            nn = torch.nn
            super().__init__(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))

    calls = []

    def breaking(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        calls.append(1)
        return torch.full(images.shape, math.nan) if len(calls) == 4 else images

    recipe = replace(RECIPE, network=Norm, weak=breaking, strong=breaking, skip_not_finite=1)
    run = train(recipe)
    assert run.result.skipped == 1
    assert all(buffer.isfinite().all() for buffer in run.ema.buffers())
    assert run.result.evaluation is not None
    assert run.result.evaluation.test is not None
    assert math.isfinite(run.result.evaluation.test.ema.negative_log_likelihood)


def test_the_priors_gradient_is_looked_at_and_a_large_one_is_finite() -> None:
    state = begin(RECIPE, TASK, CPU)
    batch = draw(RECIPE, TASK, state)
    loss = differentiate(RECIPE, TASK, batch, state)
    parameter = next(state.particles.network.parameters())
    parameter.grad = torch.full_like(parameter, 1e30)  # its sum of squares overflows
    assert find_trouble(state.particles, batch, loss, 1) is None
    state.particles.prior_logits.grad = torch.full((4,), math.nan)
    trouble = find_trouble(state.particles, batch, loss, 1)
    assert trouble is not None
    assert trouble.particles == [0, 1, 2, 3]


def test_skipped_steps_change_no_weights_and_are_bounded(tmp_path: Path) -> None:
    recipe = replace(RECIPE, method=Breaks((3, 5)), skip_not_finite=2)
    run = train(recipe, tmp_path / "run")
    assert run.result.skipped == 2
    found = [r.evaluation.test for r in run.history if r.evaluation is not None]
    weights = [part.raw.negative_log_likelihood for part in found if part is not None]
    assert weights[2] == weights[1]
    assert weights[3] != weights[2]
    assert run.history[2].loss is None
    with pytest.raises(NotFiniteError, match="step 5"):
        train(replace(recipe, skip_not_finite=1))


@pytest.mark.parametrize("rate", [1e4, 1e12, 3e38])
def test_a_learning_rate_that_is_too_high_is_named_and_the_last_good_weights_stay(tmp_path: Path, rate: float) -> None:
    """Whatever it does to losses, weights or scores: the run ends in one line, and what was saved is finite."""
    recipe = convolutional(steps=40, optimizer=replace(RECIPE.optimizer, learning_rate=rate))
    with pytest.raises(NotFiniteError, match=r"\Astep \d+: [^\n]* not finite, [^\n]*: lower the learning rate; the"):
        train(recipe, tmp_path / "run", save_every=0.0)
    assert len(list((tmp_path / "run").glob("trouble-step-*.safetensors"))) == 1
    saved = read_checkpoint(tmp_path / "run", checkpoint_steps(tmp_path / "run")[0]).tensors
    assert all(tensor.isfinite().all() for name, tensor in saved.items() if name.startswith(("particles", "teacher")))


def test_weights_that_are_not_finite_after_the_last_update_are_noticed() -> None:
    recipe = convolutional(steps=1, optimizer=replace(RECIPE.optimizer, learning_rate=3e38))
    with pytest.raises(NotFiniteError, match=r"step 1: the weights after it are not finite, particle 0, 1, 2, 3"):
        train(recipe)


def test_finite_weights_with_predictions_that_are_not_are_noticed() -> None:
    state = begin(RECIPE, TASK, CPU)
    batch = draw(RECIPE, TASK, state)
    with torch.no_grad():
        for parameter in state.particles.network.parameters():
            parameter[2] = 1e30
    found = evaluate_all(RECIPE, TASK, state.normalizer, raw=state.particles, ema=state.teacher)
    trouble = find_bad_scores(found, state.particles, batch, 7)
    assert trouble is not None
    assert (
        str(trouble)
        == "step 7: the loss on the test and validation part is not finite, particle 2: lower the learning rate"
    )
    assert "step 7: the loss on the test and validation part is not finite, particle 2: lower" in str(trouble)


def test_a_sum_that_overflows_is_no_trouble() -> None:
    assert all_finite([torch.full((9,), 3e38)])
    assert not all_finite([torch.tensor([math.inf, -math.inf])])
    assert not all_finite([torch.ones(3), torch.tensor([1.0, math.nan])])


def test_only_the_first_particles_are_named() -> None:
    batch = draw(RECIPE, TASK, begin(RECIPE, TASK, CPU))
    assert "particle 0, 1, 2, 3, 4 and 95 more" in str(Trouble(1, "the gradient is", list(range(100)), batch))
