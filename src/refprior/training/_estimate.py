"""What a run will take on this machine, measured over a few steps before anything long starts."""

import time
from dataclasses import dataclass

import torch

from refprior.training._checkpoint import state_tensors
from refprior.training._device import usable_device
from refprior.training._evaluate import evaluate_all
from refprior.training._loop import begin, differentiate, draw, update
from refprior.training._memory import check_training_fits
from refprior.training._recipe import Recipe


@dataclass(frozen=True)
class Estimate:
    """Sizes in numbers and bytes, times in seconds.

    >>> import refprior as rp
    >>> cost = rp.training.estimate(rp.recipes.digits_ssl(), steps=1)
    >>> cost.parameters, cost.steps
    (14058, 600)
    """

    parameters: int  # of one particle
    particles: int
    state_bytes: int  # weights, moving average, optimiser: one checkpoint
    step_seconds: float
    evaluation_seconds: float
    steps: int
    evaluations: int

    @property
    def total_seconds(self) -> float:
        return self.steps * self.step_seconds + self.evaluations * self.evaluation_seconds


def estimate(recipe: Recipe, device: torch.device | str = "cpu", steps: int = 5) -> Estimate:
    """Run a few steps and one evaluation; the first step warms up and does not count.

    >>> import refprior as rp
    >>> rp.training.estimate(rp.recipes.digits_ssl(), steps=1).total_seconds > 0
    True
    """
    device = usable_device(device)
    check_training_fits(recipe)
    task = recipe.read_task().to(device)
    state = begin(recipe, task, device)
    times = []
    for _ in range(steps + 1):
        started = time.perf_counter()
        differentiate(recipe, task, draw(recipe, task, state), state).total.item()
        update(recipe, state)
        times.append(time.perf_counter() - started)
    started = time.perf_counter()
    evaluate_all(recipe, task, state.normaliser, raw=state.particles, ema=state.teacher)
    return Estimate(
        parameters=sum(p.numel() for p in state.particles.network.parameters()) // recipe.particles,
        particles=recipe.particles,
        state_bytes=sum(t.numel() * t.element_size() for t in state_tensors(state).values()),
        step_seconds=sum(times[1:]) / steps,
        evaluation_seconds=time.perf_counter() - started,
        steps=recipe.steps,
        evaluations=-(-recipe.steps // recipe.evaluate_every),
    )
