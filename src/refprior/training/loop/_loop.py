"""The only loop: batch → method → loss → optimizer → moving average → record.

It names no method and no data set. It yields a record of what happened every few steps, and the caller decides what
to do with it: write a line, draw a bar, stop. Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 ask a run to save and stop; a second
Ctrl-C ends it at once.
"""

# K particles, n inputs, C classes

import math
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from refprior._mesh import plain, replicating
from refprior._process import handling
from refprior.data import Task
from refprior.information import log_likelihood
from refprior.methods import Batch, LabelWeights, Loss, Method, Step, split_heads
from refprior.particles import Execution, Particles, convolves, normalizes_batches
from refprior.posterior import out_of_fold_mixture, predictive
from refprior.training.loop._begin import Precision, State
from refprior.training.loop._draw import PreparedData, prepare_data, remember_randomness
from refprior.training.loop._evaluate import Evaluation, Record, evaluate_all, log_probabilities
from refprior.training.loop._folds import update_trust
from refprior.training.recipe import Recipe, equalize, update_average

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)  # of people, systems, terminals, schedulers
LOG_EVERY = 10  # steps
GROWTH = 2000  # good steps in float16 after which the scale of the loss doubles, as in torch.amp.GradScaler
_HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
WORTH = 0.9  # of the time of single precision, below which bf16 is taken
INPUTS = 64  # of fewer inputs mostly the calls are timed
TURNS = 2
_NAMED = 5  # particles
_DOUBT = 0.5  # share of training after which doubted labels have their full doubt


class Stopped(KeyboardInterrupt):
    """The run was asked to stop by a signal, and stopped with everything saved.

    Parameters
    ----------
    message : str
        What was saved, and how to resume.
    signal_number : int
        The signal.

    Examples
    --------
    >>> from refprior.training import Stopped
    >>> issubclass(Stopped, KeyboardInterrupt)
    True
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class Stop:
    """Which signal asked, if any. It interrupts what can be undone, and is otherwise obeyed at the end of a step."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.interrupts: Callable[[], bool] = lambda: False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        first = self.signal_number is None
        if number == signal.SIGINT and not first:
            os._exit(128 + number)
        self.signal_number = number
        if first and self.interrupts():
            raise Interrupted


class Interrupted(BaseException):
    """A step, or the preparation for the first one, was given up in the middle."""


