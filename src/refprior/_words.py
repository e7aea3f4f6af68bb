"""Numbers, sizes and texts in the words of a person, for messages of every part of the package."""

_QUOTED = 300  # characters of what a file or an error says


def printable(text: str) -> str:
    """Text with the characters spelled out that a terminal would obey."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def in_short(something: object) -> str:
    """What an error says, or a file holds, as one printable line that is not too long."""
    words = str(something)[: 4 * _QUOTED].split(maxsplit=_QUOTED)
    line = printable(" ".join(words)) or type(something).__name__
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"


def counted(number: int, one: str) -> str:
    """1 label, 2 labels."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that a person would use."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.1e} {unit}"
    return f"{count / 1e3:.0f} kB"


def duration(seconds: float) -> str:
    """A time in the unit that a person would use."""
    for unit, length in (("years", 3.2e7), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} seconds"
