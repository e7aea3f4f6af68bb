from ._arrays import examples_from_dataset, task_from_arrays
from ._backbone import Backbone
from ._backbone import default_backbone as default_backbone
from ._columns import Columns
from ._columns_graph import with_columns
from ._data_set import DataSet
from ._encoders import default_encoder as default_encoder
from ._features import Joined, NeighborMeans, QuantileBins, TreeLeaves
from ._few_labels import Answered, FewLabels, Pair
from ._few_labels import Outline as Outline
from ._normalize import Identity, Normalizer, PrincipalComponents, Standardize
from ._patch_components import PatchComponents
from ._preparation import Preparation as Preparation
from ._preparation import preparation_record as preparation_record
from ._preparation import read_preparation as read_preparation
from ._read import read
from ._task import Examples, Task, duplicates
from ._task import TaskRecord as TaskRecord
from ._task import fingerprints as fingerprints
from .files import DataError, survey
from .files import FoundFolder as FoundFolder
from .files import Survey as Survey

__all__ = [
    "Answered",
    "Backbone",
    "Columns",
    "DataError",
    "DataSet",
    "Examples",
    "FewLabels",
    "Identity",
    "Joined",
    "NeighborMeans",
    "Normalizer",
    "Pair",
    "PatchComponents",
    "PrincipalComponents",
    "QuantileBins",
    "Standardize",
    "Task",
    "TreeLeaves",
    "duplicates",
    "examples_from_dataset",
    "read",
    "survey",
    "task_from_arrays",
    "with_columns",
]
