"""Data: data sets, tasks with labeled, unlabeled, validation and test parts, and the normalization of inputs.

A recipe names its data by `FewLabels` or `Pair`. `task_from_arrays` makes a `Task` of arrays or torch data sets.
"""

import lazy_loader

# The names in __init__.pyi, imported on first use: listing data sets does not wait for torch.
__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)

# Types that you receive and never construct, and functions for other packages of refprior, are not in the reference.
_INTERNAL = {
    "FoundFolder",
    "Outline",
    "Preparation",
    "Survey",
    "TaskRecord",
    "default_backbone",
    "default_encoder",
    "fingerprints",
    "preparation_record",
    "read_preparation",
    "with_columns",
}
__all__ = sorted(set(_names) - _INTERNAL)
