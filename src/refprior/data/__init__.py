"""Data: tasks with their labelled, unlabelled, validation and test parts, and endless batches of indices."""

from refprior.data._arrays import examples_from_dataset, read_npz
from refprior.data._dataset import DataSet, data_set, few_labels, held_out, only, strangers
from refprior.data._digits import digits
from refprior.data._duplicates import duplicates
from refprior.data._error import DataError
from refprior.data._folder import image_folder
from refprior.data._location import data_folder
from refprior.data._named import (
    FIVE_SUPERCLASSES,
    SUPERCLASSES,
    TASKS,
    cifar10,
    cifar100_superclass,
    fashion_mnist,
    mnist,
)
from refprior.data._split import long_tail, per_class, without
from refprior.data._stream import Stream
from refprior.data._task import Examples, Task, task_from_arrays
from refprior.data._transfer import transfer_task

__all__ = [
    "FIVE_SUPERCLASSES",
    "SUPERCLASSES",
    "TASKS",
    "DataError",
    "DataSet",
    "Examples",
    "Stream",
    "Task",
    "cifar10",
    "cifar100_superclass",
    "data_folder",
    "data_set",
    "digits",
    "duplicates",
    "examples_from_dataset",
    "fashion_mnist",
    "few_labels",
    "held_out",
    "image_folder",
    "long_tail",
    "mnist",
    "only",
    "per_class",
    "read_npz",
    "strangers",
    "task_from_arrays",
    "transfer_task",
    "without",
]
