"""The one error of the readers, and how it gets the name of its file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from refprior._words import in_short


class DataError(ValueError):
    """A file, folder or array is not what it should be; the message names it and gives the numbers.

    >>> from refprior.data import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


@contextlib.contextmanager
def naming(where: str | Path) -> Iterator[None]:
    """Every ValueError from inside names `where`, which it is about."""
    try:
        yield
    except ValueError as error:
        if str(where) in str(error) and str(error).isprintable():
            raise
        raise DataError(f"{where}: {in_short(error)}") from error
