from ._arrays import examples_from_dataset, task_from_arrays
from ._data_set import DataSet
from ._few_labels import Answered, FewLabels, Pair
from ._few_labels import Outline as Outline
from ._normalize import Identity, Normalizer, PrincipalComponents, Standardize
from ._patch_components import PatchComponents
from ._read import read
from ._task import Examples, Task, duplicates
from ._task import TaskRecord as TaskRecord
from ._task import fingerprints as fingerprints
from .files import DataError, survey
from .files import FoundFolder as FoundFolder
from .files import Survey as Survey

__all__ = [
    "Answered",
    "DataError",
    "DataSet",
    "Examples",
    "FewLabels",
    "Identity",
    "Normalizer",
    "Pair",
    "PatchComponents",
    "PrincipalComponents",
    "Standardize",
    "Task",
    "duplicates",
    "examples_from_dataset",
    "read",
    "survey",
    "task_from_arrays",
]
