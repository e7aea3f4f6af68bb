"""What particles predict, how good that is on the parts of a task, and the records of it.

The records are one schema for metrics.jsonl, tables, progress and pages.
"""

# K particles, n inputs, C classes

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._files import Json
from refprior._mesh import plain, replicating
from refprior.data import Examples, Normalizer, Task
from refprior.methods import split_heads
from refprior.particles import Particles
from refprior.posterior import (
    OutOfFold,
    OutOfFoldScores,
    Scores,
    cluster,
    confusion_matrix,
    ensemble_temperature,
    log_temperature_ratio,
    match,
    out_of_fold_mixture,
    predictive,
    score,
    score_out_of_fold,
    stability,
)
from refprior.training.loop._folds import held_out
from refprior.training.recipe import Recipe

CONSENSUS_INPUTS = 2000  # of the unlabeled pool, in which clusters are found
TEMPERATURE_INPUTS = 1000  # of the unlabeled pool, by which the ensemble is compared with its particles


@dataclass(frozen=True)
class PartScores:
    """Scores on one part of the data, of the moving average and of the raw weights."""

    ema: Scores
    raw: Scores


@dataclass(frozen=True)
class ConsensusScores:
    """How well clusters, found without labels and matched to the classes, fit each part."""

    test: float | None = None
    validation: float | None = None
    stability: float | None = None  # share of the pool on which two halves of the particles agree; needs no label


@dataclass(frozen=True)
class Evaluation:
    """All scores at one step; None of a part that the task does not have."""

    test: PartScores | None = None
    validation: PartScores | None = None
    consensus: ConsensusScores | None = None
    # At the last step, of the test part or else the validation part: inputs of each class (rows) taken for each class.
    confusion: tuple[tuple[int, ...], ...] | None = None
    # Of the labels, by the moving average of the particles that have not learned them; None without folds.
    out_of_fold: OutOfFoldScores | None = None
    # By which the log-probabilities of the moving average's ensemble are divided, in these scores too.
    temperature: float | None = None

    def __post_init__(self) -> None:
        rows = self.confusion or ()
        if any(len(row) != len(rows) or min(row) < 0 for row in rows):
            raise ValueError("the confusion matrix must be square, of counts")

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the test part: of the consensus if clusters are scored, else of the moving average's ensemble."""
        if self.consensus is not None:
            return self.consensus.test
        return None if self.test is None else self.test.ema.accuracy


@dataclass(frozen=True)
class Record:
    """One line of metrics.jsonl.

    Parameters
    ----------
    step : int
        The step.
    steps : int
        Steps of this stage.
    learning_rate : float
        Learning rate of the step.
    loss : float or None
        The loss; None if it is not finite.
    seconds : float
        Seconds of training so far.
    terms : dict of str to float or None
        Terms of the loss.
    skipped : int, default: 0
        Steps so far whose loss or gradient was not finite.
    evaluation : Evaluation, optional
        Scores at this step, if there was an evaluation.

    Examples
    --------
    >>> from refprior.training import Record
    >>> record = Record(step=10, steps=100, learning_rate=0.03, loss=1.5, seconds=2.0)
    >>> Record.from_dict(record.to_dict()) == record
    True
    """

    step: int
    steps: int
    learning_rate: float
    loss: float | None
    seconds: float
    terms: dict[str, float | None] = field(default_factory=dict)
    skipped: int = 0
    evaluation: Evaluation | None = None

    def to_dict(self) -> Json:
        """Return plain numbers, lists and dictionaries.

        Returns
        -------
        dict
            The record.
        """
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, record: object) -> "Record":
        """Read a record from `to_dict`.

        Parameters
        ----------
        record : dict
            The record.

        Returns
        -------
        Record
            The record.

        Raises
        ------
        ValueError
            If an entry is wrong; the message names the first one.
        """
        return msgspec.convert(_with_nan(record), cls)


def _with_nan(value: object, scores: bool = False) -> Any:
    """Restore NaN: JSON holds null in its place, and scores are always numbers."""
    if isinstance(value, dict):
        held = ("ema", "raw", "out_of_fold")
        return {n: _with_nan(item, scores or (n in held and item is not None)) for n, item in value.items()}
    if isinstance(value, list):
        return [_with_nan(item, scores) for item in value]
    return math.nan if scores and value is None else value


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
    """Score the test and validation parts, and the consensus if the recipe reads it; `last` adds a confusion matrix."""
    if recipe.method.needs.projection:
        return Evaluation()  # outputs are no classes
    unseen = predict_out_of_fold(recipe, task, normalizer, ema) if recipe.readout == "outputs" else None
    temperature = unseen.temperature if unseen is not None and recipe.calibrate else None
    test, validation = (
        None
        if part is None
        else PartScores(_scores(ema, normalizer, task, part, temperature or 1.0), _scores(raw, normalizer, task, part))
        for part in (task.test, task.validation)
    )
    finite = all(math.isfinite(part.ema.negative_log_likelihood) for part in (test, validation) if part is not None)
    found, matrix = None, None
    if recipe.readout == "consensus" and finite:
        found, matrix = evaluate_consensus(ema, normalizer, task)
    elif last and recipe.readout == "outputs":
        matrix = output_confusion(ema, normalizer, task)
    counts = tuple(map(tuple, matrix.tolist())) if last and matrix is not None else None
    return Evaluation(test, validation, found, counts, None if unseen is None else unseen.scores, temperature)


def predict_out_of_fold(recipe: Recipe, task: Task, normalizer: Normalizer, particles: Particles) -> OutOfFold | None:
    """Predict each labeled input with the particles that have not learned its label; None without folds.

    The temperature of the ensemble follows from these predictions and those of unlabeled inputs.
    """
    out = held_out(recipe, task)
    if out is None:
        return None
    log_p = log_probabilities(particles, normalizer, task.labeled.inputs, len(task.classes))
    mixed = out_of_fold_mixture(log_p, out, particles.log_prior.detach())
    scores = score_out_of_fold(mixed, task.labeled.labels)
    log_ratio = 0.0
    if len(task.unlabeled):
        pool = evenly_spaced(task.unlabeled, TEMPERATURE_INPUTS)
        log_ratio = log_temperature_ratio(out, log_probabilities(particles, normalizer, pool, len(task.classes)))
    temperature = ensemble_temperature(mixed, task.labeled.labels, log_ratio)
    return OutOfFold(mixed.cpu().numpy(), task.labeled.labels.cpu().numpy(), scores, temperature)


def _scores(
    particles: Particles, normalizer: Normalizer, task: Task, part: Examples, temperature: float = 1.0
) -> Scores:
    sharded = particles.worth_sharding
    with replicating(sharded):
        log_p = log_probabilities(particles, normalizer, part.inputs, len(task.classes), sharded=sharded)
        return score(log_p, part.labels, particles.log_prior_of(log_p), temperature=temperature)


def output_confusion(particles: Particles, normalizer: Normalizer, task: Task) -> Tensor | None:
    """Return the ensemble's confusion matrix on the test part, or else on the validation part: (C, C)."""
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
    """Score clusters that are found in the unlabeled pool, and return the confusion matrix of the first part.

    Clusters are matched to the classes of each part for this purpose only. The agreement of two halves of the particles
    on the pool needs no label. None if a prediction is not finite.
    """
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
    """Return at most this many inputs, at equal intervals: (n, *shape) -> (m, *shape)."""
    return inputs[torch.linspace(0, len(inputs) - 1, min(most, len(inputs)), dtype=torch.float64).long()]
