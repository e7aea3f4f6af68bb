"""The two cases of the two-stage prior against plain enumerations of every labeling."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from refprior.information import mutual_information, uniform
from refprior.methods import Batch, LabelledSource, Step, UnlabelledSource
from refprior.methods._two_stage import joint_information, source_posterior


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
    loss = UnlabelledSource(order=2, source_order=3, beta=beta)(step_of(log_p, 4, 6))
    target, source = log_p[:, :4].reshape(4, 2, 2, 2), log_p[:, 4:].reshape(4, 2, 3, 2)
    prior = uniform(4, log_p)
    both = mutual_information(torch.cat([target, source], 2), prior).mean()
    torch.testing.assert_close(loss.total, beta * mutual_information(source, prior).mean() - both)


def test_case_one_at_beta_one_is_what_the_target_adds() -> None:
    """I(w; t, s) - I(w; s) = I(w; t | s): between 0 and I(w; t), since labels are independent given the weights."""
    log_p = draw(4, 8, 3)
    gain = -UnlabelledSource(beta=1)(step_of(log_p, 4, 4)).total
    alone = mutual_information(log_p[:, :4].reshape(4, 2, 2, 3), uniform(4, log_p)).mean()
    assert 0 < gain < alone


def test_case_two_is_the_information_under_the_sources_posterior() -> None:
    log_p = draw(3, 4 + 5, 2)
    step = step_of(log_p, 4, 5)
    loss = LabelledSource(beta=0)(step)
    likelihood = [math.prod(log_p[k, 4 + i, y].exp().item() for i, y in enumerate([0, 1, 0, 1, 0])) for k in range(3)]
    posterior = torch.tensor([v / sum(likelihood) for v in likelihood], dtype=torch.float64)
    expected = mutual_information(log_p[:, :4].reshape(3, 2, 2, 2), posterior.log()).mean()
    torch.testing.assert_close(-loss.total, expected)


def test_case_two_at_beta_one_forgets_the_source() -> None:
    log_p = draw(3, 4 + 5, 2)
    alone = mutual_information(log_p[:, :4].reshape(3, 2, 2, 2), uniform(3, log_p)).mean()
    torch.testing.assert_close(-LabelledSource(beta=1)(step_of(log_p, 4, 5)).total, alone)


def test_the_posterior_is_kept_finite_where_a_particle_excludes_the_data() -> None:
    log_p = torch.tensor([[[0.0, -math.inf]], [[math.log(0.5), math.log(0.5)]]])
    weights = source_posterior(log_p, torch.tensor([1]), uniform(2, log_p), 0.0)
    torch.testing.assert_close(weights.exp(), torch.tensor([0.0, 1.0]))


def test_what_they_need_is_declared() -> None:
    needs = UnlabelledSource(order=2, source_order=3).needs
    assert (needs.labels, needs.views, needs.source) == (False, ("weak",), True)
    assert (needs.tuple_size, needs.source_tuple_size, needs.enumerates) == (2, 3, 5)
    needs = LabelledSource(order=3).needs
    assert (needs.labels, needs.views, needs.source) == (False, ("weak",), True)
    assert (needs.tuple_size, needs.source_tuple_size, needs.enumerates) == (3, 0, 3)


def test_bad_settings_are_refused_with_their_numbers() -> None:
    with pytest.raises(ValueError, match="beta must be at least 0 and at most 1, got 2"):
        UnlabelledSource(beta=2)
    with pytest.raises(ValueError, match="source_order must be a whole number of at least 1, got 0"):
        UnlabelledSource(source_order=0)
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, got 0"):
        UnlabelledSource(order=0)
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, got 0"):
        LabelledSource(order=0)
    with pytest.raises(ValueError, match="5 items do not make tuples of 2"):
        UnlabelledSource()(step_of(draw(3, 9, 2), 4, 5))
    with pytest.raises(ValueError, match="2 target tuples but 3 source tuples: need as many of both"):
        UnlabelledSource()(step_of(draw(3, 10, 2), 4, 6))
