"""Views by kind and shape: what recipes use, never a mirror for digits, and lengths that follow the image."""

from typing import Any

import pytest
import torch

from refprior.data import read
from refprior.data.sources._sets import KNOWN
from refprior.recipes import (
    cifar10_ssl_patches,
    cifar10_ssl_small,
    digits_ssl,
    digits_transfer,
    fashion_ssl,
    mnist_ssl,
)
from refprior.training import Recipe
from refprior.views import Distort, FlipCrop, RandAugment, Shift, default_views

RECORDED = {
    "digits": (Shift(1), Distort(degrees=15, scale=0.15, pixels=1, noise=16, cutout=2)),
    "mnist": (
        Distort(degrees=10, scale=0.1, pixels=2, noise=0, cutout=0),
        Distort(degrees=15, scale=0.15, pixels=2, noise=16, cutout=8),
    ),
    "fashion-mnist": (FlipCrop(pad=2), RandAugment(weak=FlipCrop(pad=2), cutout=10)),
    "cifar10": (FlipCrop(pad=4), RandAugment(weak=FlipCrop(pad=4), cutout=16)),
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_defaults_of_our_data_sets_are_the_views_of_the_recorded_results(name: str) -> None:
    assert default_views(KNOWN[name].kind, KNOWN[name].shape) == RECORDED[name]


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (digits_ssl(), "digits"),
        (digits_transfer(), "digits"),
        (mnist_ssl(), "mnist"),
        (fashion_ssl(), "fashion-mnist"),
        (cifar10_ssl_small(), "cifar10"),
        (cifar10_ssl_patches(), "cifar10"),
    ],
)
def test_recipes_have_the_views_of_their_recorded_results(recipe: Recipe, name: str) -> None:
    assert (recipe.weak, recipe.strong) == RECORDED[name]


def test_a_data_set_knows_its_kind() -> None:
    assert read("digits").kind == "digits"


@pytest.mark.parametrize("side", [6, 8, 15, 16, 28, 32, 64, 224])
@pytest.mark.parametrize("kind", ["digits", "photos", "objects"])
def test_views_of_every_size_take_their_images_and_only_digits_stay_unmirrored(kind: Any, side: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.zeros(40, 1, side, side, dtype=torch.uint8)
    images[:, :, :, : side // 3] = 255  # bright on the left
    weak, strong = default_views(kind, (1, side, side))
    assert strong(images, generator).shape == images.shape
    seen = weak(images, generator).float()
    mirrored = seen[..., side // 2 :].mean((1, 2, 3)) > seen[..., : side // 2].mean((1, 2, 3))
    assert bool(mirrored.any()) is (kind != "digits")


def test_lengths_are_shares_of_the_shorter_side() -> None:
    for kind in ("digits", "photos", "objects"):
        small, large = (default_views(kind, (3, s, 2 * s))[1] for s in (56, 112))
        assert isinstance(small, Distort | RandAugment)
        assert large.cutout == 2 * small.cutout  # type: ignore[attr-defined]


def test_an_unknown_kind_is_refused_with_the_choices() -> None:
    for kind in (None, "usps"):
        with pytest.raises(ValueError, match="kind must be 'digits', 'photos', 'objects', 'vectors' or 'tokens', got"):
            default_views(kind, (1, 16, 16))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["digits", "photos"])
def test_images_have_three_dimensions(kind: Any) -> None:
    with pytest.raises(ValueError, match=rf"{kind} are images .* got \(7,\): say kind='vectors'"):
        default_views(kind, (7,))


def test_vectors_and_tokens_have_views_of_their_own() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, ids = torch.randn(9, 7), torch.randint(1, 99, (9, 7))
    assert all(view(rows, generator).shape == rows.shape for view in default_views("vectors", (7,)))
    assert all(view(ids, generator).dtype == torch.int64 for view in default_views("tokens", (7,)))


def test_images_of_sixteen_pixels_move_by_two() -> None:
    weak, strong = default_views("digits", (1, 16, 16))
    assert isinstance(weak, Distort)
    assert isinstance(strong, Distort)
    assert weak.pixels == strong.pixels == 2
