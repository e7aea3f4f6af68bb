"""Labels as users have them: names, numbers, and what says that there is none."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from refprior.estimators._preprocess import encoded

CASES: dict[str, tuple[Any, list[Any], list[int]]] = {
    "integers": (np.array([5, -1, 3, 5]), [3, 5], [1, -1, 0, 1]),
    "names": (["b", None, "a", "b"], ["a", "b"], [1, -1, 0, 1]),
    "an array of names": (np.array(["b", "a"]), ["a", "b"], [1, 0]),
    "objects with NaN": (np.array(["b", np.nan, "a"], dtype=object), ["a", "b"], [1, -1, 0]),
    "objects with -1": (np.array(["b", -1, "a"], dtype=object), ["a", "b"], [1, -1, 0]),
    "a list with -1": (["b", -1, "a"], ["a", "b"], [1, -1, 0]),
    "whole floats with NaN": (np.array([2.0, np.nan, 1.0]), [1.0, 2.0], [1, -1, 0]),
    "truth values": (np.array([True, False]), [False, True], [1, 0]),
    "unsigned": (np.array([200, 100], np.uint8), [100, 200], [1, 0]),
    "pandas with missing names": (pd.Series(["b", None, "a"]), ["a", "b"], [1, -1, 0]),
    "pandas nullable integers": (pd.Series([3, None, 1], dtype="Int64"), [1, 3], [1, -1, 0]),
    "pandas categories": (pd.Series(["b", None, "a"], dtype="category"), ["a", "b"], [1, -1, 0]),
    "polars whole numbers": (pl.Series([3, None, 1]), [1, 3], [1, -1, 0]),
    "-1 as a float among objects": (np.array([3.0, -1.0, 1.0], dtype=object), [1, 3], [1, -1, 0]),
    "polars": (pl.Series(["b", None, "a"]), ["a", "b"], [1, -1, 0]),
    "integers as objects": (np.array([3, None, 1], dtype=object), [1, 3], [1, -1, 0]),
    "signs": (np.array([-1, 1]), [-1, 1], [0, 1]),
    "one class": (np.array([-1, 2]), [2], [-1, 0]),
    "none labeled": (np.array([-1, -1]), [], [-1, -1]),
}


@pytest.mark.parametrize("name", CASES)
def test_classes_in_order_and_the_number_of_each_row(name: str) -> None:
    y, classes, numbers = CASES[name]
    found, codes = encoded(y)
    assert found.tolist() == classes
    assert codes.tolist() == numbers


@pytest.mark.parametrize(
    "y", [pd.Series([3, None, 1], dtype="Int64"), pl.Series([3, None, 1])], ids=["pandas", "polars"]
)
def test_whole_numbers_of_which_some_are_missing_stay_whole(y: Any) -> None:
    assert encoded(y)[0].dtype == np.int64


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0.5, 1.5, 2.25]), "Unknown label type: continuous"),
        (np.array([np.inf, 1.0]), "y contains infinity"),
        (["a", "-1"], "the text '-1'"),
        (np.array(["a", np.nan]), "the text 'nan'"),
        (pd.Series(["a", ""]), "the text ''"),
        (np.array(["a", "-1"]), "use None for unlabeled rows"),
        (np.array(["a", 3, None], dtype=object), "all names or all numbers, got number and str"),
        (np.array([[0, 1], [1, 0]]), r"y should be a 1d array"),
        (None, "y is None"),
    ],
    ids=str,
)
def test_what_is_no_label_is_rejected(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoded(y)
