"""Data: tasks with their labelled, unlabelled, validation and test parts, and endless batches of indices."""

from refprior.data.arrays import examples_from_dataset, read_npz
from refprior.data.dataset import DataSet, data_set, few_labels, held_out, only, strangers
from refprior.data.digits import digits
from refprior.data.duplicates import duplicates
from refprior.data.error import DataError
from refprior.data.folder import image_folder
from refprior.data.location import data_folder
from refprior.data.named import (
    FIVE_SUPERCLASSES,
    SUPERCLASSES,
    TASKS,
    cifar10,
    cifar100_superclass,
    fashion_mnist,
    mnist,
)
from refprior.data.split import long_tail, per_class, without
from refprior.data.stream import Stream
from refprior.data.task import Examples, Task, task_from_arrays
from refprior.data.transfer import transfer_task

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
