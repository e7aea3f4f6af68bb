"""Labels that admit two rules: two cues agree on all labeled rows and are independent in the pool."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import refprior as rp
from refprior.data import FewLabels, Task, task_from_arrays
from refprior.networks import MLP

CLASSES = ("no", "yes")


class Cues(NamedTuple):
    """Rows of 24 numbers, and the two cues that they show."""

    rows: Tensor  # (n, 24)
    cues: Tensor  # (n, 2) 0 or 1


def cues(count: int, *, agree: bool, seed: int) -> Cues:
    """Draw rows: eight columns for each cue, shifted along a direction by 2 and 1, and eight of noise."""
    draw = torch.Generator().manual_seed(seed)
    found = torch.randint(0, 2, (count, 2), generator=draw)
    found = torch.where(torch.tensor(agree), found[:, 1:], found)
    direction = torch.nn.functional.normalize(torch.randn(2, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    shifts = torch.tensor([2.0, 1.0])[:, None] * direction * (2.0 * found[..., None] - 1)  # (n, 2, 8)
    noise = 0.5 * torch.randn(count, 3, 8, generator=draw)
    return Cues(torch.cat([noise[:, :1], noise[:, 1:] + shifts], 1).flatten(1), found)


LABELED, POOL, TEST = cues(400, agree=True, seed=1), cues(1000, agree=False, seed=2), cues(1000, agree=False, seed=3)


def task(truth: int = 1) -> Task:
    """Return the task; the test labels are those of a cue."""
    return task_from_arrays(
        (LABELED.rows.numpy(), LABELED.cues[:, 0].numpy()),
        POOL.rows.numpy(),
        (TEST.rows.numpy(), TEST.cues[:, truth].numpy()),
        classes=CLASSES,
    )


def recipe(**changes: Any) -> rp.Recipe:
    """Return the recipe of particles that find both rules, in a second."""
    settings: dict[str, Any] = {
        "task": task(),
        "network": partial(MLP, (24,), 2, hidden=48),
        "method": rp.ReferencePrior(alpha=1, order=2),
        "particles": 8,
        "steps": 300,
        "labeled_batch": 64,
        "unlabeled_batch": 132,
        "weak": rp.views.Noise(0.1),
        "strong": rp.views.Corrupt(0.1, 0.3),
        "optimizer": rp.Optimizer(kind="adam", learning_rate=2e-3, decay=0.0),
        "ema": 0.98,
        "evaluate_every": 300,
        "seed": 1,
    }
    return rp.Recipe(**settings | changes)


def names(labels: Tensor) -> list[str]:
    """Return the names of classes."""
    return [CLASSES[label] for label in labels]


def saved(path: Path) -> FewLabels:
    """Write the task as a .npz file, and return it by the name of the file; group 1 contradicts the first cue."""
    labels = torch.cat([LABELED.cues[:, 0], torch.full((len(POOL.rows),), -1), TEST.cues[:, 1]])
    rows = torch.cat([LABELED.rows, POOL.rows, TEST.rows])
    split = np.arange(len(rows)) >= len(LABELED.rows) + len(POOL.rows)
    groups = torch.cat([part.cues[:, 0] != part.cues[:, 1] for part in (LABELED, POOL, TEST)]).int().numpy()
    names, inputs = np.array(CLASSES), rows.numpy()
    np.savez(path, inputs=inputs, labels=labels.numpy(), split=split.astype(int), classes=names, groups=groups)
    return FewLabels(str(path), labels=None)


def truth(rows: Tensor, cue: int) -> list[str]:
    """Return the labels of rows of the pool by a cue."""
    known = {row.numpy().tobytes(): CLASSES[label] for row, label in zip(POOL.rows, POOL.cues[:, cue], strict=True)}
    return [known[row.numpy().tobytes()] for row in rows]
