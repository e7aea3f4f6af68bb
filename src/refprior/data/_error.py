"""The one error of the readers, and how it gets the name of its file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_LONGEST = 200  # characters of what a file says, in an error


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
        raise DataError(f"{where}: {in_words(error)}") from error


def in_words(something: object) -> str:
    """What an error says, or a name in a file is, on one line of printable characters and not too long."""
    text = str(something) or type(something).__name__
    line = "".join(c if c.isprintable() else " " if c in "\n\t" else repr(c)[1:-1] for c in text[: _LONGEST + 1])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
