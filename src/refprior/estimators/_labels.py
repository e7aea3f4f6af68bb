"""Labels of users: numbers or names, and −1, None or NaN for unlabeled rows."""

import logging

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

UNLABELED = -1
_DOUBTFUL = ("-1", "nan", "<NA>", "")  # missing values that were converted to text
log = logging.getLogger("refprior")


def encoded(y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes in order, and the class index of each row, −1 if unlabeled: (n,) -> (C,), (n,)."""
    values = _array(y)
    known = _labeled(values)
    if _signs(values, known):
        log.warning(
            "y contains only -1 and 1: both are treated as classes; "
            "−1 marks unlabeled rows only if there are other labels"
        )
        known = np.ones(len(values), dtype=bool)
    doubtful = [text for text in _DOUBTFUL if values.dtype.kind in "OU" and (values[known] == text).any()]
    if doubtful:
        raise ValueError(
            f"y has the text {doubtful[0]!r} among its labels: use None for unlabeled rows, or rename the class"
        )
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("Input y contains infinity.")
    if known.any():
        check_classification_targets(_of_one_kind(values[known]))
    classes, codes = np.unique(_of_one_kind(values[known]), return_inverse=True)
    numbers = np.full(len(values), UNLABELED, np.int64)
    numbers[known] = codes
    return classes, numbers


def labels_of(y: ArrayLike, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels in y and which rows have one; −1 is a label if it is a class: (n,), (C,) -> (m,), (n,) bool."""
    values = _array(y)
    rows = _labeled(values)
    if values.dtype.kind == "i":
        rows |= np.isin(values, classes)
    return _of_one_kind(values[rows]), rows


def _labeled(values: np.ndarray) -> np.ndarray:
    """Return which rows have a label: (n,) -> (n,) bool."""
    if values.dtype.kind == "O":
        return np.array([not _missing(value) for value in values], dtype=bool)
    if values.dtype.kind == "f":
        return np.asarray(~np.isnan(values) & (values != UNLABELED))
    if values.dtype.kind == "i":
        return np.asarray(values != UNLABELED, dtype=bool)
    return np.ones(len(values), dtype=bool)


def _signs(values: np.ndarray, known: np.ndarray) -> bool:
    """Return whether −1 must be a class: the only values are −1 and 1."""
    return values.dtype.kind == "i" and not known.all() and set(values[known].tolist()) == {1}


def _missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    if isinstance(value, float | np.floating) and np.isnan(value):
        return True
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(value == UNLABELED)


def _of_one_kind(values: np.ndarray) -> np.ndarray:
    """Convert labels that are objects to names, numbers or booleans, which can be ordered."""
    if values.dtype.kind != "O":
        return values
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1:
        raise ValueError(f"labels must be all names or all numbers, got {' and '.join(sorted(kinds))}")
    return np.array(values.tolist())


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "str"
    return "number" if isinstance(value, bool | int | float | np.number | np.bool_) else type(value).__name__


def _array(y: ArrayLike) -> np.ndarray:
    """Convert labels to an array; missing values of mixed lists, pandas and polars stay missing: (n,)."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple) and any(isinstance(value, str) for value in y):
        return np.array(y, dtype=object)
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind == "f" and "int" in str(getattr(y, "dtype", "")).lower():
        values = np.array(list(y), dtype=object)  # type: ignore[arg-type]  # integers with missing values
    return np.asarray(column_or_1d(values, warn=True))
