"""A task of which some unlabeled inputs have been given their labels."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from refprior._words import counted
from refprior.data._split import without
from refprior.data._task import Examples, Task, check_labels


@dataclass(frozen=True)
class Answered:
    """Another task, some of whose unlabeled inputs have been labeled since.

    Calling it reads the task and moves these inputs to the labeled part.

    Parameters
    ----------
    task : Task or callable
        The task, or what reads it, such as `FewLabels`.
    asked : tuple of int
        Indices in its unlabeled pool.
    answers : tuple of int
        The class of each of them.

    Raises
    ------
    ValueError
        If there is not one answer for each index.

    Examples
    --------
    >>> import refprior as rp
    >>> few = rp.data.FewLabels("digits", labels=50)
    >>> before, now = few(), rp.data.Answered(few, asked=(7, 3), answers=(1, 0))()
    >>> len(now.labeled) - len(before.labeled), len(before.unlabeled) - len(now.unlabeled)
    (2, 2)
    """

    task: Callable[[], Task] | Task
    asked: tuple[int, ...]
    answers: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("asked", "answers"):
            object.__setattr__(self, name, tuple(int(number) for number in getattr(self, name)))
        if len(self.asked) != len(self.answers) or len(set(self.asked)) < len(self.asked):
            inputs = counted(len(set(self.asked)), "different input")
            raise ValueError(
                f"expected one answer for each input, got {counted(len(self.answers), 'answer')} for {inputs}"
            )

    def __call__(self) -> Task:
        """Read the task and move the answered inputs."""
        task = self.task if isinstance(self.task, Task) else self.task()
        pool, labels = task.unlabeled, torch.tensor(self.answers, dtype=torch.int64)
        wrong = [index for index in self.asked if not 0 <= index < len(pool)]
        if wrong:
            raise ValueError(
                f"input {wrong[0]} is not in the pool of {len(pool)}: these answers belong to another task"
            )
        check_labels("answered", labels, len(task.classes))
        moved, rest = torch.tensor(self.asked, dtype=torch.int64), without(len(pool), np.array(self.asked, int))
        known = task.labeled
        return replace(
            task,
            labeled=Examples(torch.cat([known.inputs, pool[moved]]), torch.cat([known.labels, labels])),
            unlabeled=pool[torch.from_numpy(rest)],
            names=tuple(task.names[i] for i in rest) if task.names else (),
        )
