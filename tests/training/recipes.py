"""Small recipes, tasks and networks that the tests of training share. All change by keyword."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from refprior.data import FewLabels, Pair, Task, task_from_arrays
from refprior.methods import FixMatch, Loss, Needs, ReferencePrior, Step, Supervised, Transfer
from refprior.networks import MLP, SmallCNN
from refprior.training import Optimizer, Recipe
from refprior.views import CTAugment, Distort, FlipCrop, Noise, Shift

CPU = torch.device("cpu")
DIGITS = FewLabels("digits", labels=50, validation=300)


def digits(*classes: int, labels: int | None) -> FewLabels:
    """Some of the digits, with a validation part of 30 images per class."""
    return replace(DIGITS, labels=labels, classes=classes, validation=30 * len(classes))


def convolutional(**changes: Any) -> Recipe:
    """Four small convolutional networks on the digits; a record after each of nine steps."""
    recipe = Recipe(
        task=DIGITS,
        network=partial(SmallCNN, (1, 8, 8), 10, width=4),
        method=ReferencePrior.paper(),
        steps=9,
        labeled_batch=10,
        unlabeled_batch=8,
        weak=Shift(),
        strong=Distort(),
        optimizer=Optimizer(learning_rate=0.06),
        ema=0.99,
        evaluate_every=1,
    )
    return replace(recipe, **changes)


def perceptron(**changes: Any) -> Recipe:
    """Two perceptrons on the digits; evaluated at steps 5, 10 and 12 of 12."""
    recipe = Recipe(
        task=DIGITS,
        network=partial(MLP, (1, 8, 8), 10),
        method=ReferencePrior(),
        particles=2,
        steps=12,
        labeled_batch=8,
        unlabeled_batch=12,
        weak=Shift(),
        strong=Distort(),
        ema=0.9,
        evaluate_every=5,
    )
    return replace(recipe, **changes)


def first_stage(**changes: Any) -> Recipe:
    """Supervised learning of three digits."""
    recipe = Recipe(
        task=digits(0, 1, 2, labels=15),
        network=partial(SmallCNN, (1, 8, 8), 3, width=4),
        method=Supervised(),
        particles=2,
        steps=6,
        labeled_batch=9,
        evaluate_every=6,
    )
    return replace(recipe, **changes)


def second_stage(**changes: Any) -> Recipe:
    """Four other digits, from the weights of the first stage with a new head."""
    recipe = first_stage(
        task=digits(3, 4, 5, 6, labels=20),
        network=partial(SmallCNN, (1, 8, 8), 4, width=4),
        start=first_stage(),
        head="new",
    )
    return replace(recipe, **changes)


def pair(labels: int = 6) -> Pair:
    """Transfer from three digits to three others; labels: of the target."""
    return Pair(source=digits(0, 1, 2, labels=60), target=digits(3, 4, 5, labels=labels))


def transferring(**changes: Any) -> Recipe:
    """Three perceptrons that transfer between digits."""
    recipe = Recipe(
        task=pair(),
        network=partial(MLP, (1, 8, 8), 3),
        method=Transfer(),
        particles=3,
        steps=6,
        labeled_batch=6,
        unlabeled_batch=8,
        source_batch=8,
        weak=Shift(),
        strong=Distort(),
        evaluate_every=6,
    )
    return replace(recipe, **changes)


def colors() -> Task:
    """Reddish and bluish noise of 8×8."""
    random = np.random.RandomState(0)
    labels = np.arange(60) % 2
    images = random.randint(0, 160, (60, 3, 8, 8))
    images[np.arange(60), 2 * labels] += 90
    images = images.astype(np.uint8)
    return task_from_arrays((images[:8], labels[:8]), images[8:40], (images[40:], labels[40:]))


def two_cues() -> Task:
    """40 labels that color and shape both predict, and a pool in which these are independent."""
    draw, y = np.random.default_rng(0), np.arange(40) % 2
    cues = np.concatenate([np.stack([y, y], 1), draw.integers(0, 2, (400, 2))])
    rows = 2.0 * cues - 1 + 0.3 * draw.normal(size=cues.shape)
    return task_from_arrays((rows[:40], y), rows[40:], classes=["no", "yes"], features=["color", "shape"])


def ambiguous(**changes: Any) -> Recipe:
    """Eight perceptrons that find the rules of `two_cues`: color, shape, both, either."""
    recipe = Recipe(
        task=two_cues,
        network=partial(MLP, (2,), 2),
        method=ReferencePrior(alpha=1, order=2),
        particles=8,
        steps=100,
        labeled_batch=40,
        unlabeled_batch=64,
        weak=Noise(0.1),
        strong=Noise(0.3),
        optimizer=Optimizer(kind="adam", learning_rate=0.01, decay=0.0),
        ema=0.9,
        evaluate_every=100,
    )
    return replace(recipe, **changes)


def learning_view(**changes: Any) -> Recipe:
    """FixMatch on the colors with a strong view that learns."""
    recipe = Recipe(
        task=colors,
        network=partial(MLP, (3, 8, 8), 2),
        method=FixMatch(),
        particles=2,
        steps=9,
        labeled_batch=6,
        unlabeled_batch=8,
        weak=FlipCrop(pad=1),
        strong=CTAugment(weak=FlipCrop(pad=1), cutout=4),
        ema=0.9,
        evaluate_every=1,
    )
    return replace(recipe, **changes)


@dataclass(frozen=True)
class Wants:
    """A method that is only asked what it needs."""

    needs: Needs

    def __call__(self, step: Step) -> Loss:
        raise AssertionError("not used")


class Dropped(nn.Sequential):
    """Batch norm and dropout: statistics in buffers, draws from the global generator."""

    def __init__(self) -> None:
        super().__init__(
            nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 10)
        )


class Own(nn.Module):
    """A user's own network."""

    def __init__(self, hidden: int = 6, classes: int = 10) -> None:
        super().__init__()
        self.body = nn.Linear(64, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(x.flatten(1)).tanh())
        return outputs
