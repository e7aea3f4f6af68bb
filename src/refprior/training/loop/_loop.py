"""The only loop: batch → method → loss → optimizer → moving average → record.

It names no method and no data set. It yields a record of what happened every few steps, and the caller decides what
to do with it: write a line, draw a bar, stop.
"""

# K particles, n inputs, C classes

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from refprior._mesh import ALONE, Mesh, plain, replicating
from refprior.data import Normalizer, Task
from refprior.data._stream import Stream
from refprior.methods import Batch, Loss, Step
from refprior.particles import Particles, normalizes_batches
from refprior.posterior import predictive
from refprior.training.loop._draw import Normalize, Sampler, part_sizes, prepared
from refprior.training.loop._evaluate import evaluate_all, log_probabilities
from refprior.training.loop._precision import Precision, faster_precision
from refprior.training.loop._randomness import kept
from refprior.training.loop._records import Evaluation, Record
from refprior.training.loop._stages import first_weights
from refprior.training.loop._trouble import NotFiniteError, Trouble, find_bad_scores, find_bad_weights, find_trouble
from refprior.training.loop._validate import check_distinct, check_needs, check_network, check_result, check_views
from refprior.training.recipe import Recipe, equalize, update_average

LOG_EVERY = 10  # steps


@dataclass
class State:
    """Everything that changes while training, and the normalizer that was fitted before it began."""

    particles: Particles
    teacher: Particles
    optimizer: torch.optim.Optimizer
    normalizer: Normalizer
    sampler: Sampler
    memory: dict[str, Tensor] = field(default_factory=dict)
    step: int = 0
    skipped: int = 0  # steps whose loss or gradient was not finite
    seconds: float = 0.0  # spent training, over all interruptions
    precision: Precision | None = None  # that "auto" was found to be; a run keeps it wherever it goes on
    interruptible: bool = False  # an exception now would leave everything as it was before the step


def begin(
    recipe: Recipe, task: Task, device: torch.device, start: Particles | None = None, mesh: Mesh = ALONE
) -> State:
    """The state before the first step, from new weights or from those of an earlier stage; on a mesh, of this rank."""
    check_needs(recipe, task)
    normalizer = recipe.inputs.fit(task.training_inputs)
    check_views(recipe, normalizer, task)
    particles = first_weights(recipe, start, mesh).to(device)
    check_distinct(particles)
    check_network(recipe, particles, normalizer, task)
    batches = torch.Generator().manual_seed(recipe.seed + 1)
    sampler = Sampler(
        streams={
            name: Stream(size, batches, copies=recipe.labeled_copies if name == "labeled" else 1)
            for name, size in part_sizes(recipe.method.needs, task).items()
        },
        generator=torch.Generator(device).manual_seed(recipe.seed + 2),
        weak=deepcopy(recipe.weak),
        strong=deepcopy(recipe.strong),
    )
    teacher = deepcopy(particles).requires_grad_(False).eval()
    return State(particles, teacher, recipe.optimizer.build(particles), normalizer, sampler)


def optimize(recipe: Recipe, task: Task, state: State) -> Iterator[Record | None]:
    """Train to the last step, giving way after each; a record every few steps, with an evaluation in some of them."""
    drawn_from, normalize = prepared(recipe, task, state.normalizer)
    while state.step < recipe.steps:
        started = time.perf_counter()
        rate = recipe.optimizer.set_rate(state.optimizer, state.step, recipe.steps)
        with _taken_back(state):
            batch = draw(recipe, drawn_from, state, normalize)
            undo = _undo(state)
            loss = differentiate(recipe, task, batch, state)
            trouble = find_trouble(state.particles, batch, loss, state.step + 1)
            state.interruptible = False  # from here on it is done
        if trouble is None:
            update(recipe, state)
            _refuse(find_bad_weights(state.particles, batch, state.step + 1))
        elif state.skipped < recipe.skip_not_finite:
            undo()
            state.skipped += 1
        else:
            raise NotFiniteError(trouble)
        state.step += 1
        state.seconds += time.perf_counter() - started
        record = _record(recipe, task, state, loss, rate)
        if record is not None and record.evaluation is not None:
            _refuse(find_bad_scores(record.evaluation, state.particles, batch, state.step))
        yield record


def draw(recipe: Recipe, task: Task, state: State, normalize: Normalize | None = None) -> Batch:
    """The next batch. normalize: of inputs that are not as they are stored (`prepared`)."""

    def predict(images: Tensor) -> Tensor:
        teacher, sharded = state.teacher, state.teacher.worth_sharding
        with replicating(sharded):
            log_p = log_probabilities(teacher, state.normalizer, images, len(task.classes), sharded=sharded)
            return plain(predictive(log_p, teacher.log_prior_of(log_p)))

    return state.sampler.draw(recipe, task, normalize or state.normalizer, predict)


