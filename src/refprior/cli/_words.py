"""Numbers, sizes and messages in the words of a person."""

import shutil
import sys
import textwrap

from refprior._words import printable


def one_line(error: BaseException) -> str:
    """The message of an error, without line breaks; one that quotes a very long value is cut."""
    line = printable(" ".join(str(error).split()))
    return line if len(line) <= 1000 else f"{line[:1000]}…"


def wrapped(text: str) -> str:
    """A long text in lines of a terminal; as it is where there is none."""
    return textwrap.fill(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text


def listed(names: dict[str, str], width: int | None) -> str:
    """Names and what they mean, one per line; within a width, the meaning goes on below itself."""
    column = max(map(len, names)) + 2
    if width is None:
        return "\n".join(f"{name:{column}}{meaning}" for name, meaning in names.items())
    below = "\n" + " " * column
    meanings = (below.join(textwrap.wrap(meaning, max(20, width - column))) for meaning in names.values())
    return "\n".join(f"{name:{column}}{meaning}" for name, meaning in zip(names, meanings, strict=True))
