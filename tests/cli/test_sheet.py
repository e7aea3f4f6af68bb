"""Contact sheets: their tiles are the images and views that they claim to be."""

import numpy as np
import torch

from refprior.cli._sheet import STRONG, WEAK, image_sheet, in_turn, view_sheet
from refprior.views import Distort, Shift


def tile(sheet: np.ndarray, row: int, column: int) -> np.ndarray:
    """The pixels of a tile of 8×8 that was enlarged eight times."""
    top, left = 14 + 4 + row * 68, 4 + column * 68
    return sheet[top : top + 64 : 8, left : left + 64 : 8, 0]


def test_a_row_shows_one_image_then_its_weak_views_then_its_strong_ones() -> None:
    images = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    sheet = np.array(view_sheet(images, Shift(), Distort(), seed=0))
    assert sheet.shape == (14 + 5 * 68 + 4, (1 + WEAK + STRONG) * 68 + 4, 3)
    generator = torch.Generator().manual_seed(0)
    weak = [Shift()(images, generator) for _ in range(WEAK)]
    columns = [images, *weak, *(Distort()(images, generator) for _ in range(STRONG))]
    for column, expected in enumerate(columns):
        assert all(np.array_equal(tile(sheet, row, column), expected[row, 0].numpy()) for row in range(5))


def test_an_image_sheet_has_a_row_for_each_class() -> None:
    images = torch.randint(0, 256, (12, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    sheet = np.array(image_sheet(images, torch.arange(12) % 3, rows=2, title="toy"))
    assert sheet.shape[0] == 14 + 2 * 68 + 4
    assert np.array_equal(tile(sheet, 1, 2), images[7, 0].numpy())
    assert not tile(sheet, 1, 4).any()


def test_classes_come_in_turn() -> None:
    assert in_turn(torch.tensor([1, 1, 0, 2, 0, 1])).tolist() == [2, 0, 3, 4, 1, 5]
