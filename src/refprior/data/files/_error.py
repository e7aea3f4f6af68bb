"""The error of all readers, and how it is given the name of its file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from refprior._words import in_short


class DataError(ValueError):
    """A file, folder or array is damaged or does not hold what it should.

    The message names the file and the place, and gives the numbers.

    Examples
    --------
    >>> from refprior.data import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


class DamagedError(DataError):
    """An image that cannot be read: the others can be used without it."""


@contextlib.contextmanager
def naming(where: str | Path) -> Iterator[None]:
    """Add the name of the file to every ValueError from inside."""
    try:
        yield
    except ValueError as error:
        if str(where) in str(error) and str(error).isprintable():
            raise
        raise DataError(f"{where}: {in_short(error)}") from error
