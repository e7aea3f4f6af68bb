"""The two cases of the two-stage prior against plain enumerations of every labeling."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from refprior.information import mutual_information, tuples, uniform
from refprior.methods import Batch, LabeledSource, Step, UnlabeledSource
from refprior.methods._transfer import joint_information, labeled_source, source_posterior


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).log_softmax(-1)


def enumerated_information(rows: list[Tensor], prior: list[float]) -> float:
    """I(w; labels) of one tuple whose items may have different numbers of classes; rows: (K, C_i) per item."""
    total = 0.0
    for labels in itertools.product(*(range(row.shape[1]) for row in rows)):
        given = [math.prod(row[k, y].exp().item() for row, y in zip(rows, labels, strict=True)) for k in range(3)]
        marginal = sum(p * q for p, q in zip(prior, given, strict=True))
        total += sum(p * q * math.log(q / marginal) for p, q in zip(prior, given, strict=True))
    return total


@pytest.mark.parametrize("classes", [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("orders", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_joint_information_is_that_of_all_labelings(classes: tuple[int, int], orders: tuple[int, int]) -> None:
    target, source = (draw(3, 2, n, c, seed=c) for n, c in zip(orders, classes, strict=True))
    prior = [0.2, 0.3, 0.5]
    found = joint_information(target, source, torch.tensor(prior, dtype=torch.float64).log())
    for b in range(2):
        rows = [target[:, b, i] for i in range(orders[0])] + [source[:, b, i] for i in range(orders[1])]
        assert found[b].item() == pytest.approx(enumerated_information(rows, prior), rel=1e-12)


def step_of(log_p: Tensor, target: int, source: int) -> Step:
    """A model that looks its predictions up by the number that an image is; the source's come after the target's."""
    items = torch.arange(target + source).float().unsqueeze(1)
    y = torch.arange(source) % log_p.shape[-1]
    return Step(
        batch=Batch(views={"weak": items[:target]}, source=items[target:], source_labels=y),
        student=lambda x: log_p[:, x[:, 0].long()],
        teacher=lambda x: x,
        log_prior=uniform(len(log_p), log_p),
    )


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_case_one_is_the_difference_of_two_informations(beta: float) -> None:
    log_p = draw(4, 2 * 2 + 2 * 3, 2)
    loss = UnlabeledSource(order=2, source_order=3, beta=beta)(step_of(log_p, 4, 6))
    target, source = log_p[:, :4].reshape(4, 2, 2, 2), log_p[:, 4:].reshape(4, 2, 3, 2)
    prior = uniform(4, log_p)
    both = mutual_information(torch.cat([target, source], 2), prior).mean()
    torch.testing.assert_close(loss.total, beta * mutual_information(source, prior).mean() - both)


def test_case_one_at_beta_one_is_what_the_target_adds() -> None:
    """I(w; t, s) - I(w; s) = I(w; t | s): between 0 and I(w; t), since labels are independent given the weights."""
    log_p = draw(4, 8, 3)
    gain = -UnlabeledSource(beta=1)(step_of(log_p, 4, 4)).total
    alone = mutual_information(log_p[:, :4].reshape(4, 2, 2, 3), uniform(4, log_p)).mean()
    assert 0 < gain < alone


def test_case_two_is_the_information_under_the_sources_posterior() -> None:
    log_p = draw(3, 4 + 5, 2)
    step = step_of(log_p, 4, 5)
    loss = LabeledSource(beta=0)(step)
    likelihood = [math.prod(log_p[k, 4 + i, y].exp().item() for i, y in enumerate([0, 1, 0, 1, 0])) for k in range(3)]
    posterior = torch.tensor([v / sum(likelihood) for v in likelihood], dtype=torch.float64)
    expected = mutual_information(log_p[:, :4].reshape(3, 2, 2, 2), posterior.log()).mean()
    torch.testing.assert_close(-loss.total, expected)


def test_case_two_at_beta_one_forgets_the_source() -> None:
    log_p = draw(3, 4 + 5, 2)
    alone = mutual_information(log_p[:, :4].reshape(3, 2, 2, 2), uniform(3, log_p)).mean()
    torch.testing.assert_close(-LabeledSource(beta=1)(step_of(log_p, 4, 5)).total, alone)


@pytest.mark.parametrize("order", [1, 2])
def test_labels_may_be_averaged_by_the_prior(order: int) -> None:
    """Σ_y p_π(y) KL(p(w | y, z) ‖ p(w | z)), labeling by labeling."""
    log_p, prior = draw(3, 4 + 5, 2), [0.2, 0.3, 0.5]
    log_prior = torch.tensor(prior, dtype=torch.float64).log()
    y = torch.tensor([0, 1, 0, 1, 0])
    source = log_p[:, 4:]
    loss = labeled_source(log_p[:, :4], source, y, log_prior, LabeledSource(order, labels_from="prior"))
    posterior = source_posterior(source, y, log_prior, 0.0).exp().tolist()
    items, total = log_p[:, :4].exp().reshape(3, -1, order, 2), 0.0
    for b, labels in itertools.product(range(4 // order), itertools.product(range(2), repeat=order)):
        given = [math.prod(items[k, b, j, label].item() for j, label in enumerate(labels)) for k in range(3)]
        after = [q * p for q, p in zip(posterior, given, strict=True)]
        after = [value / sum(after) for value in after]
        gain = sum(a * math.log(a / q) for a, q in zip(after, posterior, strict=True))
        total += sum(p * q for p, q in zip(prior, given, strict=True)) * gain / (4 // order)
    assert -loss.total.item() == pytest.approx(total, rel=1e-12)
    other = labeled_source(log_p[:, :4], source, y, log_prior, LabeledSource(order))
    assert abs(other.total.item() - loss.total.item()) > 0.001
    same = labeled_source(log_p[:, :4], source, y, log_prior, LabeledSource(order, beta=1, labels_from="prior"))
    torch.testing.assert_close(-same.total, mutual_information(tuples(log_p[:, :4], order), log_prior).mean())


def test_labels_averaged_by_the_prior_are_finite_at_saturated_predictions() -> None:
    logits = torch.tensor([[[900.0, 0.0]] * 4, [[0.0, 900.0]] * 4, [[0.0, 0.0]] * 4], requires_grad=True)
    log_p = logits.log_softmax(-1)
    loss = labeled_source(log_p[:, :2], log_p[:, 2:], torch.tensor([0, 1]), None, LabeledSource(labels_from="prior"))
    loss.total.backward()
    assert loss.total.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_labelings_that_do_not_fit_into_memory_are_rejected() -> None:
    target, source = torch.zeros(2, 8, 10).log_softmax(-1), torch.zeros(2, 1, 10).log_softmax(-1)
    target = target.expand(2, 8, 10).repeat(1, 2_000, 1)
    with pytest.raises(ValueError, match=r"the labelings of 2000 tuples of 8 items.*lower order or unlabeled_batch"):
        labeled_source(target, source, torch.tensor([0]), None, LabeledSource(8, labels_from="prior"))


def test_particles_of_the_posterior_are_declared_as_such() -> None:
    log_p = draw(3, 9, 2)
    loss = LabeledSource()(step_of(log_p, 4, 5))
    expected = source_posterior(log_p[:, 4:], torch.arange(5) % 2, uniform(3, log_p), 0.0).exp()
    assert loss.weights is not None
    torch.testing.assert_close(loss.weights, expected)


def test_at_beta_one_batch_norm_sees_no_source() -> None:
    """A model that subtracts the mean of the whole batch: the source must not be part of it."""
    log_p = draw(3, 9, 2)
    step = step_of(log_p, 4, 5)
    seen = []

    def student(x: Tensor) -> Tensor:
        seen.append(len(x))
        return log_p[:, x[:, 0].long()]

    LabeledSource(beta=1)(replace(step, student=student))
    LabeledSource(beta=0.5)(replace(step, student=student))
    assert seen == [4, 9]


def test_the_posterior_is_kept_finite_where_a_particle_excludes_the_data() -> None:
    log_p = torch.tensor([[[0.0, -math.inf]], [[math.log(0.5), math.log(0.5)]]])
    weights = source_posterior(log_p, torch.tensor([1]), uniform(2, log_p), 0.0)
    torch.testing.assert_close(weights.exp(), torch.tensor([0.0, 1.0]))


def test_what_they_need_is_declared() -> None:
    needs = UnlabeledSource(order=2, source_order=3).needs
    assert (needs.labels, needs.views, needs.source) == (False, ("weak",), True)
    assert (needs.tuple_size, needs.source_tuple_size, needs.enumerates) == (2, 3, 5)
    needs = LabeledSource(order=3).needs
    assert (needs.labels, needs.views, needs.source) == (False, ("weak",), True)
    assert (needs.tuple_size, needs.source_tuple_size, needs.enumerates) == (3, 0, 3)


def test_bad_settings_are_rejected_with_their_numbers() -> None:
    with pytest.raises(ValueError, match="beta must be at least 0 and at most 1, got 2"):
        UnlabeledSource(beta=2)
    with pytest.raises(ValueError, match="source_order must be a whole number of at least 1, got 0"):
        UnlabeledSource(source_order=0)
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, got 0"):
        UnlabeledSource(order=0)
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, got 0"):
        LabeledSource(order=0)
    with pytest.raises(ValueError, match="labels_from must be 'posterior' or 'prior', got 'both'"):
        LabeledSource(labels_from="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="5 items do not make tuples of 2"):
        UnlabeledSource()(step_of(draw(3, 9, 2), 4, 5))
    with pytest.raises(ValueError, match="expected as many source as target tuples, got 3 and 2"):
        UnlabeledSource()(step_of(draw(3, 10, 2), 4, 6))


@pytest.mark.parametrize("beta", [0.0, 0.75])
def test_the_source_is_taught_by_how_far_a_particle_is_from_the_mixture(beta: float) -> None:
    """∂I/∂log p(z^m | w_k) = (1 - β) π_k (KL_k - I), so that what all particles gain together is 0."""
    target, source, y = draw(3, 2, 4), draw(3, 5, 4, seed=1).requires_grad_(), torch.tensor([0, 3, 1, 1, 2])
    log_prior = uniform(3, target)
    loss = labeled_source(target, source, y, log_prior, LabeledSource(order=1, beta=beta))
    (gradient,) = torch.autograd.grad(-loss.total, source)
    weights = source_posterior(source.detach(), y, log_prior, beta).exp()
    mixture = torch.einsum("k,knc->nc", weights, target.exp()).log()
    far = (target.exp() * (target - mixture)).sum(-1).mean(1)  # KL_k, (3,)
    expected = (1 - beta) * weights * (far - (weights * far).sum())
    for image, label in enumerate(y):
        torch.testing.assert_close(gradient[:, image, label], expected)
    assert expected.sum().item() == pytest.approx(0, abs=1e-12)
