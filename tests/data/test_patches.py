"""Features of patches: against plain loops over patches, in numpy, and what k-means, whitening and cells promise."""

import numpy as np
import pytest
import torch

from refprior.data._patches import cell_shares, draw_patches, even_contrast, kinds_of, patch_features, whitening

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randint(0, 256, (37, 3, 12, 10)).astype(np.uint8)  # more than one block
FILTERS, OFFSET = RANDOM.randn(5, 3, 4, 4), RANDOM.rand(5)
CONTRAST = 900.0


def plain_features(image: np.ndarray, cells: int) -> np.ndarray:
    """One patch after another; every patch covers a rectangle of the unit square: (c, h, w) -> (F g²,)."""
    filters = FILTERS - FILTERS.mean((1, 2, 3), keepdims=True)
    rows, columns = range(0, 12 - 4 + 1, 2), range(0, 10 - 4 + 1, 2)
    sums = np.zeros((5, cells, cells))
    for i, top in enumerate(rows):
        for j, left in enumerate(columns):
            patch = image[:, top : top + 4, left : left + 4].astype(np.float64)
            even = (patch - patch.mean()) / np.sqrt(patch.var() + CONTRAST)
            response = np.maximum(0, (filters * even).sum((1, 2, 3)) - OFFSET)
            for a in range(cells):
                for b in range(cells):
                    sums[:, a, b] += response * overlap(i, len(rows), a, cells) * overlap(j, len(columns), b, cells)
    return np.sqrt(sums).flatten()


def overlap(place: int, places: int, cell: int, cells: int) -> float:
    ends = min((place + 1) / places, (cell + 1) / cells) - max(place / places, cell / cells)
    return max(0.0, ends) * cells


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_features_are_those_of_a_loop_over_patches(cells: int) -> None:
    centered = FILTERS - FILTERS.mean((1, 2, 3), keepdims=True)
    fitted = (torch.from_numpy(centered), torch.from_numpy(OFFSET), torch.tensor(CONTRAST, dtype=torch.float64))
    found = patch_features(torch.from_numpy(IMAGES).double(), *fitted, cells=cells)
    expected = np.stack([plain_features(image, cells) for image in IMAGES])
    assert expected.any()
    assert np.allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("rows", "columns", "cells"), [(13, 13, 3), (4, 6, 2), (1, 1, 3), (2, 5, 3)])
def test_every_cell_is_a_mean_and_every_patch_counts_alike(rows: int, columns: int, cells: int) -> None:
    shares = cell_shares(rows, columns, cells)
    assert shares.shape == (rows * columns, cells**2)
    assert torch.allclose(shares.sum(0), torch.ones(cells**2), atol=1e-5)
    assert torch.allclose(shares.sum(1), torch.full((rows * columns,), cells**2 / (rows * columns)), atol=1e-5)


def test_patches_are_cut_from_the_images() -> None:
    numbered = torch.arange(2 * 3 * 5 * 6).reshape(2, 3, 5, 6)
    patches = draw_patches(numbered, 2, 200, torch.Generator().manual_seed(0)).reshape(-1, 3, 2, 2)
    all_of_them = numbered.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    assert {tuple(p.flatten().tolist()) for p in patches} == {tuple(p.tolist()) for p in all_of_them}


def test_contrast_is_evened_and_a_flat_patch_stays_flat() -> None:
    patches = torch.cat([torch.randn(500, 12, dtype=torch.float64) * 50 + 90, torch.full((1, 12), 7.0)])
    even, contrast = even_contrast(patches)
    variance = patches.var(1, correction=0)
    assert contrast.item() == pytest.approx(0.05 * variance.mean().item())
    assert torch.allclose(even.var(1, correction=0), variance / (variance + contrast))
    assert torch.equal(even[-1], torch.zeros(12, dtype=torch.float64))


def test_whitened_patches_have_variances_that_the_regularizer_leaves() -> None:
    mixed = torch.randn(4000, 6, dtype=torch.float64) @ torch.randn(6, 6, dtype=torch.float64) + 3
    mean, white = whitening(mixed)
    variances = torch.linalg.eigvalsh(torch.cov(mixed.T, correction=0))
    after = torch.cov(((mixed - mean) @ white).T, correction=0)
    assert torch.allclose(torch.linalg.eigvalsh(after), (variances / (variances + 0.1)).sort().values, atol=1e-8)


def test_kinds_are_the_directions_of_well_separated_groups() -> None:
    centers = torch.eye(4, dtype=torch.float64)
    lengths = torch.rand(400, 1, dtype=torch.float64) * 9 + 1
    groups = centers[torch.arange(400) % 4] + 0.05 * torch.randn(400, 4, dtype=torch.float64)
    kinds = kinds_of(groups * lengths, 4)
    assert torch.allclose(kinds, centers, atol=0.03)
    assert torch.allclose(kinds.norm(dim=1), torch.ones(4, dtype=torch.float64))


def test_a_kind_that_loses_its_patches_stays_as_it_was() -> None:
    twice = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert torch.equal(kinds_of(twice, 3), twice)
