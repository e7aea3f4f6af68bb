"""Data: data sets, tasks with their labeled, unlabeled, validation and test parts, and inputs for networks.

A recipe names its data by `FewLabels` or `Pair`; your own arrays become a `Task` by `task_from_arrays`.
"""

import lazy_loader

# The names in __init__.pyi, imported on first use: listing data sets does not wait for torch.
__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)

# Types that you receive and never construct have no page of their own.
__all__ = sorted(set(_names) - {"FoundFolder", "Outline", "Survey", "TaskRecord"})
