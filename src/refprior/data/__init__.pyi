from ._answered import Answered
from ._arrays import examples_from_dataset, read_npz
from ._data_set import DataSet
from ._duplicates import duplicates
from ._error import DataError
from ._few_labels import FewLabels, Pair
from ._fingerprint import TaskRecord, fingerprint
from ._folder import image_folder
from ._location import data_folder
from ._normalize import Identity, Normalizer, PrincipalComponents, Standardize
from ._patch_components import PatchComponents
from ._rows import read_rows
from ._sets import read
from ._survey import FoundFolder, Survey, survey
from ._task import Examples, Task, task_from_arrays
from ._transfer import transfer_task

__all__ = [
    "Answered",
    "DataError",
    "DataSet",
    "Examples",
    "FewLabels",
    "FoundFolder",
    "Identity",
    "Normalizer",
    "Pair",
    "PatchComponents",
    "PrincipalComponents",
    "Standardize",
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
