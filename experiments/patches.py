"""How `cifar10_ssl_patches` was chosen: features of patches by a linear classifier, and methods on stored views.

    python experiments/patches.py features [SEEDS]
    python experiments/patches.py methods [SEEDS]

250 labels, 3,000 validation images, never a test image. `features`: ridge regression from the features of the labeled
images and of their mirror images, with the best of five penalties, for several settings of `PatchComponents`.
`methods`: the networks of the recipe and several methods, trained on views that were made once, 3 weak and 4 strong
ones of 8,000 images, so that a run takes seconds. Both print mean ± standard deviation over the seeds, and each of
them; by default 10, 11, 12.
"""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

import refprior as rp
from refprior.data import FewLabels, Identity, Normalizer, PatchComponents, Task
from refprior.methods import FixMatch, Method, ReferencePrior, Supervised
from refprior.networks import MLP

RECIPE = rp.recipes.cifar10_ssl_patches()
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # times the mean squared length of the features
WEAK, STRONG, POOL = 3, 4, 8000
DEFAULT = PatchComponents(view=RECIPE.strong)  # the recipe's
FEATURES = {
    "as in the recipe": DEFAULT,
    "view=Unchanged()": replace(DEFAULT, view=None),
    "view=FlipCrop()": replace(DEFAULT, view=RECIPE.weak),
    "size=6": replace(DEFAULT, size=6),
    "cells=2": replace(DEFAULT, cells=2),
    "filters=200": replace(DEFAULT, filters=200),
    "count=256": replace(DEFAULT, count=256),
}
METHODS: dict[str, Method] = {
    "Supervised": Supervised(),
    "FixMatch, threshold 0.95": FixMatch(),
    "FixMatch, threshold 0.8": FixMatch(threshold=0.8),
    "FixMatch, threshold 0.6": FixMatch(threshold=0.6),
    "FixMatch, threshold 0.4": FixMatch(threshold=0.4),
    "reference prior": ReferencePrior(),
    "threshold 0.95": ReferencePrior(threshold=0.95),
    "threshold 0.6": ReferencePrior(threshold=0.6),
    "threshold 0.6, γ = 0.3": ReferencePrior(threshold=0.6, gamma=0.3),
    "threshold 0.6, γ = 4": ReferencePrior(threshold=0.6, gamma=4.0),
    "threshold 0.6, α = 0.3": ReferencePrior(threshold=0.6, alpha=0.3),
    "threshold 0.6, τ = 0": ReferencePrior(threshold=0.6, tau=0.0),
    "balance 3": ReferencePrior(balance=3.0),
    "threshold 0.6, balance 1": ReferencePrior(threshold=0.6, balance=1.0),
    "threshold 0.6, balance 3": ReferencePrior(threshold=0.6, balance=3.0),
    "threshold 0.6, balance 10": ReferencePrior(threshold=0.6, balance=10.0),
}


def task_of(seed: int) -> Task:
    return FewLabels("cifar10", labels=250, seed=seed, validation=3000)()


def ridge(features: Tensor, labels: Tensor, others: Tensor, penalty: float) -> Tensor:
    """Classes of other features by least squares: (n, D), (n,), (m, D) -> (m,)."""
    mean = features.mean(0)
    centered = features - mean
    product = centered @ centered.T
    size = penalty * product.diagonal().mean() * torch.eye(len(product))
    weights = centered.T @ torch.linalg.solve(product + size, one_hot(labels).float() - 0.1)
    classes: Tensor = ((others - mean) @ weights).argmax(1)
    return classes


def compare_features(inputs: PatchComponents, seeds: Sequence[int]) -> list[float]:
    """The validation accuracy of each seed, with the penalty that is best on average."""
    fitted = inputs.fit(task_of(seeds[0]).training_inputs)
    found: dict[float, list[float]] = {penalty: [] for penalty in PENALTIES}
    for task in map(task_of, seeds):
        assert task.validation is not None
        images, labels = task.labeled.inputs, task.labeled.labels
        features, others = fitted(torch.cat([images, images.flip(-1)])), fitted(task.validation.inputs)
        for penalty in PENALTIES:
            right = ridge(features, labels.repeat(2), others, penalty) == task.validation.labels
            found[penalty].append(100 * right.double().mean().item())
    return max(found.values(), key=statistics.mean)


@dataclass(frozen=True)
class Stored:
    """One of the views that an input holds, put in its first place: (n, places, D) -> (n, places, D)."""

    first: int
    count: int
    normalized: ClassVar[bool] = True

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        chosen = self.first + torch.randint(self.count, (len(inputs),), generator=generator)
        return torch.cat([inputs[torch.arange(len(inputs)), chosen][:, None], inputs[:, 1:]], 1)


class OnFirst(nn.Module):
    """A small network on what is in the first place: (n, places, D) -> (n, C)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.network = MLP((DEFAULT.count,), classes, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x[:, 0])  # type: ignore[no-any-return]


def views_of(images: Tensor, fitted: Normalizer, generator: torch.Generator) -> Tensor:
    """Features of an image and of its views: (n, c, h, w) -> (n, places, D)."""
    weak = [RECIPE.weak(images, generator) for _ in range(WEAK)]
    strong = [RECIPE.strong(images, generator) for _ in range(STRONG)]
    return torch.stack([fitted(seen) for seen in (images, *weak, *strong)], 1)


def stored(seed: int, fitted: Normalizer) -> Task:
    """The task of a seed with stored views; the validation part is tested with, its first place is the image."""
    task, generator = task_of(seed), torch.Generator().manual_seed(seed)
    assert task.validation is not None
    pool = task.unlabeled[torch.randperm(len(task.unlabeled), generator=generator)[:POOL]]
    seen = fitted(task.validation.inputs)
    return rp.data.task_from_arrays(
        (views_of(task.labeled.inputs, fitted, generator), task.labeled.labels),
        views_of(pool, fitted, generator),
        (seen[:, None].repeat(1, 1 + WEAK + STRONG, 1), task.validation.labels),
    )


def accuracy(task: Task, method: Method, seed: int) -> float:
    weak, strong = Stored(1, WEAK), Stored(1 + WEAK, STRONG)
    recipe = replace(RECIPE, method=method, seed=seed, task=task, network=OnFirst, weak=weak, strong=strong)
    evaluation = rp.train(replace(recipe, inputs=Identity())).result.evaluation
    assert evaluation is not None
    assert evaluation.accuracy is not None
    return 100 * evaluation.accuracy


def show(name: str, found: Sequence[float]) -> None:
    spread = statistics.stdev(found) if len(found) > 1 else 0.0
    print(
        f"| {name} | {statistics.mean(found):.1f} ± {spread:.1f} | {', '.join(f'{x:.1f}' for x in found)} |", flush=True
    )


def main(what: str, seeds: Sequence[int]) -> None:
    if what == "features":
        for name, inputs in FEATURES.items():
            show(name, compare_features(inputs, seeds))
        return
    fitted = DEFAULT.fit(task_of(seeds[0]).training_inputs)
    tasks = {seed: stored(seed, fitted) for seed in seeds}
    for name, method in METHODS.items():
        show(name, [accuracy(task, method, seed) for seed, task in tasks.items()])


if __name__ == "__main__":
    if sys.argv[1:2] not in (["features"], ["methods"]):
        sys.exit(__doc__)
    main(sys.argv[1], [int(seed) for seed in (sys.argv[2] if len(sys.argv) > 2 else "10,11,12").split(",")])
