"""Every view refuses settings outside their range and images that it would spoil, and takes an empty batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from refprior.views import CTAugment, Distort, FlipCrop, RandAugment, Shift, View
from tests.views.oracle import pictures

BAD: list[tuple[Callable[..., View], dict[str, Any], str]] = [
    (RandAugment, {"levels": 1}, "levels must be a whole number of at least 2, got 1"),
    (RandAugment, {"count": -1}, "count must be a whole number of at least 0, got -1"),
    (RandAugment, {"probability": 2}, "probability must be at least 0 and at most 1, got 2"),
    (RandAugment, {"probability": float("nan")}, "probability must be at least 0 and at most 1, got nan"),
    (RandAugment, {"cutout": -1}, "cutout must be a whole number of at least 0, got -1"),
    (RandAugment, {"fill": 256}, "fill must be a whole number of at least 0 and at most 255, got 256"),
    (CTAugment, {"depth": 0}, "depth must be a whole number of at least 1, got 0"),
    (CTAugment, {"threshold": 1.1}, "threshold must be at least 0 and at most 1, got 1.1"),
    (CTAugment, {"decay": -0.5}, "decay must be at least 0 and at most 1, got -0.5"),
    (CTAugment, {"cutout": -1}, "cutout must be a whole number of at least 0, got -1"),
    (FlipCrop, {"pad": -1}, "pad must be a whole number of at least 0, got -1"),
    (RandAugment, {"cutout": "8"}, "cutout must be a whole number of at least 0, got '8'"),
    (RandAugment, {"probability": "half"}, "probability must be at least 0 and at most 1, got 'half'"),
    (RandAugment, {"weak": "FlipCrop"}, r"weak must be a view such as FlipCrop\(\), got 'FlipCrop'"),
    (RandAugment, {"weak": FlipCrop}, r"weak must be a view such as FlipCrop\(\), got <class"),
    (CTAugment, {"depth": 1.5}, "depth must be a whole number of at least 1, got 1.5"),
    (FlipCrop, {"pad": 1.5}, "pad must be a whole number of at least 0, got 1.5"),
    (FlipCrop, {"flip": "no"}, "flip must be True or False, got 'no'"),
    (Distort, {"degrees": "15"}, "degrees must be at least 0, got '15'"),
    (Distort, {"scale": 1}, "scale must be at least 0 and below 1, got 1"),
    (Distort, {"cutout": 2.5}, "cutout must be a whole number of at least 0, got 2.5"),
    (Shift, {"pixels": -1}, "pixels must be a whole number of at least 0, got -1"),
]


@pytest.mark.parametrize(("make", "settings", "message"), BAD)
def test_settings_out_of_range_are_rejected_by_name(
    make: Callable[..., View], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)


STRONG = [Distort(), RandAugment(cutout=8), CTAugment(cutout=8)]


@pytest.mark.parametrize("view", STRONG, ids=lambda view: type(view).__name__)
def test_strong_views_refuse_floats(view: View) -> None:
    with pytest.raises(ValueError, match=r"this view takes uint8 images of 0 … 255, got torch.float32"):
        view(pictures(1) / 255, torch.Generator())


@pytest.mark.parametrize("make", [Distort, RandAugment, CTAugment])
def test_a_cutout_larger_than_the_images_is_rejected(make: Callable[..., View]) -> None:
    make(cutout=20)(pictures(1), torch.Generator())
    with pytest.raises(ValueError, match="a cutout of 21 pixels does not fit into images of 20×24: lower cutout"):
        make(cutout=21)(pictures(1), torch.Generator())


def test_a_probe_rejects_floats() -> None:
    with pytest.raises(ValueError, match=r"this view takes uint8 images of 0 … 255, got torch.float32"):
        CTAugment().probe(pictures(3) / 255, torch.Generator())


@pytest.mark.parametrize("view", [Shift(), FlipCrop(), *STRONG], ids=lambda view: type(view).__name__)
def test_an_empty_batch_stays_one(view: View) -> None:
    seen = view(pictures(3)[:0], torch.Generator())
    assert (seen.shape, seen.dtype) == ((0, 3, 20, 24), torch.uint8)


def test_an_empty_probe_changes_no_bank() -> None:
    view = CTAugment()
    _, policy = view.probe(pictures(3)[:0], torch.Generator())
    before = view.rates.clone()
    view.update(policy, torch.empty(0))
    assert torch.equal(view.rates, before)
