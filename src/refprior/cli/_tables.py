"""Tables that fit the terminal: headings wrap, and columns that do not fit continue below as a further block."""

import sys
from collections.abc import Iterator, Sequence
from typing import Literal

from refprior._words import printable

_PIPE = 160  # columns if stdout is not a terminal
_GAP = 2
_LABEL = 18  # columns of a label before it is folded within a word
_HEADING = 28  # columns of a heading before it wraps, if its numbers are narrower

Rows = Sequence[Sequence[str]]


def print_table(rows: Rows, keys: int = 1, width: int | None = None) -> None:
    """Print a table, header first. The first `keys` columns name each line and are repeated in every block."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if width is None and not sys.stdout.isatty():
        width = _PIPE
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    plain = [[printable(cell) for cell in row] for row in rows]
    for number, (columns, widths) in enumerate(_blocks(plain, console.width, keys)):
        if number:
            console.print()
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
        for place, (column, wide) in enumerate(zip(columns, widths, strict=True)):
            justify: Literal["left", "right"] = "left" if place < keys else "right"
            table.add_column(plain[0][column], justify=justify, width=wide, overflow="fold")
        for row in plain[1:]:
            table.add_row(*(row[column] for column in columns))
        console.print(table)


def _blocks(rows: Rows, width: int, keys: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield blocks of columns that fit side by side after the keys, with their widths."""
    head = list(range(keys))
    least = [_least(rows, column, label=column < keys) for column in range(len(rows[0]))]
    rest = list(range(keys, len(rows[0])))
    while True:
        count = 1
        while count < len(rest) and _total([least[c] for c in [*head, *rest[: count + 1]]]) <= width:
            count += 1
        columns = [*head, *rest[:count]]
        yield columns, _widened(rows, columns, [least[c] for c in columns], width, keys)
        rest = rest[count:]
        if not rest:
            return


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _least(rows: Rows, column: int, label: bool) -> int:
    """Return the width a column needs: its widest number or longest heading word; of a label, one word."""
    from rich.cells import cell_len

    head, *cells = [row[column] for row in rows]
    word = max(map(cell_len, head.split()), default=1)
    if not label:
        return max([word, *map(cell_len, cells)])
    words = [cell_len(part) for cell in cells for part in cell.split()]
    return max(word, min(_LABEL, max(words, default=1)))


def _widened(rows: Rows, columns: list[int], widths: list[int], width: int, keys: int) -> list[int]:
    """Give the rest of the line to columns that wrap, first ones first."""
    from rich.cells import cell_len

    left = width - _total(widths)
    for place, column in enumerate(columns):
        wanted = max(cell_len(row[column]) for row in rows)
        if place >= keys:
            wanted = min(wanted, _HEADING)
        given = max(0, min(wanted - widths[place], left))
        widths[place] += given
        left -= given
    return widths
