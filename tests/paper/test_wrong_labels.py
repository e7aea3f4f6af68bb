"""The tables of experiments/wrong_labels.py: only finished cells count, and goals are judged as they are stated."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from experiments import wrong_labels
from experiments.cells import Rows, main, marks, read
from experiments.wrong_labels import COMPARED, OURS, Page, compared_columns, name_of

SEEDS = range(5, 10)


def record(ahead: Callable[[str], float]) -> Rows:
    """Make a record of all compared cells, in which ours is ahead of 90 % by some points."""
    rows: Rows = {}
    for data, column in compared_columns():
        for method in COMPARED:
            points = ahead(column) if method == OURS else 0.0
            rows[name_of(data, column, method)] = {
                seed: {
                    "test": 0.9 + 0.01 * (points + (seed - 7) / 10 if method == OURS else 0),
                    "test NLL": 0.3 - 0.01 * points,
                    "test NLL at 1": 0.5,
                    "out of fold": 0.88,
                    "low": 0.8,
                    "high": 0.91,
                }
                for seed in SEEDS
            }
    return rows


def verdicts(rows: Rows) -> dict[str, str]:
    return {goal: met for goal, _, met in Page(rows, set(SEEDS), "test").goals()}


FIRST = "first in the mean over all columns by more than the paired spread"
BEHIND = "at most 0.3 points below the best method in any column"
LOSS = "best NLL in at least half of the columns"


def test_goals_are_met_only_by_all_columns() -> None:
    best = record(lambda column: 1.0 if column.endswith("wrong") else 1.5)
    assert {verdicts(best)[goal] for goal in (FIRST, BEHIND, LOSS)} == {"met"}
    worse = record(lambda column: -0.5 if column == "20 labels" else 1.0)
    assert [verdicts(worse)[goal] for goal in (FIRST, BEHIND, LOSS)] == ["met", "missed", "met"]
    equal = record(lambda column: 1.0 if column.endswith("wrong") else -1.0)
    assert [verdicts(equal)[goal] for goal in (FIRST, BEHIND, LOSS)] == ["missed", "missed", "missed"]


def test_a_cell_without_all_seeds_does_not_count() -> None:
    rows = record(lambda column: 1.0)
    del rows[name_of("digits", "0 % wrong", "SoftMatch")][9]
    page = Page(rows, set(SEEDS), "test")
    assert ("digits", "0 % wrong") not in page.compared()
    assert verdicts(rows)[FIRST] == "met so far, 43 of 44 columns finished"
    assert set(verdicts({}).values()) == {""}
    line = next(line for line in page.accuracies() if line[0] == "digits, 0 % wrong")
    assert line[1:] == ["**91.0 ± 0.2**", "90.0 ± 0.0 (+1.0 ± 0.2)", "–", "90.0 ± 0.0 (+1.0 ± 0.2)", "–"]


def test_a_page_keeps_what_surrounds_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, results, (begin, end) = tmp_path / "page.md", tmp_path / "results.jsonl", marks("wrong_labels.py")
    page.write_text(f"before\n{begin}stale\n{end}\nafter\n", "utf-8")
    rows = record(lambda column: 1.0)
    lines = [{"cell": name, "seed": seed, **row} for name, seeds in rows.items() for seed, row in seeds.items()]
    results.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    monkeypatch.setattr("sys.argv", ["wrong_labels.py", str(results), "--write", str(page)])
    main(None, [], wrong_labels.pages, seeds="5,6,7,8,9")
    text = page.read_text("utf-8")
    assert text.startswith(f"before\n{begin}Goals:\n\n| goal |")
    assert text.endswith(f"{end}\nafter\n")
    assert "stale" not in text
    page.write_text("no marks\n", "utf-8")
    with pytest.raises(SystemExit):
        main(None, [], wrong_labels.pages, seeds="5,6,7,8,9")
    assert "has no lines <!-- tables of experiments/wrong_labels.py -->" in capsys.readouterr().err
    assert page.read_text("utf-8") == "no marks\n"


def test_measured_cells_are_skipped_and_impossible_ones_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, measured = tmp_path / "results.jsonl", []

    def measure(name: str, seed: int) -> dict[str, float]:
        if name == "b" and seed == 5:
            raise ValueError("class '8' has one label")
        measured.append((name, seed))
        return {"test": 0.5}

    results.write_text('{"cell": "a", "seed": 5, "test": 0.9}\n', "utf-8")
    cells = [(name, partial(measure, name)) for name in ("a", "b", "c")]
    monkeypatch.setattr("sys.argv", ["wrong_labels.py", str(results), "--only", "[ab]", "--seeds", "5,6"])
    for _ in range(2):
        main(None, [cells], wrong_labels.pages, seeds="5")
    assert measured == [("a", 6), ("b", 6)]
    assert read(results)["b"][5]["error"] == "class '8' has one label"
    assert len(results.read_text("utf-8").splitlines()) == 4
