"""What the classifier trains on the data of a file or folder, whose run folder knows where they are."""

from dataclasses import replace

from refprior.data import FewLabels, Standardise, Task
from refprior.estimators._classifier import ReferencePriorClassifier
from refprior.estimators._inputs import Inputs, components
from refprior.training import Recipe


def classifier_recipe(data: FewLabels, *, seed: int = 0) -> tuple[Recipe, Task]:
    """The recipe of `ReferencePriorClassifier` for a file or folder, and its task as it is now.

    All inputs, labelled or not, are the pool. The features of a table are standardised: they have units of their own.
    """
    data = replace(data, labelled_in_pool=True)
    task = data()
    inputs: Inputs = Standardise()
    if len(task.shape) == 1:
        inputs = replace(components(task.shape), standardise=bool(task.features))
    return replace(ReferencePriorClassifier().recipe_of(task, inputs, seed), task=data), task
