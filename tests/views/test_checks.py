"""Every view refuses settings outside their range and images that it would spoil, and takes an empty batch."""

from collections.abc import Callable

import pytest
import torch

from refprior.views import CTAugment, Distort, FlipCrop, RandAugment, Shift, View
from tests.views.oracle import pictures

BAD: list[tuple[Callable[..., View], dict[str, float], str]] = [
    (RandAugment, {"levels": 1}, "levels must be at least 2, got 1"),
    (RandAugment, {"count": -1}, "count must be at least 0, got -1"),
    (RandAugment, {"probability": 2}, "probability must be within 0 … 1, got 2"),
    (RandAugment, {"probability": float("nan")}, "probability must be within 0 … 1, got nan"),
    (RandAugment, {"cutout": -1}, "cutout must be at least 0, got -1"),
    (RandAugment, {"fill": 256}, "fill must be within 0 … 255, got 256"),
    (CTAugment, {"depth": 0}, "depth must be at least 1, got 0"),
    (CTAugment, {"threshold": 1.1}, "threshold must be within 0 … 1, got 1.1"),
    (CTAugment, {"decay": -0.5}, "decay must be within 0 … 1, got -0.5"),
    (CTAugment, {"cutout": -1}, "cutout must be at least 0, got -1"),
    (FlipCrop, {"pad": -1}, "pad must be at least 0, got -1"),
    (Shift, {"pixels": -1}, "pixels must be at least 0, got -1"),
]


@pytest.mark.parametrize(("make", "settings", "message"), BAD)
def test_settings_out_of_range_are_refused_by_name(
    make: Callable[..., View], settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)


STRONG = [Distort(), RandAugment(cutout=8), CTAugment(cutout=8)]


@pytest.mark.parametrize("view", STRONG, ids=lambda view: type(view).__name__)
def test_strong_views_refuse_floats(view: View) -> None:
    with pytest.raises(ValueError, match=r"this view takes uint8 images of 0 … 255, got torch.float32"):
        view(pictures(1) / 255, torch.Generator())


def test_a_probe_refuses_floats() -> None:
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
