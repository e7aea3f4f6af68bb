"""Train a recipe, and what comes out of it: a `Run` that predicts."""

import logging
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from refprior.data import Examples, Task
from refprior.particles import Particles
from refprior.posterior import Average, Consensus, Scores, consensus, likelihood_weights, predictive, scores
from refprior.training import _checkpoint as checkpoint
from refprior.training import _folder as folder
from refprior.training import _snapshot as snapshot
from refprior.training._checkpoint import CheckpointError
from refprior.training._describe import describe
from refprior.training._loop import CONSENSUS_IMAGES, Record, State, begin, log_probabilities, optimise, spread
from refprior.training._recipe import Recipe
from refprior.training._stages import check_stages
from refprior.training._stopping import Stop, Stopped, stopping
from refprior.training._trouble import NotFiniteError, dump

Watcher = Callable[[Record], None]
Kind = Literal["ema", "raw"]  # which weights: the moving average, or as they are
Weighting = Literal["prior", "likelihood"]  # how the particles count in a prediction
log = logging.getLogger("refprior")


@dataclass(frozen=True)
class Run:
    """A trained recipe."""

    recipe: Recipe
    task: Task
    particles: Particles  # the raw weights
    ema: Particles  # their moving average
    history: list[Record] = field(default_factory=list)

    @property
    def result(self) -> Record:
        """The record of the last step: what every table reports."""
        return self.history[-1]

    def predict(
        self,
        images: np.ndarray | Tensor,
        weights: Weighting = "prior",
        kind: Kind = "ema",
        average_of: Average = "probabilities",
    ) -> np.ndarray:
        """p(y | x, x^n, y^n), eq:bayes_posterior_predictive_distribution: (n, *shape) -> (n, C) probabilities."""
        particles = self.weights(kind)
        batch = torch.as_tensor(images).to(particles.prior_logits.device)
        self.task.check_images("given", batch)
        log_p = log_probabilities(particles, self.task, batch)
        return np.asarray(predictive(log_p, self.posterior(weights, kind), average_of).exp().cpu())

    def evaluate(
        self,
        kind: Kind = "ema",
        weights: Weighting = "prior",
        average_of: Average = "probabilities",
        part: Examples | None = None,
    ) -> Scores:
        """Scores on the test part, or on another one."""
        part = self.task.test if part is None else part
        log_p = log_probabilities(self.weights(kind), self.task, part.images)
        return scores(log_p, part.labels, self.posterior(weights, kind), average_of)

    def weights(self, kind: Kind) -> Particles:
        return self.ema if kind == "ema" else self.particles

    def consensus(self, clusters: int | None = None, kind: Kind = "ema") -> Consensus:
        """Clusters of the unlabelled images (2,000 at equal intervals if there are more), without names yet.

        clusters: how many; by default as many as classes.
        """
        particles = self.weights(kind)
        log_p = log_probabilities(particles, self.task, spread(self.task.unlabelled, CONSENSUS_IMAGES))
        return consensus(log_p, len(self.task.classes) if clusters is None else clusters, particles.log_prior.detach())

    def posterior(self, weights: Weighting = "likelihood", kind: Kind = "ema") -> Tensor:
        """log p(w_k | x^n, y^n) of the labelled images, or the prior, which is uniform unless it was learnt: (K,)."""
        particles = self.weights(kind)
        log_prior = particles.log_prior.detach()
        if weights == "prior":
            return log_prior
        log_p = log_probabilities(particles, self.task, self.task.labelled.images)
        return likelihood_weights(log_p, self.task.labelled.labels, log_prior)


@dataclass(frozen=True)
class Sitting:
    """What all stages of one call of `train` with a folder share."""

    out: Path
    device: torch.device
    watch: Watcher | None
    save_every: float | None
    stop: Stop


