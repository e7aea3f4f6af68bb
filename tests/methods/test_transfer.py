"""Transfer against plain sums over particles, and its two ends: β = 1 ignores the source, β = 0 counts it in full."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from refprior.methods import Batch, Method, ReferencePrior, Step, Transfer, UnsupervisedTransfer, split_heads
from refprior.networks import MLP, WideResNet
from refprior.particles import Particles


def setting(
    outputs: int = 3, classes: int | None = None, network: Callable[[int], nn.Module] | None = None
) -> tuple[Particles, Step]:
    particles = Particles(lambda: MLP((1, 4, 4), outputs) if network is None else network(outputs), 3, seed=1)
    generator = torch.Generator().manual_seed(0)
    shape = (1, 4, 4) if network is None else (3, 8, 8)
    x, weak, strong, source = (5 * torch.randn(n, *shape, generator=generator) for n in (6, 18, 18, 7))
    batch = Batch(
        labeled=x,
        labels=torch.tensor([0, 1, 2, 0, 1, 2]),
        views={"weak": weak, "strong": strong},
        source=source,
        source_labels=torch.tensor([0, 1, 2, 0, 1, 2, 1]),
    )
    step = Step(
        batch=batch,
        student=particles,
        teacher=particles,
        log_prior=particles.log_prior,
        independent=network is None,
        classes=classes,
    )
    return particles, step


def gradient(particles: Particles, step: Step, method: Method) -> tuple[Tensor, list[Tensor | None]]:
    particles.zero_grad()
    loss = method(step)
    torch.autograd.backward(loss.total)
    return loss.total.detach(), [None if p.grad is None else p.grad.clone() for p in particles.network.parameters()]


def plain_source_loss(particles: Particles, step: Step, first: int = 0) -> Tensor:
    """Mean over particles of the usual cross-entropy, on the outputs from `first` on."""
    networks = [particles.particle(k) for k in range(3)]
    y = step.batch.source_labels
    losses = [nn.functional.cross_entropy(n(step.batch.source)[:, first:], y) for n in networks]
    return torch.stack(losses).mean()


def test_beta_one_is_semi_supervised_learning_in_value_and_gradient() -> None:
    particles, step = setting()
    torch.testing.assert_close(
        gradient(particles, step, Transfer(beta=1)), gradient(particles, step, ReferencePrior()), rtol=1e-5, atol=1e-6
    )


def wide(outputs: int) -> nn.Module:
    """Batch norm, so that a prediction depends on all images that go through the network with it."""
    return WideResNet((3, 8, 8), outputs, depth=10, width=1)


def test_beta_one_is_semi_supervised_learning_with_batch_norm_too() -> None:
    """The source does not enter the statistics either: gradients and running means are the same to the last bit."""
    results = []
    for method in (Transfer(beta=1), ReferencePrior()):
        particles, step = setting(network=wide)
        results.append((gradient(particles, step, method), dict(particles.named_buffers())))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    particles, step = setting(network=wide)
    gradient(particles, step, Transfer(beta=0.999))
    assert not torch.equal(
        particles.get_buffer("network.norm.running_mean"), results[0][1]["network.norm.running_mean"]
    )


def test_at_beta_one_the_targets_own_head_is_all_that_learns() -> None:
    particles, step = setting(outputs=3 + 4, classes=3)
    loss, _ = gradient(particles, step, Transfer(beta=1))
    head = particles.network.get_parameter("3.bias").grad
    assert head is not None
    assert head[:, 3:].abs().max() < 1e-7
    torch.testing.assert_close(loss, Transfer(beta=0.5)(step).total - 0.5 * Transfer(beta=0.5)(step).terms["source"])


@pytest.mark.parametrize("beta", [0.0, 0.25, 1.0])
def test_the_source_counts_by_one_minus_beta(beta: float) -> None:
    particles, step = setting()
    past = plain_source_loss(particles, step)
    loss = Transfer(beta=beta)(step)
    torch.testing.assert_close(loss.total, ReferencePrior()(step).total + (1 - beta) * past)
    assert ("source" in loss.terms) == (beta < 1)
    torch.testing.assert_close(loss.terms.get("source", past), past)
    unlabeled = UnsupervisedTransfer(beta=beta)(step)
    torch.testing.assert_close(unlabeled.total, loss.total - loss.terms["cross_entropy"])


def test_without_target_labels_nothing_of_them_is_looked_at() -> None:
    particles, step = setting()
    other = replace(step, batch=replace(step.batch, labeled=torch.empty(0), labels=torch.empty(0)))
    torch.testing.assert_close(
        gradient(particles, step, UnsupervisedTransfer()), gradient(particles, other, UnsupervisedTransfer())
    )


@pytest.mark.parametrize("method", [Transfer, UnsupervisedTransfer])
def test_at_beta_one_the_source_has_no_gradient(method: type[Transfer]) -> None:
    particles, step = setting()
    other = replace(step, batch=replace(step.batch, source=3 * step.batch.source))
    one = method(beta=1)
    torch.testing.assert_close(gradient(particles, step, one), gradient(particles, other, one))


@pytest.mark.parametrize("method", [Transfer, UnsupervisedTransfer])
def test_at_beta_one_a_source_may_be_missing(method: type[Transfer]) -> None:
    particles, step = setting()
    without = replace(step, batch=replace(step.batch, source=torch.empty(0), source_labels=torch.empty(0)))
    with_source = gradient(particles, step, method(beta=1))
    torch.testing.assert_close(gradient(particles, without, method(beta=1)), with_source)
    assert not method(beta=1).needs.source
    assert method(beta=0.9).needs.source


def test_needs_are_those_of_the_target_and_a_source() -> None:
    target = ReferencePrior(order=3)
    assert Transfer(target).needs == replace(target.needs, source=True)
    assert UnsupervisedTransfer(target).needs == replace(target.needs, labels=False, source=True)


def test_separate_heads_are_softmaxes_of_their_own() -> None:
    particles, step = setting(outputs=3 + 4, classes=3)
    past = plain_source_loss(particles, step, first=3)
    torch.testing.assert_close(Transfer()(step).terms["source"], past)
    logits = particles.particle(0)(step.batch.labeled)
    target, source = split_heads(logits.log_softmax(-1), 3)
    torch.testing.assert_close(target, logits[:, :3].log_softmax(-1))
    torch.testing.assert_close(source, logits[:, 3:].log_softmax(-1))


def test_the_source_does_not_move_the_targets_own_head() -> None:
    particles, step = setting(outputs=3 + 4, classes=3)
    heads = []
    for beta in (0.0, 1.0):
        gradient(particles, step, UnsupervisedTransfer(beta=beta))
        head = particles.network.get_parameter("3.bias").grad
        assert head is not None
        heads.append(head[:, :3].clone())
    torch.testing.assert_close(heads[0], heads[1])


@pytest.mark.parametrize("method", [Transfer, UnsupervisedTransfer])
@pytest.mark.parametrize("beta", [-0.1, 1.1, float("nan")])
def test_beta_outside_its_range_is_rejected(method: type[Transfer], beta: float) -> None:
    with pytest.raises(ValueError, match="beta must be at least 0 and at most 1, got"):
        method(beta=beta)
