"""Tables at several widths: nothing is cut, every number is there, no line is longer than the terminal."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch

from refprior.cli._tables import print_table
from refprior.report import class_rows
from refprior.report.matrix import Matrix, matrix_rows

SCORES = [
    ["weights", "particles by", "mean of", "accuracy %", "NLL", "Brier", "ECE", "I(w; y) nats"],
    ["ema", "prior", "probabilities", "96.4", "0.123", "0.045", "0.006", "0.789"],
    ["raw", "likelihood", "logits", "100.0", "12.345", "0.567", "0.890", "0.012"],
]
RESULTS = [
    ["recipe", "cifar10_ssl_small labels=250 method=ReferencePrior", "cifar10_ssl_small labels=250 method=Supervised"],
    ["seeds", "3", "3"],
    ["validation, EMA %", "96.4 ± 0.5", "85.6 ± 1.3"],
]
MANY = [
    ["recipe", "seeds", "ensemble, EMA %", "ensemble, raw %", "particle, EMA %", "validation, EMA %", "NLL", "seconds"],
    *(
        [f"digits_ssl labels={10 * n} method=FixMatch", "3", *["96.4 ± 0.5"] * 4, "0.123 ± 0.004", "70.0"]
        for n in range(6)
    ),
]
MATRIX = [
    ["before: log-probability of labels, from (target →)", "vehicles_1", "vehicles_2", "aquatic_mammals", "people"],
    ["vehicles_1", "–", "-1.234", "-0.123", "-1.609"],
    ["large_natural_outdoor_scenes", "-1.234", "–", "-0.123", "-1.609"],
]
CLASSES = class_rows(torch.tensor([[58, 2, 0], [7, 1043, 0], [0, 0, 0]]), ["cat", "large_natural_scenes", "dog"])
CONSENSUS = [["weights", "test %", "validation %", "stability %"], ["ema", "95.8", "–", "99.1"]]
RANKING = [
    ["source", "points from the median of the row", "best source of so many targets"],
    ["aquatic_mammals", "+1.2", "3"],
]
TASKS = ("vehicles_1", "vehicles_2", "fish", "people", "aquatic_mammals")
PAIRS = Matrix(
    TASKS,
    {method: np.arange(25.0).reshape(5, 5) for method in ("transfer", "fine_tuning")},
    {method: np.arange(5.0) for method in ("supervised", "semi_supervised")},
)


def printed(rows: list[list[str]], width: int, keys: int) -> str:
    text = io.StringIO()
    with redirect_stdout(text):
        print_table(rows, keys, width)
    return text.getvalue()


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 200])
@pytest.mark.parametrize(("rows", "keys"), [(SCORES, 3), (RESULTS, 1), (MANY, 1), (MATRIX, 1), (CLASSES, 1)])
def test_nothing_is_cut_at_any_width(rows: list[list[str]], keys: int, width: int) -> None:
    text = printed(rows, width, keys)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for number, *cells in rows[1:]:
        for cell in cells[keys - 1 :]:
            assert re.search(rf"(^|\s){re.escape(cell)}(\s|$)", text), (number, cell)
    for word in {word for cell in rows[0] for word in cell.split()}:
        assert word in text


def test_every_table_at_eighty_columns() -> None:
    """The expected text is tables_80.txt: look at it, and write it again, when a table changes."""
    kinds = {"scores": (SCORES, 3), "consensus": (CONSENSUS, 1), "results": (RESULTS, 1), "many": (MANY, 1)}
    kinds |= {"classes": (CLASSES, 1)}
    kinds |= {"matrix": (matrix_rows(PAIRS), 1), "ranking": (RANKING, 1), "before": (MATRIX, 1)}
    text = "\n".join(f"{name}\n{printed(rows, 80, keys)}" for name, (rows, keys) in kinds.items())
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines == (Path(__file__).parent / "tables_80.txt").read_text().splitlines()


def test_what_does_not_fit_side_by_side_goes_below() -> None:
    for width, times in ((60, 2), (80, 2), (200, 1)):
        assert len(re.findall(r"^recipe ", printed(MANY, width, 1), re.MULTILINE)) == times


def test_names_are_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["[red]class[/red]", ":smile:"], ["[bold]x", "\x1b[31m"]])
    text = capsys.readouterr().out
    assert "[red]class[/red]" in text
    assert ":smile:" in text
    assert "[bold]x" in text
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
