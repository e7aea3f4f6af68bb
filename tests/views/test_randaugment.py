"""RandAugment: each operation and level equals Pillow's, and the draws have the right distribution."""

import pytest
import torch
from torch import Tensor

from refprior.views import FlipCrop, RandAugment
from refprior.views._images import cutout, rectangle
from refprior.views._randaugment import RANDAUGMENT, apply
from tests.views.oracle import difference, from_picture, pictures, to_picture
from tests.views.pillow_randaugment import OPERATIONS


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_fourteen_operations() -> None:
    assert len(RANDAUGMENT.names) == 14
    assert set(RANDAUGMENT.names) == set(OPERATIONS)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", RANDAUGMENT.names)
def test_every_operation_and_level_equals_pillow(name: str, channels: int) -> None:
    images = pictures(channels)
    chosen = torch.full((len(images),), RANDAUGMENT.names.index(name))
    for tenths in range(1, 10):
        for sign in (-1, 1):
            draws = torch.tensor([tenths / 10, 0.2 if sign < 0 else 0.7, 0, 0], dtype=torch.float64)
            ours = apply(images, RANDAUGMENT, chosen, draws.expand(len(images), 4))
            pillow = torch.stack([from_picture(OPERATIONS[name](to_picture(i), tenths, sign)) for i in images])
            assert difference(ours, pillow) == 0, (tenths, sign)


def test_a_mixed_batch_equals_its_images_one_by_one() -> None:
    images = pictures(3)
    chosen, draws = RandAugment(probability=1.0)._draw(len(images), generator())
    together = apply(images, RANDAUGMENT, chosen, draws)
    for i in range(len(images)):
        alone = apply(images[i : i + 1], RANDAUGMENT, chosen[i : i + 1], draws[i : i + 1])
        assert torch.equal(together[i : i + 1], alone)


def chi_square(counts: Tensor, expected: Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_operations_levels_and_signs_are_drawn_as_they_should() -> None:
    n = 28_000
    chosen, draws = RandAugment()._draw(n, generator())
    counts = torch.bincount(chosen, minlength=14).double()
    expected = torch.full((14,), n / 28.0, dtype=torch.float64)  # half of them are not applied
    expected[RANDAUGMENT.names.index("identity")] += n / 2
    assert chi_square(counts, expected) < 34.5  # 13 degrees of freedom: p = 0.001
    assert set(draws[:, 0].tolist()) == {tenths / 10 for tenths in range(1, 10)}
    levels = torch.bincount((10 * draws[:, 0]).round().long(), minlength=10)
    assert levels[0] == 0
    assert chi_square(levels[1:].double(), torch.full((9,), n / 9.0)) < 26.1  # 8 degrees of freedom
    assert abs(float((draws[:, 1] < 0.5).double().mean()) - 0.5) < 0.01


def test_the_strong_view_is_the_weak_one_then_operations_then_a_gray_square() -> None:
    images = torch.full((200, 3, 32, 32), 200, dtype=torch.uint8)
    plain = RandAugment(count=0)(images, generator())
    gray = (plain == 127).all(1)
    assert torch.equal(plain[:, 0] == 127, gray)
    assert set(plain.unique().tolist()) == {127, 200}
    assert int(gray.sum((1, 2)).max()) == 16 * 16
    assert int(gray.sum((1, 2)).min()) >= 8 * 8  # cut at the border, a quarter at least remains


@pytest.mark.parametrize("size", [16, 7])
def test_a_rectangle_is_that_of_pillow(size: int) -> None:
    """Every place of the center, drawn by Pillow itself: both ends painted, pushed inside at the upper left."""
    from PIL import Image, ImageDraw

    places = torch.cartesian_prod(torch.arange(0, 32, 0.7), torch.arange(0, 32, 0.9)).double()
    images = torch.full((len(places), 1, 32, 32), 200, dtype=torch.uint8)
    found = rectangle(images, size, places[:, 0], places[:, 1])
    for (y, x), ours in zip(places.tolist(), found, strict=True):
        picture = Image.new("L", (32, 32), 200)
        left, top = int(max(0.0, x - size / 2)), int(max(0.0, y - size / 2))
        ImageDraw.Draw(picture).rectangle((left, top, min(32, left + size), min(32, top + size)), 127)
        assert torch.equal(ours, from_picture(picture)), (y, x)


def test_a_rectangle_covers_a_quarter_and_a_square_a_fifth() -> None:
    images = torch.full((20_000, 1, 32, 32), 200, dtype=torch.uint8)
    share = {
        hole: float((RandAugment(count=0, hole=hole)(images, generator()) == 127).double().mean())
        for hole in ("square", "rectangle")
    }
    assert share["rectangle"] == pytest.approx(0.246, abs=0.002)  # measured with the authors' function
    assert share["square"] == pytest.approx(0.192, abs=0.002)
    with pytest.raises(ValueError, match="hole must be 'square' or 'rectangle', got 'round'"):
        RandAugment(hole="round")  # type: ignore[arg-type]


def test_without_cutout_and_operations_the_weak_view_remains() -> None:
    images = pictures(3)
    weak = FlipCrop(pad=3)
    assert torch.equal(RandAugment(weak=weak, count=0, cutout=0)(images, generator()), weak(images, generator()))


def test_cutout_centers_are_uniform() -> None:
    images = torch.zeros(20_000, 1, 5, 4, dtype=torch.uint8)
    erased = cutout(images, 1, generator(), fill=1).double().sum((0, 1))
    assert float(erased.sum()) == 20_000
    assert chi_square(erased.flatten(), torch.full((20,), 1000.0)) < 43.8  # 19 degrees of freedom


def test_the_generator_owns_the_randomness() -> None:
    images, strong = pictures(3), RandAugment(cutout=8)
    first, second, third = (strong(images, generator(s)) for s in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert first.dtype == torch.uint8


@pytest.mark.parametrize("n", [0, 1])
def test_batches_of_none_and_one(n: int) -> None:
    images = pictures(3)[:n]
    assert RandAugment(cutout=8)(images, generator()).shape == images.shape
