"""D-BAT against a plain loop, and which particles it moves."""

import math

import pytest
import torch

from refprior.losses import dbat
from refprior.methods import DBAT
from refprior.methods._dbat import agreement
from tests.methods.test_divdis import predictions


def test_the_loss_equals_a_plain_loop() -> None:
    labeled, unlabeled, y = predictions(0, 3, 5, 4), predictions(1, 3, 7, 4), torch.tensor([0, 3, 1, 2, 2])
    fit = agreed = 0.0
    for k in range(3):
        fit -= sum(labeled[k, i, y[i]].item() for i in range(5)) / 5 / 3
        for i in range(k):
            for n in range(7):
                label = int(unlabeled[i, n].argmax())
                p, q = unlabeled[i, n, label].exp().item(), unlabeled[k, n, label].exp().item()
                agreed -= math.log(p * (1 - q) + (1 - p) * q) / 7 / k / 3
    loss = dbat(labeled, y, unlabeled, settings=DBAT(weight=0.7))
    assert loss.total.item() == pytest.approx(fit + 0.7 * agreed)
    assert dbat(labeled, y, unlabeled, progress=0.05).total.item() == pytest.approx(fit)


def test_two_classes_disagree_with_the_probability_that_labels_differ() -> None:
    p, q = predictions(2, 2, 6, 2)
    differ = p[:, 0].exp() * q[:, 1].exp() + p[:, 1].exp() * q[:, 0].exp()
    torch.testing.assert_close(agreement(p, q), -differ.log())


def test_earlier_particles_are_held_fixed() -> None:
    logits = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labeled = torch.zeros(3, 1, 2).log_softmax(-1)
    dbat(labeled, torch.tensor([0]), logits.log_softmax(-1)).total.backward()
    assert logits.grad is not None
    assert not logits.grad[0].any()
    assert logits.grad[1].any()
    assert logits.grad[2].any()


def test_saturated_agreement_has_finite_gradients() -> None:
    logits = torch.tensor([[[1e4, 0.0]], [[1e4, 0.0]]], requires_grad=True)
    log_p = logits.log_softmax(-1)
    dbat(log_p, torch.tensor([0]), log_p).total.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    with pytest.raises(ValueError, match=r"warmup must be at least 0 and at most 1, got 1\.5"):
        DBAT(warmup=1.5)