@contextmanager
def terminable() -> Iterator[None]:
    """The signals raise `Stopped` where they arrive."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("terminated", number)

    with handling(stop, *SIGNALS):
        yield


@contextmanager
def stopping() -> Iterator[Stop]:
    """Listen to people, systems, terminals and schedulers."""
    stop = Stop()
    with handling(stop, *SIGNALS):
        yield stop


@dataclass(frozen=True)
class Trouble:
    """What was not finite in a step."""

    step: int
    what: str
    particles: list[int]  # whose predictions, gradient or weights are not finite
    batch: Batch

    def __str__(self) -> str:
        more = f" and {len(self.particles) - _NAMED} more" if len(self.particles) > _NAMED else ""
        named = f"particle {', '.join(map(str, self.particles[:_NAMED]))}{more}"
        who = named if self.particles else "in no particle alone"
        return f"step {self.step}: {self.what} not finite, {who}: lower the learning rate"


class NotFiniteError(ArithmeticError):
    """Training met a number that is not finite and stopped; the weights are those of the last good step.

    Parameters
    ----------
    trouble : Trouble
        The step, the quantity, the particles and the batch.
    where : str, default: ""
        Where the batch was written.

    Examples
    --------
    >>> from refprior.training import NotFiniteError
    >>> issubclass(NotFiniteError, ArithmeticError)
    True
    """

    def __init__(self, trouble: Trouble, where: str = "") -> None:
        super().__init__(f"{trouble}{where}")
        self.trouble = trouble


def optimize(recipe: Recipe, task: Task, state: State, pauses: Collection[int] = ()) -> Iterator[Record | None]:
    """Train to the last step; yield with a record every few steps and an evaluation in some.

    On the CPU it yields after each step. On other devices it yields after blocks of steps, so that the device need not
    wait for the host in between: a block ends with each record and before each of the steps `pauses`. At a yield every
    step before it is known to be finite.
    """
    data = prepare_data(recipe, task, state.normalizer)
    while state.step < recipe.steps:
        started = time.perf_counter()
        if state.particles.prior_logits.device.type == "cpu":
            done = _step(recipe, task, state, data)
        else:
            done = _block(recipe, task, state, data, _next_pause(recipe, state.step, pauses))
        state.seconds += time.perf_counter() - started
        record = _record(recipe, task, state, done.loss, done.rate)
        if record is not None and record.evaluation is not None:
            _refuse(find_bad_scores(record.evaluation, state.particles, done.batch, state.step))
        yield record


class Done(NamedTuple):
    """A step that was made."""

    loss: Loss
    rate: float
    batch: Batch


def _step(recipe: Recipe, task: Task, state: State, data: PreparedData) -> Done:
    """Make one step, or skip it if it is not finite and the recipe allows that."""
    rate = recipe.optimizer.set_rate(state.optimizer, state.step, recipe.steps)
    with _taken_back(state):
        batch = draw(recipe, task, state, data)
        undo = _undo(state)
        loss = differentiate(recipe, task, batch, state)
        trouble = find_trouble(state.particles, batch, loss, state.step + 1)
        state.interruptible = False  # from here on it is done
    if trouble is None:
        update(recipe, state)
        _refuse(find_bad_weights(state.particles, batch, state.step + 1))
    elif _precision(recipe, state) == "float16" and state.scale > 1:
        undo()
        state.overflows, state.scale, state.since_scaled = state.overflows + 1, state.scale / 2, 0
    elif state.skipped < recipe.skip_not_finite:
        undo()
        state.skipped += 1
    else:
        raise NotFiniteError(trouble)
    state.step += 1
    return Done(loss, rate, batch)


def _block(recipe: Recipe, task: Task, state: State, data: PreparedData, end: int) -> Done:
    """Make all steps before `end` without waiting for the device, then ask once whether all numbers were finite.

    If they were not, everything returns to the first step of the block, and each step is made again and checked.
    """
    restore, finite = _remember(state), []
    try:
        state.interruptible = True
        while state.step < end:
            rate = recipe.optimizer.set_rate(state.optimizer, state.step, recipe.steps)
            batch = draw(recipe, task, state, data)
            loss = differentiate(recipe, task, batch, state)
            gradients = [p.grad for p in state.particles.parameters() if p.grad is not None]
            update(recipe, state)
            weights = [p.detach() for p in state.particles.parameters()]
            finite.append(_sums([loss.total, *gradients, *weights]).isfinite().all())
            state.step += 1
        good = bool(torch.stack(finite).all())
        state.interruptible = False
    except BaseException:
        state.interruptible = False
        restore()
        raise
    if not state.particles.mesh.any(not good):
        return Done(loss, rate, batch)
    restore()
    while state.step < end:
        done = _step(recipe, task, state, data)
    return done


def _next_pause(recipe: Recipe, step: int, pauses: Collection[int]) -> int:
    """Return the first step after this one at which something is recorded or saved."""
    regular = (step + every - step % every for every in (LOG_EVERY, recipe.evaluate_every))
    return min(*regular, recipe.steps, *(pause for pause in pauses if pause > step))


def draw(recipe: Recipe, task: Task, state: State, data: PreparedData | None = None) -> Batch:
    """Return the next batch, from the inputs of the task as they are stored unless prepared data are given."""

    def predict(inputs: Tensor) -> Tensor:
        teacher, sharded = state.teacher, state.teacher.worth_sharding
        with replicating(sharded):
            log_p = log_probabilities(teacher, state.normalizer, inputs, len(task.classes), sharded=sharded)
            return plain(predictive(log_p, teacher.log_prior_of(log_p)))

    return state.sampler.draw(recipe, data or PreparedData.stored(task, state.normalizer), predict)


def differentiate(recipe: Recipe, task: Task, batch: Batch, state: State) -> Loss:
    """Compute the method's loss on a batch; leave the gradient in the particles, at the scale of equal weights."""
    state.particles.train(recipe.head != "probe")  # the features under a probe stay as they are
    sharded = state.particles.worth_sharding and recipe.method.needs.shardable
    log_prior = state.particles.log_prior
    weights = None
    if state.label_weights is not None:
        drawn = state.label_weights[:, batch.labeled_index]
        trust = None if state.trust is None else partial(_trust, recipe, task, batch, state, drawn == 0)
        weights = LabelWeights(state.particles.mesh.shard(drawn) if sharded else drawn, trust)
    step = Step(
        batch=batch,
        student=partial(state.particles, sharded=sharded),
        teacher=partial(state.teacher, sharded=sharded),
        log_prior=state.particles.mesh.shard(log_prior) if sharded else log_prior,
        features=state.particles.features,
        parameters=state.particles.all_parameters(),
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
        label_weights=weights,
    )
    _choose(recipe, state, batch)
    half = _HALF.get(_precision(recipe, state))
    with replicating(sharded):
        with nullcontext() if half is None else torch.autocast(state.particles.prior_logits.device.type, half):
            loss = recipe.method(step)
        check_result(recipe.method, loss, state.memory)
        if weights is not None and not weights.applied:
            name = type(recipe.method).__name__
            raise ValueError(f"{name} mixes labels before particles see them: none can be left out, set folds=off")
        loss = Loss(plain(loss.total), {name: plain(term) for name, term in loss.terms.items()}, loss.weights)
        state.optimizer.zero_grad(set_to_none=True)
        if half == torch.float16:  # whose least number is 6e-8
            torch.autograd.backward(loss.total * state.scale)
            for parameter in state.particles.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(1 / state.scale)
        else:
            torch.autograd.backward(loss.total)
    state.particles.sum_gradients()
    if recipe.optimizer.sees_scale:
        equalize(state.particles, log_prior.detach().exp() if loss.weights is None else loss.weights)
    rate = {} if state.trust is None else {"label_error_rate": state.trust["error_rate"]}
    return Loss(loss.total.detach(), loss.terms | rate)


