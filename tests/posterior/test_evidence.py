"""What the outputs of a source tell of target labels: against a plain sum, and at its two ends."""

import math

import pytest
import torch

from refprior.information import uniform
from refprior.posterior import transferability


def test_it_is_the_plain_sum() -> None:
    log_p = torch.randn(3, 8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    y, prior = torch.tensor([0, 1, 1, 0, 2, 2, 1, 0]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    total = 0.0
    for k in range(3):
        p = log_p[k].exp()
        for i in range(8):
            told = 0.0
            for z in range(4):
                seen = sum(float(p[j, z]) for j in range(8))
                told += float(p[i, z]) * sum(float(p[j, z]) for j in range(8) if y[j] == y[i]) / seen
            total += float(prior[k]) * math.log(told) / 8
    assert float(transferability(log_p, y, 3, prior.log())) == pytest.approx(total)


def test_renamed_classes_are_told_in_full_and_noise_not_at_all() -> None:
    y = torch.arange(60) % 3
    renamed = (100.0 * torch.nn.functional.one_hot((y + 1) % 3, 5)).log_softmax(-1).expand(2, 60, 5)
    constant = torch.zeros(2, 60, 5).log_softmax(-1)
    assert float(transferability(renamed, y, 3, uniform(2, renamed))) == pytest.approx(0, abs=1e-6)
    assert float(transferability(constant, y, 3, uniform(2, constant))) == pytest.approx(-math.log(3))


def test_labels_are_needed() -> None:
    log_p = torch.zeros(1, 0, 2)
    with pytest.raises(ValueError, match="need labeled target examples"):
        transferability(log_p, torch.zeros(0, dtype=torch.int64), 2, uniform(1, log_p))
