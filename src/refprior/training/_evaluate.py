"""What particles predict, and how good that is on the parts of a task."""

# K particles, n inputs, C classes

import math

import torch
from torch import Tensor

from refprior.data import Examples, Normaliser, Task
from refprior.methods import split_heads
from refprior.particles import Particles
from refprior.posterior import Scores, consensus, match, scores, stability
from refprior.training._recipe import Recipe
from refprior.training._records import ConsensusScores, Evaluation, PartScores

CONSENSUS_IMAGES = 2000  # of the unlabelled pool, in which clusters are found


@torch.no_grad()
def log_probabilities(
    particles: Particles, normaliser: Normaliser, images: Tensor, classes: int, *, batch: int = 1024
) -> Tensor:
    """log p(y | x, w_k) of the task's classes, in evaluation mode: (n, *shape) -> (K, n, C)."""
    training = particles.training
    particles.eval()
    try:
        outputs = [particles(normaliser(part)) for part in images.split(batch)]
    finally:
        particles.train(training)
    return split_heads(torch.cat(outputs, dim=1), classes)[0]


def evaluate_all(recipe: Recipe, task: Task, normaliser: Normaliser, *, raw: Particles, ema: Particles) -> Evaluation:
    """Scores on the test and validation parts that there are, and of the consensus if the recipe reads it."""
    test, validation = (
        None if part is None else PartScores(*(_scores(p, normaliser, task, part) for p in (ema, raw)))
        for part in (task.test, task.validation)
    )
    finite = all(math.isfinite(part.ema.negative_log_likelihood) for part in (test, validation) if part is not None)
    clustered = recipe.readout == "consensus" and finite
    return Evaluation(test, validation, evaluate_consensus(ema, normaliser, task) if clustered else None)


def _scores(particles: Particles, normaliser: Normaliser, task: Task, part: Examples) -> Scores:
    log_p = log_probabilities(particles, normaliser, part.images, len(task.classes))
    return scores(log_p, part.labels, particles.log_prior.detach())


def evaluate_consensus(particles: Particles, normaliser: Normaliser, task: Task) -> ConsensusScores | None:
    """Accuracy of clusters found in the unlabelled pool, matched to the classes of each part for this purpose only; and
    how far two halves of the particles agree on the pool, which needs no label. None if a prediction is not finite."""
    classes, log_prior = len(task.classes), particles.log_prior.detach()
    images = evenly_spaced(task.unlabelled, CONSENSUS_IMAGES)
    pool = log_probabilities(particles, normaliser, images, classes)
    if pool.isnan().any():
        return None
    found = consensus(pool, classes, log_prior)
    accuracies = {}
    for name, part in {"test": task.test, "validation": task.validation}.items():
        if part is not None:
            clusters = found.clusters(log_probabilities(particles, normaliser, part.images, classes))
            right = match(clusters, part.labels, classes)[clusters] == part.labels
            accuracies[name] = right.float().mean().item()
    agree = stability(pool, classes, log_prior) if particles.count >= 4 else None
    return ConsensusScores(accuracies.get("test"), accuracies.get("validation"), agree)


def evenly_spaced(images: Tensor, most: int) -> Tensor:
    """At most this many images, at equal intervals: (n, *shape) -> (m, *shape)."""
    return images[torch.linspace(0, len(images) - 1, min(most, len(images)), dtype=torch.float64).long()]