def _choose(recipe: Recipe, state: State, batch: Batch) -> None:
    """Measure, once per run, what the recipe leaves to the machine; a run keeps the choice."""
    precision = recipe.precision == "auto" and state.precision is None
    particles = state.particles
    divided = particles.mesh.data > 1 and normalizes_batches(particles)  # ranks exchange statistics, only in the loop
    measured = particles.prior_logits.device.type == "cuda" and not divided
    execution = recipe.execution == "auto" and state.execution is None and measured
    if precision or execution:
        inputs = next(x for x in (*batch.views.values(), batch.labeled, batch.source) if len(x))
        if precision:
            state.precision = faster_precision(particles, inputs)
        if execution:
            state.execution = faster_execution(particles, inputs, _HALF.get(_precision(recipe, state)))
            state.particles.execution = state.teacher.execution = state.execution


def _precision(recipe: Recipe, state: State) -> Precision:
    return state.precision or "float32" if recipe.precision == "auto" else recipe.precision


def _trust(recipe: Recipe, task: Task, batch: Batch, state: State, held_out: Tensor, log_p: Tensor) -> Tensor:
    """Return the factor of each label of a batch, and remember its predictions: (K, b), (K, b, C) -> (b,).

    It falls from 1 to the probability r that the label is right: particles that know little must not discard labels.
    """
    assert state.trust is not None
    seen = split_heads(plain(log_p).float(), len(task.classes))[0]
    mixed = out_of_fold_mixture(seen, held_out, state.particles.log_prior.detach())
    likelihood = log_likelihood(mixed, batch.labels).exp()
    state.trust, right = update_trust(state.trust, batch.labeled_index, likelihood, len(task.classes))
    doubt = min(1.0, state.step / (_DOUBT * recipe.steps))
    return 1 - doubt * (1 - right[batch.labeled_index])


def update(recipe: Recipe, state: State) -> None:
    """Make one step of the optimizer and of the moving average."""
    state.optimizer.step()
    update_average(state.teacher, state.particles, recipe.ema)
    state.since_scaled += 1
    if state.since_scaled == GROWTH and _precision(recipe, state) == "float16":
        state.scale, state.since_scaled = 2 * state.scale, 0


def _refuse(trouble: Trouble | None) -> None:
    if trouble is not None:
        raise NotFiniteError(trouble)


@contextmanager
def _taken_back(state: State) -> Iterator[None]:
    """Undo everything if the block does not end: a signal may interrupt it at any moment."""
    restore, undo = _remember_draws(state), _undo(state)
    try:
        state.interruptible = True
        yield
    except BaseException:
        state.interruptible = False
        restore()
        undo()
        raise


def _remember_draws(state: State) -> Callable[[], None]:
    """Return a function that restores the generators, the streams and what the views have learned."""
    drawn, restore = state.sampler.state_dict(), remember_randomness(state.sampler.generator.device)

    def draws() -> None:
        state.sampler.load_state_dict(drawn)
        restore()

    return draws


