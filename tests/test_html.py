"""What notebooks show of objects: the numbers that matter, and text that stays text."""

import numpy as np
import pytest

import refprior as rp
from refprior._html import shortened, table


def test_hostile_text_stays_text() -> None:
    shown = table("<script>", {"<b>": "<img src=x onerror=alert(1)>"})
    assert "<script>" not in shown
    assert "<img" not in shown
    assert "&lt;b&gt;" in shown


def test_many_names_are_counted() -> None:
    assert shortened(("a", "b"), most=2) == "a, b"
    assert shortened(("a", "b", "c"), most=2) == "a, b, … (3)"


@pytest.fixture(scope="module")
def run() -> rp.Run:
    return rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 3}))


def test_a_run_shows_method_step_and_accuracy(run: rp.Run) -> None:
    shown = run._repr_html_()
    assert run.result.evaluation is not None
    assert run.result.evaluation.accuracy is not None
    for words in ("Run on digits", "ReferencePrior", "3 of 3", f"{100 * run.result.evaluation.accuracy:.1f} %"):
        assert words in shown


def test_a_task_shows_its_parts(run: rp.Run) -> None:
    shown = run.task._repr_html_()
    for words in ("Task digits", "1 × 8 × 8, uint8", "labeled", ">50<", "unlabeled", "test", ">600<"):
        assert words in shown
    assert "source" not in shown


def test_a_predictor_says_whether_it_is_calibrated(run: rp.Run) -> None:
    assert "1 (not calibrated)" in run.predictor()._repr_html_()
    assert run.task.validation is not None
    assert "not calibrated" not in run.predictor().calibrated(run.task.validation)._repr_html_()


def test_an_estimator_shows_its_parameters() -> None:
    shown = rp.ReferencePriorClassifier(particles=7)._repr_mimebundle_()["text/html"]
    assert "ReferencePriorClassifier" in shown
    assert "particles" in shown
    assert "7" in shown


def test_class_names_of_a_task_stay_text() -> None:
    x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1])
    task = rp.data.task_from_arrays((x, y), x, classes=["<script>alert(1)</script>", "b"])
    assert "<script>" not in task._repr_html_()
