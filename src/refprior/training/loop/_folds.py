"""Folds of the labels: which particles learn from which labels.

With F folds, particle k never learns from the labels of fold k mod F, so that some particles hold out each label.
"""

# K particles, n labels, C classes, F folds

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior.data import Task, fingerprints
from refprior.training.recipe import Recipe, labels_since

_MEMORY = 0.9  # decay of the moving average of predictions of a label, per step that draws it
_FIRST_RATE = 0.1  # ε before training


def assign_folds(labels: Tensor, count: int) -> Tensor:
    """Return the fold of each label: (n,) -> (n,).

    The j-th label of class c is in fold (c + j) mod F: the labels of each class and all labels together are divided
    evenly, and labels that are appended later do not move those before them.
    """
    if not len(labels):
        return labels
    place = one_hot(labels).cumsum(0).gather(1, labels.unsqueeze(1)).squeeze(1) - 1
    return (labels + place) % count


def why_no_folds(recipe: Recipe, task: Task) -> str | None:
    """Return why the labels cannot be divided as the recipe asks; None if they can.

    A stage that continues with more labels is divided if the stage before it was, whose particles know its labels.
    """
    if recipe.particles < 2:
        return "a single particle would never learn the labels that it leaves out"
    if not recipe.method.needs.labels:
        return f"{type(recipe.method).__name__} uses no labels"
    before, stage = len(task.labeled), recipe
    while stage.start is not None and (new := labels_since(stage)) is not None:
        before, stage = before - new, stage.start
    counts = torch.bincount(task.labeled.labels[:before], minlength=len(task.classes)).tolist()
    alone = [name for name, labels in zip(task.classes, counts, strict=True) if labels == 1]
    return f"class {alone[0]!r} has one label, which some particle would not learn" if alone else None


def held_out(recipe: Recipe, task: Task) -> Tensor | None:
    """Return which labels each particle leaves out, (K, n); None without folds."""
    if recipe.folds == "off" or why_no_folds(recipe, task) is not None:
        return None
    count = recipe.particles if recipe.folds == "auto" else int(recipe.folds)
    labels = task.labeled.labels
    leaves = torch.arange(recipe.particles, device=labels.device) % count
    return leaves.unsqueeze(1) == assign_folds(labels, count)


def unlabeled_positions(recipe: Recipe, task: Task) -> Tensor | None:
    """Return the positions of the pool to draw from, (n,); None for all of them.

    With folds, inputs that are labeled as well are not drawn: in the pool, the particles that know their labels would
    teach them to those that leave them out. If no other input is left, all are drawn.
    """
    if held_out(recipe, task) is None:
        return None
    known = torch.isin(fingerprints(task.unlabeled), fingerprints(task.labeled.inputs))
    return None if known.all() or not known.any() else (~known).nonzero().squeeze(1)


def first_trust(recipe: Recipe, task: Task) -> dict[str, Tensor] | None:
    """Return the initial trust in the labels; None if the recipe does not doubt them or has no folds.

    `likelihood` (n,) is the moving average of the probability of each label under the particles that hold it out,
    `error_rate` () the share ε of wrong labels.
    """
    if not recipe.doubt_labels or held_out(recipe, task) is None:
        return None
    labels = task.labeled.labels
    equal = torch.full((len(labels),), 1 / len(task.classes), device=labels.device)
    return {"likelihood": equal, "error_rate": torch.tensor(_FIRST_RATE, device=labels.device)}


def update_trust(
    trust: dict[str, Tensor], index: Tensor, likelihood: Tensor, classes: int
) -> tuple[dict[str, Tensor], Tensor]:
    """Add the probabilities of some labels under particles that hold them out; return the trust in all: (b,), (b,).

    r_i = (1 - ε) p_i / [(1 - ε) p_i + ε (1 - p_i) / (C - 1)] is the probability that label i is right, with p_i the
    moving average. ε makes one step of expectation maximization, as in `posterior.label_posterior`.
    """
    before, rate = trust["likelihood"], trust["error_rate"]
    drawn = torch.zeros_like(before).index_add(0, index, torch.ones_like(likelihood).to(before))
    mean = torch.zeros_like(before).index_add(0, index, likelihood.to(before)) / drawn.clamp_min(1)
    p = torch.where(drawn > 0, _MEMORY * before + (1 - _MEMORY) * mean, before)
    right = (1 - rate) * p / ((1 - rate) * p + rate * (1 - p) / (classes - 1))
    return {"likelihood": p, "error_rate": ((1 - right).sum() + 0.5) / (len(p) + 1)}, right


def label_weights(recipe: Recipe, task: Task) -> Tensor | None:
    """Return the weight of each label in each particle's gradient, (K, n); None without folds.

    A particle that leaves out m of n labels weights the others by n / (n - m), which is K / (K - 1) for K equal folds:
    its expected loss is then the mean over its own labels. Dividing by the number of its labels in each batch instead
    would weight labels more that happen to be drawn with held-out ones, and fail if all are held out.
    """
    out = held_out(recipe, task)
    if out is None:
        return None
    learned = (~out).to(torch.get_default_dtype())
    return learned / learned.mean(1, keepdim=True)
