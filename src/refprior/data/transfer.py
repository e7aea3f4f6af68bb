"""Two tasks as one: the labelled images of a source beside a target."""

from dataclasses import replace

from refprior.data.task import Task


def transfer_task(source: Task, target: Task) -> Task:
    """The target task with the source's labelled images to transfer from. Both must be of different classes."""
    shared = sorted(set(source.classes) & set(target.classes))
    same = source.name == target.name or bool(shared)
    if same:
        common = f"both have {', '.join(shared)}" if shared else f"both are {target.name}"
        raise ValueError(f"source and target overlap: {common}; choose tasks with different classes")
    if not len(source.labelled):
        raise ValueError(f"the source task {source.name!r} has no labelled images")
    return replace(
        target,
        name=f"{source.name}-to-{target.name}",
        source=source.labelled,
        source_classes=source.classes,
    )
