"""Components of patches: their axes against scipy, what views do to them, and that runs save and resume them."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from safetensors.torch import load, save
from torch import Tensor

import refprior as rp
from refprior.data import Normalizer, PatchComponents
from refprior.data._patch_components import _some, agreeing_axes, agreement
from refprior.data._patches import draw_patches, even_contrast, kinds_of, responses, whitening
from refprior.methods import FixMatch, Supervised
from refprior.training import Recipe
from refprior.views import Distort, Noise, RandAugment
from tests.training.interruption import assert_same_run, interrupted_at

DIGITS = rp.data.read("digits").train.inputs
SMALL = PatchComponents(8, filters=20, size=4, cells=2, images=400, view=Distort(pixels=1, cutout=2))


def paired() -> tuple[Tensor, Tensor]:
    """Two views of 600 inputs that share the first three of their six directions."""
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(600, 3, generator=generator)
    mix = torch.randn(6, 6, generator=generator)
    first, second = (torch.cat([shared, torch.randn(600, 3, generator=generator)], 1) @ mix + 2 for _ in range(2))
    return first.double(), second.double()


def test_agreement_is_the_covariance_in_a_view_and_between_two() -> None:
    first, second = paired()
    mean, total, shared = agreement(iter([(first[:200], second[:200]), (first[200:], second[200:])]))
    a, b = ((x.double() - torch.cat([first, second]).double().mean(0)).numpy() for x in (first, second))
    assert np.allclose(mean, torch.cat([first, second]).double().mean(0), atol=1e-9)
    assert np.allclose(total, (a.T @ a + b.T @ b) / 1200, atol=1e-9)
    assert np.allclose(shared, (a.T @ b + b.T @ a) / 1200, atol=1e-9)


def test_axes_are_those_of_the_generalized_eigenproblem() -> None:
    _, total, shared = agreement(iter([paired()]))
    ridged = total + 0.3 * total.diagonal().mean() * torch.eye(6, dtype=torch.float64)
    agreed, axes = scipy.linalg.eigh(shared.numpy(), ridged.numpy())
    expected = axes[:, ::-1][:, :4] * agreed[::-1][:4].clip(min=0)
    found = agreeing_axes(total, shared, 4, ridge=0.3).numpy()
    assert np.allclose(np.abs(found), np.abs(expected), atol=1e-8)


def test_directions_that_views_share_come_first() -> None:
    first, second = paired()
    mean, total, shared = agreement(iter([(first, second)]))
    axes = agreeing_axes(total, shared, 6, ridge=1e-6)
    a, b = ((x.double() - mean) @ axes[:, :3] for x in (first, second))
    assert float((a - b).square().mean() / a.square().mean()) < 0.02
    assert float(axes[:, 3:].norm() / axes[:, :3].norm()) < 0.2  # what they do not share is taken away


def test_two_views_agree_more_on_components_that_were_fitted_with_them() -> None:
    view, generator = Distort(pixels=1, cutout=2), torch.Generator().manual_seed(1)
    first, second = view(DIGITS, generator), view(DIGITS, generator)

    def disagreement(inputs: PatchComponents) -> float:
        fitted = replace(inputs, images=len(DIGITS)).fit([DIGITS])
        return float((fitted(first) - fitted(second)).square().mean() / fitted(first).var(0).mean())

    assert disagreement(SMALL) < 0.9 * disagreement(replace(SMALL, view=None))


def test_filters_hold_contrast_whitening_and_kind_of_a_patch() -> None:
    fitted = SMALL.fit([DIGITS])
    assert fitted.filters is not None
    assert fitted.offset is not None
    assert fitted.contrast is not None
    generator = torch.Generator().manual_seed(SMALL.seed)
    some = _some([DIGITS], SMALL.images, generator)
    patches, contrast = even_contrast(draw_patches(some, 4, 100_000, generator).float())
    mean, white = whitening(patches)
    kinds = kinds_of((patches - mean) @ white, 20)
    patch = DIGITS[3, :, 2:6, 4:8].float().flatten()
    even = (patch - patch.mean()) / (patch.var(correction=0) + contrast).sqrt()
    expected = (kinds @ (white @ (even - mean)) - 1).clamp(min=0)
    found = responses(DIGITS[3:4].float(), fitted.filters, fitted.offset, fitted.contrast)[0, :, 1, 2]
    assert expected.any()
    assert torch.allclose(found, expected, atol=1e-4)


def test_fitted_numbers_are_those_of_the_seed_and_of_all_parts() -> None:
    once, again = (SMALL.fit([DIGITS[:300], DIGITS[300:]]).state_dict() for _ in range(2))
    other = replace(SMALL, seed=1).fit([DIGITS[:300], DIGITS[300:]]).state_dict()
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(once["filters"], other["filters"])
    assert not torch.equal(once["filters"], SMALL.fit([DIGITS[:300]]).state_dict()["filters"])


def test_no_more_images_are_looked_at_than_said() -> None:
    looked_at: list[int] = []

    def counting(images: Tensor, generator: torch.Generator) -> Tensor:
        looked_at.append(len(images))
        return images

    replace(SMALL, view=counting, images=300).fit([DIGITS[:500], DIGITS[500:]])
    assert looked_at == [300, 300]


def test_saved_numbers_give_the_same_components() -> None:
    fitted = replace(SMALL, scale=2.5).fit([DIGITS])
    read = Normalizer.from_tensors(load(save(fitted.state_dict())))
    assert torch.equal(read(DIGITS), fitted(DIGITS))
    assert fitted(DIGITS).square().mean().sqrt().item() == pytest.approx(2.5, rel=0.2)


@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (6, 3, 8, 8)])
def test_images_without_any_contrast_have_finite_components(shape: tuple[int, ...]) -> None:
    flat = torch.full(shape, 200, dtype=torch.uint8)
    assert torch.equal(replace(SMALL, view=None).fit([flat])(flat), torch.zeros(shape[0], 8))


def test_double_precision_stays() -> None:
    images = DIGITS[:50].double() / 255
    assert replace(SMALL, view=None).fit([images])(images).dtype == torch.float64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 81}, "20 filters in 2×2 cells are 80 features, which have no count=81 components"),
        ({"ridge": 0.0}, "ridge"),
        ({"view": Noise()}, "view must act on stored images"),
        ({"view": RandAugment}, "view must be a view such as FlipCrop"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **settings)


def test_inputs_that_have_no_such_patches_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"takes images \(channels, height, width\), got \(64,\)"):
        SMALL.fit([DIGITS.flatten(1)])
    with pytest.raises(ValueError, match="patches of 9×9 do not fit into images of 8×8"):
        replace(SMALL, size=9).fit([DIGITS])


def recipe(**changes: Any) -> Recipe:
    settings: dict[str, Any] = {
        "inputs": SMALL,
        "network": partial(rp.networks.MLP, shape=(8,), classes=10, hidden=8),
        "steps": 20,
        "evaluate_every": 10,
    }
    return replace(rp.recipes.digits_ssl(), **(settings | changes))


def test_a_recipe_with_patches_is_read_back_with_its_view() -> None:
    assert Recipe.from_json(recipe().to_json()).inputs == SMALL
    changed = rp.recipes.override(recipe(), {"inputs.view": "RandAugment", "inputs.view.cutout": "3"})
    assert changed.inputs == replace(SMALL, view=RandAugment(cutout=3))


@pytest.mark.parametrize("method", [rp.ReferencePrior(), FixMatch(), Supervised()])
def test_an_interrupted_run_ends_with_the_same_bits(method: Any, tmp_path: Path) -> None:
    wanted = recipe(method=method)
    whole = rp.train(wanted, tmp_path / "whole")
    interrupted_at(wanted, tmp_path / "parts", [10])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    predicted = rp.load(tmp_path / "parts").predictor().predict_proba(DIGITS)
    assert np.array_equal(predicted, whole.predictor().predict_proba(DIGITS))
