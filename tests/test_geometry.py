"""Identities of the embedding, exact principal components against a plain decomposition, counts, bad input."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from refprior import exact
from refprior.exact import models
from refprior.geometry import (
    assign,
    cover,
    distance_to_constants,
    distance_to_corner,
    distance_to_truth,
    effective_number,
    embedding,
    fisher_information,
    hellinger,
    information_of_tuples,
    is_constant,
    principal_components,
    squared_distances,
    truth,
)
from refprior.information import uniform


def predictions(particles: int = 5, images: int = 7, classes: int = 3, seed: int = 0, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(particles, images, classes, generator=generator, dtype=torch.float64)
    return logits.log_softmax(-1)


def certain(labels: Tensor, classes: int) -> Tensor:
    """Models that are certain of these labels: (K, n) -> (K, n, C)."""
    return torch.nn.functional.one_hot(labels, classes).double().log()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 5), images=st.integers(1, 9), scale=st.floats(0.01, 400))
def test_squared_distance_is_the_mean_squared_hellinger_distance(
    seed: int, classes: int, images: int, scale: float
) -> None:
    """Against the definition with a sum over images and classes in plain Python, saturated predictions included."""
    log_p, log_q = predictions(2, images, classes, seed, scale)
    p, q = log_p.exp().tolist(), log_q.exp().tolist()
    each = [
        0.5 * sum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in zip(row, other, strict=True))
        for row, other in zip(p, q, strict=True)
    ]
    expected = sum(each) / images
    f, g = embedding(log_p), embedding(log_q)
    assert (f - g).square().sum().item() == pytest.approx(expected, abs=1e-12)
    assert hellinger(log_p, log_q).item() == pytest.approx(expected, abs=1e-12)
    assert squared_distances(f[None], g[None]).item() == pytest.approx(expected, abs=1e-12)
    assert 0 <= expected <= 1 + 1e-12


def test_all_points_lie_on_a_sphere_and_opposite_corners_are_at_distance_one() -> None:
    torch.testing.assert_close(embedding(predictions()).square().sum(-1), torch.full((5,), 0.5, dtype=torch.float64))
    corners = embedding(certain(torch.tensor([[0, 1, 0], [1, 0, 1]]), 2))
    torch.testing.assert_close((corners[0] - corners[1]).norm(), torch.ones((), dtype=torch.float64))


def test_distances_to_named_models_are_distances_between_points() -> None:
    log_p = predictions()
    y = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    points = embedding(log_p)
    to_truth = squared_distances(points, truth(y, 3).to(points)[None]).squeeze(-1)
    torch.testing.assert_close(distance_to_truth(log_p, y), to_truth)
    constants = embedding(certain(torch.arange(3).unsqueeze(-1).expand(3, 7), 3))
    torch.testing.assert_close(distance_to_constants(log_p), squared_distances(points, constants))
    every = torch.cartesian_prod(*[torch.arange(3)] * 7)
    nearest = squared_distances(points, embedding(certain(every, 3))).amin(-1)
    torch.testing.assert_close(distance_to_corner(log_p), nearest)


def test_constant_particles_are_found() -> None:
    labels = torch.tensor([[0] * 100, [1] * 99 + [0], [1] * 98 + [0] * 2, [0, 1] * 50])
    assert is_constant(certain(labels, 2)).tolist() == [True, True, False, False]


def decomposed(points: Tensor, count: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Coordinates, variances and total variance from a singular value decomposition, written for this test."""
    centered = points.numpy() - points.numpy().mean(0)
    left, singular, _ = np.linalg.svd(centered, full_matrices=False)
    variances = singular**2 / len(points)
    return left[:, :count] * singular[:count], variances[:count], float(variances.sum())


