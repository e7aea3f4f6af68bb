"""Cross-entropy of K particles."""

import math

import torch
from torch import nn

from refprior.methods import Batch, Step, Supervised
from refprior.methods._reference_prior import cross_entropy
from refprior.particles import Particles


def test_cross_entropy_is_the_mean_over_particles() -> None:
    logits, y = torch.randn(3, 5, 4), torch.tensor([0, 3, 1, 1, 2])
    expected = torch.stack([nn.functional.cross_entropy(particle, y, reduction="none") for particle in logits]).mean(0)
    uniform = torch.zeros(3).log_softmax(0)
    torch.testing.assert_close(cross_entropy(logits.log_softmax(-1), y, uniform), expected)


def test_an_ensemble_learns_as_its_particles_would_alone() -> None:
    """The gradient of each particle is 1/K of that of the particle by itself."""
    particles = Particles(lambda: nn.Linear(3, 2), 4)
    x, y = torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 1, 0])
    step = Step(batch=Batch(labeled=x, labels=y), student=particles, teacher=particles, log_prior=particles.log_prior)
    Supervised()(step).total.backward()
    together = particles.network.get_parameter("weight").grad
    assert together is not None
    for k in range(4):
        alone = particles.particle(k)
        nn.functional.cross_entropy(alone(x), y).backward()
        torch.testing.assert_close(4 * together[k], alone.get_parameter("weight").grad)
    assert particles.prior_logits.grad is None


def test_a_particle_without_weight_counts_nothing_even_where_it_excludes_the_label() -> None:
    """0 · log 0 = 0, in value and in all gradients; with any weight it is infinite, as it should be."""
    logits = torch.tensor([[[0.3, -0.2]], [[0.0, -math.inf]]], requires_grad=True)
    log_prior = torch.tensor([0.0, -math.inf], requires_grad=True)
    y = torch.tensor([1])
    loss = cross_entropy(logits.log_softmax(-1), y, log_prior)
    expected = nn.functional.cross_entropy(logits[0], y, reduction="none")
    torch.testing.assert_close(loss, expected)
    of_logits, of_prior = torch.autograd.grad(loss.sum(), [logits, log_prior])
    (alone,) = torch.autograd.grad(expected.sum(), [logits])
    torch.testing.assert_close(of_logits, alone)
    assert bool(of_prior.isfinite().all())
    assert cross_entropy(logits.log_softmax(-1), y, torch.tensor([0.5, 0.5]).log()).isposinf().all()