def differentiate(recipe: Recipe, task: Task, batch: Batch, state: State) -> Loss:
    """The method's loss on a batch; the gradient is left in the particles, each at the scale of equal weights."""
    state.particles.train(recipe.head != "probe")  # the features under a probe stay as they are
    sharded = state.particles.worth_sharding and recipe.method.needs.shardable
    log_prior = state.particles.log_prior
    step = Step(
        batch=batch,
        student=partial(state.particles, sharded=sharded),
        teacher=partial(state.teacher, sharded=sharded),
        log_prior=state.particles.mesh.shard(log_prior) if sharded else log_prior,
        features=state.particles.features,
        parameters=state.particles.parameters_of_all(),
        number=state.step,
        progress=state.step / recipe.steps,
        generator=state.sampler.generator,
        memory=state.memory,
        pool_size=len(task.unlabeled),
        classes=len(task.classes),
        independent=not normalizes_batches(state.particles),
        aside=partial(state.particles.aside, sharded=sharded),
        each=partial(state.particles.each, sharded=sharded),
        batch_teacher=partial(state.teacher.aside, as_in=state.particles, sharded=sharded),
        ema=recipe.ema,
    )
    half = _precision(recipe, batch, state) == "bfloat16"
    with replicating(sharded):
        with torch.autocast(state.particles.prior_logits.device.type, torch.bfloat16) if half else nullcontext():
            loss = recipe.method(step)
        check_result(recipe.method, loss, state.memory)
        loss = Loss(plain(loss.total), {name: plain(term) for name, term in loss.terms.items()}, loss.weights)
        state.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss.total)
    state.particles.sum_gradients()
    if recipe.optimizer.sees_scale:
        equalize(state.particles, log_prior.detach().exp() if loss.weights is None else loss.weights)
    return Loss(loss.total.detach(), loss.terms)


def _precision(recipe: Recipe, batch: Batch, state: State) -> Precision:
    """The recipe's, or what was found or is found now to be the faster one."""
    if recipe.precision != "auto":
        return recipe.precision
    if state.precision is None:
        inputs = next(x for x in (*batch.views.values(), batch.labeled, batch.source) if len(x))
        state.precision = faster_precision(state.particles, inputs)
    return state.precision


def update(recipe: Recipe, state: State) -> None:
    """One step of the optimizer and of the moving average."""
    state.optimizer.step()
    update_average(state.teacher, state.particles, recipe.ema)


def _refuse(trouble: Trouble | None) -> None:
    if trouble is not None:
        raise NotFiniteError(trouble)


@contextmanager
def _taken_back(state: State) -> Iterator[None]:
    """What happens here changes nothing if it does not come to its end: a signal may end it at any moment."""
    device = state.sampler.generator.device
    drawn, put_back, undo = state.sampler.state_dict(), kept(device), _undo(state)
    try:
        state.interruptible = True
        yield
    except BaseException:
        state.interruptible = False
        state.sampler.load_state_dict(drawn)
        put_back()
        undo()
        raise


def _undo(state: State) -> Callable[[], None]:
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
    evaluated = state.step % recipe.evaluate_every == 0 or state.step == recipe.steps
    if not evaluated and state.step % LOG_EVERY:
        return None
    evaluation = _evaluate(recipe, task, state, last=state.step == recipe.steps) if evaluated else None
    return Record(
        step=state.step,
        steps=recipe.steps,
        learning_rate=rate,
        loss=_finite(loss.total),
        seconds=state.seconds,
        terms={name: _finite(value) for name, value in loss.terms.items()},
        skipped=state.skipped,
        evaluation=evaluation,
    )


def recompute_last_record(recipe: Recipe, task: Task, state: State) -> Record:
    """Return the record of the last step without its loss, for a run whose metrics were lost."""
    evaluation = _evaluate(recipe, task, state, last=True)
    rate = recipe.optimizer.set_rate(state.optimizer, state.step - 1, recipe.steps)
    return Record(state.step, recipe.steps, rate, None, state.seconds, skipped=state.skipped, evaluation=evaluation)


def _evaluate(recipe: Recipe, task: Task, state: State, *, last: bool) -> Evaluation:
    """The scores. What draws on the way, such as a module that is imported, does not change the run."""
    put_back = kept(state.particles.prior_logits.device)
    try:
        return evaluate_all(recipe, task, state.normalizer, raw=state.particles, ema=state.teacher, last=last)
    finally:
        put_back()


def _finite(value: Tensor) -> float | None:
    number = value.item()
    return number if math.isfinite(number) else None
