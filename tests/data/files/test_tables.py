"""Tables: csv and parquet files as columns, and errors that name the place."""

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from refprior.data.files import _tables
from refprior.data.files._error import DataError
from refprior.data.files._tables import Table, read_table
from tests.fuzz._mutations import fuzz

MIXED = "age;name;score\n3;Ann;1.5\n;Bo;-2e3\n7;;nan\n"


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def assert_table(table: Table, **columns: list[Any]) -> None:
    assert table.columns == tuple(columns)
    for name, values in columns.items():
        text = any(isinstance(value, str) for value in values)
        assert table.values[name].dtype == (object if text else np.float64)
        if text:
            assert table.values[name].tolist() == values
        else:
            np.testing.assert_array_equal(table.values[name], np.array(values, float))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_numbers_and_text_are_told_apart(separator: str, ending: str, mark: str, tmp_path: Path) -> None:
    text = mark + MIXED.replace(";", separator).replace("\n", ending)
    table = read_table(written(tmp_path / "t.csv", text))
    assert_table(table, age=[3, np.nan, 7], name=["Ann", "Bo", None], score=[1.5, -2000, np.nan])
    assert len(table) == 3


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("1,2\n3,4\n", ("0", "1"), 2),
        ("0,1\n3,4\n", ("0", "1"), 1),  # as pandas numbers the columns of an array
        (",0,1\n0,3,4\n", ("column 1", "0", "1"), 1),  # and with its index
        ("a,1\n3,4\n", ("a", "1"), 1),
        ('"a, b";c\n3;4\n', ("a, b", "c"), 1),
        ('"a;b",c\n3,4\n', ("a;b", "c"), 1),
        ("a,,b\n1,2,3\n", ("a", "column 2", "b"), 1),
        ("a\n1\n\n2\n", ("a",), 2),
        ("5\n6", ("0",), 2),
        ("a,b\n", ("a", "b"), 0),
        (" a , b \n 1 , x \n", ("a", "b"), 1),
    ],
)
def test_the_first_line_names_the_columns_if_it_is_no_data(
    text: str, columns: tuple[str, ...], rows: int, tmp_path: Path
) -> None:
    table = read_table(written(tmp_path / "t.csv", text))
    assert (table.columns, len(table)) == (columns, rows)


@pytest.mark.parametrize("cell", ["2020_01", "1,5", "0x10", "none", "1 2", "Ann"])
def test_one_cell_that_is_no_number_makes_a_column_text(cell: str, tmp_path: Path) -> None:
    lines = "\n".join(["a;b", *("1;2" for _ in range(25_000)), f"{cell};3"])
    table = read_table(written(tmp_path / "t.csv", lines))
    assert table.values["a"].tolist() == [*["1"] * 25_000, cell]
    assert table.values["b"].dtype == np.float64
    with pytest.raises(DataError, match=rf"\Acolumn 'a', row 25000: '{cell}' is not a number\Z"):
        table.matrix()
    assert table.matrix(["b"]).shape == (25_001, 1)
    with pytest.raises(DataError, match="no column 'c'; there are a, b"):
        table.matrix(["c"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1,2\n3\n", r"line 3: 1 cell, the first line has 2"),
        ("a,b\n1,2\n\n3,4,5\n", r"line 4: 3 cells, the first line has 2"),
        ("a,a\n1,2\n", r"two columns are called 'a'"),
        ("", "the table is empty"),
        (" \n\n", "the table is empty"),
        (b"a,b\n1,2\n3,\0\n", "a zero byte in line 3: not a text"),
        (b"a,b\n\xff,2\n", "not UTF-8 text, at byte 4"),
        ('a,b\n"1,2\n', "line 2: unexpected end of data"),
        ("a,b\n1," + "x" * 200_000, "line 2: field larger than field limit"),
    ],
)
def test_errors_name_the_file_and_the_line(content: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"\A[^\n]*t\.csv[^\n]*{words}[^\n]*\Z"):
        read_table(written(tmp_path / "t.csv", content))


def test_files_that_are_no_tables_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.csv: not a readable table, there is no such file"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match=r"t\.txt: a table is a \.csv or \.parquet file"):
        read_table(written(tmp_path / "t.txt", "a,b"))


