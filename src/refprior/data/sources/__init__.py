"""The data sets with names: where they come from, how they are fetched and verified, and how they are read."""

import lazy_loader

# The names in __init__.pyi, imported on first use: listing data sets does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