def train(
    recipe: Recipe,
    out: Path | str | None = None,
    device: torch.device | str = "cpu",
    watch: Watcher | None = None,
    origin: dict[str, Any] | None = None,
    fresh: bool = False,
    save_every: float | None = None,
) -> Run:
    """Train every stage of a recipe. With `out`, write the run folder as it goes, or go on with the one that is there.

    watch: called with each record as it is made. origin: what recipe.json says of where the recipe came from.
    fresh: move an existing folder aside and start over. save_every: seconds between checkpoints; by default 30, and
    longer where saving would take more than 1 % of the time.
    """
    device = torch.device(device)
    if save_every is not None and not save_every >= 0:
        raise ValueError(f"save_every must be at least 0 seconds, got {save_every}")
    if out is None:
        return _train_in_memory(recipe, device, watch)
    path = Path(out)
    if fresh and path.exists():
        with folder.locked(path):
            log.warning("moved the old run to %s", folder.move_aside(path))
    with folder.locked(path), stopping() as stop:
        return _stage(recipe, path, origin, Sitting(path, device, watch, save_every, stop))


def load(path: Path | str, recipe: Recipe, device: torch.device | str = "cpu") -> Run:
    """A run from its folder, as its last checkpoint has it."""
    path, device = Path(path), torch.device(device)
    with _own_randomness(recipe.seed, device):
        task = recipe.task().to(device)
        state = begin(recipe, task, device)
        if not restore_latest(path, state):
            raise ValueError(f"{path} has no checkpoint yet: nothing to load")
    history = [r for r in folder.read_records(path) if r["step"] <= state.step]
    return _run(recipe, task, state, history)


def restore_latest(path: Path, state: State, set_aside: bool = False) -> checkpoint.Checkpoint | None:
    """Put the newest usable checkpoint into the state; a damaged one is passed over with a warning.

    set_aside: rename the damaged ones, so that they do not count as one of the two that are kept.
    """
    problems: dict[int, str] = {}
    for step in checkpoint.steps(path):
        try:
            read = checkpoint.read(path, step)
            checkpoint.restore(state, read)
        except CheckpointError as error:
            problems[step] = str(error)
            continue
        for damaged, problem in problems.items():
            log.warning("%s; going back to step %d", problem, step)
            if set_aside:
                checkpoint.set_aside(path, damaged)
        return read
    if problems:
        raise CheckpointError(f"no checkpoint in {path} can be used: {next(iter(problems.values()))}")
    return None


class Saver:
    """Saves now and then, so seldom that saving takes less than 1 % of the time, and survives a full disk."""

    def __init__(self, path: Path, metrics: folder.Metrics, every: float | None) -> None:
        self.path = path
        self.metrics = metrics
        self.every = every
        self.interval = 30.0 if every is None else every
        self.last = time.perf_counter()

    def due(self) -> bool:
        return time.perf_counter() - self.last >= self.interval

    def save(self, state: State) -> None:
        started = time.perf_counter()
        checkpoint.save(self.path, state, self.metrics.sync())
        self.last = time.perf_counter()
        if self.every is None:
            self.interval = max(30.0, 120 * (self.last - started))

    def try_save(self, state: State) -> None:
        """Save; if the disk is full or the like, say so, keep the old checkpoint and try again later."""
        try:
            self.save(state)
        except OSError as error:
            self.last = time.perf_counter()
            log.warning("could not save step %d (%s): the old checkpoint stays, trying again later", state.step, error)

    def must_save(self, state: State, tries: int = 5, wait: float = 2.0) -> None:
        """Save, trying again for a while; then say what is left."""
        for attempt in range(tries):
            try:
                return self.save(state)
            except OSError as error:
                log.warning("could not save step %d (%s), try %d of %d", state.step, error, attempt + 1, tries)
                time.sleep(wait)
        left = checkpoint.steps(self.path)[:1]
        raise OSError(
            f"could not save step {state.step} in {self.path}; the checkpoint of step {left[0] if left else 0} stays. "
            "Make room; the same command goes on from there"
        )


