"""Principal components as inputs: their variances, against scikit-learn's, and where there is nothing to divide by."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from refprior.data._components import principal_axes
from refprior.data._task import Task, task_from_arrays

RANDOM = np.random.RandomState(0)
IMAGES = (RANDOM.randn(2500, 6) @ RANDOM.randn(6, 12) * 20 + 100).clip(0, 255).astype(np.uint8).reshape(2500, 1, 3, 4)


def task(**changes: object) -> Task:
    labels = np.arange(2500) % 2
    made = task_from_arrays((IMAGES[:10], labels[:10]), IMAGES[10:2000], (IMAGES[2000:], labels[2000:]))
    return replace(made, **changes)  # type: ignore[arg-type]


def test_components_are_those_of_scikit_learn_up_to_sign_and_scale() -> None:
    known = PCA(4).fit(IMAGES[:2000].reshape(2000, -1).astype(np.float64))
    ours = task(components=4, whitening=0.0).normalise(torch.from_numpy(IMAGES[2000:])).numpy()
    theirs = known.transform(IMAGES[2000:].reshape(500, -1).astype(np.float64)) / np.sqrt(known.explained_variance_[0])
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=2e-3)


@pytest.mark.parametrize("whitening", [0.0, 0.25, 1.0])
def test_standard_deviations_are_a_power_of_the_first(whitening: float) -> None:
    made = task(components=5, whitening=whitening, scale=2.0)
    inputs = made.normalise(torch.cat([made.labelled.images, made.unlabelled]))
    variances = PCA(5).fit(IMAGES[:2000].reshape(2000, -1).astype(np.float64)).explained_variance_
    wanted = 2.0 * (variances / variances[0]) ** ((1 - whitening) / 2)
    assert inputs.shape == (2000, 5)
    assert np.allclose(inputs.mean(0), 0, atol=1e-4)
    assert np.allclose(inputs.std(0, correction=0), wanted, rtol=1e-3)


def test_images_of_the_test_part_do_not_move_the_axes() -> None:
    made = task(components=3)
    other = replace(made, test=replace(made.test, images=255 - made.test.images))
    assert torch.equal(made.axes, other.axes)  # type: ignore[arg-type]


def test_an_axis_has_one_sign() -> None:
    axes = task(components=5).axes
    assert axes is not None
    assert (axes.gather(0, axes.abs().argmax(0, keepdim=True)) > 0).all()


def test_pixels_that_never_change_add_nothing() -> None:
    flat = torch.full((50, 1, 2, 2), 7, dtype=torch.uint8)
    flat[::2, 0, 0, 0] = 9
    mean, axes = principal_axes([flat[:0], flat], 4, 1.0)
    inputs = (flat.float() - mean).flatten(1) @ axes
    assert torch.isfinite(inputs).all()
    assert torch.allclose(inputs.std(0, correction=0), torch.tensor([1.0, 0, 0, 0]), atol=1e-6)
    assert not principal_axes([torch.full_like(flat, 7)], 4, 0.5)[1].any()


def test_units_of_the_images_do_not_matter() -> None:
    images = torch.from_numpy(IMAGES[:500]).double()
    large, small = (principal_axes([images * unit], 6, 0.5)[1] * unit for unit in (1.0, 1e-5))
    torch.testing.assert_close(large, small)


def test_what_cannot_be_is_refused_with_numbers() -> None:
    with pytest.raises(ValueError, match="1 to 12 for images of 12 pixels, got 13"):
        task(components=13)
    with pytest.raises(ValueError, match=r"whitening must be between 0 and 1, got 1\.5"):
        task(components=3, whitening=1.5)
