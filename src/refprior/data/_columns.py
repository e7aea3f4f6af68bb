"""From the mixed columns of a table to numbers: categories, dates, texts and missing values.

`Columns` is fitted once and is part of the predictor. Its state is plain data, which a record holds as JSON.
"""

# n rows, F features

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec
import numpy as np

from refprior._words import counted, in_short
from refprior.data._encoders import TFIDF, Encoder
from refprior.data.files import DataError, Table, column_of

log = logging.getLogger("refprior")
_CATEGORIES = 30  # of a column at most; the others are rare
_FEWEST = 2  # rows of a category
_SENTENCE = 3  # words of a cell, on average, from which a column is a text
_WORDS, _ALONE = 500, 2000  # words of a text beside other columns, and of one that is the only column
_TOPICS = 16  # components of a text beside other columns
_DAY = 86_400.0  # seconds
_FORMATS = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y/%m/%d")
_EPOCH = datetime(1970, 1, 1)
_IDS = ("id", "index", "key", "uuid", "nr", "no", "number", "row")


class Number(msgspec.Struct, frozen=True, tag="number"):
    """A column of numbers; missing ones become the median, with an indicator if training rows missed some."""

    name: str
    median: float
    missing: bool

    @property
    def features(self) -> list[str]:
        return [self.name, *([f"{self.name} is missing"] if self.missing else [])]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """(n,) -> (n, 1 or 2)."""
        numbers = _numbers(self.name, values)
        absent = np.isnan(numbers)
        filled = np.where(absent, self.median, numbers)
        return np.stack([filled, absent], axis=1) if self.missing else filled[:, None]


class Category(msgspec.Struct, frozen=True, tag="category"):
    """A column of categories: one indicator each, and one for rare and one for missing values if there were any."""

    name: str
    values: tuple[str, ...]
    rare: bool
    missing: bool

    @property
    def features(self) -> list[str]:
        named = [f"{self.name} = {value}" for value in self.values]
        return [*named, *[f"{self.name} is {word}" for word in ("rare", "missing") if getattr(self, word)]]

    @property
    def places(self) -> dict[str | None, int]:
        """Which indicator a value has; None is a missing one."""
        found: dict[str | None, int] = {value: number for number, value in enumerate(self.values)}
        return found | ({None: len(self.values) + self.rare} if self.missing else {})

    @property
    def other(self) -> int:
        """Which indicator all other values have; -1 for none."""
        return len(self.values) if self.rare else -1

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """(n,) -> (n, F). A value that training has not seen is rare."""
        place = self.places
        found = np.array([place.get(value, -1 if value is None else self.other) for value in values.tolist()], np.int64)
        return np.asarray(found[:, None] == np.arange(len(self.features)), np.float64)


