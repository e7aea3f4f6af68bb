"""DivDis against plain loops over pairs of particles, and its bounds."""

import math
from itertools import combinations

import pytest
import torch
from torch import Tensor

from refprior.losses import divdis
from refprior.methods import DivDis
from refprior.methods._divdis import pairwise_information


def predictions(seed: int, particles: int, inputs: int, classes: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(particles, inputs, classes, generator=generator, dtype=torch.float64)
    return logits.log_softmax(-1)


def test_the_loss_equals_plain_loops() -> None:
    labeled, unlabeled, y = predictions(0, 3, 5, 4), predictions(1, 3, 7, 4), torch.tensor([0, 3, 1, 2, 2])
    q = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    fit = information = skew = 0.0
    for k in range(3):
        fit -= sum(labeled[k, i, y[i]].item() for i in range(5)) / 5 / 3
        shares = [unlabeled[k, :, c].exp().mean().item() for c in range(4)]
        skew += sum(shares[c] * math.log(shares[c] / q[c].item()) for c in range(4)) / 3
    for i, j in combinations(range(3), 2):
        for c in range(4):
            for d in range(4):
                joint = (unlabeled[i, :, c].exp() * unlabeled[j, :, d].exp()).mean().item()
                apart = unlabeled[i, :, c].exp().mean().item() * unlabeled[j, :, d].exp().mean().item()
                information += joint * math.log(joint / apart) / 3
    settings = DivDis(independence=0.7, balance=1.3, class_prior=(1, 2, 3, 4))
    loss = divdis(labeled, y, unlabeled, settings=settings)
    assert loss.total.item() == pytest.approx(fit + 0.7 * information + 1.3 * skew)
    assert loss.terms["pairwise_information"].item() == pytest.approx(information)


def test_pairwise_information_is_zero_for_independent_and_one_bit_for_equal_labels() -> None:
    labels = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]])  # independent, and opposite to the first
    found = pairwise_information(torch.eye(2)[labels].log())
    torch.testing.assert_close(found, torch.tensor([0.0, math.log(2), 0.0]))


def test_saturated_predictions_have_finite_gradients() -> None:
    logits = torch.tensor([[[1e4, 0.0], [0.0, 1e4]], [[0.0, 1e4], [1e4, 0.0]]], requires_grad=True)
    log_p = logits.log_softmax(-1)
    divdis(log_p, torch.tensor([0, 1]), log_p).total.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_one_particle_has_no_pair() -> None:
    log_p = predictions(0, 1, 4, 2)
    assert divdis(log_p, torch.tensor([0, 1, 0, 1]), log_p).terms["pairwise_information"] == 0


def test_shares_must_match_the_classes() -> None:
    log_p = predictions(0, 2, 4, 3)
    with pytest.raises(ValueError, match="expected 3 class shares in class_prior, got 2"):
        divdis(log_p, torch.tensor([0, 1, 0, 1]), log_p, settings=DivDis(class_prior=(1, 2)))
    with pytest.raises(ValueError, match="balance must be at least 0, got -1"):
        DivDis(balance=-1)