def test_what_memory_does_not_hold_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refprior._process.available_memory", lambda: 30_000_000)
    file = written(tmp_path / "t.csv", f"{','.join(map(str, range(100)))}\n" + f"{'x,' * 99}x\n" * 5000)
    with pytest.raises(ValueError, match=r"t\.csv: 100 columns of text in 5,000 rows needs about 35 MB of memory"):
        read_table(file)
    file = written(tmp_path / "t.csv", "a\n" + f"{'x' * 100_000}\n" * 80)
    with pytest.raises(ValueError, match=r"t\.csv: reading 8,000,082 bytes needs about 48 MB of memory"):
        read_table(file)


def test_a_large_table_takes_little_more_than_its_numbers(tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv", "a,b,c\n" + "1.25,2.5,3.75\n" * 100_000)
    size = file.stat().st_size
    tracemalloc.start()
    table = read_table(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.matrix().mean(0).tolist() == [1.25, 2.5, 3.75]
    assert peak < 6 * size + 20e6


def test_parquet_gives_the_same_columns(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {
            "age": [3, 5, 7],
            "score": [1.5, None, -2.0],
            "yes": [True, False, True],
            "name": ["Ann", None, "Cy"],
            "kind": pandas.Categorical(["a", "b", "a"]),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert_table(
        table,
        age=[3, 5, 7],
        score=[1.5, np.nan, -2],
        yes=[1, 0, 1],
        name=["Ann", None, "Cy"],
        kind=["a", "b", "a"],
    )


def test_parquet_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\A[^\n]*t\.parquet: not a readable parquet file[^\n]*\Z"):
        read_table(written(tmp_path / "t.parquet", b"PAR1 nothing"))
    parquet.write_table(pyarrow.table({"deep": [[1, 2], [3]]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: .*column 'deep' holds lists, records or bytes"):
        read_table(tmp_path / "t.parquet")


def test_parquet_files_that_unpack_to_far_more_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of a word that is stored once, and text that compresses well."""
    monkeypatch.setattr(_tables, "_SMALL", 10**6)
    cells = pyarrow.DictionaryArray.from_arrays(np.zeros(200_000, np.int32), ["cat"])
    for name, column, size in (("cells", cells, "1,600,"), ("text", pyarrow.array(["x" * 10**6] * 2), "2,000,")):
        file = tmp_path / f"{name}.parquet"
        parquet.write_table(pyarrow.table({"a": column}), file, compression="zstd", use_dictionary=name == "cells")
        with pytest.raises(DataError, match=f"bytes unpack to {size}.*, more than 200 times as many"):
            read_table(file)


@pytest.mark.parametrize("coded", [True, False])
def test_a_word_of_parquet_that_occurs_often_is_in_memory_once(coded: bool, tmp_path: Path) -> None:
    """A file of a kilobyte can hold gigabytes of text, whether its writer had a dictionary or not."""
    column = pyarrow.array(["x" * 10**6, None, "NA", "y"] * 10)
    column = column.dictionary_encode() if coded else column
    parquet.write_table(pyarrow.table({"a": column}), tmp_path / "x.parquet", compression="zstd")
    assert (tmp_path / "x.parquet").stat().st_size < 10_000
    found = read_table(tmp_path / "x.parquet").values["a"]
    assert [len(word or "") for word in found] == [10**6, 0, 0, 1] * 10
    assert all(word is found[0] for word in found[::4])


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"t\.parquet: parquet files need pyarrow: pip install 'refprior\[parquet\]'"):
        read_table(written(tmp_path / "t.parquet", b""))


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)),
        min_size=1,
    )
)
def test_what_was_written_is_read(rows: list[tuple[float, str]]) -> None:
    import csv
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("number", "word"), *((repr(x), f"_{word}") for x, word in rows)])
        table = read_table(path)
    assert table.values["number"].tolist() == [x for x, _ in rows]
    assert table.values["word"].tolist() == [f"_{word}".strip() for _, word in rows]


def test_damaged_tables_are_read_or_rejected_in_one_line(tmp_path: Path) -> None:
    fuzz(MIXED.encode(), tmp_path / "t.csv", read_table, 1000)
    pandas.DataFrame({"age": [3.0, 5.0], "name": ["Ann", "Bo"]}).to_parquet(tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    fuzz(content, tmp_path / "t.parquet", read_table, 500)
