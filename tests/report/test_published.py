"""Published numbers: all rows of the paper's table, and each beside the runs that it is for and no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from refprior.recipes import named
from refprior.report import PUBLISHED, Published, Summary, group, pivot, rows, summarize, write_report
from refprior.report._published import find_published
from tests.report.folders import write_run

TABLE = """
Mixup | - | - | 52.57 | 63.86 | 74.28
VAT | - | - | 63.97 | 73.89 | 81.32
Mean Teacher | - | - | 52.68 | 57.99 | 82.68
MixMatch | 64.21* | 80.29* | 88.91* | 90.35* | 92.25*
FixMatch (RA) | 86.19 ± 3.37 (40) | 90.12* | 94.93 ± 0.65 | 93.91* | 94.3*
FixMatch (CTA) | 88.61 ± 3.35 (40) | - | 94.93 ± 0.33 | - | -
DASH (RA) | 86.78 ± 3.75 (40) | - | 95.44 ± 0.13 | - | -
DASH (CTA) | 90.84 ± 4.31 (40) | - | 95.22 ± 0.12 | - | -
SelfMatch | 93.19 ± 1.08 (40) | - | 95.13 ± 0.26 | - | -
FlexMatch | 95.03 ± 0.06 (40) | - | 95.02 ± 0.09 | - | -
Deep Reference Prior | 85.45 ± 2.12 | 88.53 ± 0.67 | 92.13 ± 0.39 | 92.94 ± 0.22 | 93.48 ± 0.24
"""


def run_of(tmp_path: Path, **settings: str) -> Summary:
    """A run of cifar10_ssl; __ stands for a dot."""
    given = {"method": "ReferencePrior", "strong": "RandAugment", "labels": "250", "preset": "paper", **settings}
    write_run(tmp_path / "run", "cifar10_ssl", 0, 0.5, {name.replace("__", "."): v for name, v in given.items()})
    return summarize(tmp_path / "run")


def test_every_row_of_the_papers_table_is_there() -> None:
    found: dict[str, dict[int, str]] = {}
    for row in PUBLISHED["cifar10_ssl"]:
        if row.table == "tab:cifar10_ssl":
            found.setdefault(row.name, {})[row.labels] = row.ensemble
    lines = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
    expected = {
        name: {n: cell for n, cell in zip((50, 100, 250, 500, 1000), cells, strict=True) if cell != "-"}
        for name, *cells in lines
    }
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("settings", "name", "ensemble", "raw"),
    [
        ({}, "Deep Reference Prior", "92.13 ± 0.39", "89.75 ± 0.36"),
        ({"labels": "1000", "precision": "float32"}, "Deep Reference Prior", "93.48 ± 0.24", "91.57 ± 0.25"),
        ({"method": "FixMatch"}, "FixMatch (RA)", "94.93 ± 0.65", ""),
        ({"method": "FixMatch", "strong": "CTAugment"}, "FixMatch (CTA)", "94.93 ± 0.33", ""),
        ({"method": "Dash", "strong": "CTAugment"}, "DASH (CTA)", "95.22 ± 0.12", ""),
        ({"method": "FixMatch", "start__method": "Contrastive"}, "SelfMatch", "95.13 ± 0.26", ""),
        ({"method__jensen": "False"}, "No Jensen's inequality", "86.55", ""),
        ({"particles": "8", "labels": "1000"}, "8 particles", "", "89.79"),
    ],
)
def test_a_run_is_compared_with_what_it_repeats(
    tmp_path: Path, settings: dict[str, str], name: str, ensemble: str, raw: str
) -> None:
    found = find_published(run_of(tmp_path, **settings), "paper")
    assert found is not None
    assert (found.name, found.ensemble, found.raw) == (name, ensemble, raw)


@pytest.mark.parametrize(
    "settings",
    [
        {"labels": "75"},
        {"method__alpha": "0.2"},
        {"particles": "8"},  # was published for 1000 labels only
        {"strong": "CTAugment"},
        {"method": "Supervised"},
        {"start__method": "Contrastive"},
        {"method": "FixMatch", "method__threshold": "0.9"},
    ],
    ids=str,
)
def test_a_run_of_something_else_is_compared_with_nothing(tmp_path: Path, settings: dict[str, str]) -> None:
    assert find_published(run_of(tmp_path, **settings), "paper") is None


def test_a_run_on_other_data_is_compared_with_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert find_published(run, "paper") is not None
    mine = replace(run, settings={**run.settings, "--data": "photos"})
    assert find_published(mine, "paper") is None
    assert not any(cell.startswith("paper:") for cell in rows([[mine]])[0])
    assert not any("FixMatch" in cell for line in pivot([[mine]], "labels") for cell in line)


def test_rows_of_equal_labels_name_their_folders(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    first, second = (replace(run, path=Path(name)) for name in ("runs/a", "runs/b"))
    names = [line[0] for line in rows([[first], [second]])[1:]]
    assert names == [f"{run.label} (runs/a)", f"{run.label} (runs/b)"]


def test_paper_and_log_have_columns_of_their_own(tmp_path: Path) -> None:
    head, line = rows(group([run_of(tmp_path, preset="authors_code")]))
    cells = dict(zip(head, line, strict=True))
    assert cells["ensemble, EMA %"] == "50.0"
    assert (cells["paper: ensemble, EMA %"], cells["paper: ensemble, raw %"]) == ("92.13 ± 0.39", "89.75 ± 0.36")
    assert (cells["authors' log: ensemble, EMA %"], cells["authors' log: ensemble, raw %"]) == ("93.36", "92.58")
    assert cells["authors' log: particle, raw %"] == "85.65 / 86.82 / 84.60 / 69.47"
    assert "paper: particle, raw %" not in cells  # nobody printed one
    assert head.index("paper: ensemble, EMA %") == head.index("ensemble, EMA %") + 1


def test_the_page_says_what_was_not_measured_here(tmp_path: Path) -> None:
    run_of(tmp_path / "a")
    write_report([tmp_path / "a"], tmp_path / "a.html")
    assert "nothing of it was measured here" in (tmp_path / "a.html").read_text()
    run_of(tmp_path / "b", labels="75")
    write_report([tmp_path / "b"], tmp_path / "b.html")
    assert "measured here" not in (tmp_path / "b.html").read_text()


def test_a_pivot_has_them_in_columns_of_their_own(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / n, preset="authors_code", labels=n) for n in ("50", "250")]
    head, line, *rest = pivot(group(runs), "labels")
    cells = dict(zip(head, line, strict=True))
    assert head[1:] == ["50", "50, paper", "250", "250, paper", "250, authors' log"]
    assert (cells["250"], cells["250, paper"], cells["250, authors' log"]) == ("50.00 (1)", "92.13 ± 0.39", "93.36")
    assert all(row[1] == row[3] == row[5] == "–" for row in rest)  # what was not run has no number of ours


def test_the_log_is_for_its_own_configuration(tmp_path: Path) -> None:
    assert find_published(run_of(tmp_path, preset="paper"), "authors' log") is None
    assert find_published(run_of(tmp_path, preset="authors_code", labels="500"), "authors' log") is None


@pytest.mark.parametrize(
    ("name", "row"),
    [(name, row) for name, rows in PUBLISHED.items() for row in rows],
    ids=lambda x: x if isinstance(x, str) else f"{x.name}, {x.labels}",
)
def test_every_number_is_for_a_recipe_that_can_be_trained(name: str, row: Published) -> None:
    """Its settings are settings of the recipe, its methods and views are refprior's, and the run is found again."""
    settings = dict(row.settings)
    if "preset" in settings and name != "cifar10_ssl":
        pytest.skip("the log is of a preset that only the full recipe has")
    if settings.pop("start.method", None) == "Contrastive":
        settings["pretraining"] = "contrastive"
    if name.startswith("cifar10_") or name == "fine_tuning":
        settings["labels"] = str(row.labels)
    if name.startswith("cifar100"):
        settings.pop("method", None)  # the approach decides it
    recipe, origin = named(name, settings, seed=0)
    described = Summary(
        path=Path("run"),
        recipe=origin.recipe,
        settings=origin.changes,
        defaults={name: str(value) for name, value in origin.defaults.items()},
        description=recipe.to_dict(),
        key="",
        seed=0,
        records=[],
    )
    assert find_published(described, row.source) == row


def test_other_recipes_have_no_published_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "digits_ssl", 0, 0.5, {"labels": "250", "method": "FixMatch"})
    head, _ = rows(group([summarize(tmp_path / "run")]))
    assert not any(":" in name for name in head)
