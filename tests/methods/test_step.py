"""The contract: names of views, predictions of several inputs at once, heads, terms without gradient."""

from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from refprior.methods import Batch, LabelWeights, Loss, Needs, Step, split_heads
from refprior.methods._step import Model
from refprior.networks import MLP
from refprior.particles import Particles


@pytest.mark.parametrize(
    ("views", "names"),
    [
        ((), ()),
        (("weak",), ("weak",)),
        (("weak", "strong"), ("weak", "strong")),
        (("weak", "weak", "strong"), ("weak", "weak_2", "strong")),
        (("strong", "weak", "strong", "weak", "strong"), ("strong", "weak", "strong_2", "weak_2", "strong_3")),
        (("clean", "clean"), ("clean", "clean_2")),
    ],
)
def test_views_of_a_kind_are_numbered_from_the_second_on(views: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert Needs(views=views).view_names == names  # type: ignore[arg-type]


class Noted:
    """Particles that note how many images they are given at once, and whether a gradient is asked for."""

    def __init__(self) -> None:
        self.particles = Particles(lambda: MLP((1, 4, 4), 3), 1)
        self.notes: list[tuple[int, bool]] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.notes.append((len(x), torch.is_grad_enabled()))
        return cast(Tensor, self.particles(x))


def step_of(student: Model, independent: bool) -> Step:
    return Step(batch=Batch(), student=student, teacher=student, log_prior=torch.zeros(1), independent=independent)


def inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, 1, 4, 4, generator=generator) for n in (3, 5, 4, 2)]


@pytest.mark.parametrize("independent", [False, True])
def test_predictions_are_those_of_each_input_alone_and_frozen_ones_have_no_gradient(independent: bool) -> None:
    particles = Particles(lambda: MLP((1, 4, 4), 3), 2)
    first, second, *frozen = inputs()
    outputs = step_of(particles, independent).predict(first, second, frozen=frozen)
    assert [tuple(p.shape) for p in outputs] == [(2, 3, 3), (2, 5, 3), (2, 4, 3), (2, 2, 3)]
    assert [p.requires_grad for p in outputs] == [True, True, False, False]
    for x, log_p in zip((first, second, *frozen), outputs, strict=True):
        torch.testing.assert_close(log_p, particles(x))


@pytest.mark.parametrize(("independent", "expected"), [(True, [(8, True), (6, False)]), (False, [(14, True)])])
def test_only_independent_images_are_frozen_alone(independent: bool, expected: list[tuple[int, bool]]) -> None:
    """Frozen inputs go through without a backward pass only where images do not see each other."""
    first, second, *frozen = inputs()
    student = Noted()
    step_of(student, independent).predict(first, second, frozen=frozen)
    assert student.notes == expected


@pytest.mark.parametrize("independent", [False, True])
def test_without_frozen_inputs_all_go_together(independent: bool) -> None:
    student = Noted()
    assert len(step_of(student, independent).predict(*inputs())) == 4
    assert student.notes == [(14, True)]


@pytest.mark.parametrize("independent", [False, True])
def test_gradients_do_not_depend_on_how_frozen_inputs_go(independent: bool) -> None:
    first, second, *frozen = inputs()
    particles = Particles(lambda: MLP((1, 4, 4), 3), 2)
    outputs = step_of(particles, independent).predict(first, second, frozen=frozen)
    loss = sum((outputs[0].square().sum(), (outputs[1].sum(1) * outputs[2].sum(1)).sum()), torch.zeros(()))
    loss.backward()
    found = [p.grad for p in particles.network.parameters()]
    other = Particles(lambda: MLP((1, 4, 4), 3), 2)
    plain = other(first).square().sum() + (other(second).sum(1) * other(frozen[0]).detach().sum(1)).sum()
    plain.backward()
    torch.testing.assert_close(found, [p.grad for p in other.network.parameters()])


@pytest.mark.parametrize("independent", [False, True])
def test_all_inputs_may_be_frozen(independent: bool) -> None:
    particles = Particles(lambda: MLP((1, 4, 4), 3), 2)
    outputs = step_of(particles, independent).predict(frozen=inputs())
    assert [tuple(p.shape) for p in outputs] == [(2, n, 3) for n in (3, 5, 4, 2)]
    assert not any(p.requires_grad for p in outputs)


def test_batch_norm_sees_inputs_and_frozen_ones_as_one_batch() -> None:
    first, second, *frozen = inputs()
    make = lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3))  # noqa: E731
    outputs = step_of(Particles(make, 2), independent=False).predict(first, second, frozen=frozen)
    torch.testing.assert_close(torch.cat(outputs, 1), Particles(make, 2)(torch.cat([first, second, *frozen])))


def test_guesses_are_a_pass_of_their_own_without_gradient_and_without_a_trace() -> None:
    first, second, *_ = inputs()
    make = lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3))  # noqa: E731
    particles, other = Particles(make, 2), Particles(make, 2)
    step = replace(step_of(particles, independent=False), aside=particles.aside)
    guesses = step.guess(first, second)
    assert [tuple(p.shape) for p in guesses] == [(2, 3, 3), (2, 5, 3)]
    assert not any(p.requires_grad for p in guesses)
    assert particles.network.get_buffer("1.running_mean").abs().max() == 0
    torch.testing.assert_close(torch.cat(guesses, 1), other(torch.cat([first, second])))
    assert step_of(Noted(), independent=True).guess(first)[0].shape == (1, 3, 3)


def test_labels_that_are_predicted_twice_are_doubted_once() -> None:
    weights, doubted = LabelWeights(torch.tensor([[1.0, 2.0], [2.0, 0.0]]), lambda log_p: torch.tensor([0.5, 0.25])), []
    for _ in range(2):
        log_p = torch.zeros(2, 2, 3, requires_grad=True)
        seen = log_p * 1
        weights.apply(seen)
        seen.sum().backward()
        assert log_p.grad is not None
        doubted.append(log_p.grad[..., 0].tolist())
    assert doubted == 2 * [[[0.5, 0.5], [1.0, 0.0]]]


def test_a_batch_is_empty_where_nothing_is_needed() -> None:
    batch = Batch()
    assert [len(t) for t in (batch.labeled, batch.labels, batch.index, batch.source, batch.source_labels)] == [0] * 5
    assert batch.views == {}


def test_terms_of_a_loss_have_no_gradient() -> None:
    weight = torch.ones((), requires_grad=True)
    loss = Loss.of(2 * weight, twice=2 * weight)
    assert loss.total.requires_grad
    assert not loss.terms["twice"].requires_grad


def test_heads_are_shared_where_there_are_no_more_outputs_than_classes() -> None:
    log_p = torch.randn(2, 4, 3).log_softmax(-1)
    for classes in (None, 3):
        target, source = split_heads(log_p, classes)
        assert target is log_p
        assert source is log_p
    target, source = split_heads(log_p, 1)
    assert (target.shape[-1], source.shape[-1]) == (1, 2)
    torch.testing.assert_close(source.exp().sum(-1), torch.ones(2, 4))
