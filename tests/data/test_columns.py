"""Mixed columns of a table as numbers: which column is what, missing cells, and the record of a fitted preparation."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pytest

from refprior.data import Columns, FewLabels, preparation_record, read, read_preparation
from refprior.data.files import DataError, read_table

CITIES = ["Rome", "Oslo", "Rome", None, "Oslo", "Rome", "Lima", "Oslo"]


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(8) + 100,
            "city": CITIES,
            "born": pd.to_datetime(["2020-01-01", "2020-07-01", None, *["2021-01-01"] * 5]),
            "age": [3.0, np.nan, 5, 4, 4, 4, 4, 4],
            "empty": [None] * 8,
            "same": ["x"] * 8,
            "name": list("abcdefgh"),
        }
    )


def test_kinds_of_columns_and_why_others_are_left_out() -> None:
    columns = Columns.fit(frame())
    assert columns.kinds == "1 category, 1 date, 1 number"
    assert dict(columns.left_out) == {
        "id": "a different number in each row",
        "empty": "empty",
        "same": "the same in each row",
        "name": "a different value in each row",
    }


def test_an_identifier_is_known_by_the_last_word_of_its_name() -> None:
    ids, others = ("customer_id", "PassengerId", "userID", "Row-Nr"), ("paid", "Void", "id_length")
    columns = Columns.fit(pd.DataFrame({name: [7, 3, 11, 5] for name in (*others, *ids)}))
    assert columns.features == others
    assert tuple(columns.left_out) == ids


def test_categories_are_indicators_of_values_rare_and_missing() -> None:
    columns = Columns.fit(frame()[["city"]])
    assert columns.features == ("city = Oslo", "city = Rome", "city is rare", "city is missing")
    found = columns(pd.DataFrame({"city": ["Rome", "Oslo", "Lima", "Paris", None]}))
    assert found.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert Columns.fit(pd.DataFrame({"a": ["x", "y", "x", "y"]})).features == ("a = x",)  # y says the same


def test_a_missing_number_is_the_median_with_an_indicator_if_training_missed_some() -> None:
    columns = Columns.fit(frame()[["age"]])
    assert columns(pd.DataFrame({"age": [7.0, np.nan]})).tolist() == [[7, 0], [4, 1]]
    whole = Columns.fit(pd.DataFrame({"age": [1.0, 2.0, 9.0]}))
    assert whole(pd.DataFrame({"age": [np.nan]})).tolist() == [[2]]


def test_dates_are_days_and_points_of_the_year_and_the_week() -> None:
    columns = Columns.fit(frame()[["born"]])
    days, *turns, missing = columns(pd.DataFrame({"born": ["2021-01-08", None]})).T
    assert days[0] == 7  # after the median
    assert missing.tolist() == [0, 1]
    sine, cosine = np.array(turns)[:, 0].reshape(2, 2).T
    assert np.hypot(sine, cosine) == pytest.approx([1, 1])
    again = columns(pd.DataFrame({"born": ["2021-01-15"]}))[0]
    assert again[3:5] == pytest.approx([sine[1], cosine[1]])  # a week later
    with pytest.raises(DataError, match="column 'born' holds 'soon', expected dates as in training"):
        columns(pd.DataFrame({"born": ["soon"]}))


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["2020-01-31", "2020-02-01T10:30:00"], "iso"),
        (["31.1.2020", "01.02.2020"], "%d.%m.%Y"),
        (["01/31/2020", "02/01/2020"], "%m/%d/%Y"),
        (["31/01/2020", "01/02/2020"], "%d/%m/%Y"),
    ],
)
def test_forms_of_dates(cells: list[str], form: str) -> None:
    columns = Columns.fit(pd.DataFrame({"when": cells * 2}))
    first, second = columns(pd.DataFrame({"when": cells}))[:, 0]
    assert columns.columns[0].form == form  # type: ignore[union-attr]
    assert second - first == pytest.approx(1, abs=0.5)


def test_days_and_months_that_cannot_be_told_apart_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    Columns.fit(pd.DataFrame({"when": ["01/02/2020", "03/04/2020", "03/04/2020"]}))
    assert "days and months cannot be told apart, read as month/day/year" in caplog.text


def test_long_cells_are_texts() -> None:
    words = ["red", "blue", "green", "small", "large", "round", "square", "old", "new"]
    random = np.random.RandomState(0)
    texts = [" ".join(random.choice(words, 4)) for _ in range(100)]
    columns = Columns.fit(pd.DataFrame({"note": texts}))
    assert columns.kinds == "1 text"
    found = columns([*texts[:3], "", "unknown"])  # a list, if a text is the only column
    assert found.shape == (5, len(columns.features))
    assert not found[3:].any()


def test_a_record_gives_the_same_numbers() -> None:
    rows = frame()
    rows["note"] = [f"some words of row {i} {i}" for i in range(8)]
    columns = Columns.fit(pd.concat([rows] * 10))
    again = read_preparation(json.loads(json.dumps(preparation_record(columns))))
    assert isinstance(again, Columns)
    assert (again(rows) == columns(rows)).all()


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [{"type": "number", "name": "a"}]},
        {"columns": [{"type": "code", "name": "a"}]},
        {"columns": [{"type": "text", "name": "a", "encoder": {"name": "tfidf", "width": 10**9}}]},
        {"columns": [{"type": "text", "name": "a", "encoder": {"name": "tfidf", "width": 2, "words": ["x"]}}]},
    ],
)
def test_a_damaged_record_is_rejected(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the preparation of the inputs is damaged"):
        read_preparation({"type": "columns", "left_out": {}, **change})


def test_pandas_polars_and_csv_are_the_same(tmp_path: Path) -> None:
    rows = frame()
    rows.to_csv(tmp_path / "t.csv", index=False, na_rep="NA")
    table = read_table(tmp_path / "t.csv")
    columns = Columns.fit(table)
    assert columns.features == Columns.fit(rows).features == Columns.fit(pl.from_pandas(rows)).features
    assert (columns(table) == columns(rows)).all()
    assert (columns(table) == columns(pl.from_pandas(rows))).all()


def test_categories_that_look_like_numbers_stay_text_when_a_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("code,label\n01,a\nB2,b\n01,a\nB2,b\n03,a\n03,\n")
    columns = read(tmp_path / "old.csv").preparation
    assert isinstance(columns, Columns)
    (tmp_path / "new.csv").write_text("code\n01\n03\n")
    found = columns(read_table(tmp_path / "new.csv", columns.text_columns))
    assert [columns.features[i] for i in found.argmax(1)] == ["code = 01", "code = 03"]


def test_na_in_the_target_is_no_label(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,label\n1,Rome,x\n2,Oslo,NA\n5,Rome,y\n7,Oslo,\n")
    task = FewLabels(str(tmp_path / "t.csv"), labels=None)()
    assert task.classes == ("x", "y")
    assert (len(task.labeled), len(task.unlabeled)) == (2, 2)


def test_an_identifier_is_named_so_or_counts_the_rows() -> None:
    for name, values, used in (("user_id", [5, 9, 7], False), ("x", [4, 5, 6], False), ("x", [4, 6, 9], True)):
        columns = Columns.fit(pd.DataFrame({name: values, "b": [1.0, 2.5, 4.0]}))
        assert (name in columns.features) is used


def test_a_column_that_is_missing_or_of_another_kind_is_named() -> None:
    columns = Columns.fit(frame()[["age", "city"]])
    with pytest.raises(DataError, match="no column 'city'; there are age"):
        columns(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(DataError, match="column 'age', row 0: 'old' is not a number"):
        columns(pd.DataFrame({"age": ["old"], "city": ["Rome"]}))


def test_the_record_is_plain_data() -> None:
    record = preparation_record(Columns.fit(frame()))
    assert record == json.loads(msgspec.json.encode(record))