def _remember(state: State) -> Callable[[], None]:
    """Return a function that restores the whole state once; it holds a copy of all tensors."""
    draws, undo = _remember_draws(state), _undo(state)
    numbers = state.step, state.scale, state.since_scaled
    tensors = [*state.particles.parameters(), *state.teacher.parameters(), *state.teacher.buffers()]
    copies = [tensor.detach().clone() for tensor in tensors]
    moments = {p: {name: _copied(value) for name, value in of.items()} for p, of in state.optimizer.state.items()}
    groups = [
        {name: _copied(value) for name, value in g.items() if name != "params"} for g in state.optimizer.param_groups
    ]

    @torch.no_grad()
    def restore() -> None:
        draws()
        undo()
        state.step, state.scale, state.since_scaled = numbers
        for tensor, before in zip(tensors, copies, strict=True):
            tensor.copy_(before)
        state.optimizer.state.clear()
        state.optimizer.state.update(moments)
        for group, settings in zip(state.optimizer.param_groups, groups, strict=True):
            group.update(settings)

    return restore


def _copied(value: object) -> object:
    return value.clone() if isinstance(value, Tensor) else deepcopy(value)


def _undo(state: State) -> Callable[[], None]:
    """Return a function that undoes what a forward pass changes: batch norm's statistics, memory and trust."""
    buffers = [(buffer, buffer.clone()) for buffer in state.particles.buffers()]
    memory, trust = {name: tensor.clone() for name, tensor in state.memory.items()}, state.trust

    def undo() -> None:
        state.trust = trust
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
        skipped=state.skipped + state.overflows,
        evaluation=evaluation,
    )


def recompute_last_record(recipe: Recipe, task: Task, state: State) -> Record:
    """Return the record of the last step without its loss, for a run whose metrics were lost."""
    evaluation = _evaluate(recipe, task, state, last=True)
    rate = recipe.optimizer.set_rate(state.optimizer, state.step - 1, recipe.steps)
    skipped = state.skipped + state.overflows
    return Record(state.step, recipe.steps, rate, None, state.seconds, skipped=skipped, evaluation=evaluation)


def _evaluate(recipe: Recipe, task: Task, state: State, *, last: bool) -> Evaluation:
    """Evaluate without changing the random state of the run, even if an import draws numbers."""
    restore = remember_randomness(state.particles.prior_logits.device)
    try:
        return evaluate_all(recipe, task, state.normalizer, raw=state.particles, ema=state.teacher, last=last)
    finally:
        restore()


def _finite(value: Tensor) -> float | None:
    number = value.item()
    return number if math.isfinite(number) else None


def check_result(method: Method, loss: Loss, memory: dict[str, Tensor]) -> None:
    """Raise a ValueError for what a method may not return or remember; cheap enough for every step."""
    name = type(method).__name__
    if not isinstance(loss, Loss):
        raise ValueError(f"{name} must return a Loss, got a {type(loss).__name__}: return rp.Loss.of(total, …)")
    sizes = {"total": loss.total, **loss.terms}
    wrong = next((n for n, value in sizes.items() if not isinstance(value, Tensor) or value.numel() != 1), None)
    if wrong is not None:
        raise ValueError(f"{name}: {wrong} of the loss must be a single number; take its mean")
    for key, value in memory.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"a method remembers tensors only: memory[{key!r}] is a {type(value).__name__}")


def faster_precision(particles: Particles, x: Tensor) -> Precision:
    """Return the precision of "auto"; all ranks agree.

    CUDA devices multiply bfloat16 fast, or float16 if they are older. A CPU is measured on one batch.
    """
    if x.device.type == "cuda":
        return particles.mesh.broadcast("bfloat16" if has_bf16(x.device) else "float16")
    if not particles.mesh.broadcast(has_bf16(x.device)):
        return "float32"
    restore = remember_randomness(x.device)
    try:
        halves = (None, torch.bfloat16)
        seconds = [[_seconds(particles, x[:INPUTS], half) for half in halves] for _ in range(TURNS)]
    finally:
        restore()
    single, half = (min(times) for times in zip(*seconds, strict=True))
    return particles.mesh.broadcast("bfloat16" if half < WORTH * single else "float32")


