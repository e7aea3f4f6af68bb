"""The only loop: batches → method → loss → optimiser → moving average → records.

It names no method and no data set. It yields a record of what happened every few steps, and the caller decides what
to do with it: write a line, draw a bar, stop.
"""

# K particles, b labelled examples, B tuples, N order

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from refprior.data import Examples, Stream, Task
from refprior.information import log_likelihood
from refprior.methods import Batch, Loss, Step
from refprior.particles import Particles
from refprior.posterior import predictive, scores
from refprior.train.optimiser import update_average
from refprior.train.recipe import EPOCH, Recipe
from refprior.train.trouble import NotFiniteError, find_trouble
from refprior.views import Learning, View

Record = dict[str, Any]
LOG_EVERY = 10  # steps


@dataclass
class State:
    """Everything that changes while training."""

    particles: Particles
    teacher: Particles
    optimiser: torch.optim.Optimizer
    labelled: Stream
    unlabelled: Stream | None
    drawing: torch.Generator  # for views and methods, on the device of the images
    weak: View
    strong: View  # own copies: a view may learn
    memory: dict[str, Tensor] = field(default_factory=dict)
    step: int = 0
    skipped: int = 0  # steps whose loss or gradient was not finite
    seconds: float = 0.0  # spent training, all sittings together


def begin(recipe: Recipe, task: Task, device: torch.device, particles: Particles | None = None) -> State:
    """The state before the first step, from new weights or from those of an earlier stage."""
    if particles is None:
        particles = Particles(recipe.network, recipe.particles, seed=recipe.seed)
    particles = particles.to(device)
    _check_output(particles, task)
    teacher = deepcopy(particles).requires_grad_(False).eval()
    batches = torch.Generator().manual_seed(recipe.seed + 1)
    if recipe.method.order and not len(task.unlabelled):
        raise ValueError(f"{type(recipe.method).__name__} needs unlabelled images, task {task.name!r} has none")
    if recipe.tuples * recipe.method.order > len(task.unlabelled):
        raise ValueError(
            f"a step takes {recipe.tuples * recipe.method.order} unlabelled images, task {task.name!r} has "
            f"{len(task.unlabelled)}: lower unlabelled"
        )
    return State(
        particles,
        teacher,
        recipe.optimiser.build(particles),
        Stream(len(task.labelled), batches),
        Stream(len(task.unlabelled), batches) if recipe.method.order else None,
        torch.Generator(device).manual_seed(recipe.seed + 2),
        deepcopy(recipe.weak),
        deepcopy(recipe.strong),
    )


def optimise(recipe: Recipe, task: Task, state: State) -> Iterator[Record | None]:
    """Train to the last step, giving way after each; a record every few steps, with an evaluation in some of them."""
    while state.step < recipe.steps:
        started = time.perf_counter()
        rate = recipe.optimiser.set_rate(state.optimiser, state.step, recipe.steps)
        batch = draw(recipe, task, state)
        undo = _remember(state) if recipe.skip_not_finite else None
        loss = differentiate(recipe, batch, state)
        trouble = find_trouble(state.particles, batch, loss, state.step + 1)
        if trouble is None:
            update(recipe, state)
        elif undo is not None and state.skipped < recipe.skip_not_finite:
            undo()
            state.skipped += 1
        else:
            raise NotFiniteError(trouble)
        state.step += 1
        state.seconds += time.perf_counter() - started
        yield _record(recipe, task, state, loss, rate)


def _remember(state: State) -> Callable[[], None]:
    """A function that undoes what a forward pass changes: batch norm's statistics and the method's memory."""
    buffers = [(buffer, buffer.clone()) for buffer in state.particles.buffers()]
    memory = {name: tensor.clone() for name, tensor in state.memory.items()}

    def undo() -> None:
        for buffer, before in buffers:
            buffer.copy_(before)
        state.memory.clear()
        state.memory.update(memory)

    return undo


