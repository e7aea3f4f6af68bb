"""Operations and motions against Pillow's, on noise, on smooth and on degenerate images, gray and color."""

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageChops, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor

from refprior.views import _operations as operations
from refprior.views._images import erase
from refprior.views._operations import rotate, shear_x, shear_y, translate_x, translate_y, warp
from tests.views.oracle import Oracle, Picture, by_pillow, difference, pictures

FACTORS = [0.05, 0.14, 0.5, 0.77, 0.95, 1.0, 1.3, 2.0]


ENHANCERS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Oracle]] = {
    "brightness": (operations.brightness, lambda p, m: ImageEnhance.Brightness(p).enhance(m)),
    "color": (operations.color, lambda p, m: ImageEnhance.Color(p).enhance(m)),
    "contrast": (operations.contrast, lambda p, m: ImageEnhance.Contrast(p).enhance(m)),
    "sharpness": (operations.sharpness, lambda p, m: ImageEnhance.Sharpness(p).enhance(m)),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ENHANCERS)
def test_enhancers_equal_pillow(name: str, channels: int) -> None:
    ours, pillow = ENHANCERS[name]
    images = pictures(channels)
    for factor in FACTORS:
        factors = torch.full((len(images),), factor, dtype=torch.float64)
        assert difference(ours(images, factors), by_pillow(images, pillow, factors)) == 0


PLAIN: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Picture], Picture]]] = {
    "autocontrast": (operations.autocontrast, ImageOps.autocontrast),
    "equalize": (operations.equalize, ImageOps.equalize),
    "invert": (operations.invert, ImageOps.invert),
    "smooth": (operations.smooth, lambda p: p.filter(ImageFilter.SMOOTH)),
    "blur": (operations.blur, lambda p: p.filter(ImageFilter.BLUR)),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", PLAIN)
def test_operations_without_magnitude_equal_pillow(name: str, channels: int) -> None:
    ours, pillow = PLAIN[name]
    images = pictures(channels)
    expected = by_pillow(images, lambda p, _: pillow(p), torch.zeros(len(images)))
    assert difference(ours(images), expected) == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_posterize_and_solarize_equal_pillow(channels: int) -> None:
    images = pictures(channels)
    bits = torch.arange(len(images)) % 8 + 1
    expected = by_pillow(images, lambda p, m: ImageOps.posterize(p, int(m)), bits)
    assert difference(operations.posterize(images, bits), expected) == 0
    threshold = torch.linspace(0, 256, len(images)).round()
    expected = by_pillow(images, lambda p, m: ImageOps.solarize(p, int(m)), threshold)
    assert difference(operations.solarize(images, threshold), expected) == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.71, 1.0])
def test_blend_equals_pillow(share: float) -> None:
    images = pictures(3)
    shares = torch.full((len(images),), share)
    expected = by_pillow(images, lambda p, m: Image.blend(p, ImageChops.invert(p), m), shares)
    assert difference(operations.blend(images, 255 - images, shares), expected) == 0


def test_magnitudes_belong_to_their_own_image() -> None:
    images = pictures(3)
    factors = torch.linspace(0, 2, len(images), dtype=torch.float64)
    together = operations.contrast(images, factors)
    alone = torch.cat([operations.contrast(images[i : i + 1], factors[i : i + 1]) for i in range(len(images))])
    assert torch.equal(together, alone)


def test_erase_paints_a_square_and_nothing_else() -> None:
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    size, row, column = torch.tensor([4, 4]), torch.tensor([4, 0]), torch.tensor([4, 7])
    erased = erase(images, size, row, column, fill=127)
    expected = images.clone()
    expected[0, :, 2:6, 2:6] = 127
    expected[1, :, 0:2, 5:8] = 127  # cut at the border
    assert torch.equal(erased, expected)


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