class Date(msgspec.Struct, frozen=True, tag="date"):
    """A column of dates: days, the places in the year and in the week as points of a circle, and that in the day."""

    name: str
    form: str
    median: float  # days since 1970
    missing: bool
    clock: bool

    @property
    def features(self) -> list[str]:
        circles = ["year", "week", *(["day"] if self.clock else [])]
        turned = [f"{self.name}, {part} of {circle}" for circle in circles for part in ("sine", "cosine")]
        return [self.name, *turned, *([f"{self.name} is missing"] if self.missing else [])]

    @property
    def periods(self) -> tuple[float, ...]:
        """Days of a year, a week and, for dates with a time, a day."""
        return (365.2425, 7.0, 1.0)[: 2 + self.clock]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """(n,) -> (n, F)."""
        days = days_of(values, self.form)
        if days is None:
            example = next((value for value in values.tolist() if value is not None), None)
            raise DataError(f"column {self.name!r} holds {in_short(repr(example))}, expected dates as in training")
        absent = np.isnan(days)
        filled = np.where(absent, self.median, days)
        parts = [2 * np.pi * (filled % period) / period for period in self.periods]  # a weekday is one number
        turns = [turn(part) for part in parts for turn in (np.sin, np.cos)]
        return np.stack([filled - self.median, *turns, *([absent] if self.missing else [])], axis=1)


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A column of texts, encoded by TF-IDF or by a sentence encoder."""

    name: str
    encoder: Encoder

    @property
    def features(self) -> list[str]:
        return [f"{self.name}, {feature}" for feature in self.encoder.features]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """(n,) -> (n, F). A missing text is empty."""
        return self.encoder([str(value or "") for value in values.tolist()])


Column = Number | Category | Date | Text


class Columns(msgspec.Struct, frozen=True, tag="columns"):
    """A fitted preparation of a table with columns of any kind.

    Numbers stay as they are, and a missing one becomes the median. A category becomes indicators of its values, a date
    its day and its places in the year and in the week, a text TF-IDF or the output of a sentence encoder. Columns
    without information are left out: empty and constant columns, and identifiers, which differ in each row.

    A file of a predictor holds it as JSON. `refprior.data.read` fits one to a table, and
    ``ReferencePriorClassifier`` to a data frame.

    Parameters
    ----------
    columns : tuple
        The fitted columns.
    left_out : mapping of str to str
        Why each other column is left out.

    Examples
    --------
    >>> import pandas
    >>> import refprior as rp
    >>> frame = pandas.DataFrame({"id": [7, 8, 9, 10], "city": ["Rome", "Oslo", None, "Rome"], "age": [3, None, 5, 4]})
    >>> columns = rp.data.Columns.fit(frame)
    >>> columns.features
    ('city = Rome', 'city is rare', 'city is missing', 'age', 'age is missing')
    >>> dict(columns.left_out)
    {'id': 'a different number in each row'}
    >>> columns(frame).tolist()[1]
    [0.0, 1.0, 0.0, 4.0, 1.0]
    """

    columns: tuple[Column, ...]
    left_out: Mapping[str, str] = {}

    @classmethod
    def fit(cls, table: Any, *, text: Sequence[str] = (), encoder: str = TFIDF) -> Self:
        """Fit the columns of a table.

        Parameters
        ----------
        table : Table or data frame of pandas or polars
            n rows, of which no label is used.
        text : sequence of str, optional
            Columns of text to use; all others are left out then. By default all columns are used, and those with long
            cells are texts.
        encoder : str, default: "tfidf"
            Encoder of the columns in ``text``: "tfidf", or the name of a sentence encoder.

        Returns
        -------
        Columns
            The fitted columns.

        Raises
        ------
        DataError
            If a number is infinite, a column of text does not exist, or no column has information.
        """
        found = as_table(table)
        for name in text:
            found.column(name)
        columns: list[Column] = []
        left_out: dict[str, str] = {}
        for name in found.columns:
            if text and name not in text:
                left_out[name] = "no column of text"
                continue
            if text:
                texts = [str(value) for value in found.text(name) if value is not None]
                made: Column | str = Text(name, Encoder.fit(texts, encoder, _ALONE)) if texts else "empty"
            else:
                made = _fitted(name, found.values[name], first=name == found.columns[0] and len(found.columns) > 1)
            if isinstance(made, str):
                left_out[name] = made
            else:
                columns.append(made)
        if not columns:
            reasons = "; ".join(f"{name} ({why})" for name, why in left_out.items())
            raise DataError(
                f"no column to learn from: {in_short(reasons)}"
                if left_out
                else "no column beside the labels: there is nothing to learn from"
            )
        return cls(tuple(columns), left_out)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the numbers."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names of the columns whose cells are text even where they look like numbers."""
        return tuple(column.name for column in self.columns if not isinstance(column, Number))

    def takes(self, inputs: object) -> bool:
        """Tell rows of a table, or texts, from numbers that are prepared.

        Parameters
        ----------
        inputs : object
            Any inputs.

        Returns
        -------
        bool
            Whether these can be prepared.
        """
        if isinstance(inputs, Table) or (hasattr(inputs, "columns") and hasattr(inputs, "to_numpy")):
            return True
        return len(self.columns) == 1 and isinstance(self.columns[0], Text) and _are_texts(inputs)

    def reader(self, inputs: Any) -> tuple[int, Callable[[slice], np.ndarray]]:
        """Prepare rows part by part.

        Parameters
        ----------
        inputs : data frame, Table or list of str
            n rows of a table, or texts if a text is the only column.

        Returns
        -------
        (int, callable)
            The number of rows, and a function that prepares a slice of them: -> (rows, F) float64.
        """
        names = [column.name for column in self.columns]
        if _are_texts(inputs):
            table = Table((names[0],), {names[0]: np.array([*inputs], object)})
        else:
            table = as_table(inputs, names)
        for name in names:
            table.column(name)  # or an error that names it

        def prepared(rows: slice) -> np.ndarray:
            part = table[rows]
            cells = (part.column(c.name) if isinstance(c, Number) else part.text(c.name) for c in self.columns)
            return np.concatenate([column(values) for column, values in zip(self.columns, cells, strict=True)], axis=1)

        return len(table), prepared

    def __call__(self, rows: Any) -> np.ndarray:
        """Prepare rows of a table, or texts if a text is the only column: (n, columns) -> (n, F) float64."""
        return self.reader(rows)[1](slice(None))

    @property
    def kinds(self) -> str:
        """The columns by kind: 2 numbers, 1 date."""
        kinds = Counter(type(column).__name__.lower() for column in self.columns)
        return ", ".join(counted(count, kind) for kind, count in kinds.items()).replace("categorys", "categories")


