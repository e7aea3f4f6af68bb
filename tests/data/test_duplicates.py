"""Duplicates between two parts."""

import torch

from refprior.data import duplicates


def test_all_equal_pairs_are_found() -> None:
    first = torch.randint(0, 256, (50, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    second = torch.cat([first[[7, 30]], 255 - first[:5], first[[7]]])
    assert duplicates(first, second) == [(7, 0), (7, 7), (30, 1)]


def test_one_pixel_makes_a_difference() -> None:
    image = torch.zeros(1, 1, 4, 4, dtype=torch.uint8)
    other = image.clone()
    other[0, 0, 3, 3] = 1
    assert duplicates(image, other) == []
