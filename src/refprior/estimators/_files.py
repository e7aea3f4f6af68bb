"""What the classifier trains on the data of a file or folder, whose run folder knows where they are."""

from dataclasses import replace

from refprior.data import FewLabels, Standardize, Task
from refprior.data.sources import is_folder
from refprior.estimators._classifier import ReferencePriorClassifier
from refprior.estimators._inputs import Inputs, components
from refprior.training import Recipe

_SIDE = 32  # pixels of a side that the images of a folder are resized to, if they are larger and no size is given


def classifier_recipe(data: FewLabels, *, seed: int = 0) -> tuple[Recipe, Task]:
    """The recipe of `ReferencePriorClassifier` for a file or folder, and its task as it is now.

    All inputs, labeled or not, are the pool. The features of a table are standardized: they have units of their own.
    Photographs of a folder become small, unless a size is given: networks on all of their pixels would train for days.
    """
    data = replace(data, labeled_in_pool=True)
    if is_folder(data.data) and data.size is None and max(data.outline().shape[1:]) > _SIDE:
        data = replace(data, size=_SIDE)
    task = data()
    inputs: Inputs = Standardize()
    if len(task.shape) == 1:
        inputs = replace(components(task.shape), standardize=bool(task.features))
    return replace(ReferencePriorClassifier().recipe_of(task, inputs, seed), task=data), task
