"""Folds of the labels: which particles learn from which labels.

With F folds, particle k never learns from the labels of fold k mod F, so that some particles hold out each label.
"""

# K particles, n labels, C classes, F folds

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior.data import Task
from refprior.training.recipe import Recipe, labels_since


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
