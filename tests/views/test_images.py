"""Flips and crops."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from refprior.views import FlipCrop, Shift, Unchanged
from refprior.views._images import add_noise, cutout


def images(n: int, height: int = 9, width: int = 11) -> torch.Tensor:
    return torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def crops(image: np.ndarray, pad: int) -> dict[bytes, tuple[int, int, bool]]:
    """Every view that there can be, by numpy's reflecting pad: content -> (row, column, mirrored)."""
    height, width = image.shape[1:]
    views = {}
    for mirrored in (False, True):
        padded = np.pad(image[:, :, ::-1] if mirrored else image, ((0, 0), (pad, pad), (pad, pad)), mode="reflect")
        for row in range(2 * pad + 1):
            for column in range(2 * pad + 1):
                view = padded[:, row : row + height, column : column + width]
                views[np.ascontiguousarray(view).tobytes()] = (row, column, mirrored)
    return views


def test_each_view_is_a_crop_of_the_reflected_image_and_all_are_drawn_alike() -> None:
    image = images(1)
    views = crops(image[0].numpy(), pad=2)
    assert len(views) == 50
    drawn = FlipCrop(pad=2)(image.expand(5000, -1, -1, -1), torch.Generator().manual_seed(0))
    found = [views[v.numpy().tobytes()] for v in drawn]  # a KeyError is a view that cannot be
    counts = np.array([found.count(v) for v in views.values()])
    assert ((counts - 100) ** 2 / 100).sum() < 85.4  # χ² with 49 degrees of freedom: p = 0.001


def test_images_of_a_batch_are_seen_alone() -> None:
    batch = images(40)
    drawn = FlipCrop(pad=2)(batch, torch.Generator().manual_seed(0))
    assert all(v.numpy().tobytes() in crops(i.numpy(), 2) for i, v in zip(batch, drawn, strict=True))


def test_without_flip_and_pad_nothing_changes() -> None:
    batch = images(10)
    assert torch.equal(FlipCrop(pad=0, flip=False)(batch, torch.Generator()), batch)


def test_unchanged_hands_images_on_and_draws_nothing() -> None:
    batch, generator = images(10), torch.Generator().manual_seed(0)
    state = generator.get_state()
    assert Unchanged()(batch, generator) is batch
    assert torch.equal(generator.get_state(), state)
    assert Unchanged() == Unchanged()


def test_the_generator_owns_the_randomness() -> None:
    batch, weak = images(20), FlipCrop()
    first, second, third = (weak(batch, torch.Generator().manual_seed(s)) for s in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_a_shift_as_wide_as_the_image_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot move images of 8×8 by 1000000 pixels"):
        Shift(10**6)(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator())


def test_a_pad_as_wide_as_the_image_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot reflect 9 pixels of images of 9×11"):
        FlipCrop(pad=9)(images(1), torch.Generator())


@pytest.mark.parametrize("view", [add_noise, cutout])
def test_noise_and_cutout_of_nothing_draw_nothing(view: Callable[..., torch.Tensor]) -> None:
    """Millions of normal numbers that nobody sees would take a tenth of a small network's training."""
    zero, fresh = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    assert torch.equal(view(images(5), 0, zero), images(5))
    assert torch.equal(zero.get_state(), fresh.get_state())
    assert not torch.equal(view(images(5), 3, zero), images(5))
