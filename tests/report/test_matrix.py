"""The transfer matrix from run folders, real ones made in a moment."""

import csv
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from refprior.recipes import named
from refprior.report.matrix import (
    Matrix,
    agreement,
    before_training,
    from_median,
    matrix_figure,
    matrix_rows,
    ranking,
    read_matrix,
    rows_matrix,
)
from refprior.training import train
from tests.report.folders import write_run

TASKS = ("fish", "people", "trees")


def cell(folder: Path, accuracy: float, seed: int = 0, **settings: str) -> None:
    """A finished run folder."""
    write_run(folder / "-".join([*settings.values(), str(seed)]), "cifar100_transfer_small", seed, accuracy, settings)


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    for seed, more in ((0, 0.0), (1, 0.02)):
        cell(tmp_path, 0.6 + more, seed, source="fish", target="people", approach="transfer")
    cell(tmp_path, 0.5, source="trees", target="people", approach="transfer")
    cell(tmp_path, 0.4, source="fish", target="trees", approach="transfer")
    cell(tmp_path, 0.3, source="fish", target="people", approach="fine_tuning")
    cell(tmp_path, 0.45, source="fish", target="trees", approach="fine_tuning")
    cell(tmp_path, 0.35, target="people", approach="supervised")
    cell(tmp_path, 0.55, target="people", approach="semi_supervised")
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


def test_runs_of_one_cell_with_different_settings_are_rejected(tmp_path: Path) -> None:
    cell(tmp_path, 0.5, source="fish", target="people", approach="transfer")
    cell(tmp_path, 0.7, source="fish", target="people", approach="transfer", ema="0.3")
    with pytest.raises(ValueError, match="one cell with different settings"):
        read_matrix([tmp_path], TASKS)


def test_ranks_agree_by_target() -> None:
    nan = np.nan
    after = np.array([[nan, 1, 2, 3], [3, nan, 2, 1], [1, 2, nan, nan], [nan] * 4])
    assert agreement(after, 10 * after) == 1
    opposite = np.array([[nan, 3, 2, 1], [3, nan, 2, 1], [2, 1, nan, nan], [nan] * 4])
    assert agreement(opposite, after) == 0  # -1 and 1; two sources are too few to rank
    assert np.isnan(agreement(after[2:], after[2:]))


def test_a_source_is_judged_by_the_first_stage(tmp_path: Path) -> None:
    recipe = named("fine_tuning", {"data": "digits", "labels": "50"}, seed=0).recipe
    assert recipe.start is not None
    short = replace(recipe, steps=1, evaluate_every=1, start=replace(recipe.start, steps=200, evaluate_every=200))
    train(short, tmp_path / "run")
    untrained = replace(short, start=replace(short.start, steps=1)) if short.start is not None else short
    train(untrained, tmp_path / "other")
    taught = before_training(tmp_path / "run")
    assert -math.log(5) < before_training(tmp_path / "other") < taught < 0
    with pytest.raises(ValueError, match="has no first stage"):
        before_training(tmp_path / "run" / "start")


def test_numbers_that_were_written_are_drawn_again(matrix: Matrix) -> None:
    again = rows_matrix(matrix_rows(matrix))
    assert again.tasks == matrix.tasks
    for mine, other in ((matrix.pairs, again.pairs), (matrix.alone, again.alone)):
        for method, values in mine.items():
            np.testing.assert_allclose(other[method], values, atol=0.05)


def test_the_stored_numbers_are_those_of_the_page() -> None:
    docs = Path(__file__).parents[2] / "docs"
    with (docs / "figures" / "transfer_matrix.csv").open(newline="") as lines:
        stored = rows_matrix(list(csv.reader(lines)))
    better, cells = stored.wins(stored.pairs["fine_tuning"])
    alone, _ = stored.wins(stored.alone["semi_supervised"][:, None])
    said = f"beats fine-tuning in {better} of {cells} cells, and itself without the source in {alone} of {cells}"
    assert said in " ".join((docs / "results.md").read_text().split())


def test_the_figure_has_a_scale_and_names_that_stand_apart(matrix: Matrix) -> None:
    figure = matrix_figure(matrix)
    assert figure.axes[-1].get_ylabel() == "points from the median of the row"
    figure.draw_without_rendering()
    for axes in figure.axes[:-1]:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))
