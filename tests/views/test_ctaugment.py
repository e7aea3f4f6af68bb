"""CTAugment: its bank, its update rule against a loop, its draws, its state."""

import pytest
import torch
from PIL.Image import Transform
from torch import Tensor

from refprior.views import CTAugment
from refprior.views._ctaugment import BINS, CTAUGMENT, SIZES, TABLES, full_bank
from refprior.views._randaugment import apply
from tests.views.oracle import difference, from_picture, pictures, to_picture


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_nineteen_operations_and_their_bins() -> None:
    assert len(CTAUGMENT.names) == 19
    sizes = dict(zip(CTAUGMENT.names, SIZES.tolist(), strict=True))
    assert sizes["identity"] == [0, 0]
    assert sizes["posterize"] == [8, 0]
    assert sizes["rescale"] == [17, 6]
    assert [s for n, s in sizes.items() if n not in ("identity", "posterize", "rescale")] == [[17, 0]] * 16
    assert full_bank().sum() == 17 * 17 + 8 + 6


def test_the_update_equals_a_loop_over_images() -> None:
    view = CTAugment()
    for seed in range(5):
        _, policy = view.probe(pictures(3), generator(seed))
        proximity = torch.rand(len(policy.chosen), generator=generator(100 + seed))
        expected = view.rates.clone()
        for i in range(len(proximity)):
            for d in range(2):
                operation = int(policy.chosen[i, d])
                for p in range(2):
                    if SIZES[operation, p]:
                        at = operation, p, int(policy.bins[i, d, p])
                        expected[at] = 0.99 * expected[at] + 0.01 * proximity[i].double()
        view.update(policy, proximity)
        assert torch.allclose(view.rates, expected, rtol=1e-12, atol=0)
    assert int((view.rates != full_bank()).sum()) > 50


def test_weights_fall_to_zero_below_the_threshold() -> None:
    view = CTAugment()
    row = CTAUGMENT.names.index("rotate")
    view.rates[row, 0, :3] = torch.tensor([0.5, 0.79, 0.85], dtype=torch.float64)
    weights = view._weights()[row, 0]
    assert weights[:3].tolist() == pytest.approx([0.0, 0.0, 0.86 / 1.01])
    assert weights[3:].tolist() == [1.0] * 14


def test_bins_are_drawn_by_weight_and_numbers_within_their_bin() -> None:
    view = CTAugment()
    row = CTAUGMENT.names.index("rotate")
    view.rates[row, 0, 4:] = 0.1  # only the first four bins remain
    policy = view._draw(20_000, view._weights(), generator())
    mine = policy.chosen == row
    bins = policy.bins[..., 0][mine]
    counts = torch.bincount(bins, minlength=BINS).double()
    assert counts[4:].sum() == 0
    expected = counts.sum() / 4
    assert float(((counts[:4] - expected) ** 2 / expected).sum()) < 16.3  # 3 degrees of freedom: p = 0.001
    assert torch.equal((policy.draws[..., 0][mine] * BINS).floor().long(), bins)
    chosen = torch.bincount(policy.chosen.flatten(), minlength=19).double()
    assert float(((chosen - 40_000 / 19) ** 2 / (40_000 / 19)).sum()) < 42.3  # 18 degrees of freedom


def test_a_probe_draws_all_bins_whatever_the_bank_says() -> None:
    view = CTAugment(cutout=8)
    view.rates[:, :, 1:] = 0
    _, policy = view.probe(torch.zeros(5000, 1, 8, 8, dtype=torch.uint8), generator())
    mine = policy.chosen == CTAUGMENT.names.index("solarize")
    assert len(policy.bins[..., 0][mine].unique()) == BINS


def test_a_restored_bank_draws_the_same_views() -> None:
    images, view = pictures(3), CTAugment(cutout=8)
    _, policy = view.probe(images, generator())
    view.update(policy, torch.zeros(len(images)))
    state = view.state_dict()
    expected = view(images, generator(1))
    view.update(policy, torch.zeros(len(images)))
    other = CTAugment(cutout=8)
    other.load_state_dict(state)
    assert torch.equal(other(images, generator(1)), expected)
    assert not torch.equal(other.rates, view.rates)  # the saved bank is a copy
    with pytest.raises(ValueError, match=r"got \(3,\)"):
        other.load_state_dict({"rates": torch.zeros(3)})


