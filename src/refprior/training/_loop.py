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
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from refprior.data import Examples, Stream, Task
from refprior.information import check_labelings, log_likelihood
from refprior.methods import Batch, Loss, Step, split_heads
from refprior.particles import Particles
from refprior.posterior import consensus, match, predictive, scores, stability
from refprior.training._optimiser import update_average
from refprior.training._recipe import EPOCH, Recipe
from refprior.training._stages import check_head, first_weights
from refprior.training._trouble import NotFiniteError, find_trouble
from refprior.views import Learning, View

Record = dict[str, Any]
LOG_EVERY = 10  # steps
CONSENSUS_IMAGES = 2000  # of the unlabelled pool, in which clusters are found


@dataclass
class State:
    """Everything that changes while training."""

    particles: Particles
    teacher: Particles
    optimiser: torch.optim.Optimizer
    streams: dict[str, Stream]  # of the parts of the task that a batch is drawn from: labelled, unlabelled, source
    drawing: torch.Generator  # for views and methods, on the device of the images
    weak: View
    strong: View  # own copies: a view may learn
    classes: int  # of the task
    memory: dict[str, Tensor] = field(default_factory=dict)
    step: int = 0
    skipped: int = 0  # steps whose loss or gradient was not finite
    seconds: float = 0.0  # spent training, all sittings together


def begin(recipe: Recipe, task: Task, device: torch.device, start: Particles | None = None) -> State:
    """The state before the first step, from new weights or from those of an earlier stage."""
    sizes = parts_to_draw(recipe, task)
    particles = first_weights(recipe, start).to(device)
    _check_output(recipe, particles, task)
    _check_views(recipe, task)
    teacher = deepcopy(particles).requires_grad_(False).eval()
    batches = torch.Generator().manual_seed(recipe.seed + 1)
    return State(
        particles,
        teacher,
        recipe.optimiser.build(particles),
        {name: Stream(size, batches) for name, size in sizes.items()},
        torch.Generator(device).manual_seed(recipe.seed + 2),
        deepcopy(recipe.weak),
        deepcopy(recipe.strong),
        len(task.classes),
    )


def parts_to_draw(recipe: Recipe, task: Task) -> dict[str, int]:
    """The sizes of the parts of the task that a batch is drawn from; refuses a task that lacks one."""
    name, order = type(recipe.method).__name__, recipe.method.order
    two_stage = getattr(recipe.method, "two_stage", False)
    if not len(task.labelled) and not getattr(recipe.method, "label_free", False):
        raise ValueError(f"{name} needs labelled images, task {task.name!r} has none")
    if order and not len(task.unlabelled):
        raise ValueError(f"{name} needs unlabelled images, task {task.name!r} has none")
    if recipe.tuples * order > len(task.unlabelled):
        raise ValueError(
            f"a step takes {recipe.tuples * order} unlabelled images, task {task.name!r} has "
            f"{len(task.unlabelled)}: lower unlabelled"
        )
    if recipe.readout == "consensus" and len(task.unlabelled) < len(task.classes):
        raise ValueError(f"a consensus needs unlabelled images, task {task.name!r} has {len(task.unlabelled)}")
    if order and getattr(recipe.method, "samples", None) is None:
        check_labelings(recipe.particles, order, len(task.classes))
    if getattr(recipe.method, "needs_source", two_stage) and (task.source is None or not len(task.source)):
        raise ValueError(f"{name} needs images of a source task, task {task.name!r} has none: see transfer_task")
    source = len(task.source) if two_stage and task.source is not None else 0
    sizes = {"labelled": len(task.labelled), "unlabelled": len(task.unlabelled) if order else 0, "source": source}
    return {name: size for name, size in sizes.items() if size}


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
    record: Record = {"step": state.step, "steps": recipe.steps, "epoch": state.step / EPOCH, "learning_rate": rate}
    terms = {name: value.item() for name, value in {"loss": loss.total, **loss.terms}.items()}
    record |= {name: value if math.isfinite(value) else None for name, value in terms.items()}
    record |= {"seconds": state.seconds, **({"skipped": state.skipped} if state.skipped else {})}
    return record | (evaluation(recipe, task, state) if evaluate else {})


def draw(recipe: Recipe, task: Task, state: State) -> Batch:
    """The next batch, after views and normalisation."""
    chosen = _take(task.labelled, state, "labelled", recipe.labelled)
    x = task.normalise(state.weak(chosen.images, state.drawing))
    if "unlabelled" not in state.streams:
        nothing, index = x[:0].unsqueeze(1), torch.empty(0, 1, dtype=torch.int64, device=x.device)
        return _with_source(Batch(x, chosen.labels, nothing, nothing, index), recipe, task, state)
    if isinstance(state.strong, Learning) and len(chosen):
        teach(state.strong, chosen, task, state)
    index = state.streams["unlabelled"].take(recipe.tuples, recipe.method.order).to(x.device)
    images = task.unlabelled[index]
    weak, strong = (_view_tuples(view, images, task, state.drawing) for view in (state.weak, state.strong))
    return _with_source(Batch(x, chosen.labels, weak, strong, index), recipe, task, state)


def _with_source(batch: Batch, recipe: Recipe, task: Task, state: State) -> Batch:
    """The batch with examples of the source, if the method wants them."""
    if task.source is None or "source" not in state.streams:
        return batch
    source = _take(task.source, state, "source", recipe.source)
    images = task.normalise(state.weak(source.images, state.drawing))
    return replace(batch, source=images, source_y=source.labels)


