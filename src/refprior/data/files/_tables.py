"""Tables: csv files by the standard library, parquet files by pyarrow, as columns of numbers or of text.

pandas does not read the csv files, since it silently fills short rows with NaN and renames a column that occurs twice.
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from refprior._process import check_memory
from refprior._words import counted, in_short
from refprior.data.files._error import DataError

TABLE_SUFFIXES = (".csv", ".parquet")
MISSING = frozenset(("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None"))  # words for it
Cells = list[tuple[str, ...]]  # of each column
_TEXT_CELL = 70  # bytes that a cell of text takes in memory, besides its letters
_CHARACTER = 4  # bytes that a character takes at most
_PARQUET_COPIES = 3
_ROWS = 10_000  # of a csv file at a time
_MOST_PACKED, _SMALL = 200, 100_000_000  # times larger unpacked, of parquet files that unpack to this or more bytes


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, all of one length: float64 with NaN for missing cells, or text with None.

    >>> import numpy as np
    >>> from refprior.data.files import Table
    >>> table = Table(("age", "name"), {"age": np.array([3.0, 5.0]), "name": np.array(["a", None], object)})
    >>> len(table), table.matrix(["age"]).tolist()
    (2, [[3.0], [5.0]])
    """

    columns: tuple[str, ...]
    values: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.values[self.columns[0]]) if self.columns else 0

    def column(self, name: str) -> np.ndarray:
        """Return a column by its name."""
        if name not in self.values:
            raise DataError(f"no column {name!r}; there are {in_short(', '.join(self.columns))}")
        return self.values[name]

    def text(self, name: str) -> np.ndarray:
        """Return a column as text with None; numbers are written in their shortest form."""
        values = self.column(name)
        if values.dtype == object:
            return values
        return np.array([None if math.isnan(value) else f"{value:.15g}" for value in values.tolist()], object)

    def __getitem__(self, part: slice) -> "Table":
        """Return some rows."""
        return Table(self.columns, {name: values[part] for name, values in self.values.items()})

    def matrix(self, columns: Sequence[str] | None = None) -> np.ndarray:
        """Stack columns of numbers, all by default: (n, columns) float64."""
        wanted = self.columns if columns is None else columns
        for name in wanted:
            if self.column(name).dtype == object:
                row, text = next((i, v) for i, v in enumerate(self.values[name]) if v is not None and not _is_number(v))
                raise DataError(f"column {name!r}, row {row}: {in_short(repr(text))} is not a number")
        return np.stack([self.values[name] for name in wanted], axis=1) if wanted else np.empty((len(self), 0))


