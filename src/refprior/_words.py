"""Numbers, sizes, names and texts in messages of every part of the package."""

import difflib
from collections.abc import Iterable
from typing import NoReturn

_QUOTED = 300  # characters quoted from a file or an error


def printable(text: str) -> str:
    """Escape control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def harmless(cell: str) -> str:
    """Return a cell of a csv file that no spreadsheet executes: text that begins like a formula gets an apostrophe.

    >>> harmless("=1+1"), harmless("-1"), harmless("photo.jpg")
    ("'=1+1", '-1', 'photo.jpg')
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def in_short(something: object) -> str:
    """Return a text or error message as one printable line, cut if it is long."""
    words = str(something)[: 4 * _QUOTED].split(maxsplit=_QUOTED)
    line = printable(" ".join(words)) or type(something).__name__
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"


def counted(number: int, one: str) -> str:
    """Format a count: 1 label, 2 labels."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def in_bytes(count: float) -> str:
    """Format a number of bytes in kB, MB, GB or TB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.1e} {unit}"
    return f"{count / 1e3:.0f} kB"


def duration(seconds: float) -> str:
    """Format a time in a unit from milliseconds to years."""
    for unit, length in (("years", 3.2e7), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}" if seconds < 1000 * 3.2e7 else "1,000 years or more"
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} seconds"


def check_name(name: str, known: Iterable[str], problem: str) -> None:
    """Reject an unknown name."""
    known = list(known)
    if name not in known:
        reject_name(name, known, f"{problem} {name!r}")


def reject_name(name: str, known: Iterable[str], problem: str, listed: Iterable[str] | None = None) -> NoReturn:
    """Raise ValueError for an unknown dotted name, with suggestions of similar names."""
    known = list(dict.fromkeys(known))
    last = name.rpartition(".")[2].lower()
    same = [other for other in known if other.rpartition(".")[2].lower() == last]
    lower = {other.lower(): other for other in reversed(known)}
    near = [lower[match] for match in difflib.get_close_matches(name.lower().replace("_", ""), lower, 2, 0.6)]
    ends = {other.rpartition(".")[2].lower(): other for other in reversed(known)}
    near += [ends[match] for match in difflib.get_close_matches(last, ends, 2, 0.7)]
    likely = [other for other in dict.fromkeys([*same, *near]) if not name.startswith(f"{other}.")][:3]
    hint = f"did you mean {' or '.join(map(repr, likely))}? " if likely else ""
    shown = [other for other in known if "." not in other] if listed is None else list(listed)
    raise ValueError(f"{problem}; {hint}known are: {', '.join(shown) or 'none'}")
