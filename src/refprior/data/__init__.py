"""Data: tasks with their labelled, unlabelled, validation and test parts, and endless batches of indices."""

from refprior.data.digits import digits
from refprior.data.split import per_class, without
from refprior.data.stream import Stream
from refprior.data.task import Examples, Task, task_from_arrays

__all__ = ["Examples", "Stream", "Task", "digits", "per_class", "task_from_arrays", "without"]
