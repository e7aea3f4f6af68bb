from ._catalog import INSTALLED, SOURCES, Source, data_folder
from ._obtain import Report, get, state, verify
from ._sets import DATA_SETS, KNOWN, SUPERCLASSES, is_folder

__all__ = [
    "DATA_SETS",
    "INSTALLED",
    "KNOWN",
    "SOURCES",
    "SUPERCLASSES",
    "Report",
    "Source",
    "data_folder",
    "get",
    "is_folder",
    "state",
    "verify",
]
