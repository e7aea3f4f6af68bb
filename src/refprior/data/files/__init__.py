"""Bounded readers of untrusted files: arrays, tables, images and archives.

Every reader checks sizes before it allocates, never unpickles, and raises `DataError` with the name of the file.
"""

import lazy_loader

# The names in __init__.pyi, imported on first use: a csv file does not wait for Pillow.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
