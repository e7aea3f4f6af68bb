"""Inputs of networks: statistics of training images, components against scikit-learn's, and what there is to save."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from refprior.data import Identity, Normalizer, PrincipalComponents, Standardize, Task, task_from_arrays
from refprior.data._normalize import principal_axes

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randint(0, 256, (3000, 3, 5, 4)).astype(np.uint8)
LABELS = np.arange(3000) % 3
MIXED = (RANDOM.randn(2500, 6) @ RANDOM.randn(6, 12) * 20 + 100).clip(0, 255).astype(np.uint8).reshape(2500, 1, 3, 4)
FLAT = np.full((6, 1, 2, 2), 200, dtype=np.uint8)


def task(**changes: object) -> Task:
    parts: dict[str, object] = {
        "labeled": (IMAGES[:6], LABELS[:6]),
        "unlabeled": IMAGES[6:2900],
        "test": (IMAGES[2900:] // 2, LABELS[2900:]),
    }
    return task_from_arrays(**(parts | changes))  # type: ignore[arg-type]


def mixed() -> Task:
    """Images of 12 pixels that vary along six directions."""
    labels = np.arange(2500) % 2
    return task_from_arrays((MIXED[:10], labels[:10]), MIXED[10:2000], (MIXED[2000:], labels[2000:]))


def flat() -> Task:
    return task(labeled=(FLAT, LABELS[:6]), unlabeled=FLAT, test=(FLAT, LABELS[:6]))


def test_statistics_are_those_of_labeled_and_unlabeled_images() -> None:
    seen, fitted = IMAGES[:2900].astype(np.float64), Standardize().fit(task().training_inputs)
    assert fitted.std is not None
    assert fitted.mean.shape == fitted.std.shape == (3, 1, 1)
    assert np.allclose(fitted.mean.flatten(), seen.mean((0, 2, 3)), rtol=1e-6)
    assert np.allclose(fitted.std.flatten(), seen.std((0, 2, 3)), rtol=1e-6)


def test_images_of_a_source_count_as_all_that_are_trained_with() -> None:
    def level(value: int) -> Task:
        images, labels = np.full((6, 1, 4, 4), value, np.uint8), np.arange(6) % 2
        return task_from_arrays((images, labels), images, (images, labels))

    both = level(40).with_source(level(10))
    mean = Standardize().fit(both.training_inputs).mean.item()
    assert mean == pytest.approx((6 * 10 + 12 * 40) / 18)  # six source, six labeled, six unlabeled images


def test_normalized_training_images_have_mean_0_and_variance_1() -> None:
    normal = Standardize().fit(task().training_inputs)(torch.from_numpy(IMAGES[:2900]))
    assert normal.dtype == torch.float32
    assert torch.allclose(normal.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(normal.std((0, 2, 3)), torch.ones(3), atol=1e-3)


def test_normalized_images_may_be_scaled() -> None:
    normal = Standardize(scale=0.25).fit(task().training_inputs)(torch.from_numpy(IMAGES[:2900]))
    assert torch.allclose(normal.std((0, 2, 3)), torch.full((3,), 0.25), atol=1e-3)


def test_a_constant_channel_does_not_divide_by_zero() -> None:
    fitted = Standardize().fit(flat().training_inputs)
    assert torch.equal(fitted(torch.from_numpy(FLAT)), torch.zeros(6, 1, 2, 2))


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_an_empty_pool_adds_nothing(kind: type) -> None:
    images: np.ndarray = IMAGES.astype(kind)
    made = task(labeled=(images[:6], LABELS[:6]), unlabeled=images[:0], test=(images[6:9], LABELS[6:9]))
    mean = Standardize().fit(made.training_inputs).mean.flatten()
    assert np.allclose(mean, IMAGES[:6].mean((0, 2, 3)), rtol=1e-6)


def test_by_pixel_the_mean_image_is_taken_away() -> None:
    """Mean 0 at every pixel, and variance 1 per channel over what is left."""
    shaded = (IMAGES // 4 + 40 * (np.arange(20).reshape(5, 4) % 5)).astype(np.uint8)
    made = task(labeled=(shaded[:6], LABELS[:6]), unlabeled=shaded[6:2900])
    normal = Standardize(center="pixel").fit(made.training_inputs)(torch.from_numpy(shaded[:2900]))
    torch.testing.assert_close(normal.mean(0), torch.zeros(3, 5, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(normal.square().mean((0, 2, 3)), torch.ones(3), atol=1e-4, rtol=0)
    still = Standardize(center="pixel").fit(flat().training_inputs)
    assert torch.equal(still(torch.from_numpy(FLAT)), torch.zeros(6, 1, 2, 2))


def test_components_are_those_of_scikit_learn_up_to_sign_and_scale() -> None:
    known = PCA(4).fit(MIXED[:2000].reshape(2000, -1).astype(np.float64))
    fitted = PrincipalComponents(4, whitening=0.0).fit(mixed().training_inputs)
    ours = fitted(torch.from_numpy(MIXED[2000:])).numpy()
    theirs = known.transform(MIXED[2000:].reshape(500, -1).astype(np.float64)) / np.sqrt(known.explained_variance_[0])
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=2e-3)


def features() -> Task:
    """Features of 9 numbers, of very different lengths."""
    random = np.random.RandomState(1)
    values = random.randn(1200, 9) @ random.randn(9, 9) * random.gamma(1, 5, (1200, 1)) + 1
    labels = np.arange(1200) % 2
    return task_from_arrays((values[:10], labels[:10]), values[10:])


def test_directions_are_projected_without_whitening_at_one_scale() -> None:
    parts = features().training_inputs
    values = torch.cat(parts).double().numpy()
    directions = values / np.linalg.norm(values, axis=1, keepdims=True)
    known = PCA(4).fit(directions)
    inputs = PrincipalComponents(4, whitening=0, scale=3.0, unit_length=True).fit(parts)
    ours, theirs = inputs(torch.cat(parts)).numpy(), known.transform(directions)
    first = np.sqrt(known.explained_variance_[0] * 1199 / 1200)
    assert np.allclose(np.abs(ours), np.abs(theirs) * 3 / first, atol=1e-4)
    assert torch.allclose(inputs(torch.cat(parts)), inputs(7 * torch.cat(parts)), atol=1e-5)
    assert inputs(torch.zeros(1, 9)).isfinite().all()


@pytest.mark.parametrize("whitening", [0, 0.5, 1])
def test_all_components_together_have_the_scale(whitening: float) -> None:
    torch.manual_seed(0)
    vectors = torch.randn(500, 12) * torch.logspace(0, 3, 12)
    inputs = PrincipalComponents(8, whitening=whitening, scale=2.0, scaled="all").fit([vectors])(vectors)
    first = PrincipalComponents(8, whitening=whitening).fit([vectors])(vectors)
    assert inputs.square().mean().sqrt().item() == pytest.approx(2.0, rel=1e-4)
    torch.testing.assert_close(inputs / inputs[:, :1], first / first[:, :1])  # one factor for all


def test_standardized_features_have_no_units() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(500, 6) @ torch.randn(6, 6)
    vectors[:, 5] = 3.0  # constant
    units = torch.tensor([1.0, 1e-3, 1e3, 10.0, 1.0, 1.0])
    inputs = PrincipalComponents(5, whitening=0, standardize=True)
    one, other = (inputs.fit([v])(v) for v in (vectors, vectors * units))
    torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
    known = PCA(5).fit_transform(StandardScaler().fit_transform(vectors.numpy()))
    scaled = np.abs(known / known[:, 0].std())
    assert np.allclose(np.abs(one.numpy()), scaled, atol=1e-3)
    with pytest.raises(ValueError, match="standardize and unit_length cannot be combined"):
        PrincipalComponents(standardize=True, unit_length=True)


def test_what_does_not_vary_stays_zero() -> None:
    vectors = torch.ones(5, 3)
    assert not PrincipalComponents(2, scaled="all").fit([vectors])(vectors).any()


@pytest.mark.parametrize("whitening", [0.0, 0.25, 1.0])
def test_standard_deviations_are_a_power_of_the_first(whitening: float) -> None:
    parts = mixed().training_inputs
    inputs = PrincipalComponents(5, whitening=whitening, scale=2.0).fit(parts)(torch.cat(parts))
    variances = PCA(5).fit(MIXED[:2000].reshape(2000, -1).astype(np.float64)).explained_variance_
    wanted = 2.0 * (variances / variances[0]) ** ((1 - whitening) / 2)
    assert inputs.shape == (2000, 5)
    assert np.allclose(inputs.mean(0), 0, atol=1e-4)
    assert np.allclose(inputs.std(0, correction=0), wanted, rtol=1e-3)


@pytest.mark.parametrize("inputs", [PrincipalComponents(3), Standardize(), Standardize(center="pixel")], ids=str)
def test_images_of_the_test_part_move_nothing(inputs: PrincipalComponents | Standardize) -> None:
    made = mixed()
    other = replace(made, test=replace(made.held_out, inputs=255 - made.held_out.inputs))
    first, second = (inputs.fit(one.training_inputs).state_dict() for one in (made, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_an_axis_has_one_sign() -> None:
    axes = PrincipalComponents(5).fit(mixed().training_inputs).axes
    assert axes is not None
    assert (axes.gather(0, axes.abs().argmax(0, keepdim=True)) > 0).all()


def test_pixels_that_never_change_add_nothing() -> None:
    still = torch.full((50, 1, 2, 2), 7, dtype=torch.uint8)
    still[::2, 0, 0, 0] = 9
    mean, axes, _ = principal_axes([still[:0], still], 4, 1.0)
    inputs = (still.float() - mean).flatten(1) @ axes
    assert torch.isfinite(inputs).all()
    assert torch.allclose(inputs.std(0, correction=0), torch.tensor([1.0, 0, 0, 0]), atol=1e-6)
    assert not principal_axes([torch.full_like(still, 7)], 4, 0.5)[1].any()


def test_units_of_the_images_do_not_matter() -> None:
    images = torch.from_numpy(MIXED[:500]).double()
    large, small = (principal_axes([images * unit], 6, 0.5)[1] * unit for unit in (1.0, 1e-5))
    torch.testing.assert_close(large, small)


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize(
    "inputs",
    [
        Standardize(),
        Standardize("pixel", 0.5),
        PrincipalComponents(7, scale=0.5),
        PrincipalComponents(7, 0, unit_length=True),
        Identity(),
    ],
    ids=str,
)
def test_a_saved_normalizer_gives_the_same_bits(inputs: Any, kind: type) -> None:
    images = torch.from_numpy(MIXED.astype(kind))
    fitted = inputs.fit([images[:2000]])
    saved = load(save({name: tensor.contiguous() for name, tensor in fitted.state_dict().items()}))
    restored = Normalizer.from_tensors(saved)
    assert restored.state_dict().keys() == fitted.state_dict().keys()
    assert torch.equal(restored(images), fitted(images))
    assert restored(images).dtype == (torch.float64 if kind is np.float64 else torch.float32)


def test_identity_hands_images_on_as_floats() -> None:
    images = torch.from_numpy(IMAGES[:5])
    assert torch.equal(Identity().fit([images])(images), images.float())


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (Standardize, {"scale": 0}, "scale must be above 0, got 0"),
    (Standardize, {"center": "foo"}, "center must be 'channel' or 'pixel', got 'foo'"),
    (PrincipalComponents, {"count": 0}, "count must be a whole number of at least 1, got 0"),
    (PrincipalComponents, {"whitening": 1.5}, r"whitening must be at least 0 and at most 1, got 1\.5"),
    (PrincipalComponents, {"scale": -1.0}, r"scale must be above 0, got -1\.0"),
]


@pytest.mark.parametrize(("inputs", "settings", "message"), BAD)
def test_bad_settings_are_refused_in_words(inputs: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inputs(**settings)


def test_more_components_than_pixels_are_refused_with_numbers() -> None:
    with pytest.raises(ValueError, match="inputs of 12 numbers have at most 12 components, got count=13"):
        PrincipalComponents(13).fit(mixed().training_inputs)
