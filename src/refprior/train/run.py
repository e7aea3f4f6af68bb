"""Train a recipe, and what comes out of it: a `Run` that predicts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from refprior.data import Task
from refprior.particles import Particles
from refprior.posterior import Scores, likelihood_weights, predictive, scores
from refprior.train import folder
from refprior.train.describe import describe
from refprior.train.loop import Record, begin, log_probabilities, optimise
from refprior.train.recipe import Recipe

Watcher = Callable[[Record], None]
Kind = Literal["ema", "raw"]  # which weights: the moving average, or as they are
Weighting = Literal["uniform", "likelihood"]  # how the particles count in a prediction


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

    def predict(self, images: np.ndarray, weights: Weighting = "uniform", kind: Kind = "ema") -> np.ndarray:
        """p(y | x, x^n, y^n), eq:bayes_posterior_predictive_distribution: (n, *shape) -> (n, C) probabilities."""
        particles = self.weights(kind)
        batch = torch.as_tensor(images).to(particles.prior_logits.device)
        log_p = log_probabilities(particles, self.task, batch)
        return np.asarray(predictive(log_p, self.posterior(weights, kind)).exp().cpu())

    def evaluate(self, kind: Kind = "ema", weights: Weighting = "uniform") -> Scores:
        """Scores on the test part."""
        log_p = log_probabilities(self.weights(kind), self.task, self.task.test.images)
        return scores(log_p, self.task.test.labels, self.posterior(weights, kind))

    def weights(self, kind: Kind) -> Particles:
        return self.ema if kind == "ema" else self.particles

    def posterior(self, weights: Weighting = "likelihood", kind: Kind = "ema") -> Tensor:
        """log p(w_k | x^n, y^n) of the labelled images, or the prior for uniform weights: (K,)."""
        particles = self.weights(kind)
        log_prior = particles.log_prior.detach()
        if weights == "uniform":
            return log_prior
        log_p = log_probabilities(particles, self.task, self.task.labelled.images)
        return likelihood_weights(log_p, self.task.labelled.labels, log_prior)


def train(
    recipe: Recipe,
    out: Path | str | None = None,
    device: torch.device | str = "cpu",
    watch: Watcher | None = None,
    origin: dict[str, Any] | None = None,
) -> Run:
    """Train every stage of a recipe; with `out`, write the run folder as it goes.

    watch is called with each record as it is made; origin is what recipe.json says of where the recipe came from.
    """
    device = torch.device(device)
    path = Path(out) if out is not None else None
    if path is not None:
        folder.create(path)
    start = None
    if recipe.start is not None:
        start = train(recipe.start, path / "start" if path else None, device, watch).particles
    task = recipe.task().to(device)
    state = begin(recipe, task, device, start)
    if path is not None:
        header = {"origin": origin, "recipe": describe(recipe), "environment": folder.environment()}
        folder.write_json(path / folder.RECIPE, header)
    history = []
    for record in optimise(recipe, task, state):
        history.append(record)
        if path is not None:
            folder.append_record(path, record)
        if watch is not None:
            watch(record)
    if path is not None:
        folder.save_weights(path, "raw", state.particles)
        folder.save_weights(path, "ema", state.teacher)
    return Run(recipe, task, state.particles, state.teacher, history)


def load(path: Path | str, recipe: Recipe, device: torch.device | str = "cpu") -> Run:
    """A finished run from its folder."""
    path, device = Path(path), torch.device(device)
    history = folder.read_records(path)
    task = recipe.task().to(device)
    weights = {
        kind: Particles(recipe.network, recipe.particles, seed=recipe.seed).to(device) for kind in folder.WEIGHTS
    }
    for kind, particles in weights.items():
        folder.load_weights(path, kind, particles)
    return Run(recipe, task, weights["raw"], weights["ema"], history)
