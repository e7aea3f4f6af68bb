"""A table as a data set: a column of labels, the other columns numbers."""

import logging
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from refprior._words import counted, in_short
from refprior.data._data_set import DataSet, held_out
from refprior.data._error import DataError, naming
from refprior.data._names import NO_LABEL
from refprior.data._tables import Table, read_table
from refprior.data._task import examples

log = logging.getLogger("refprior")
_MOST_NAMED = 5  # columns in a message


def read_rows(path: str | Path, test: int | None = None, *, target: str = "label") -> DataSet:
    """A data set from a `.csv` or `.parquet` file with a column of labels, names or whole numbers.

    A row whose label is empty, or -1 among whole numbers, has none. All other columns of numbers are features; columns
    of text are left out, and a warning names them. test: rows to test with in all, equally many per class.

    >>> from pathlib import Path
    >>> import refprior as rp
    >>> _ = Path("animals.csv").write_text("weight,legs,label\\n4,4,cat\\n0.1,2,bird\\n5,4,\\n")
    >>> animals = rp.data.read_rows("animals.csv")
    >>> animals.classes, animals.features, len(animals.train), len(animals.unlabeled)
    (('bird', 'cat'), ('weight', 'legs'), 2, 1)
    """
    table = read_table(path)
    with naming(path):
        if target not in table.columns:
            there = in_short(", ".join(table.columns))
            raise DataError(f"no column {target!r} with labels: name yours as the target; there are {there}")
        classes, labels = _labels(table.values[target], target)
        columns = [name for name in table.columns if name != target]
        features = [name for name in columns if table.values[name].dtype != object]
        _warn_of_text(path, tuple(name for name in columns if name not in features))
        values = _finite(table, features)
        known = labels != NO_LABEL
        data = held_out(Path(path).stem, classes, (values[known], labels[known]), test or 0, kind="vectors")
        rest = examples("unlabeled", values[~known], labels[~known]).inputs if not known.all() else None
        return replace(data, unlabeled=rest, features=tuple(features))


def _labels(column: np.ndarray, name: str) -> tuple[list[str], np.ndarray]:
    """The names of the classes in order, and the number of each row's class, -1 for none: (n,) -> (C,), (n,)."""
    if column.dtype == object:
        known = np.array([value is not None for value in column], dtype=bool)
        texts = column[known].astype(str)
    else:
        known = ~np.isnan(column) & (column != NO_LABEL)
        whole = column[known]
        wrong = np.flatnonzero(whole != np.round(whole))
        if len(wrong):
            raise DataError(f"column {name!r} holds {whole[wrong[0]]:g}: labels are names or whole numbers")
        texts = whole.astype(np.int64)
    if not known.any():
        raise DataError(f"column {name!r} has no label in {counted(len(column), 'row')}: each class needs one")
    classes, codes = np.unique(texts, return_inverse=True)
    labels = np.full(len(column), NO_LABEL, np.int64)
    labels[known] = codes
    return [str(value) for value in classes], labels


def _finite(table: Table, features: list[str]) -> np.ndarray:
    """The features side by side; every cell must hold a number: (n, D)."""
    if not features:
        raise DataError("has no column of numbers beside the labels: there is nothing to learn from")
    values = table.matrix(features)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        rows = counted(len(np.unique(bad[:, 0])), "row")
        raise DataError(f"column {features[column]!r} is empty or not finite in row {row} ({rows} with such cells)")
    return values


@cache  # a run reads its data more than once
def _warn_of_text(path: str | Path, names: tuple[str, ...]) -> None:
    if names:
        shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
        log.warning("%s: %s of text left out: %s", path, counted(len(names), "column"), in_short(shown))