def as_table(rows: Any, wanted: Iterable[str] | None = None) -> Table:
    """Return the columns of a data frame, or of a table, that are wanted."""
    if isinstance(rows, Table):
        return rows
    names = {str(name): name for name in rows.columns}
    if len(names) < len(rows.columns):
        twice = next(name for name, count in Counter(map(str, rows.columns)).items() if count > 1)
        raise DataError(f"two columns are called {twice!r}")
    chosen = [name for name in (names if wanted is None else wanted) if name in names]
    return Table(tuple(chosen), {name: column_of(rows[names[name]]) for name in chosen})


def _are_texts(inputs: object) -> bool:
    some = inputs[:1] if isinstance(inputs, list | tuple | np.ndarray) else ()
    return len(some) == 1 and isinstance(some[0], str)


def _fitted(name: str, values: np.ndarray, first: bool) -> Column | str:
    """Fit a column, or return why it is left out: (n,) float64 with NaN or text with None."""
    if values.dtype != object:
        return _fitted_number(name, values, first)
    known = [value for value in values.tolist() if value is not None]
    missing, counts = len(known) < len(values), Counter(known)
    if not known:
        return "empty"
    if len(counts) == 1 and not missing:
        return "the same in each row"
    if (form := date_form(name, values)) is not None:
        days = days_of(values, form)
        assert days is not None
        there = days[~np.isnan(days)]
        return Date(name, form, float(np.median(there)), missing, bool((there % 1 != 0).any()))
    sentences = sum(len(value.split()) for value in known) >= _SENTENCE * len(known)
    if sentences and len(counts) > _CATEGORIES:
        return Text(name, Encoder.fit(known, TFIDF, _WORDS, _TOPICS))
    if len(counts) == len(known):
        return "a different value in each row"
    if 2 * len(counts) > len(known) and len(counts) > _CATEGORIES:
        return "different values in most rows"
    common = [value for value, count in counts.most_common(_CATEGORIES) if count >= _FEWEST]
    rare = len(counts) > len(common)
    if len(common) == 2 and not rare and not missing:
        common = common[:1]  # the other indicator says the same
    return Category(name, tuple(sorted(common)), rare, missing)


def _fitted_number(name: str, values: np.ndarray, first: bool) -> Number | str:
    """Fit a column of numbers; an identifier is called so, or counts the rows in the first column."""
    known = _numbers(name, values)
    known = known[~np.isnan(known)]
    missing = len(known) < len(values)
    if not len(known):
        return "empty"
    if (known == known[0]).all() and not missing:
        return "the same in each row"
    whole = bool((known == np.rint(known)).all())
    if whole and len(known) > 2 and len(np.unique(known)) == len(known):
        words = re.findall("[A-Z]?[a-z]+|[A-Z]+", name)  # of customer_id, PassengerId, userID
        named = bool(words) and words[-1].lower() in _IDS
        in_order = first and np.ptp(known) == len(known) - 1 and bool((np.diff(known) > 0).all())
        if named or in_order:
            return "a different number in each row"
    return Number(name, float(np.median(known)), missing)


def date_form(name: str, values: np.ndarray) -> str | None:
    """Return the form in which every cell is a date, or None."""
    fits = [form for form in _FORMATS if days_of(values[:100], form) is not None and days_of(values, form) is not None]
    if len(fits) > 1:
        log.warning("column %r: days and months cannot be told apart, read as month/day/year", name)
    return fits[0] if fits else None


def days_of(values: np.ndarray, form: str) -> np.ndarray | None:
    """Return days since 1970, NaN for None; None if a cell is not a date: (n,) -> (n,)."""
    days = np.full(len(values), np.nan)
    for row, value in enumerate(values.tolist()):
        if value is not None:
            day = _day(value, form)
            if day is None:
                return None
            days[row] = day
    return days


def _day(text: str, form: str) -> float | None:
    """Return the day of a date since 1970; local time if it has a zone."""
    if not 8 <= len(text) <= 35 or not text[0].isdigit() or text.isdigit():
        return None
    try:
        parsed = datetime.fromisoformat(text) if form == "iso" else datetime.strptime(text, form)
        return (parsed.replace(tzinfo=None) - _EPOCH).total_seconds() / _DAY
    except ValueError:
        return None


def _numbers(name: str, values: np.ndarray) -> np.ndarray:
    """Return a column as finite numbers or NaN; errors name the row."""
    if values.dtype == object:
        for row, value in enumerate(values.tolist()):
            try:
                float("nan" if value is None else value)
            except ValueError:
                raise DataError(f"column {name!r}, row {row}: {in_short(repr(value))} is not a number") from None
        values = np.array([np.nan if value is None else float(value) for value in values.tolist()])
    endless = np.isinf(values)
    if endless.any():
        raise DataError(f"column {name!r} is infinite in row {int(endless.argmax())}")
    return values