def _take(part: Examples, state: State, name: str, count: int) -> Examples:
    """The next examples of a part; none of a part that is not drawn from."""
    stream = state.streams.get(name)
    index = torch.arange(0) if stream is None else stream.take(count)
    return part[index.to(part.images.device)]


def teach(view: Learning, labelled: Examples, task: Task, state: State) -> None:
    """Tell a view that learns what probability the moving average gives to the true classes of its probes."""
    images, policy = view.probe(labelled.images, state.drawing)
    log_p = predictive(log_probabilities(state.teacher, task, images), state.teacher.log_prior)
    view.update(policy, log_likelihood(log_p, labelled.labels).exp())


def differentiate(recipe: Recipe, batch: Batch, state: State) -> Loss:
    """The method's loss on a batch, its gradient left in the particles."""
    state.particles.train(recipe.head != "probe")  # the features under a probe stay as they are
    step = Step(
        batch,
        state.particles,
        state.teacher,
        state.particles.log_prior,
        state.step / recipe.steps,
        state.drawing,
        state.memory,
        not any(isinstance(module, _BatchNorm) for module in state.particles.modules()),
        state.classes,
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


def evaluation(recipe: Recipe, task: Task, state: State) -> Record:
    """Scores of the raw weights and of their moving average on the test part, and on the validation part if any."""
    parts = {"test": task.test, "validation": task.validation}
    weights = {"raw": state.particles, "ema": state.teacher}
    record: Record = {
        name: {kind: evaluate(particles, task, part) for kind, particles in weights.items()}
        for name, part in parts.items()
        if part is not None
    }
    if recipe.readout == "consensus":
        record["consensus"] = evaluate_consensus(state.teacher, task)
    return record


def evaluate_consensus(particles: Particles, task: Task) -> Record:
    """Accuracy of clusters found in the unlabelled pool, matched to the classes of each part for this purpose only; and
    how far two halves of the particles agree on the pool, which needs no label."""
    classes, log_prior = len(task.classes), particles.log_prior.detach()
    pool = log_probabilities(particles, task, spread(task.unlabelled, CONSENSUS_IMAGES))
    found = consensus(pool, classes, log_prior)
    record = {"stability": stability(pool, classes, log_prior)} if particles.count >= 4 else {}
    for name, part in {"test": task.test, "validation": task.validation}.items():
        if part is not None:
            clusters = found.clusters(log_probabilities(particles, task, part.images))
            right = match(clusters, part.labels, classes)[clusters] == part.labels
            record[name] = right.float().mean().item()
    return record


def spread(images: Tensor, most: int) -> Tensor:
    """At most so many images, at equal intervals: (n, *shape) -> (m, *shape)."""
    return images[torch.linspace(0, len(images) - 1, min(most, len(images)), dtype=torch.float64).long()]


def evaluate(particles: Particles, task: Task, part: Examples) -> Record:
    """Scores of the ensemble weighted by its prior."""
    log_p = log_probabilities(particles, task, part.images)
    return scores(log_p, part.labels, particles.log_prior.detach())._asdict()


@torch.no_grad()
def log_probabilities(particles: Particles, task: Task, images: Tensor, batch: int = 1024) -> Tensor:
    """log p(y | x, w_k) of the task's classes, in evaluation mode: (n, *shape) -> (K, n, C)."""
    training = particles.training
    particles.eval()
    parts = [particles(task.normalise(part)) for part in images.split(batch)]
    particles.train(training)
    return split_heads(torch.cat(parts, dim=1), len(task.classes))[0]


def _view_tuples(view: View, images: Tensor, task: Task, generator: torch.Generator) -> Tensor:
    """A view of every image of the tuples: (B, N, *shape) -> (B, N, *shape), or (B, N, components)."""
    inputs = task.normalise(view(images.flatten(0, 1), generator))
    return inputs.reshape(*images.shape[:2], *inputs.shape[1:])


def _check_views(recipe: Recipe, task: Task) -> None:
    """Try the views on two images: whether they give as many of the same shape back."""
    images, generator = task.test.images[:2], torch.Generator(task.test.images.device).manual_seed(0)
    for name, view in {"weak": recipe.weak, "strong": recipe.strong}.items():
        seen = deepcopy(view)(images.clone(), generator)
        if not isinstance(seen, Tensor) or seen.shape != images.shape:
            got = tuple(seen.shape) if isinstance(seen, Tensor) else type(seen).__name__
            raise ValueError(f"the {name} view makes {got} of {tuple(images.shape)}: it must keep number and shape")


def _check_output(recipe: Recipe, particles: Particles, task: Task) -> None:
    """Try the networks on two images: whether they take them, and give as many outputs as there are classes."""
    images = task.normalise(task.test.images[:2])
    try:
        with torch.no_grad():
            outputs = particles.eval()(images).shape  # in evaluation: batch norm's statistics stay as they are
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"the network does not take images of {tuple(images.shape[1:])}: {error}") from None
    classes, source = len(task.classes), len(task.source_classes)
    two_stage = getattr(recipe.method, "two_stage", False)
    fits = outputs[-1] == classes and (not two_stage or source in (0, classes))
    if not (fits or (two_stage and outputs[-1] == classes + source)):
        own = f", its source {source}: {classes + source} outputs give each its own" if two_stage else ""
        raise ValueError(f"the network gives {outputs[-1]} outputs, task {task.name!r} has {classes} classes{own}")
    if len(outputs) != 3:
        raise ValueError(f"the network gives {tuple(outputs[1:])} for {len(images)} images, not (images, classes)")
    if recipe.head != "same":
        check_head(particles, images)
