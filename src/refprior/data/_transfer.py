"""Two tasks as one: a target, and the labeled images of a source."""

from dataclasses import replace

import torch

from refprior.data._duplicates import duplicates
from refprior.data._task import Task

MOST_SHARED = 0.01


def transfer_task(source: Task, target: Task) -> Task:
    """The target task with the source's labeled images to transfer from.

    Refuses tasks that share images: more than 1 % of the source's, since data sets hold some images twice.

    >>> import refprior as rp
    >>> low = rp.data.FewLabels("digits", labels=None, classes=(0, 1))()
    >>> high = rp.data.FewLabels("digits", labels=20, classes=(2, 3))()
    >>> rp.data.transfer_task(low, high).name
    'digits-0-1-to-digits-2-3'
    """
    if not len(source.labeled):
        raise ValueError(f"the source task {source.name!r} has no labeled inputs")
    joined = replace(
        target, name=f"{source.name}-to-{target.name}", source=source.labeled, source_classes=source.classes
    )
    parts = [part for part in (target.labeled, target.test, target.validation) if part is not None]
    mine = torch.cat([target.unlabeled, *(part.inputs for part in parts)])
    shared = {i for i, _ in duplicates(source.labeled.inputs, mine)}
    if len(shared) > MOST_SHARED * len(source.labeled):
        raise ValueError(
            f"source and target overlap: {len(shared)} of {len(source.labeled)} source inputs are in both; "
            "choose tasks of different classes"
        )
    return joined
