"""VAT: its direction against a Hessian by finite differences, its length, and the loss against a plain loop."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from refprior.information import uniform
from refprior.methods import VAT, Batch, Loss, Step
from refprior.methods._consistency import unit, worst_direction
from refprior.networks import MLP
from refprior.particles import Particles
from tests.methods.tables import UNLABELED, C, K, Table, assert_same, each_input, kinds, nothing, plain_cross_entropy

D, N = 5, 3


def smooth(seed: int = 0, count: int = K) -> Particles:
    """Particles with a second derivative, in double precision."""
    make = lambda: torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Tanh(), torch.nn.Linear(8, C))  # noqa: E731
    return Particles(make, count, seed=seed).double()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def divergence(network: Callable[[Tensor], Tensor], u: Tensor, r: Tensor) -> float:
    """KL(p(u) ‖ p(u + r)) of one input."""
    before, after = (network(x.unsqueeze(0))[0].log_softmax(-1) for x in (u, u + r))
    return sum(float(a.exp() * (a - b)) for a, b in zip(before, after, strict=True))


def hessian(network: Callable[[Tensor], Tensor], u: Tensor, width: float = 1e-4) -> Tensor:
    """Second derivatives of the divergence at r = 0, by differences of its values."""
    unit_vectors = width * torch.eye(D, dtype=torch.float64)
    found = torch.zeros(D, D, dtype=torch.float64)
    for i, a in enumerate(unit_vectors):
        for j, b in enumerate(unit_vectors):
            corners = [divergence(network, u, s * a + t * b) * s * t for s in (1, -1) for t in (1, -1)]
            found[i, j] = sum(corners) / (4 * width**2)
    return found


@pytest.mark.parametrize("seed", range(2))
@torch.no_grad()
def test_the_direction_is_that_of_a_finite_difference_hessian(seed: int) -> None:
    particles, u, start = smooth(seed), draw(K, N, D), draw(K, N, D, seed=seed + 1)
    with torch.enable_grad():
        found = worst_direction(particles.each, u, start)
    for k in range(K):
        network = particles.particle(k)
        for i in range(N):
            product = hessian(network, u[k, i]) @ start[k, i]
            torch.testing.assert_close(found[k, i], product / product.norm(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_more_iterations_find_the_worst_direction_of_all() -> None:
    """The eigenvector of the largest eigenvalue, either way round; it changes the prediction more than any other."""
    particles, u, direction = smooth(), draw(1, N, D).expand(K, N, D), draw(K, N, D, seed=2)
    with torch.enable_grad():
        for _ in range(200):
            direction = worst_direction(particles.each, u, direction)
    for k in range(K):
        network = particles.particle(k)
        for i in range(N):
            worst = torch.linalg.eigh(hessian(network, u[k, i]))[1][:, -1]
            assert abs(float(worst @ direction[k, i])) == pytest.approx(1, abs=1e-4)


def test_the_direction_is_a_unit_vector_without_a_gradient() -> None:
    found = worst_direction(smooth().each, draw(K, N, D), draw(K, N, D, seed=1))
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(K, N, dtype=torch.float64))
    assert not found.requires_grad


def test_saturated_predictions_have_no_direction() -> None:
    """Where nothing changes the prediction, nothing is added to the input."""
    table = Table(VAT(), "saturated")
    rows = torch.eye(table.logits.shape[1], dtype=torch.float64).expand(K, -1, -1)
    assert worst_direction(table, rows, draw(*rows.shape)).abs().max() == 0
    assert unit(torch.zeros(2, 3, 4)).abs().max() == 0
    torch.testing.assert_close(unit(torch.tensor([[[3.0, 4.0]]])), torch.tensor([[[0.6, 0.8]]]))


class Watched(Table):
    """A table that notes what every particle was given for itself."""

    def each(self, x: Tensor) -> Tensor:
        self.own = x.detach()
        return (x @ self.logits).log_softmax(-1)


def plain(table: Watched, weight: float, entropy_weight: float = 0.06) -> Tensor:
    """CE + w · mean of KL(sg p(u) ‖ p(u + r)) + 0.06 · mean of H(p(u)), with the perturbed inputs that were seen."""
    clean, perturbed = table.part("weak"), (table.own @ table.logits).log_softmax(-1)
    total = plain_cross_entropy(table)
    for k, i in each_input(clean):
        kl, entropy = nothing(), nothing()
        for before, after in zip(clean[k, i], perturbed[k, i], strict=True):
            p = before.detach().exp()
            kl = kl + p * (before.detach() - after)
            entropy = entropy - before.exp() * before
        total = total + (weight * kl + entropy_weight * entropy) / (K * UNLABELED)
    return total


@kinds
@pytest.mark.parametrize(("progress", "weight"), [(0.0, 0.0), (0.1, 0.075), (0.4, 0.3), (1.0, 0.3)])
def test_the_loss_equals_a_loop(kind: str, progress: float, weight: float) -> None:
    table = Watched(VAT(radius=0.9), kind)
    generator = torch.Generator().manual_seed(0)
    loss = VAT(radius=0.9)(table.step(each=table.each, progress=progress, generator=generator))
    assert_same(loss, plain(table, weight), table)
    assert kind == "saturated" or loss.terms["divergence"] > 0


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_length_is_relative_to_that_of_the_inputs(scale: float) -> None:
    """Root mean square over the inputs, not over each: r is as long for a short input as for a long one."""
    particles, u = smooth(), scale * draw(6, D) * torch.arange(1, 7).unsqueeze(1)
    with torch.no_grad():
        particles.network.get_parameter("0.weight").div_(10 * scale)
    seen: list[Tensor] = []

    def each(x: Tensor) -> Tensor:
        seen.append(x.detach())
        return particles.each(x)

    batch = Batch(labeled=draw(2, D), labels=torch.tensor([0, 1]), views={"weak": u})
    generator = torch.Generator().manual_seed(0)
    step = Step(
        batch=batch,
        student=particles,
        teacher=particles,
        log_prior=particles.log_prior.detach(),
        each=each,
        generator=generator,
    )
    VAT(radius=0.5)(step)
    lengths = (seen[-1] - u).norm(dim=-1)
    expected = 0.5 * u.square().sum(-1).mean().sqrt()
    torch.testing.assert_close(lengths, expected.expand(K, 6))


def test_the_default_radius_is_the_originals_of_6_for_pixels_of_cifar10() -> None:
    """32·32·3 values in [-1, 1], whose root mean square is about 0.5 (mean -0.05, deviation 0.5)."""
    assert 6 / VAT().radius == pytest.approx((3072 * 0.25) ** 0.5, rel=0.05)


def test_it_finds_what_random_perturbations_of_that_length_do_not() -> None:
    particles = smooth()
    u = draw(20, D)
    each = u.expand(K, -1, -1)
    found, random = (draw(K, 20, D, seed=seed) for seed in (3, 4))
    for _ in range(3):
        found = worst_direction(particles.each, each, found)

    def change(r: Tensor) -> Tensor:
        before: Tensor = particles(u)
        return (before.exp() * (before - particles.each(each + 0.3 * unit(r)))).sum(-1).mean()

    assert change(found) > 2 * change(random)


def normalized() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, C)
    )


def loss_on_images(make: Callable[[], torch.nn.Module], radius: float) -> tuple[Particles, Loss]:
    particles, generator = Particles(make, K), torch.Generator().manual_seed(0)
    x, u = (torch.randn(n, 1, 4, 4, generator=generator) for n in (3, 5))
    step = Step(
        batch=Batch(labeled=x, labels=torch.arange(3), views={"weak": u}),
        student=particles,
        teacher=particles,
        log_prior=uniform(K, x),
        aside=particles.aside,
        each=particles.each,
        progress=1.0,
        generator=generator,
    )
    return particles, VAT(radius=radius)(step)


@pytest.mark.parametrize("make", [lambda: MLP((1, 4, 4), C), normalized], ids=["perceptron", "batch norm"])
def test_images_are_perturbed_as_they_are(make: Callable[[], torch.nn.Module]) -> None:
    """Inputs of several dimensions, particles in single precision: a divergence that only the perturbation makes."""
    particles, loss = loss_on_images(make, radius=0.5)
    assert loss.terms["divergence"] > 1e-4
    loss.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in particles.network.parameters())
    assert loss_on_images(make, radius=1e-6)[1].terms["divergence"].abs() < 1e-6


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
        ({"entropy_weight": -1.0}, r"entropy_weight must be at least 0, got -1\.0"),
        ({"radius": 0.0}, r"radius must be above 0, got 0\.0"),
        ({"ramp": 2.0}, r"ramp must be .*at most 1, got 2\.0"),
    ],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VAT(**fields)
