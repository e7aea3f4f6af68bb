"""A trained recipe: what it predicts, how good that is, and how to read it back from its folder."""

# K particles, n inputs, C classes

import logging
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from refprior._checks import one_of
from refprior._limits import check_memory
from refprior._words import in_short
from refprior.data import Examples, Normaliser, Task, TaskRecord
from refprior.data._fingerprint import DTYPES, check_same_data
from refprior.data._task import Inputs, like_training
from refprior.methods import Loss, Needs, Step
from refprior.particles import Particles
from refprior.posterior import (
    Average,
    Consensus,
    Scores,
    Uncertainty,
    consensus,
    likelihood_weights,
    predictive,
    scores,
    uncertainty,
)
from refprior.training import _checkpoint as checkpoint
from refprior.training._device import usable_device
from refprior.training._evaluate import CONSENSUS_IMAGES, evenly_spaced, log_probabilities
from refprior.training._folder import RECIPE
from refprior.training._header import Header, check_same_network, read_header
from refprior.training._memory import check_loading_fits
from refprior.training._parts import take_apart, to_plain
from refprior.training._recipe import Recipe, check_handed_in, read_recipe
from refprior.training._records import Record
from refprior.training._stages import new_particles

log = logging.getLogger("refprior")
Weights = Literal["ema", "raw"]  # the moving average of the weights, or the weights themselves
Weighting = Literal["prior", "likelihood"]  # how much each particle counts in a prediction


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A trained recipe.

    Predictions need the weights only. `task` reads the data when it is first used, and refuses data that are not those
    of the training.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> run.predict(run.task.test.images[:3]).shape
    (3, 10)
    """

    recipe: Recipe
    data: TaskRecord  # what is known of the data without reading them
    particles: Particles  # the raw weights
    ema: Particles  # their moving average
    normaliser: Normaliser
    step: int  # of these weights
    history: tuple[Record, ...] = ()
    path: Path | None = None  # the run folder
    find_task: Callable[[], Task] = field(repr=False)

    @cached_property
    def task(self) -> Task:
        """The data of the training."""
        return self.find_task()

    @property
    def result(self) -> Record:
        """The record of the last step: what every table reports."""
        if not self.history:
            raise ValueError("the run has no record yet: it was stopped before its first")
        return self.history[-1]

    def log_probabilities(self, images: Inputs, *, weights: Weights = "ema") -> Tensor:
        """log p(y | x, w_k) of every particle: (n, *shape) -> (K, n, C)."""
        particles = self._particles(weights)
        batch = like_training(images, self.data.shape, DTYPES[self.data.dtype]).to(particles.prior_logits.device)
        return log_probabilities(particles, self.normaliser, batch, len(self.data.classes))

    def predict(
        self,
        images: Inputs,
        *,
        weights: Weights = "ema",
        weighting: Weighting = "prior",
        average: Average = "probabilities",
    ) -> np.ndarray:
        """p(y | x, x^n, y^n), eq:bayes_posterior_predictive_distribution: (n, *shape) -> (n, C) probabilities.

        images: an array, tensor or list; any kind of float where floats were trained on, whole numbers of 0 … 255 where
        bytes were.
        """
        log_p = self.log_probabilities(images, weights=weights)
        posterior = self.posterior(weights=weights, weighting=weighting)
        return np.asarray(predictive(log_p, posterior, average).exp().cpu())

    def uncertainty(self, images: Inputs, *, weights: Weights = "ema", weighting: Weighting = "prior") -> Uncertainty:
        """Total = within particles + between particles, in nats per input: (n, *shape) -> (n,) each."""
        log_p = self.log_probabilities(images, weights=weights)
        return uncertainty(log_p, self.posterior(weights=weights, weighting=weighting))

    def evaluate(
        self,
        part: Examples | None = None,
        *,
        weights: Weights = "ema",
        weighting: Weighting = "prior",
        average: Average = "probabilities",
    ) -> Scores:
        """Scores on another part, or on the task's test part; on its validation part if it has no test part."""
        part = self.task.held_out if part is None else part
        log_p = self.log_probabilities(part.images, weights=weights)
        return scores(log_p, part.labels, self.posterior(weights=weights, weighting=weighting), average)

    def posterior(self, *, weights: Weights = "ema", weighting: Weighting = "likelihood") -> Tensor:
        """log p(w_k | x^n, y^n) given the labelled inputs, or the prior, which is uniform unless it was learnt: (K,).

        The labelled inputs have trained the particles too, so that their likelihood is too sure of itself.
        """
        one_of("weighting", weighting, ("prior", "likelihood"))
        log_prior = self._particles(weights).log_prior.detach()
        if weighting == "prior":
            return log_prior
        log_p = self.log_probabilities(self.task.labelled.images, weights=weights)
        return likelihood_weights(log_p, self.task.labelled.labels, log_prior)

    def consensus(self, clusters: int | None = None, *, weights: Weights = "ema") -> Consensus:
        """Clusters of the unlabelled inputs (2,000 at equal intervals if there are more), without names yet.

        clusters: how many; by default as many as classes.
        """
        count = len(self.data.classes) if clusters is None else clusters
        log_p = self.log_probabilities(evenly_spaced(self.task.unlabelled, CONSENSUS_IMAGES), weights=weights)
        return consensus(log_p, count, self._particles(weights).log_prior.detach())

    def _particles(self, weights: Weights) -> Particles:
        one_of("weights", weights, ("ema", "raw"))
        return self.ema if weights == "ema" else self.particles


