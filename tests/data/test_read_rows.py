"""Tables as data sets: which column is what, which rows have labels, and what is refused."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from refprior.data import FewLabels, read
from refprior.data._read import read_rows
from refprior.data.files._error import DataError

TEXT = "a,b,label\n1,2,x\n3,4,y\n5,6,\n7,8,x\n"


def saved(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_column_of_labels_and_columns_of_numbers(tmp_path: Path) -> None:
    data = read(saved(tmp_path / "t.csv", TEXT))
    assert (data.classes, data.features, data.kind) == (("x", "y"), ("a", "b"), "vectors")
    assert data.train.inputs.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert data.train.labels.tolist() == [0, 1, 0]
    assert data.unlabeled is not None
    assert data.unlabeled.tolist() == [[5, 6]]


def test_whole_numbers_are_classes_in_their_order_and_minus_one_is_none(tmp_path: Path) -> None:
    data = read_rows(saved(tmp_path / "t.csv", "a,kind\n1,10\n2,9\n3,-1\n4,\n"), target="kind")
    assert data.classes == ("9", "10")
    assert data.train.labels.tolist() == [1, 0]
    assert data.unlabeled is not None
    assert len(data.unlabeled) == 2


def test_parquet_is_the_same(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 3, 5], "label": ["x", "y", None]})
    frame.to_parquet(tmp_path / "t.parquet")
    data = read(str(tmp_path / "t.parquet"))
    assert (data.classes, data.features, len(data.train)) == (("x", "y"), ("a",), 2)


def test_columns_of_text_are_left_out_and_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = saved(tmp_path / "t.csv", "name,a,label\nAnn,1,x\nBo,2,y\n")
    with caplog.at_level(logging.WARNING, logger="refprior"):
        assert read(path).features == read(path).features == ("a",)
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: left out: name (a different value in each row)"
    ]


def test_a_task_knows_the_columns_and_the_target(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.csv", TEXT.replace("label", "kind"))
    task = FewLabels(path, labels=None, target="kind", labeled_in_pool=True)()
    assert task.features == ("a", "b")
    assert len(task.unlabeled) == 4


def test_rows_to_test_with_are_equally_many_per_class(tmp_path: Path) -> None:
    rows = "".join(f"{i},{'xyz'[i % 3]}\n" for i in range(30))
    data = read_rows(saved(tmp_path / "t.csv", "a,label\n" + rows), test=6)
    assert data.test is not None
    assert np.bincount(data.test.labels.numpy()).tolist() == [2, 2, 2]
    assert len(data.train) == 24


def test_a_column_of_groups_is_no_input_and_names_the_groups_of_test_rows(tmp_path: Path) -> None:
    rows = "".join(f"{i},{'xyz'[i % 3]},{'north' if i % 2 else ''}\n" for i in range(30))
    path = saved(tmp_path / "t.csv", "a,label,site\n" + rows)
    task = FewLabels(path, labels=None, test=6, groups="site")()
    assert task.test is not None
    assert task.features == ("a",)
    assert task.test_groups == tuple("north" if a % 2 else "missing" for a in task.test.inputs[:, 0].tolist())
    with pytest.raises(DataError, match="groups='site' needs test rows: give test, the number of rows to hold out"):
        read(path, groups="site")
    with pytest.raises(DataError, match="no column 'place'; there are a, label, site"):
        read(path, test=6, groups="place")
    with pytest.raises(ValueError, match=r"groups names columns of a \.csv or \.parquet file, and digits is none"):
        read("digits", groups="site")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column 'label' with labels: name yours as the target; there are a, b"),
        ("a,label\n1,\n2,\n", "column 'label' has no label in 2 rows"),
        ("a,label\n1,0.5\n2,1\n", "column 'label' holds 0.5: labels are names or whole numbers"),
        ("a,b,label\n1,2,x\ninf,4,y\n", "column 'a' is infinite in row 1"),
        ("name,label\nAnn,x\nBo,y\n", r"no column to learn from: name \(a different value in each row\)"),
        ("label\nx\ny\n", "no column beside the labels"),
    ],
)
def test_what_cannot_be_learned_from_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = saved(tmp_path / "t.csv", text)
    with pytest.raises(DataError, match=message) as raised:
        read(path)
    assert path in str(raised.value)


def test_a_target_is_for_tables() -> None:
    with pytest.raises(ValueError, match=r"target names columns of a \.csv or \.parquet file, and digits is none"):
        read("digits", target="label")