def _train_in_memory(recipe: Recipe, device: torch.device, watch: Watcher | None) -> Run:
    check_stages(recipe)
    start = _train_in_memory(recipe.start, device, watch).particles if recipe.start is not None else None
    with _own_randomness(recipe.seed, device):
        task = recipe.task().to(device)
        state = begin(recipe, task, device, start)
        history = list(_watched(optimise(recipe, task, state), watch))
    return _run(recipe, task, state, history)


def _stage(recipe: Recipe, path: Path, origin: dict[str, Any] | None, sitting: Sitting) -> Run:
    """Train one stage in its folder, from its last checkpoint, or else from the stage before it or from new weights."""
    path.mkdir(exist_ok=True)
    folder.check(path, describe(recipe))
    with _own_randomness(recipe.seed, sitting.device):
        task = recipe.task().to(sitting.device)
        state = begin(recipe, task, sitting.device)
        before = restore_latest(path, state, set_aside=True)
        if before is None:
            check_stages(recipe)
        complete = state.step == recipe.steps
        if not complete:
            folder.write_header(path, origin, describe(recipe))
        if before is None and recipe.start is not None:
            start = _stage(recipe.start, path / "start", None, sitting)
            state = begin(recipe, task, sitting.device, start.particles)
        metrics = folder.Metrics(path, before.metrics_bytes if before is not None else None)
        history = folder.read_records(path)
        if complete:
            log.warning("%s is complete: all %d steps are done", path, recipe.steps)
        else:
            history += _train_in(recipe, task, state, Saver(path, metrics, sitting.save_every), sitting)
    return _run(recipe, task, state, history)


def _train_in(recipe: Recipe, task: Task, state: State, saver: Saver, sitting: Sitting) -> list[Record]:
    """Train in a locked folder to the end, or until asked to stop; the new records."""
    history: list[Record] = []
    if state.step == 0:
        saver.must_save(state)
    due = snapshot.steps(recipe)
    if state.step in due:
        _try_snapshot(saver.path, task, state)
    try:
        for record in optimise(recipe, task, state):
            if state.step in due:
                _try_snapshot(saver.path, task, state)
            if record is not None:
                saver.metrics.append(record)
                history += _watched([record], sitting.watch)
            if state.step == recipe.steps or sitting.stop.signal_number is not None:
                saver.must_save(state)
                _stop_if_asked(recipe, state, saver.path, sitting)
            elif saver.due():
                saver.try_save(state)
    except NotFiniteError as error:
        raise NotFiniteError(error.trouble, f"; the batch is in {dump(saver.path, error.trouble)}") from None
    return history


def _try_snapshot(path: Path, task: Task, state: State) -> None:
    """Keep the predictions of this step; if the disk is full or the like, say so: they are only for pictures."""
    try:
        snapshot.save(path, task, state)
    except OSError as error:
        log.warning("could not keep the snapshot of step %d (%s): training goes on without it", state.step, error)


def _stop_if_asked(recipe: Recipe, state: State, path: Path, sitting: Sitting) -> None:
    """Raise `Stopped` if a signal came and there is something left to do."""
    finished = state.step == recipe.steps and path == sitting.out
    if sitting.stop.signal_number is not None and not finished:
        message = f"stopped at step {state.step} of {recipe.steps} and saved"
        again = f"the same command with --out {shlex.quote(str(sitting.out))} goes on"
        raise Stopped(f"{message}; {again}", sitting.stop.signal_number)


def _watched(records: Iterator[Record | None] | list[Record], watch: Watcher | None) -> Iterator[Record]:
    for record in records:
        if record is not None:
            if watch is not None:
                watch(record)
            yield record


def _run(recipe: Recipe, task: Task, state: State, history: list[Record]) -> Run:
    return Run(recipe, task, state.particles, state.teacher, history)


@contextmanager
def _own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Networks may draw from the global generators (dropout): seed them for the run, and give them back after it."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed + 3)
        yield
