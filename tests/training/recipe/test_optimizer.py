"""Schedules, scaling by K, parameter groups, the moving average."""

import math
import subprocess
import sys
from copy import deepcopy
from typing import Literal

import pytest
import torch
from torch import nn

from refprior.networks import WideResNet
from refprior.particles import Particles
from refprior.training import Optimizer
from refprior.training.recipe._optimizer import equalize, parameter_groups, update_average


def test_the_schedules() -> None:
    cosine, cut = Optimizer(), Optimizer(schedule="seven_sixteenths")
    assert [cosine.factor(t, 100) for t in (0, 50, 100)] == pytest.approx([1, 0.5, 0])
    assert [cut.factor(t, 100) for t in (0, 50, 100)] == pytest.approx([1, math.cos(7 * math.pi / 32), 0.1950903])
    assert Optimizer(schedule="constant").factor(77, 100) == 1
    zero = Optimizer(warmup=10, warmup_from_zero=True)
    assert [zero.factor(t, 110) for t in (0, 4, 9, 10, 60)] == pytest.approx([0, 0.4, 0.9, 1, 0.5])
    warm = Optimizer(warmup=10)
    assert [warm.factor(t, 110) for t in (0, 4, 9, 10, 60)] == pytest.approx([0.1, 0.5, 1, 1, 0.5])


def test_sgd_scales_rate_and_decay_by_the_particles() -> None:
    particles = Particles(lambda: nn.Linear(2, 2), 4)
    optimizer = Optimizer().build(particles)
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.12)
    assert optimizer.param_groups[0]["weight_decay"] == pytest.approx(5e-4 / 4)
    assert optimizer.param_groups[0]["nesterov"]
    assert Optimizer().set_rate(optimizer, 50, 100) == pytest.approx(0.06)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.06)


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_particles_learn_as_they_would_alone(kind: str) -> None:
    """Three steps of the mean loss of K particles move each as three steps of its own loss."""
    together = Particles(lambda: nn.Linear(3, 2), 4, seed=1)
    alone = Particles(lambda: nn.Linear(3, 2), 4, seed=1).particle(2)
    recipe = Optimizer(kind=kind, learning_rate=0.01)  # type: ignore[arg-type]
    many = recipe.build(together)
    single = recipe.build(wrapped := Particles(lambda: alone, 1))
    x = torch.randn(5, 3)
    for _ in range(3):
        for particles, optimizer in ((together, many), (wrapped, single)):
            optimizer.zero_grad()
            particles(x)[:, :, 0].mean().backward()
            optimizer.step()
    one, other = (p.network.get_parameter("weight") for p in (together, wrapped))
    torch.testing.assert_close(one[2], other[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 4])
def test_a_step_of_adam_with_decoupled_decay_by_hand(count: int) -> None:
    """The first step of Adam is the sign of the gradient; weights also shrink by rate · decay, whatever K is."""
    particles = Particles(lambda: nn.Linear(3, 2), count, seed=1)
    weight = particles.network.get_parameter("weight")
    before, optimizer = weight.detach().clone(), Optimizer(kind="adamw", learning_rate=0.01, decay=0.3).build(particles)
    assert isinstance(optimizer, torch.optim.AdamW)
    particles(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))[:, :, 0].mean().backward()
    assert weight.grad is not None
    optimizer.step()
    expected = before * (1 - 0.01 * 0.3) - 0.01 * weight.grad.sign()
    torch.testing.assert_close(weight.detach(), expected, atol=1e-6, rtol=0)
    assert optimizer.param_groups[0]["lr"] == 0.01


def test_norms_and_prior_are_not_decayed_but_the_bias_of_the_head_is() -> None:
    particles = Particles(lambda: WideResNet((3, 32, 32), 10, depth=10), 2)
    decayed, free = parameter_groups(particles, 0.1)
    names = {id(p): n for n, p in particles.named_parameters()}
    undecayed = {names[id(p)] for p in free["params"]}  # type: ignore[attr-defined]
    assert all("norm" in name or name == "prior_logits" for name in undecayed)
    assert len(undecayed) == 1 + 2 * 7
    assert "network.head.bias" in {names[id(p)] for p in decayed["params"]}  # type: ignore[attr-defined]
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)


