"""Motions against Pillow's affine transform and rotation."""

from collections.abc import Callable

import pytest
import torch
from PIL import Image
from torch import Tensor

from refprior.views._motions import rotate, shear_x, shear_y, translate_x, translate_y, warp
from tests.views.oracle import by_pillow, difference, pictures


def affine(images: Tensor, motion: Tensor) -> Tensor:
    def move(picture: Image.Image, index: float) -> Image.Image:
        return picture.transform(picture.size, Image.Transform.AFFINE, motion[int(index)].tolist())

    return by_pillow(images, move, torch.arange(len(images)))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("make", [shear_x, shear_y])
def test_shears_equal_pillow(make: Callable[[Tensor], Tensor], channels: int) -> None:
    images = pictures(channels)
    motion = make(torch.linspace(-0.3, 0.3, len(images), dtype=torch.float64))
    assert difference(warp(images, motion), affine(images, motion)) == 0


@pytest.mark.parametrize("make", [translate_x, translate_y])
def test_translations_equal_pillow(make: Callable[[Tensor], Tensor]) -> None:
    images = pictures(3)
    motion = make(torch.arange(-12, 12).double())
    assert difference(warp(images, motion), affine(images, motion)) == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_rotations_equal_pillow(channels: int) -> None:
    images = pictures(channels)
    height, width = images.shape[2:]
    for start in (-45, -30, -7, 3, 21, 35):
        degrees = (start + torch.arange(len(images)) % 10).double()
        expected = by_pillow(images, lambda p, m: p.rotate(m), degrees)
        assert difference(warp(images, rotate(degrees, height, width)), expected) == 0


def test_no_motion_changes_nothing() -> None:
    images = pictures(3)
    assert torch.equal(warp(images, shear_x(torch.zeros(len(images), dtype=torch.float64))), images)
