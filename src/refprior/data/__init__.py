"""Data: data sets, tasks with their labelled, unlabelled, validation and test parts, and inputs for networks.

A recipe names its data by `FewLabels` or `Pair`; your own arrays become a `Task` by `task_from_arrays`.
"""

from refprior.data._answered import Answered
from refprior.data._arrays import examples_from_dataset, read_npz
from refprior.data._data_set import DataSet
from refprior.data._duplicates import duplicates
from refprior.data._error import DataError
from refprior.data._few_labels import FewLabels, Pair
from refprior.data._fingerprint import TaskRecord, fingerprint
from refprior.data._folder import image_folder
from refprior.data._location import data_folder
from refprior.data._normalise import Identity, Normaliser, PrincipalComponents, Standardise
from refprior.data._patch_components import PatchComponents
from refprior.data._rows import read_rows
from refprior.data._sets import read
from refprior.data._survey import FoundFolder, Survey, survey
from refprior.data._task import Examples, Task, task_from_arrays
from refprior.data._transfer import transfer_task

__all__ = [
    "Answered",
    "DataError",
    "DataSet",
    "Examples",
    "FewLabels",
    "FoundFolder",
    "Identity",
    "Normaliser",
    "Pair",
    "PatchComponents",
    "PrincipalComponents",
    "Standardise",
    "Survey",
    "Task",
    "TaskRecord",
    "data_folder",
    "duplicates",
    "examples_from_dataset",
    "fingerprint",
    "image_folder",
    "read",
    "read_npz",
    "read_rows",
    "survey",
    "task_from_arrays",
    "transfer_task",
]
