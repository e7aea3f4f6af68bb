"""Views of vectors: how often and how far they change a number, and where."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from refprior.data import Standardize, task_from_arrays
from refprior.networks import MLP
from refprior.training import train
from refprior.training.loop._draw import see
from refprior.views import Corrupt, Dropout, MixFeatures, Noise, SwapNoise
from tests.training.recipes import perceptron

VIEWS = [Dropout(0.3), Noise(0.3), Corrupt(0.3, 0.3), MixFeatures(0.3), SwapNoise(0.3)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vectors(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=generator(9)).to(dtype)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("shape", [(40, 6), (40, 5, 3), (1, 6), (40, 1, 8, 8)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_shape_type_and_input_stay_as_they_are(view: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    inputs = vectors(*shape, dtype=dtype)
    before = inputs.clone()
    seen = view(inputs, generator())
    assert (seen.shape, seen.dtype) == (inputs.shape, dtype)
    assert torch.equal(inputs, before)


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_the_seed_decides(view: Any) -> None:
    inputs = vectors(40, 6)
    one, same, other = (view(inputs, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("view", [Dropout(0.3), SwapNoise(0.3)], ids=str)
def test_numbers_are_changed_at_the_rate_in_every_row_and_feature(view: Any) -> None:
    inputs = vectors(1000, 50)
    changed = (view(inputs, generator()) != inputs).double()
    assert changed.mean().item() == pytest.approx(0.3, abs=0.007)  # three standard deviations
    assert changed.mean(0).sub(0.3).abs().max() < 4.5 * (0.21 / 1000) ** 0.5
    assert changed.mean(1).sub(0.3).abs().max() < 4.5 * (0.21 / 50) ** 0.5


def test_corrupt_is_dropout_and_then_noise() -> None:
    inputs, drawn = vectors(100, 20), generator()
    assert torch.equal(Corrupt(0.3, 0.5)(inputs, generator()), Noise(0.5)(Dropout(0.3)(inputs, drawn), drawn))


def test_mixed_inputs_lie_between_two_of_the_batch_nearer_to_themselves() -> None:
    inputs = vectors(50, 6)
    seen = MixFeatures(0.4)(inputs, generator())
    shares = []
    for x, mixed in zip(inputs, seen, strict=True):
        along = inputs - x
        share = ((mixed - x) * along).sum(1) / along.square().sum(1).clamp_min(1e-12)  # toward each of the others
        away = (mixed - x - share[:, None] * along).norm(dim=1)
        shares.append(share[away.argmin()].item())
        assert away.min() < 1e-5
    assert max(shares) <= 0.4
    assert np.mean(shares) == pytest.approx(0.2, abs=0.06)
    assert torch.equal(MixFeatures(0.0)(inputs, generator()), inputs)


def test_dropped_numbers_are_zero() -> None:
    inputs = vectors(100, 20)
    seen = Dropout(0.3)(inputs, generator())
    assert set(seen[seen != inputs].tolist()) == {0.0}
    assert not Dropout(1)(inputs, generator()).any()
    assert torch.equal(Dropout(0)(inputs, generator()), inputs)


def test_noise_is_normal_with_its_scale() -> None:
    drawn = Noise(0.3)(vectors(1000, 50), generator()) - vectors(1000, 50)
    assert drawn.mean().item() == pytest.approx(0, abs=0.004)
    assert drawn.std().item() == pytest.approx(0.3, abs=0.003)
    assert (drawn.abs() < 0.3).double().mean().item() == pytest.approx(0.6827, abs=0.007)


def test_swapped_numbers_are_those_of_the_same_feature_of_all_other_rows_alike() -> None:
    rows = torch.arange(5)[:, None] + 100 * torch.arange(8000)  # row + 100 · feature
    swapped = SwapNoise(1)(rows, generator())
    assert torch.equal(swapped // 100, rows // 100)
    assert not (swapped == rows).any()
    counts = torch.stack([(swapped[0] % 100 == r).sum() for r in range(1, 5)]).double()
    assert ((counts - 2000) ** 2 / 2000).sum() < 16.3  # χ² with 3 degrees of freedom: p = 0.001


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dropout(1.1), r"rate must be at least 0 and at most 1, got 1\.1"),
        (lambda: SwapNoise(-0.1), r"rate must be at least 0 and at most 1, got -0\.1"),
        (lambda: Noise(-1), "scale must be at least 0, got -1"),
        (lambda: Noise("0.1"), "scale must be at least 0, got '0.1'"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_noise_and_dropout_act_on_what_the_network_sees() -> None:
    """A feature in thousands gets as much noise as one in thousandths, relative to its spread."""
    rows = torch.randn(2000, 2, generator=generator()) * torch.tensor([1e4, 1e-4]) + torch.tensor([1e5, 7.0])
    normalizer = Standardize().fit([rows])
    drawn = see(Noise(0.5), rows, normalizer, generator()) - normalizer(rows)
    assert torch.allclose(drawn.std(0), torch.full((2,), 0.5), atol=0.03)
    dropped = see(Dropout(1), rows, normalizer, generator())
    assert not dropped.any()
    swapped = see(SwapNoise(1), rows, normalizer, generator())
    assert torch.isin(swapped[:, 0], normalizer(rows)[:, 0]).all()


@pytest.mark.parametrize("kind", [np.float64, np.int64])
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_table_trains_with_each(view: Any, kind: type) -> None:
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    rows: np.ndarray = (random.normal(0, 10, (200, 5)) + 40 * labels[:, None]).astype(kind)
    task = task_from_arrays((rows[:8], labels[:8]), rows[8:150], (rows[150:], labels[150:]))
    run = train(perceptron(task=task, network=partial(MLP, (5,), 2), weak=view, strong=view, steps=30))
    assert run.evaluate().accuracy > 0.9


def test_a_view_of_images_says_that_it_does_not_take_vectors() -> None:
    rows = np.zeros((30, 5), np.uint8)
    task = task_from_arrays((rows, np.arange(30) % 2), rows)
    with pytest.raises(ValueError, match=r"the weak view does not take inputs of \(5,\)"):
        train(perceptron(task=task, network=partial(MLP, (5,), 2)))
