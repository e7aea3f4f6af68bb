"""What a run will take on this machine, measured over a few steps before anything long starts."""

import time
from dataclasses import dataclass, replace

import torch

from refprior._mesh import joined, usable_device
from refprior.training.loop import begin, check_training_fits, differentiate, draw, evaluate_all, find_trouble, update
from refprior.training.recipe import Recipe
from refprior.training.store import entries, state_tensors


@dataclass(frozen=True)
class CostEstimate:
    """Cost of a run: sizes in numbers and bytes, times in seconds."""

    parameters: int  # of one particle
    particles: int
    state_bytes: int  # weights, moving average, optimizer: one checkpoint
    step_seconds: float
    evaluation_seconds: float
    steps: int
    evaluations: int
    particle_ranks: int = 1  # ranks that share the particles out
    data_ranks: int = 1  # ranks that divide the inputs
    exchange_seconds: float = 0.0  # of a step: exchanging with other ranks and waiting for them
    exchange_bytes: float = 0.0  # of a step, received by all ranks together
    divides: bool = False  # the loss is divided too, whose sums are not in the two numbers above

    @property
    def total_seconds(self) -> float:
        return self.steps * self.step_seconds + self.evaluations * self.evaluation_seconds


def estimate_cost(
    recipe: Recipe, device: torch.device | str = "cpu", steps: int = 5, particle_ranks: int | None = None
) -> CostEstimate:
    """Estimate time and memory of a run from a few steps and one evaluation.

    The first step warms up and does not count. On several ranks, all of them must call it.

    Parameters
    ----------
    recipe : Recipe
        The recipe.
    device : torch.device or str, default: "cpu"
        Where to compute.
    steps : int, default: 5
        Steps to measure.
    particle_ranks : int, optional
        Ranks that share the particles, as in `train`.

    Returns
    -------
    CostEstimate
        ``parameters`` of one particle, ``state_bytes`` of one checkpoint, ``step_seconds``, ``evaluation_seconds``,
        ``total_seconds``, and what ranks exchange.

    Examples
    --------
    >>> import refprior as rp
    >>> cost = rp.training.estimate_cost(rp.recipes.digits_ssl(), steps=1)
    >>> cost.parameters, cost.steps, cost.total_seconds > 0
    (14058, 600, True)
    """
    device = usable_device(device)
    mesh = joined(recipe.particles, device, particle_ranks)
    with mesh.together():
        check_training_fits(recipe, mesh, device)
        task = recipe.read_task().to(device)
    state = begin(recipe, task, device, mesh=mesh)
    times: list[float] = []
    for _ in range(steps + 1):
        if len(times) == 1:
            before = replace(mesh.traffic)
        started = time.perf_counter()
        batch = draw(recipe, task, state)
        find_trouble(state.particles, batch, differentiate(recipe, task, batch, state), state.step + 1)
        update(recipe, state)
        times.append(time.perf_counter() - started)
    seconds = (mesh.traffic.seconds - before.seconds) / steps
    received = sum(mesh.gather_objects(mesh.traffic.received - before.received)) / steps
    started = time.perf_counter()
    evaluate_all(recipe, task, state.normalizer, raw=state.particles, ema=state.teacher)
    return CostEstimate(
        parameters=sum(p[0].numel() for p in state.particles.network.parameters()),
        particles=recipe.particles,
        state_bytes=sum(entry.nbytes for entry in entries(state, state_tensors(state)).values()),
        step_seconds=sum(times[1:]) / steps,
        evaluation_seconds=time.perf_counter() - started,
        steps=recipe.steps,
        evaluations=-(-recipe.steps // recipe.evaluate_every),
        particle_ranks=mesh.particle,
        data_ranks=mesh.data,
        exchange_seconds=seconds,
        exchange_bytes=received,
        divides=recipe.method.needs.shardable and state.particles.worth_sharding,
    )