def load(path: Path | str, *, device: torch.device | str = "cpu", **parts: Any) -> Run:
    """A run from its folder, as it was at its last checkpoint.

    parts: what a run folder cannot hold, if the run used it: your own network=, task=, method=, weak=, strong=.
    Only the network is needed to predict; evaluating needs the data.

    >>> import refprior as rp
    >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5})
    >>> trained = rp.train(recipe, "runs/mine")
    >>> run = rp.load("runs/mine")
    >>> bool((run.predict(run.task.test.images) == trained.predict(run.task.test.images)).all())
    True
    """
    path, device = Path(path), usable_device(device)
    header = read_header(path)
    recipe = recipe_of(path, header, parts)
    _warn_of_edits(path, header, parts)
    check_loading_fits(recipe)
    raw = new_particles(recipe)
    check_same_network(header, raw, str(path), "Hand in the network it was trained with, network=…")
    ema = deepcopy(raw).requires_grad_(False).eval()

    def weights(found: checkpoint.Checkpoint) -> tuple[int, Normaliser]:
        return found.summary.step, checkpoint.load_weights(found, raw=raw, ema=ema)

    found = checkpoint.latest(path, weights)
    if found is None:
        raise ValueError(f"{path} has no checkpoint yet: nothing to load")
    step, normaliser = found
    run = Run(
        recipe=recipe,
        data=header.data,
        particles=raw.to(device),
        ema=ema.to(device),
        normaliser=normaliser,
        step=step,
        history=_history(path, step),
        path=path,
        find_task=partial(same_task, recipe, header, path, device),
    )
    _check_predicts(run)
    return run


def _check_predicts(run: Run) -> None:
    """Refuse a folder whose files do not fit each other: an empty input goes through all of them."""
    check_memory(8.0 * math.prod(run.data.shape), f"{run.path}: an input of {run.data.shape}", "the folder is damaged")
    try:
        classes = run.log_probabilities(torch.zeros(1, *run.data.shape, dtype=DTYPES[run.data.dtype])).shape[-1]
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{run.path}: the weights do not fit inputs of {run.data.shape}: {in_short(error)}") from None
    if classes != len(run.data.classes):
        raise ValueError(f"{run.path}: the network gives {classes} outputs for {len(run.data.classes)} classes")


def _history(path: Path, step: int) -> tuple[Record, ...]:
    """The records up to a step. Without them the weights are still whole: say so, and go on."""
    try:
        return tuple(record for record in checkpoint.read_history(path) if record.step <= step)
    except ValueError as error:
        log.warning("%s; the run is loaded without its history", error)
        return ()


def recipe_of(path: Path, header: Header, parts: dict[str, Any]) -> Recipe:
    """The recipe of a run folder. The user's own parts may be missing, but for the network: predictions need none."""
    check_handed_in(parts)

    def stand_in(name: str, last: bool) -> Any:
        return None if name == "network" and last else _Absent(name, path)

    try:
        return read_recipe(header.recipe, parts, stand_in)
    except ValueError as error:
        raise ValueError(f"{path / RECIPE}: {in_short(error)}") from None


@dataclass(frozen=True)
class _Absent:
    """Stands for a part of the user's own that was not handed in, and says so when it is needed."""

    name: str
    path: Path

    @property
    def needs(self) -> Needs:
        return Needs()

    def fit(self, parts: object) -> Normaliser:
        raise ValueError(f"{self.path} was trained with {self.name} of your own, which are not there")

    def __call__(self, *_: Step) -> Loss:
        raise ValueError(f"{self.path} was trained with a {self.name} of your own: hand it in, load(…, {self.name}=…)")


def same_task(recipe: Recipe, header: Header, path: Path, device: torch.device) -> Task:
    """The data of a run folder, refused if they are no longer those of the training."""
    task = recipe.read_task()
    check_same_data(header.data, task, str(path), "Put the old data back, or hand them in, task=…")
    return task.to(device)


def _warn_of_edits(path: Path, header: Header, parts: dict[str, Any]) -> None:
    """Say so if the code of a part that is handed in is no longer what it was."""
    for name, part in parts.items():
        before, now = header.recipe.get(name), to_plain(take_apart(part))
        if isinstance(before, dict) and isinstance(now, dict) and before.get("source") != now.get("source"):
            log.warning("%s: the code of %s has changed since the training", path, name)