def faster_execution(particles: Particles, x: Tensor, half: torch.dtype | None) -> Execution:
    """Return the faster of one call and a loop over particles on this device, measured on a batch; all ranks agree."""
    first, fastest, restore = particles.execution, math.inf, remember_randomness(x.device)
    found = particles.execution
    try:
        for execution in get_args(Execution):
            if execution in ("loop", "vectorized") and (first == "vectorized" or convolves(particles.network)):
                particles.execution = execution
                seconds = min(_seconds(particles, x, half) for _ in range(TURNS + 1))
                if seconds < fastest:
                    found, fastest = particles.execution, seconds
    finally:
        particles.execution = first
        restore()
    return particles.mesh.broadcast(found)


def has_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for products of bf16 numbers."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    vectors, tiles = torch.cpu._is_avx512_bf16_supported(), torch.cpu._is_amx_tile_supported()
    return device.type == "cpu" and bool(vectors or tiles)


def _seconds(particles: Particles, x: Tensor, half: torch.dtype | None) -> float:
    """Time one pass that leaves no trace, on all ranks at once."""
    weights = [parameter for parameter in particles.network.parameters() if parameter.requires_grad]
    _wait(x.device)
    started = time.perf_counter()
    with torch.autocast(x.device.type, half or torch.bfloat16, enabled=half is not None):
        log_p = particles.aside(x)
    torch.autograd.grad(log_p.square().mean(), weights, allow_unused=True)
    _wait(x.device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def find_trouble(particles: Particles, batch: Batch, loss: Loss, step: int) -> Trouble | None:
    """Return None if the loss and all gradients are finite on all ranks, which continue, skip or stop together."""
    gradients = [p.grad for p in particles.parameters() if p.grad is not None]
    if not particles.mesh.any(not all_finite([loss.total, *gradients])):
        return None
    terms = [name for name, value in loss.terms.items() if not value.isfinite()]
    what = f"term {', '.join(terms)} is" if terms else "the gradient is"
    bad = _bad_predictions(particles, batch)
    return Trouble(step, what, bad or _bad_rows(particles, lambda p: p.grad), batch)


def find_bad_weights(particles: Particles, batch: Batch, step: int) -> Trouble | None:
    """Return None if all weights are finite after their update, on all ranks."""
    if not particles.mesh.any(not all_finite([p.detach() for p in particles.parameters()])):
        return None
    return Trouble(step, "the weights after it are", _bad_rows(particles, lambda p: p.detach()), batch)


def find_bad_scores(evaluation: Evaluation, particles: Particles, batch: Batch, step: int) -> Trouble | None:
    """Return None if all losses of an evaluation are finite: finite weights can predict values that are not."""
    parts = {"test": evaluation.test, "validation": evaluation.validation}
    bad = [
        name
        for name, part in parts.items()
        if part is not None
        and not all(math.isfinite(scores.negative_log_likelihood) for scores in (part.ema, part.raw))
    ]
    if not bad:
        return None
    return Trouble(step, f"the loss on the {' and '.join(bad)} part is", _bad_predictions(particles, batch), batch)


def all_finite(tensors: list[Tensor]) -> bool:
    """Return whether every number is finite. A sum is a cheap first check; one that overflows needs a second."""
    return bool(_sums(tensors).isfinite().all()) or all(bool(tensor.isfinite().all()) for tensor in tensors)


def _sums(tensors: list[Tensor]) -> Tensor:
    return torch.stack([tensor.sum().float() for tensor in tensors])


def _bad_predictions(particles: Particles, batch: Batch) -> list[int]:
    """Return the particles whose predictions on the batch are not finite."""
    particles.eval()  # batch norm's statistics stay as they are
    inputs = [x for x in (batch.labeled, *batch.views.values(), batch.source) if len(x)]
    with torch.no_grad():
        good = particles(inputs[0]).isfinite().flatten(1).all(1)  # (K,)
    return [k for k, fine in enumerate(good.tolist()) if not fine]


def _bad_rows(particles: Particles, of: Callable[[Tensor], Tensor | None]) -> list[int]:
    """Return the particles of which a tensor, one of each parameter, (K, …), is not finite."""
    tensors = [t for t in map(of, particles.network.parameters()) if t is not None]
    rows = [t.isfinite().reshape(len(t), -1).all(1) for t in tensors]  # (K,) each
    network = torch.stack(rows).all(0) if rows else torch.ones(0)
    good = particles.mesh.whole(network.reshape(-1, 1), 1).reshape(-1) if len(network) else network
    prior = of(particles.prior_logits)
    good = good & prior.isfinite() if prior is not None and len(good) else good
    return [k for k, fine in enumerate(good.tolist()) if not fine]