def _record(recipe: Recipe, task: Task, state: State, loss: Loss, rate: float) -> Record | None:
    evaluate = state.step % recipe.evaluate_every == 0 or state.step == recipe.steps
    if not evaluate and state.step % LOG_EVERY:
        return None
    record: Record = {"step": state.step, "epoch": state.step / EPOCH, "learning_rate": rate}
    terms = {name: value.item() for name, value in {"loss": loss.total, **loss.terms}.items()}
    record |= {name: value if math.isfinite(value) else None for name, value in terms.items()}
    record |= {"seconds": state.seconds, **({"skipped": state.skipped} if state.skipped else {})}
    return record | (evaluation(task, state) if evaluate else {})


def draw(recipe: Recipe, task: Task, state: State) -> Batch:
    """The next batch, after views and normalisation."""
    chosen = task.labelled[state.labelled.take(recipe.labelled).to(task.labelled.images.device)]
    x = task.normalise(state.weak(chosen.images, state.drawing))
    if state.unlabelled is None:
        nothing = x[:0].unsqueeze(1)
        return Batch(x, chosen.labels, nothing, nothing, torch.empty(0, 1, dtype=torch.int64, device=x.device))
    if isinstance(state.strong, Learning):
        teach(state.strong, chosen, task, state)
    index = state.unlabelled.take(recipe.tuples, recipe.method.order).to(x.device)
    images = task.unlabelled[index]
    weak, strong = (_view_tuples(view, images, task, state.drawing) for view in (state.weak, state.strong))
    return Batch(x, chosen.labels, weak, strong, index)


def teach(view: Learning, labelled: Examples, task: Task, state: State) -> None:
    """Tell a view that learns what probability the moving average gives to the true classes of its probes."""
    images, policy = view.probe(labelled.images, state.drawing)
    log_p = predictive(log_probabilities(state.teacher, task, images), state.teacher.log_prior)
    view.update(policy, log_likelihood(log_p, labelled.labels).exp())


def differentiate(recipe: Recipe, batch: Batch, state: State) -> Loss:
    """The method's loss on a batch, its gradient left in the particles."""
    state.particles.train()
    step = Step(
        batch,
        state.particles,
        state.teacher,
        state.particles.log_prior,
        state.step / recipe.steps,
        state.drawing,
        state.memory,
        not any(isinstance(module, _BatchNorm) for module in state.particles.modules()),
    )
    half = recipe.precision == "bfloat16"
    with torch.autocast(batch.x.device.type, torch.bfloat16) if half else nullcontext():
        loss = recipe.method(step)
    state.optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss.total)
    return Loss(loss.total.detach(), loss.terms)


def update(recipe: Recipe, state: State) -> None:
    """One step of the optimiser and of the moving average."""
    state.optimiser.step()
    update_average(state.teacher, state.particles, recipe.ema)


def evaluation(task: Task, state: State) -> Record:
    """Scores of the raw weights and of their moving average on the test part, and on the validation part if any."""
    parts = {"test": task.test, "validation": task.validation}
    weights = {"raw": state.particles, "ema": state.teacher}
    return {
        name: {kind: evaluate(particles, task, part) for kind, particles in weights.items()}
        for name, part in parts.items()
        if part is not None
    }


def evaluate(particles: Particles, task: Task, part: Examples) -> Record:
    """Scores of the ensemble weighted by its prior."""
    log_p = log_probabilities(particles, task, part.images)
    return scores(log_p, part.labels, particles.log_prior.detach())._asdict()


@torch.no_grad()
def log_probabilities(particles: Particles, task: Task, images: Tensor, batch: int = 1024) -> Tensor:
    """log p(y | x, w_k) in evaluation mode: (n, *shape) -> (K, n, C)."""
    training = particles.training
    particles.eval()
    parts = [particles(task.normalise(part)) for part in images.split(batch)]
    particles.train(training)
    return torch.cat(parts, dim=1)


def _view_tuples(view: View, images: Tensor, task: Task, generator: torch.Generator) -> Tensor:
    """A view of every image of the tuples: (B, N, *shape) -> (B, N, *shape)."""
    return task.normalise(view(images.flatten(0, 1), generator)).reshape(images.shape)


def _check_output(particles: Particles, task: Task) -> None:
    outputs = log_probabilities(particles, task, task.labelled.images[:2]).shape
    if outputs[1:] != (min(2, len(task.labelled)), len(task.classes)):
        raise ValueError(f"the network gives {outputs[-1]} outputs, task {task.name!r} has {len(task.classes)} classes")
