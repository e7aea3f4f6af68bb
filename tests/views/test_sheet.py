"""Contact sheets: their tiles are the images and views that they claim to be."""

import numpy as np
import torch

from refprior.data import digits
from refprior.views import Distort, FlipCrop, RandAugment, Shift, default_views
from refprior.views.sheet import STRONG, WEAK, image_sheet, view_sheet


def tile(sheet: np.ndarray, row: int, column: int) -> np.ndarray:
    """The pixels of a tile of 8×8 that was enlarged eight times."""
    top, left = 14 + 4 + row * 68, 4 + column * 68
    return sheet[top : top + 64 : 8, left : left + 64 : 8, 0]


def test_a_row_shows_one_image_then_its_weak_views_then_its_strong_ones() -> None:
    task = digits(labels=2)
    sheet = np.array(view_sheet(task, rows=10, seed=0))
    assert sheet.shape == (14 + 10 * 68 + 4, (1 + WEAK + STRONG) * 68 + 4, 3)
    for label in range(10):
        first = task.labelled.images[task.labelled.labels == label][0, 0].numpy()
        assert np.array_equal(tile(sheet, label, 0), first)
    images = torch.stack([task.labelled.images[task.labelled.labels == label][0] for label in range(10)])
    weak = Shift()(images, torch.Generator().manual_seed(0))
    assert np.array_equal(tile(sheet, 3, 1), weak[3, 0].numpy())


def test_an_image_sheet_has_a_row_for_each_class() -> None:
    task = digits(labels=2)
    sheet = np.array(image_sheet(task, rows=4))
    expected = task.labelled.images[task.labelled.labels == 3]
    assert np.array_equal(tile(sheet, 3, 1), expected[1, 0].numpy())
    assert sheet.shape[0] == 14 + 4 * 68 + 4


def test_digits_are_never_mirrored_and_photographs_are() -> None:
    assert isinstance(default_views("mnist-3-5", (1, 28, 28))[0], Shift)
    assert isinstance(default_views("digits", (1, 8, 8))[1], Distort)
    weak, strong = default_views("cifar10", (3, 32, 32))
    assert weak == FlipCrop(pad=4, flip=True)
    assert strong == RandAugment(cutout=16)