def read_table(path: str | Path, text: Collection[str] = ()) -> Table:
    """Read a table from a csv or parquet file; columns in `text` are text even if their cells are numbers.

    The cells of a csv file are separated by commas, semicolons or tabs. The first line names the columns, unless it
    consists of numbers other than 0, 1, 2, …; then the names are 0, 1, 2, … Cells that are empty, NA, N/A, NaN, null or
    None are missing. A column holds numbers if all its other cells are numbers. Columns are converted in two passes, so
    that memory holds the text of one block only.

    >>> from pathlib import Path
    >>> from refprior.data.files import read_table
    >>> _ = Path("people.csv").write_text("age,name\\n3,Ann\\n,Bo\\n")
    >>> table = read_table("people.csv")
    >>> table.columns, table.values["age"].tolist(), table.values["name"].tolist()
    (('age', 'name'), [3.0, nan], ['Ann', 'Bo'])
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file}: not a readable table, there is no such file")
    kind = file.suffix.lower()
    if kind not in TABLE_SUFFIXES:
        raise DataError(f"{file}: a table is a .csv or .parquet file")
    return _read_csv(file, text) if kind == ".csv" else _read_parquet(file, text)


def column_of(series: Any) -> np.ndarray:
    """Return a column of a data frame of pandas or polars as float64 with NaN, or as text with None: (n,).

    >>> import pandas
    >>> column_of(pandas.Series(["Rome", None])).tolist(), column_of(pandas.Series([True, False])).tolist()
    (['Rome', None], [1.0, 0.0])
    """
    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        cells = np.datetime_as_string(values.astype("datetime64[s]")).tolist()
    else:
        cells = values.tolist()
    known = [None if _is_missing(cell) else cell for cell in cells]
    if all(cell is None or isinstance(cell, Number) for cell in known):
        return np.array([math.nan if cell is None else float(cell) for cell in known])
    return np.array([None if cell is None else str(cell) for cell in known], object)


def _is_missing(cell: object) -> bool:
    """Return whether a cell of a data frame is missing: None, NaN, pandas.NA, NaT, or a word for it."""
    if isinstance(cell, str):
        return cell.strip() in MISSING or cell == "NaT"
    return (
        cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and math.isnan(cell))
    )


def _read_csv(file: Path, as_text: Collection[str]) -> Table:
    size = file.stat().st_size
    check_memory((_CHARACTER + 2) * size, f"{file}: reading {size:,} bytes", "cut the table into several files")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8 text, at byte {error.start:,}") from None
    if "\0" in text:  # numpy drops it at the end of a cell
        raise DataError(f"{file}: a zero byte in line {text.count(chr(10), 0, text.index(chr(0))) + 1:,}: not a text")
    if not text.strip():
        raise DataError(f"{file}: the table is empty")
    separator = max(",;\t", key=lambda mark: _width(file, text, mark))
    _, first = next(_rows(file, text, separator))
    names = _header(first)
    columns = _names(file, names or [str(number) for number in range(len(first))])
    blocks = partial(_blocks, file, text, separator, columns, header=names is not None)
    count, numbers = _numbers(columns, [name for name in columns if name not in as_text], blocks())
    others = [name for name in columns if name not in numbers]
    check_memory(float(_TEXT_CELL) * count * len(others), f"{file}: {len(others)} columns of text in {count:,} rows")
    words = _words(columns, others, count, blocks()) if others else {}
    return Table(columns, {name: numbers[name] if name in numbers else words[name] for name in columns})


def _width(file: Path, text: str, separator: str) -> int:
    """Return the number of cells of the first line with this separator; 0 if it cannot be read."""
    try:
        return len(next(_rows(file, text, separator))[1])
    except DataError:
        return 0


def _numbers(columns: tuple[str, ...], wanted: list[str], blocks: Iterable[Cells]) -> tuple[int, dict[str, np.ndarray]]:
    """Return the number of rows, and of some columns those that hold only numbers."""
    found: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in wanted}
    count = 0
    for cells in blocks:
        count += len(cells[0])
        parts = {name: _floats(cells[place]) for place, name in enumerate(columns) if name in found}
        found = {name: [*found[name], part] for name, part in parts.items() if part is not None}
    return count, {name: np.concatenate(parts) for name, parts in found.items()}


def _words(columns: tuple[str, ...], wanted: list[str], count: int, blocks: Iterable[Cells]) -> dict[str, np.ndarray]:
    """Return some columns as text."""
    found: dict[str, np.ndarray] = {name: np.empty(count, object) for name in wanted}
    places, done = {name: place for place, name in enumerate(columns)}, 0
    for cells in blocks:
        for name, column in found.items():
            column[done : done + len(cells[0])] = [None if cell in MISSING else cell for cell in cells[places[name]]]
        done += len(cells[0])
    return found


def _blocks(file: Path, text: str, separator: str, columns: tuple[str, ...], header: bool) -> Iterator[Cells]:
    """Yield the stripped cells of each column, 10,000 rows at a time."""
    rows = _rows(file, text, separator)
    if header:
        next(rows)
    while block := list(islice(rows, _ROWS)):
        wrong = next(((line, len(row)) for line, row in block if len(row) != len(columns)), None)
        if wrong is not None:
            raise DataError(f"{file}, line {wrong[0]}: {counted(wrong[1], 'cell')}, the first line has {len(columns)}")
        yield [tuple(map(str.strip, cells)) for cells in zip(*(row for _, row in block), strict=True)]


def _rows(file: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line in which each row ends, and its cells; skip empty lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise DataError(f"{file}, line {reader.line_num}: {in_short(error)}") from None


def _header(first: list[str]) -> list[str] | None:
    """Return the names of the columns if the first line has names."""
    numbered = [str(number) for number in range(len(first))]
    plain = [cell.strip() for cell in first]
    if plain in (numbered, ["", *numbered[:-1]]) and len(plain) > 1:
        return plain
    return None if all(not cell or _is_number(cell) for cell in plain) else plain


def _names(file: Path, names: list[str]) -> tuple[str, ...]:
    filled = [name or f"column {number}" for number, name in enumerate(names, start=1)]
    twice = next((name for name, count in Counter(filled).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{file}: two columns are called {in_short(repr(twice))}")
    return tuple(filled)


def _is_number(cell: str) -> bool:
    return _floats([cell]) is not None


def _floats(cells: Sequence[str]) -> np.ndarray | None:
    """Return cells as numbers, NaN for missing ones; None if one is no number, such as 2020_01, which Python reads."""
    try:
        numbers = np.array([math.nan if cell in MISSING else float(cell) for cell in cells])
    except ValueError:
        return None
    return None if any("_" in cell for cell in cells) else numbers


def _read_parquet(file: Path, as_text: Collection[str]) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError(f"{file}: parquet files need pyarrow: pip install 'refprior[parquet]'") from None
    try:
        schema = parquet.read_schema(file)
        columns = _names(file, schema.names)
        plain = [
            _is_plain(field.type, name) and name not in as_text for field, name in zip(schema, columns, strict=True)
        ]
        # Words of a dictionary stay there: a small file can repeat a long one many times.
        with parquet.ParquetFile(file, read_dictionary=schema.names) as opened:
            metadata = opened.metadata
            groups = (metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
            unpacked = sum(groups) + 8.0 * metadata.num_rows * metadata.num_columns
            size = file.stat().st_size
            if unpacked > max(_SMALL, _MOST_PACKED * size):
                raise DataError(
                    f"{file}: {size:,} bytes unpack to {unpacked:,.0f}, more than {_MOST_PACKED} times as many"
                )
            check_memory(_PARQUET_COPIES * unpacked, f"{file}: a table of {metadata.num_rows:,} rows")
            content = opened.read()
        return Table(columns, {name: _column(*of) for name, *of in zip(columns, content.columns, plain, strict=True)})
    except DataError:
        raise
    except (ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise DataError(f"{file}: not a readable parquet file ({in_short(error)})") from None


def _is_plain(kind: Any, name: str) -> bool:
    """Return whether a type of arrow is one of numbers."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(kind) or types.is_fixed_size_binary(kind):
        raise ValueError(f"column {name!r} holds lists, records or bytes")
    return any(of(kind) for of in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _column(column: Any, plain: bool) -> np.ndarray:
    """Return a column of arrow as float64, or as text with one object per word of a dictionary."""
    from pyarrow import compute, float64, string, types

    if plain:
        return np.array(compute.cast(column, float64(), safe=False).to_numpy(), np.float64)
    parts = [np.empty(0, object)]
    for chunk in column.chunks:
        coded = types.is_dictionary(chunk.type)
        words = compute.cast(chunk.dictionary if coded else chunk, string(), safe=False).to_pylist()
        cells = np.array([*(None if _is_missing(word) else word for word in words), None], object)
        parts.append(cells[chunk.indices.fill_null(len(words)).to_numpy()] if coded else cells[:-1])
    return np.concatenate(parts)
