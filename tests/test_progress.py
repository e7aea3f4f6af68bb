"""What a terminal shows while something takes long, seen through a real one."""

import re
import time
from pathlib import Path

import pytest

from refprior import _progress
from refprior._progress import working
from tests.cli.running import in_terminal

LONG = ("--set", "steps=120", "unlabeled_batch=8", "evaluate_every=20")


@pytest.mark.parametrize(
    ("columns", "last"),
    [
        (60, r"digits_ssl seed 0 ━{10} 120/120 [\d:]+ val \d+\.\d%"),
        (80, r"digits_ssl seed 0 ━{10} 120/120 [\d:]+ val \d+\.\d% loss \d\.\d{3}( ce \d\.\d{3})?"),
        (
            140,
            r"digits_ssl seed 0 ━{10} 120/120 [\d:]+ val \d+\.\d% loss \d\.\d{3} ce \d\.\d{3} h_y \d\.\d{3} "
            r"h_yw \d\.\d{3}",
        ),
    ],
)
def test_the_bar_and_the_step_are_there_at_every_width(columns: int, last: str, tmp_path: Path) -> None:
    lines = in_terminal(columns, "train", "digits_ssl", *LONG, "--out", "run", cwd=tmp_path)
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)
    live = [line for line in lines if line.startswith("digits_ssl seed 0")]
    assert re.fullmatch(last, live[-1]), live[-1]


def test_a_long_title_stands_above(tmp_path: Path) -> None:
    (tmp_path / "a_long_name_of_a_file.py").write_text(
        "import refprior as rp\n\n\ndef recipe_of_mine_that_does_it_all(seed: int = 0) -> rp.Recipe:\n"
        "    return rp.recipes.digits_ssl(seed=seed)\n"
    )
    name = "a_long_name_of_a_file.py:recipe_of_mine_that_does_it_all"
    lines = in_terminal(80, "train", name, *LONG, "--out", "run", cwd=tmp_path)
    assert f"{name} seed 0" in lines
    assert any(re.match(r"━{10} 120/120 [\d:]+ val ", line) for line in lines)


def test_a_sweep_says_how_far_its_cells_are(tmp_path: Path) -> None:
    settings = ("--set", "steps=400", "unlabeled_batch=8", "evaluate_every=20")
    lines = in_terminal(80, "sweep", "digits_ssl", *settings, "--seeds", "0", "--out", "sweep", cwd=tmp_path)
    assert max(map(len, lines)) <= 80
    steps = [re.search(r"^. 0 of 1 done; step (\d+) of 400 \(steps=400,", line) for line in lines]
    assert any(0 < int(found[1]) < 400 for found in steps if found), lines
    assert any(line.startswith("1/1 ") and line.endswith("seed-0 done") for line in lines)


def test_what_takes_long_says_so_on_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_PATIENCE", 0.2)
    with working("thinking"):
        time.sleep(0.01)
    assert capsys.readouterr().err == ""
    with working("thinking") as progress:
        progress("thinking hard", 3, 7)
        time.sleep(0.4)
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "thinking hard: 3 of 7, 0 s\n")


@pytest.mark.parametrize(
    "arguments",
    [("recipes",), ("data", "list"), ("exact", "coin", "-n", "10"), ("exact", "two-stage", "-m", "1", "-n", "10")],
    ids=" ".join,
)
def test_other_tables_fit_80_columns_too(arguments: tuple[str, ...], tmp_path: Path) -> None:
    lines = in_terminal(80, *arguments, cwd=tmp_path)
    assert len(lines) > 3
    shown = [line for line in lines if not line.startswith("data folder")]
    assert max(map(len, shown)) <= 80
    assert not any("…" in line for line in shown)
