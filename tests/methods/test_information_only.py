"""The information alone, against a plain enumeration of eq:ref_ssl."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from refprior.methods import Batch, InformationOnly, Step


def step_of(log_p: Tensor, log_prior: Tensor) -> Step:
    """A model that looks its predictions up: the image of item i is the number i."""
    items = torch.arange(log_p.shape[1]).float().unsqueeze(1)
    batch = Batch(views={"weak": items})
    return Step(batch=batch, student=lambda x: log_p[:, x[:, 0].long()], teacher=lambda x: x, log_prior=log_prior)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_loss_is_minus_the_information(order: int) -> None:
    generator = torch.Generator().manual_seed(order)
    log_p = torch.randn(4, 6, 2, generator=generator, dtype=torch.float64).log_softmax(-1)
    log_prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64).log()
    weights, p = log_prior.exp().tolist(), log_p.exp().tolist()
    expected = 0.0
    for start in range(0, 6, order):
        for labels in itertools.product(range(2), repeat=order):
            each = [math.prod(p[k][start + j][y] for j, y in enumerate(labels)) for k in range(4)]
            mean = sum(w * q for w, q in zip(weights, each, strict=True))
            expected += sum(w * q * math.log(q / mean) for w, q in zip(weights, each, strict=True)) / (6 // order)
    loss = InformationOnly(order=order)(step_of(log_p, log_prior))
    assert loss.total.item() == pytest.approx(-expected, abs=1e-12)
    assert loss.terms["information"].item() == pytest.approx(expected, abs=1e-12)
    assert (loss.terms["marginal_entropy"] - loss.terms["conditional_entropy"]).item() == pytest.approx(expected)


def test_the_prior_learns_only_if_asked() -> None:
    log_p = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0)).log_softmax(-1).requires_grad_()
    for trainable in (False, True):
        logits = torch.zeros(3, requires_grad=True)
        torch.autograd.backward(InformationOnly(2, trainable)(step_of(log_p, logits.log_softmax(0))).total)
        assert (logits.grad is not None) == trainable


def test_bad_order_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, got 0"):
        InformationOnly(order=0)
