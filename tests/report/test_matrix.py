"""The transfer matrix from run folders, real ones made in a moment."""

from pathlib import Path

import numpy as np
import pytest

from refprior.report.matrix import Matrix, from_median, matrix_figure, matrix_rows, ranking, read_matrix
from refprior.train.folder import write_json

TASKS = ("fish", "people", "trees")


def cell(folder: Path, accuracy: float, seed: int = 0, **settings: str) -> None:
    """A finished run folder as `refprior.train` writes it, with only what a table reads."""
    path = folder / "-".join([*settings.values(), str(seed)])
    path.mkdir(parents=True)
    origin = {"recipe": "cifar100_transfer_small", "arguments": {"seed": seed, **settings}, "settings": {}}
    recipe = {"steps": 1, "seed": seed, "method": {"type": "x.Transfer"}, "settings": list(settings.values())}
    write_json(path / "recipe.json", {"origin": origin, "recipe": recipe, "environments": []})
    record = f'{{"step": 1, "test": {{"ema": {{"accuracy": {accuracy}}}}}}}\n'
    (path / "metrics.jsonl").write_text(record)


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    for seed, more in ((0, 0.0), (1, 0.02)):
        cell(tmp_path, 0.6 + more, seed, source="fish", target="people", method="transfer")
    cell(tmp_path, 0.5, source="trees", target="people", method="transfer")
    cell(tmp_path, 0.4, source="fish", target="trees", method="transfer")
    cell(tmp_path, 0.3, source="fish", target="people", method="fine_tuning")
    cell(tmp_path, 0.45, source="fish", target="trees", method="fine_tuning")
    cell(tmp_path, 0.35, target="people", method="supervised")
    cell(tmp_path, 0.55, target="people", method="semi_supervised")
    return read_matrix([tmp_path], TASKS)


def test_cells_are_means_over_seeds_at_target_and_source(matrix: Matrix) -> None:
    nan = np.nan
    expected = [[nan, nan, nan], [61, nan, 50], [40, nan, nan]]
    np.testing.assert_allclose(matrix.pairs["transfer"], expected)
    np.testing.assert_allclose(matrix.alone["supervised"], [nan, 35, nan])


def test_wins_count_only_cells_that_both_have(matrix: Matrix) -> None:
    assert matrix.wins(matrix.pairs["fine_tuning"]) == (1, 2)
    assert matrix.wins(matrix.alone["semi_supervised"][:, None]) == (1, 2)


def test_sources_are_ranked_by_their_distance_from_the_median(matrix: Matrix) -> None:
    np.testing.assert_allclose(from_median(matrix.pairs["transfer"])[1], [5.5, np.nan, -5.5])
    first, second = ranking(matrix)
    assert (first[0], second[0], first[2], second[2]) == ("fish", "trees", 2, 0)
    np.testing.assert_allclose([first[1], second[1]], [2.75, -5.5])


def test_the_table_and_the_figure_hold_every_number(matrix: Matrix) -> None:
    rows = matrix_rows(matrix)
    assert rows[0] == ["accuracy, % (target →)", *TASKS]
    assert ["reference prior, from fish", "–", "61.0", "40.0"] in rows
    assert ["reference prior, no source", "–", "55.0", "–"] in rows
    figure = matrix_figure(matrix)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts[3:6] == ["61.0", "–", "50.0"]


def test_runs_of_one_cell_with_different_settings_are_refused(tmp_path: Path) -> None:
    cell(tmp_path, 0.5, source="fish", target="people", method="transfer")
    cell(tmp_path, 0.7, source="fish", target="people", method="transfer", steps="3")
    with pytest.raises(ValueError, match="one cell with different settings"):
        read_matrix([tmp_path], TASKS)