def test_only_views_are_cut_out_unless_probes_are_asked_for() -> None:
    """Operations leave a white image white or change all of it alike, but for motions and their own cutout."""
    images = torch.full((400, 1, 32, 32), 200, dtype=torch.uint8)

    def gray(view: CTAugment, probe: bool) -> float:
        policy = view._draw(len(images), full_bank(), generator())
        still = (policy.chosen == CTAUGMENT.names.index("identity")).all(1)  # nothing but the cutout changes these
        seen = view.probe(images, generator())[0] if probe else view(images, generator())
        assert still.sum() > 0
        return float((seen[still] == 127).double().mean())

    assert gray(CTAugment(weak=_drawless, depth=1), probe=True) == 0
    assert gray(CTAugment(weak=_drawless, depth=1, probe_cutout=True), probe=True) > 0.1
    assert gray(CTAugment(weak=_drawless, depth=1), probe=False) > 0.1


def _drawless(images: Tensor, generator: torch.Generator) -> Tensor:
    """A weak view that draws nothing, so that the policy comes first from the generator."""
    return images


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("level", [0.0, 0.2, 0.5, 0.99])
def test_a_translation_is_of_a_pixel_or_of_the_side(axis: str, level: float) -> None:
    images = pictures(3)
    draws = torch.tensor([level, 0, 0, 0], dtype=torch.float64).expand(len(images), 4)
    chosen = torch.full((len(images),), CTAUGMENT.names.index(f"translate_{axis}"))
    amount = (2 * level - 1) * 0.3
    shares = int(amount * images.shape[3 if axis == "x" else 2])
    for unit, moved in (("pixels", amount), ("shares", shares)):
        row = (1, 0, moved, 0, 1, 0) if axis == "x" else (1, 0, 0, 0, 1, moved)
        pillow = [from_picture(p.transform(p.size, Transform.AFFINE, row)) for p in map(to_picture, images)]
        ours = apply(images, TABLES[unit], chosen, draws)
        assert difference(ours, torch.stack(pillow)) == 0
        assert torch.equal(ours, images) == (unit == "pixels" or shares == 0)  # 0.3 of a pixel moves none


@pytest.mark.parametrize("level", [0.0, 0.07, 0.5, 0.99])
def test_the_operation_cutout_has_an_even_side(level: float) -> None:
    images = torch.full((1, 1, 32, 32), 200, dtype=torch.uint8)
    draws = torch.tensor([[level, 0, 0.5, 0.5]], dtype=torch.float64)
    found = apply(images, CTAUGMENT, torch.tensor([CTAUGMENT.names.index("cutout")]), draws)
    size = 1 + int(level * 32 * 0.499)
    assert int((found == 127).sum()) == (2 * (size // 2)) ** 2
    assert not (found[0, 0] == 127)[: 16 - size // 2].any()  # size // 2 to either side


def test_views_keep_shape_and_type_for_gray_and_color() -> None:
    for channels in (1, 3):
        images = pictures(channels)
        seen = CTAugment(cutout=8)(images, generator())
        assert (seen.shape, seen.dtype) == (images.shape, torch.uint8)


@pytest.mark.parametrize("level", [0.0, 0.25, 0.6, 0.99])
@pytest.mark.parametrize("kind", range(6))
def test_rescale_is_pillows_crop_and_resize(level: float, kind: int) -> None:
    from PIL.Image import Resampling

    methods = (
        Resampling.LANCZOS,
        Resampling.BICUBIC,
        Resampling.BILINEAR,
        Resampling.BOX,
        Resampling.HAMMING,
        Resampling.NEAREST,
    )
    images = pictures(3)
    draws = torch.tensor([level, (kind + 0.5) / 6, 0, 0], dtype=torch.float64).expand(len(images), 4)
    chosen = torch.full((len(images),), CTAUGMENT.names.index("rescale"))
    ours = apply(images, CTAUGMENT, chosen, draws)
    share = level / 4
    height, width = images.shape[2:]
    box = (share * width, share * height, width * (1 - share), height * (1 - share))
    pillow = [from_picture(to_picture(i).crop(box).resize((width, height), methods[kind])) for i in images]
    assert difference(ours, torch.stack(pillow)) == 0
