"""Numbers, sizes and messages in the words of a person."""

import shutil
import sys
import textwrap


def one_line(error: BaseException) -> str:
    """The message of an error, without line breaks."""
    return printable(" ".join(str(error).split()))


def printable(text: str) -> str:
    """Text whose control characters a terminal would obey, with these spelled out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def wrapped(text: str) -> str:
    """A long text in lines of a terminal; as it is where there is none."""
    return textwrap.fill(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text


def counted(number: int, one: str) -> str:
    """1 label, 2 labels."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """In the unit that a person would use."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} seconds"


def listed(names: dict[str, str], width: int | None) -> str:
    """Names and what they mean, one per line; within a width, the meaning goes on below itself."""
    column = max(map(len, names)) + 2
    if width is None:
        return "\n".join(f"{name:{column}}{meaning}" for name, meaning in names.items())
    below = "\n" + " " * column
    meanings = (below.join(textwrap.wrap(meaning, max(20, width - column))) for meaning in names.values())
    return "\n".join(f"{name:{column}}{meaning}" for name, meaning in zip(names, meanings, strict=True))
