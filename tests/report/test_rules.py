"""The section of rules in a report: a table, and the inputs that separate each pair of rules."""

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path

import numpy as np
import pytest
import torch

from refprior.data import Examples, FewLabels, Task, task_from_arrays
from refprior.methods import Supervised
from refprior.networks import MLP
from refprior.report import write_report
from refprior.report._rules import group_rows, rule_rows, rules_section
from refprior.training import Run, train
from tests.training.recipes import ambiguous, two_cues


@pytest.fixture(scope="module")
def run() -> Run:
    return train(ambiguous())


def pictures() -> Task:
    """The two cues as halves of an image, with file names that are no HTML."""
    plain = two_cues()
    rows = torch.cat([plain.labeled.inputs, plain.unlabeled])
    images = (60 * rows.clamp(-2, 2) + 128).byte()[:, None, None].expand(-1, 1, 2, 2).numpy()
    names = [f"<b>{i}'s.png" for i in range(400)]
    return task_from_arrays(
        (images[:40], plain.labeled.labels.numpy()), images[40:], classes=["a<b", "c&d"], names=names
    )


def test_each_pair_of_rules_is_shown_with_rows_and_labels(run: Run) -> None:
    rules, text = run.rules(), rules_section(run, 1000)
    assert text is not None
    assert "4 rules fit the 40 labels and disagree on 24 % of the pool: the labels may not determine the task." in text
    head, *rows = rule_rows(rules)
    assert head == ["rule", "particles", "weight %", "no %", "yes %", *(f"≠ rule {j} %" for j in (1, 2, 3, 4))]
    assert [int(row[1]) for row in rows] == [len(members) for members in rules.members]
    assert [float(row[2]) for row in rows] == pytest.approx([100 * weight for weight in rules.weights], abs=0.1)
    assert [float(row[3]) + float(row[4]) for row in rows] == pytest.approx([100] * 4, abs=0.11)
    assert rows[0][6] == rows[1][5] == f"{100 * rules.differences[0, 1]:.1f}"
    assert text.count("<summary>") == 6
    assert text.count("<details open>") == 3  # against the heaviest rule
    place = rules.separating(1, 2)[0]
    (_, first, second, _), values = rules.answers(place), run.task.unlabeled[place].tolist()
    cells = [f"input {place}", first, second, *(f"{value:.4g}" for value in values)]
    assert "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" in text


def test_groups_of_test_inputs_have_a_table(run: Run) -> None:
    task = two_cues()
    conflict = [str(a != b) for a, b in (task.unlabeled > 0).tolist()]
    test = Examples(task.unlabeled, (task.unlabeled[:, 1] > 0).long())
    tested = replace(task, test=test, test_groups=tuple(conflict))
    found = replace(run, find_task=lambda: tested)
    head, *rows = group_rows(found.rules())
    assert head == ["test accuracy %", "group False", "group True", "worst group"]
    assert [row[0] for row in rows] == [f"rule {i}" for i in (1, 2, 3, 4)]
    assert all(row[3] == (f"{row[2]} (True)" if float(row[2]) < float(row[1]) else f"{row[1]} (False)") for row in rows)
    assert min(float(row[2]) for row in rows) < 5  # color
    assert max(float(row[2]) for row in rows) > 95  # shape
    assert "<th>worst group</th>" in (rules_section(found, 1000) or "")
    assert "worst group" not in (rules_section(run, 1000) or "")


def test_images_are_drawn_and_names_are_escaped() -> None:
    found = train(ambiguous(task=pictures, network=partial(MLP, (1, 2, 2), 2), steps=200))
    text = rules_section(found, 1000)
    assert text is not None
    assert "<img src='data:image/png;base64," in text
    assert "&lt;b&gt;" in text
    assert "<b>a&lt;b</b>" in text
    assert not any(unsafe in text for unsafe in ("<b>7", "a<b", "'s.png"))


def test_inputs_without_names_of_columns_are_written() -> None:
    nameless = replace(two_cues(), features=())
    text = rules_section(train(ambiguous(task=nameless)), 1000)
    assert text is not None
    assert "<th>values</th>" in text


SENTENCES: dict[str, Callable[[], Run]] = {
    "All 8 particles follow one rule.": lambda: train(
        ambiguous(task=replace(two_cues(), unlabeled=two_cues().labeled.inputs), method=Supervised())
    ),
    "The particles agree on only": lambda: train(ambiguous(steps=3)),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_one_sentence_is_enough_for_one_rule_or_none(sentence: str) -> None:
    text = rules_section(SENTENCES[sentence](), 1000)
    assert text is not None
    assert text.startswith(f"<p class='note'>{sentence}")
    assert text.count("<p") == 1
    assert "<table" not in text


def test_runs_that_can_have_no_rules_have_no_section() -> None:
    alone = replace(two_cues(), unlabeled=two_cues().unlabeled[:0])
    assert rules_section(train(ambiguous(particles=1, steps=2)), 1000) is None
    assert rules_section(train(ambiguous(task=alone, method=Supervised(), steps=2)), 1000) is None


def test_the_page_has_the_section(run: Run, tmp_path: Path) -> None:
    train(ambiguous(), tmp_path / "run")
    write_report([tmp_path], tmp_path / "report.html", definitions={"two_cues": two_cues})
    text = (tmp_path / "report.html").read_text()
    assert "<h2>Rules that fit the labels</h2>" in text
    assert "Ask: <code>refprior suggest" in text


def test_texts_are_shown_as_they_are(tmp_path: Path) -> None:
    words = [["soup bread", "goal team"], ["please thanks", "urgent now"]]
    draw = np.random.default_rng(0).integers(0, 2, (240, 2))
    draw[:40] = draw[:40, :1]
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "label"])
        writer.writerows(
            [f"<{words[0][a]} {words[1][b]} {n}>", ["food", "sport"][a] if n < 40 else ""]
            for n, (a, b) in enumerate(draw)
        )
    task = FewLabels(str(tmp_path / "notes.csv"), labels=None, text="note")
    width = task().shape[0]
    found = train(ambiguous(task=task, network=partial(MLP, (width,), 2)))
    text = rules_section(found, 1000)
    assert text is not None
    assert "<th>text</th>" in text
    place = found.rules().separating(0, 1)[0]
    row, words_of = found.task.names[place].split(": ")
    assert f"<td>{row}</td>" in text
    assert f"<td>{escape(words_of)}</td>" in text
    assert found.task.names[place][:20] in repr(found.rules())
