"""What particles predict, and how good that is on the parts of a task."""

# K particles, n inputs, C classes

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._mesh import plain, replicating
from refprior.data import Examples, Normalizer, Task
from refprior.methods import split_heads
from refprior.particles import Particles
from refprior.posterior import Scores, cluster, confusion_matrix, match, predictive, score, stability
from refprior.training.loop._records import ConsensusScores, Evaluation, PartScores
from refprior.training.recipe import Recipe

CONSENSUS_INPUTS = 2000  # of the unlabeled pool, in which clusters are found


@torch.no_grad()
def log_probabilities(
    particles: Particles,
    normalizer: Normalizer,
    inputs: Tensor,
    classes: int,
    *,
    batch: int = 1024,
    sharded: bool = False,
) -> Tensor:
    """Return log p(y | x, w_k) of the task's classes, in evaluation mode: (n, *shape) -> (K, n, C).

    sharded: each rank holds its own particles only (`Particles.worth_sharding`).
    """
    training = particles.training
    particles.eval()
    try:
        outputs = [particles(normalizer(part), sharded=sharded) for part in inputs.split(batch)]
    finally:
        particles.train(training)
    return split_heads(torch.cat(outputs, dim=1), classes)[0]


def evaluate_all(
    recipe: Recipe, task: Task, normalizer: Normalizer, *, raw: Particles, ema: Particles, last: bool = False
) -> Evaluation:
    """Scores on the test and validation parts that there are, and of the consensus if the recipe reads it. last: with
    the confusion matrix."""
    if recipe.method.needs.projection:
        return Evaluation()  # outputs are no classes
    test, validation = (
        None if part is None else PartScores(*(_scores(p, normalizer, task, part) for p in (ema, raw)))
        for part in (task.test, task.validation)
    )
    finite = all(math.isfinite(part.ema.negative_log_likelihood) for part in (test, validation) if part is not None)
    found, matrix = None, None
    if recipe.readout == "consensus" and finite:
        found, matrix = evaluate_consensus(ema, normalizer, task)
    elif last and recipe.readout == "outputs":
        matrix = output_confusion(ema, normalizer, task)
    counts = tuple(map(tuple, matrix.tolist())) if last and matrix is not None else None
    return Evaluation(test, validation, found, counts)


def _scores(particles: Particles, normalizer: Normalizer, task: Task, part: Examples) -> Scores:
    sharded = particles.worth_sharding
    with replicating(sharded):
        log_p = log_probabilities(particles, normalizer, part.inputs, len(task.classes), sharded=sharded)
        return score(log_p, part.labels, particles.log_prior_of(log_p))


def output_confusion(particles: Particles, normalizer: Normalizer, task: Task) -> Tensor | None:
    """Of the ensemble on the test part, or else on the validation part: (C, C)."""
    part = task.validation if task.test is None else task.test
    if part is None:
        return None
    sharded = particles.worth_sharding
    with replicating(sharded):
        log_p = log_probabilities(particles, normalizer, part.inputs, len(task.classes), sharded=sharded)
        ensemble = plain(predictive(log_p, particles.log_prior_of(log_p)))
    return confusion_matrix(ensemble, part.labels)


def evaluate_consensus(
    particles: Particles, normalizer: Normalizer, task: Task
) -> tuple[ConsensusScores | None, Tensor | None]:
    """Accuracy of clusters found in the unlabeled pool, matched to the classes of each part for this purpose only; and
    how far two halves of the particles agree on the pool, which needs no label. The confusion matrix of the test part,
    or else of the validation part. None if a prediction is not finite."""
    classes, log_prior = len(task.classes), particles.log_prior.detach()
    inputs = evenly_spaced(task.unlabeled, CONSENSUS_INPUTS)
    pool = log_probabilities(particles, normalizer, inputs, classes)
    if pool.isnan().any():
        return None, None
    found = cluster(pool, classes, log_prior)
    matrices: dict[str, Tensor] = {}
    for name, part in {"test": task.test, "validation": task.validation}.items():
        if part is not None:
            clusters = found.clusters(log_probabilities(particles, normalizer, part.inputs, classes))
            named = match(clusters, part.labels, classes)[clusters]
            matrices[name] = confusion_matrix(one_hot(named, classes), part.labels)
    accuracies = {name: (matrix.trace() / matrix.sum()).item() for name, matrix in matrices.items()}
    agree = stability(pool, classes, log_prior) if particles.count >= 4 else None
    scored = ConsensusScores(accuracies.get("test"), accuracies.get("validation"), agree)
    return scored, next(iter(matrices.values()), None)


def evenly_spaced(inputs: Tensor, most: int) -> Tensor:
    """At most this many inputs, at equal intervals: (n, *shape) -> (m, *shape)."""
    return inputs[torch.linspace(0, len(inputs) - 1, min(most, len(inputs)), dtype=torch.float64).long()]
