"""The program of the paper's tables: cells are shared, resumed and counted, and the page has what the files have."""

import json
from pathlib import Path

import experiments.paper as paper
import pytest
from experiments.paper import Cell, grid, normal, read, section, spread, train, write

import refprior as rp

TINY = Cell("digits_ssl", {"steps": "12", "evaluate_every": "12"}, seed=1)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(paper, "RUNS", tmp_path / "runs")
    (tmp_path / "results").mkdir()


def test_a_setting_that_a_recipe_has_anyway_does_not_make_another_cell() -> None:
    cells = grid("mnist_ssl", {"labels": "50,250", "particles": "4,8"}, seeds=(0,))
    assert [normal(cell).settings for cell in cells] == [
        {},
        {"particles": "8"},
        {"labels": "250"},
        {"labels": "250", "particles": "8"},
    ]


def test_an_interrupted_cell_is_resumed_and_ends_as_if_it_had_not_been() -> None:
    write(first := train(TINY, end=0.0))
    assert 0 < first["step"] < first["steps"] == 12
    assert spread([TINY], paper.ema) == "unfinished"
    write(train(TINY, end=float("inf")))
    rows = read("digits_ssl")
    assert list(rows) == [TINY.name]
    assert rows[TINY.name]["step"] == 12
    assert rows[TINY.name]["core_hours"] >= first["core_hours"]
    once = rp.train(TINY.named()[0]).result.evaluation
    assert once is not None
    assert once.accuracy is not None
    assert spread([TINY], paper.ema) == f"{100 * once.accuracy:.1f}"


def test_a_mean_says_how_many_runs_are_missing() -> None:
    for seed, accuracy in ((0, 90.0), (1, 92.0)):
        row = {"recipe": "digits_ssl", "settings": {}, "seed": seed, "step": 600, "steps": 600, "test ema": accuracy}
        write(row)
    assert spread(grid("digits_ssl", {}, seeds=(0, 1)), paper.ema) == "91.0 ± 1.4"
    assert spread(grid("digits_ssl", {}), paper.ema) == "91.0 ± 1.4 (2 of 3)"


def test_every_cell_of_every_item_is_a_recipe() -> None:
    names = [cell.name for cells in paper.ITEMS.values() for cell in cells]
    for cells in paper.ITEMS.values():
        for cell in cells[::7]:
            assert cell.named()[0].seed == cell.seed
    assert len(set(names)) > 100


def test_the_page_has_what_the_files_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "RESULTS", paper.ROOT / "results")
    text = (paper.DOCS / "results.md").read_text()
    for item in paper.TABLES:
        begin, end = text.index(f"<!-- {item}: "), text.index(f"<!-- end of {item} -->")
        assert section(item) in text[begin:end], "run: python -m experiments.paper tables"
    for path in (paper.ROOT / "results").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            assert {"commit", "seed", "steps", "core_hours"} <= set(row)