@pytest.mark.parametrize(("particles", "images"), [(4, 30), (12, 30), (200, 6), (18, 6)])
def test_components_are_those_of_a_singular_value_decomposition(particles: int, images: int) -> None:
    """Both ways: more coordinates than particles, and fewer."""
    points = embedding(predictions(particles, images, 3))
    found = principal_components(points)
    coordinates, variances, total = decomposed(points, 3)
    np.testing.assert_allclose(found.project(points).abs().numpy(), np.abs(coordinates), atol=1e-10)
    np.testing.assert_allclose(found.variances.numpy(), variances, rtol=1e-9)
    assert found.total == pytest.approx(total)
    torch.testing.assert_close(found.directions @ found.directions.T, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(found.explained, found.variances / total)


def test_weights_count_as_repeated_particles() -> None:
    points = embedding(predictions(6))
    counts = torch.tensor([1, 2, 3, 1, 1, 4])
    log_prior = (counts / counts.sum()).double().log()
    weighted, repeated = (
        principal_components(points, log_prior),
        principal_components(points.repeat_interleave(counts, 0)),
    )
    torch.testing.assert_close(weighted.variances, repeated.variances)
    torch.testing.assert_close(weighted.project(points).abs(), repeated.project(points).abs())


def test_no_component_is_made_up_where_nothing_spreads() -> None:
    one, other = embedding(predictions(2))
    points = torch.stack([one, other, one, other, one])
    found = principal_components(points)
    assert found.explained[0].item() == pytest.approx(1)
    torch.testing.assert_close(found.project(points)[:, 1:], torch.zeros(5, 2, dtype=torch.float64))
    same = principal_components(one.expand(5, -1))
    assert same.explained.tolist() == [0, 0, 0]
    assert same.project(points).isfinite().all()


def test_projection_keeps_distances_within_the_axes() -> None:
    """All axes that there are: no distance is lost, also of earlier snapshots of other particles in their span."""
    points = embedding(predictions(5, 40))
    axes = principal_components(points, count=4)
    seen = axes.project(points)
    torch.testing.assert_close(squared_distances(seen, seen), squared_distances(points, points), atol=1e-12, rtol=0)
    middle = (points[0] + points[3]) / 2
    torch.testing.assert_close(axes.project(middle[None])[0], (seen[0] + seen[3]) / 2)


def test_the_distance_from_the_axes_is_what_a_picture_does_not_show() -> None:
    points = embedding(predictions(9, 40))
    axes = principal_components(points, count=3)
    seen = axes.project(points) @ axes.directions + axes.mean  # the nearest points of the axes
    torch.testing.assert_close(axes.distance(points), (points - seen).norm(dim=-1))
    torch.testing.assert_close(axes.distance(seen), torch.zeros(9, dtype=torch.float64), atol=1e-7, rtol=0)


@pytest.mark.parametrize(("particles", "images", "size"), [(4000, 40, 80), (600, 400, 600)])
def test_the_decomposition_makes_no_copy_of_the_smaller_matrix(particles: int, images: int, size: int) -> None:
    points = embedding(predictions(particles, images, 2))  # (K, 2n)
    tracemalloc.start()  # counts what numpy and scipy hold, not torch
    assert principal_components(points).explained.sum() < 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * size**2 + 2**16


def test_effective_number_between_one_and_all_labelings() -> None:
    every = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    corners = certain(every, 2)
    assert effective_number(corners, uniform(4, corners), 2).item() == pytest.approx(4)
    same = predictions(1).expand(5, -1, -1)
    assert effective_number(same, uniform(5, same), 2).item() == pytest.approx(1)
    log_p = predictions(6, 9, 2)
    assert information_of_tuples(log_p, uniform(6, log_p), 2).shape == (4,)


def test_a_cover_is_spread_out_and_leaves_nothing_far() -> None:
    points = embedding(predictions(300, 5, 2))
    chosen = cover(points, 0.3)
    between = squared_distances(points[chosen], points[chosen]).sqrt() + torch.eye(len(chosen))
    assert between.min() > 0.3
    assert squared_distances(points, points[chosen]).amin(-1).sqrt().max() <= 0.3
    assert len(cover(points[:1].expand(9, -1), 0.3)) == 1
    assert len(cover(points, 1e-9)) == 300


def test_particles_are_assigned_to_their_nearest_atom() -> None:
    atoms = embedding(predictions(3, seed=1))
    points = atoms[[0, 2, 2, 1]] + 1e-3
    log_prior = torch.tensor([0.1, 0.2, 0.3, 0.4]).double().log()
    found = assign(points, atoms, log_prior)
    assert found.atom.tolist() == [0, 2, 2, 1]
    torch.testing.assert_close(found.weights, torch.tensor([0.1, 0.4, 0.5]).double())
    torch.testing.assert_close(found.distance, torch.full((4,), 21 * 1e-6).double())


class Logistic(torch.nn.Module):
    """Two outputs with logits 0 and w·x."""

    def __init__(self, w: list[float]) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(w, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.zeros(len(x), dtype=x.dtype), x @ self.w], dim=1)


def test_the_fisher_information_of_a_network_is_that_of_the_exact_half() -> None:
    """The responses to all inputs together have n times the information of one."""
    x = np.random.default_rng(0).normal(size=(5, 2))
    channel = models.logistic_regression(x, bounds=[(-2, 2)] * 2)
    for w in ([0.3, -1.2], [1.5, 1.9]):
        g = fisher_information(Logistic(w), torch.from_numpy(x))
        assert 5 * g.numpy() == pytest.approx(exact.fisher_information(channel, [w])[0], rel=1e-6)


def test_fisher_information_measures_small_steps_of_all_parameters() -> None:
    """d² = dwᵀ g dw / 8, and a shift of all logits has no length."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)).double()
    x = torch.randn(20, 3, dtype=torch.float64)
    g, w = fisher_information(network, x), torch.nn.utils.parameters_to_vector(network.parameters()).detach()
    step = 1e-4 * torch.randn_like(w)
    before = network(x).log_softmax(-1).detach()
    torch.nn.utils.vector_to_parameters(w + step, network.parameters())
    after = network(x).log_softmax(-1).detach()
    assert float(hellinger(before, after)) == pytest.approx(float(step @ g @ step) / 8, rel=1e-2)
    shift = torch.zeros_like(w)
    shift[-3:] = 1.0
    assert float((g @ shift).abs().max()) < 1e-12


def test_bad_input_is_refused_in_words() -> None:
    points = embedding(predictions(3))
    with pytest.raises(ValueError, match="3 components need at least 4 particles, got 3"):
        principal_components(points)
    with pytest.raises(ValueError, match="3 components need at least 3 coordinates, got 2"):
        principal_components(embedding(predictions(9, 1, 2)))
    with pytest.raises(ValueError, match=r"at least 2 classes, got 1"):
        embedding(predictions(3, 4, 1))
    with pytest.raises(ValueError, match=r"points of 21 coordinates, got 20"):
        principal_components(points, count=2).project(points[:, :20])
    with pytest.raises(ValueError, match="resolution must be above 0, got 0"):
        cover(points, 0)
    with pytest.raises(ValueError, match="order 8 needs 8 inputs, got 7"):
        effective_number(predictions(), uniform(5, points), 8)