def test_biases_may_be_left_out_of_the_decay() -> None:
    particles = Particles(lambda: WideResNet((3, 32, 32), 10, depth=10), 2)
    groups = Optimizer(decay_biases=False).build(particles).param_groups
    names = {id(p): n for n, p in particles.named_parameters()}
    free = {names[id(p)] for group in groups if group["weight_decay"] == 0 for p in group["params"]}
    decayed = {names[id(p)] for group in groups if group["weight_decay"] for p in group["params"]}
    assert "network.head.bias" in free
    assert "network.head.weight" in decayed
    assert len(free) == 1 + 2 * 7 + 1


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_particle_is_updated_alike_among_any_number_of_others(kind: Literal["sgd", "adam", "adamw"]) -> None:
    """Bit for bit: tensors are not rounded otherwise at their ends, wherever these are."""
    whole = Particles(lambda: nn.Sequential(nn.Linear(16, 3), nn.Linear(3, 5)), 6)
    blocks = [deepcopy(whole) for _ in range(3)]
    for number, block in enumerate(blocks):
        for part in block.network.parameters():
            part.data = part.data[2 * number : 2 * number + 2].clone()
    generator = torch.Generator().manual_seed(0)
    optimizers = [Optimizer(kind=kind, decay=0.01).build(p) for p in (whole, *blocks)]
    for _ in range(4):
        for part, *parts in zip(*(p.network.parameters() for p in (whole, *blocks)), strict=True):
            part.grad = torch.randn(part.shape, generator=generator)
            for number, other in enumerate(parts):
                other.grad = part.grad[2 * number : 2 * number + 2].clone()
        for optimizer in optimizers:
            optimizer.step()
    for part, *parts in zip(*(p.network.parameters() for p in (whole, *blocks)), strict=True):
        assert part.equal(torch.cat(parts))


def uneven(seed: int = 0) -> Particles:
    """Four particles of which one has almost all the weight."""
    particles = Particles(lambda: nn.Linear(3, 2), 4, seed=seed)
    with torch.no_grad():
        particles.prior_logits.copy_(torch.tensor([6.0, 0.0, 0.0, -1.0]))
    return particles


def test_equal_weights_leave_gradients_alone_to_the_last_bit() -> None:
    particles = Particles(lambda: nn.Linear(3, 2), 3)
    particles(torch.randn(5, 3)).square().sum().backward()
    before = [p.grad.clone() for p in particles.network.parameters() if p.grad is not None]
    for weights in (torch.full((3,), 1 / 3), torch.full((3,), 0.7)):
        equalize(particles, weights)
        assert all(torch.equal(p.grad, b) for p, b in zip(particles.network.parameters(), before, strict=True))  # type: ignore[arg-type]


def test_a_particle_without_weight_keeps_a_finite_gradient() -> None:
    particles = uneven()
    particles(torch.randn(5, 3)).square().sum().backward()
    equalize(particles, torch.tensor([1.0, 0.0, 1e-40, 0.5]))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in particles.network.parameters())
    with pytest.raises(ValueError, match=r"expected one weight for each of 4 particles, got \(3,\)"):
        equalize(particles, torch.ones(3))


def test_the_average_moves_weights_and_copies_statistics() -> None:
    student, teacher = (Particles(lambda: nn.BatchNorm1d(2), 2) for _ in range(2))
    with torch.no_grad():
        student.network.get_parameter("weight").fill_(3.0)
        student.network.get_buffer("running_mean").fill_(5.0)
    update_average(teacher, student, 0.9)
    torch.testing.assert_close(teacher.network.get_parameter("weight"), torch.full((2, 2), 1.2))
    torch.testing.assert_close(teacher.network.get_buffer("running_mean"), torch.full((2, 2), 5.0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "sgdd"}, "kind must be 'sgd', 'adam' or 'adamw', got 'sgdd'"),
        ({"schedule": "step"}, "schedule must be 'constant', 'cosine' or 'seven_sixteenths', got 'step'"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"decay": 1e300}, r"decay must be at least 0 and at most 1e\+06, got 1e\+300"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1, got 1.0"),
        ({"warmup": -1}, "warmup must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Optimizer(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_steps_are_those_of_torch(kind: Literal["sgd", "adam", "adamw"]) -> None:
    """The optimizer leaves out what only `torch.compile` needs; its own steps are the same bits."""
    torch.manual_seed(0)
    particles = Particles(lambda: nn.Linear(16, 16), 2)
    theirs = deepcopy(particles)
    settings = Optimizer(kind=kind, learning_rate=0.01, decay=0.1)
    ours = settings.build(particles)
    base = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    twins = {id(p): twin for p, twin in zip(particles.parameters(), theirs.parameters(), strict=True)}
    other = base([{**group, "params": [twins[id(p)] for p in group["params"]]} for group in ours.param_groups])
    for _ in range(3):
        for parameter in particles.parameters():
            parameter.grad = torch.randn_like(parameter)
            twins[id(parameter)].grad = parameter.grad.clone()
        ours.step()
        other.step()
    assert all(torch.equal(a, b) for a, b in zip(particles.parameters(), theirs.parameters(), strict=True))
    assert all(p.requires_grad for p in particles.parameters())


@pytest.mark.thorough
def test_training_does_not_import_the_compiler_or_what_only_clusters_need() -> None:
    """They take seconds, in every process of a sweep."""
    program = """
import sys
from refprior.training import train
from tests.training.recipes import perceptron
train(perceptron(steps=2, evaluate_every=2))
print([name for name in ("torch._dynamo", "sklearn.cluster") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert found.stdout.strip() == "[]", found.stderr
