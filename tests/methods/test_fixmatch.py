"""FixMatch against a plain loop over particles and images, and frozen views against one pass."""

import pytest
import torch
from torch import nn

from refprior.methods import Batch, FixMatch, ReferencePrior, Step
from refprior.methods._step import Method
from refprior.networks import MLP
from refprior.particles import Particles


def setting(particles: Particles, independent: bool = False) -> Step:
    generator = torch.Generator().manual_seed(0)
    x, weak, strong = (5 * torch.randn(n, 1, 4, 4, generator=generator) for n in (6, 9, 9))
    batch = Batch(labeled=x, labels=torch.tensor([0, 1, 2, 0, 1, 2]), views={"weak": weak, "strong": strong})
    return Step(
        batch=batch, student=particles, teacher=particles, log_prior=particles.log_prior, independent=independent
    )


def test_the_loss_equals_a_loop() -> None:
    particles = Particles(lambda: MLP((1, 4, 4), 3), 2, seed=1)
    step = setting(particles)
    batch, total, used = step.batch, torch.zeros(()), 0
    for k in range(2):
        network = particles.particle(k)
        total = total + nn.functional.cross_entropy(network(batch.labeled), batch.labels) / 2
        for weak, strong in zip(network(batch.views["weak"]), network(batch.views["strong"]), strict=True):
            if weak.softmax(0).max() >= 0.5:
                used += 1
                total = total - strong.log_softmax(0)[weak.argmax()] / (9 * 2)
    loss = FixMatch(threshold=0.5)(step)
    assert 0 < used < 18
    torch.testing.assert_close(loss.total, total)
    assert loss.terms["confident"].item() == pytest.approx(used / 18)


@pytest.mark.parametrize("method", [FixMatch(threshold=0.4), ReferencePrior(order=1)], ids=lambda m: type(m).__name__)
def test_frozen_views_change_nothing_where_examples_do_not_see_each_other(method: Method) -> None:
    results = []
    for independent in (False, True):
        particles = Particles(lambda: MLP((1, 4, 4), 3), 2, seed=1)
        loss = method(setting(particles, independent))
        loss.total.backward()
        results.append((loss.total.detach(), [p.grad for p in particles.network.parameters()]))
    torch.testing.assert_close(results[0], results[1])


def test_batch_norm_sees_all_views_together() -> None:
    """A network with batch norm gets one batch, whatever is frozen."""
    sizes = []

    class Seen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sizes.append(len(x))
            return x

    make = lambda: nn.Sequential(Seen(), nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3))  # noqa: E731
    FixMatch()(setting(Particles(make, 1)))
    assert sizes == [6 + 9 + 9]


BAD: list[tuple[dict[str, float], str]] = [
    ({"threshold": 0.0}, r"threshold must be above 0 and at most 1, got 0\.0"),
    ({"threshold": 1.1}, r"threshold must be above 0 and at most 1, got 1\.1"),
    ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
    ({"weight": float("nan")}, "weight must be at least 0, got nan"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixMatch(**fields)
