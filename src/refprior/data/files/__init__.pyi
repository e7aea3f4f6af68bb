from ._error import DamagedError, DataError, naming
from ._npz import array_names, channels_first, check_column, class_names, load_arrays, split_parts
from ._packed import LARGEST_FILE, blocks_of, content_of, members, unpacked
from ._pictures import decoded, look, picture_pixels, read_images
from ._survey import FoundFolder, Survey, in_words, pictures_in, survey
from ._tables import MISSING, TABLE_SUFFIXES, Table, column_of, read_table

__all__ = [
    "LARGEST_FILE",
    "MISSING",
    "TABLE_SUFFIXES",
    "DamagedError",
    "DataError",
    "FoundFolder",
    "Survey",
    "Table",
    "array_names",
    "blocks_of",
    "channels_first",
    "check_column",
    "class_names",
    "column_of",
    "content_of",
    "decoded",
    "in_words",
    "load_arrays",
    "look",
    "members",
    "naming",
    "picture_pixels",
    "pictures_in",
    "read_images",
    "read_table",
    "split_parts",
    "survey",
    "unpacked",
]
