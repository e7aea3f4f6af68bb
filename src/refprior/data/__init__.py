"""Data: data sets, tasks with their labeled, unlabeled, validation and test parts, and inputs for networks.

A recipe names its data by `FewLabels` or `Pair`; your own arrays become a `Task` by `task_from_arrays`.
"""

import lazy_loader

# What is in __init__.pyi, imported when it is first used: listing data sets does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
