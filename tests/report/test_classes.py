"""Scores of each class, the confusion matrix and all settings, in tables, figures and pages."""

import re
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from refprior.report import class_rows, find_runs, group, summarize, write_report
from refprior.report._figures import as_png, confusion_of, draw_confusion
from refprior.report._runs import setting_rows
from refprior.report._tables import confusion_rows, mistake_rows
from tests.report.folders import write_run

COUNTS = torch.tensor([[8, 2, 0], [1, 9, 0], [3, 0, 7]])
NAMES = ["cat", "dog", "$fish$"]


def test_every_class_has_its_scores_and_its_worst_mistake() -> None:
    head, cat, _, fish = class_rows(COUNTS, NAMES)
    assert head == ["class", "precision %", "recall %", "F1 %", "inputs", "most often taken for"]
    assert cat == ["cat", "66.7", "80.0", "72.7", "10", "dog (2)"]
    assert fish == ["$fish$", "100.0", "70.0", "82.4", "10", "cat (3)"]
    assert class_rows(torch.tensor([[0, 0], [0, 5000]]), NAMES[:2])[1:] == [
        ["cat", "–", "–", "–", "0", "–"],
        ["dog", "100.0", "100.0", "100.0", "5,000", "–"],
    ]


def test_mistakes_come_with_the_most_frequent_first_and_right_ones_never() -> None:
    assert mistake_rows(COUNTS, NAMES)[1:] == [["$fish$", "cat", "3"], ["cat", "dog", "2"], ["dog", "cat", "1"]]
    assert len(mistake_rows(COUNTS, NAMES, most=2)) == 3
    assert confusion_rows(COUNTS, NAMES)[3] == ["$fish$", "3", "0", "7"]


@pytest.mark.parametrize("classes", [2, 12, 13, 21, 100])
def test_the_figure_has_as_much_text_as_can_be_read(classes: int) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    draw_confusion(axes, torch.eye(classes, dtype=torch.int64) * 7, [f"${i}_{'x' * 30}" for i in range(classes)])
    assert len(axes.texts) == (classes if classes <= 12 else 0)
    assert (len(axes.get_xticklabels()) == classes) == (classes <= 20)
    assert as_png(figure).startswith(b"\x89PNG")


def test_the_page_has_each_class_and_all_settings(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", "first", seed, 0.9, {"ema": "0.5"}, confusion=((7, 3), (1, 9)))
    write_run(tmp_path / "b", "second", 0, 0.8)  # of an earlier version: without the matrix
    runs, other = group([summarize(path) for path in find_runs([tmp_path])])
    counts = confusion_of(runs)
    assert counts is not None
    assert counts.tolist() == [[14, 6], [2, 18]]  # all seeds together
    assert confusion_of(other) is None
    write_report([tmp_path], tmp_path / "report.html", tmp_path / "figures")
    page = (tmp_path / "report.html").read_text()
    assert (tmp_path / "figures" / "confusion.png").exists()
    assert page.count('alt="Confusion"') == 1
    assert "<td>a</td><td>87.5</td><td>70.0</td><td>77.8</td><td>20</td><td>b (6)</td>" in page
    assert "<td>a</td><td>14</td><td>6</td>" in page
    assert "<td>seed</td><td>0, 1</td>" in page
    assert "<td>method</td><td>x.Y</td>" in page
    assert len(re.findall("<details open>", page)) == 1  # of classes: a single one is open
    assert len(re.findall("<details>", page)) == 2  # of settings


def test_settings_are_named_as_set_takes_them(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "first", 3, 0.9)
    (run,) = group([summarize(tmp_path / "a")])[0]
    run.description.update(
        method={"type": "refprior.methods.FixMatch", "threshold": 0.95, "flag": True, "none": None},
        network={"own": "mine.Network", "shape": [1, 8, 8]},
    )
    rows = setting_rows([run])
    for name, value in (
        ("seed", "3"),
        ("method", "methods.FixMatch"),
        ("method.threshold", "0.95"),
        ("method.flag", "true"),
        ("method.none", "none"),
        ("network", "Network (custom)"),
        ("network.shape", "1, 8, 8"),
    ):
        assert [name, value] in rows
    assert not any(name.endswith(".seed") for name, _ in rows)


def test_a_matrix_of_other_classes_is_rejected(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "first", 0, 0.9, confusion=((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    with pytest.raises(ValueError, match="a has a confusion matrix of 3 classes, its data have 2"):
        summarize(tmp_path / "a")
