"""MixMatch: guesses, sharpening and mixing by hand, and the loss against a plain loop."""

import pytest
import torch
from torch import Tensor

from refprior.methods import MixMatch
from refprior.methods._consistency import squared_error
from refprior.methods._fixmatch import sharpen
from refprior.methods._mixing import guessed
from tests.methods.tables import LABELED, UNLABELED, C, K, Table, Y, assert_same, each_input, kinds, nothing, seeds

ROWS = LABELED + 2 * UNLABELED


def mixtures(table: Table) -> Tensor:
    """What the particles learned from: a row per mixed input, a column per input."""
    return torch.cat(table.seen[1:])


def guess(table: Table, k: int, i: int, temperature: float) -> Tensor:
    """The mean prediction of both views of an input, to the power 1/T, normalized."""
    p = table.logits.detach()[k].softmax(-1)
    mean = (p[LABELED + i] + p[LABELED + UNLABELED + i]) / 2
    power = mean ** (1 / temperature)
    return power / power.sum()


def plain(table: Table, mixed: Tensor, weight: float, temperature: float = 0.5) -> Tensor:
    """CE of mixed labeled inputs + w · mean over views and classes of (target - p)² of mixed unlabeled ones."""
    log_p, total = (mixed @ table.logits).log_softmax(-1), nothing()
    for k, i in each_input(log_p):
        target = torch.zeros(C, dtype=torch.float64)
        for j, share in enumerate(mixed[i].tolist()):
            if share:
                label = torch.eye(C)[Y[j]] if j < LABELED else guess(table, k, (j - LABELED) % UNLABELED, temperature)
                target = target + share * label
        if i < LABELED:
            total = total - sum((target[c] * log_p[k, i, c] for c in range(C) if target[c]), nothing()) / (K * LABELED)
        else:
            total = total + weight * (target - log_p[k, i].exp()).square().sum() / (K * 2 * UNLABELED * C)
    return total


@kinds
@seeds
def test_the_loss_equals_a_loop(kind: str, seed: int) -> None:
    method = MixMatch(ramp=0.5)
    for progress, weight in ((0.0, 0.0), (0.25, 37.5), (0.5, 75.0), (1.0, 75.0)):
        table = Table(method, kind, seed)
        loss = method(table.step(progress=progress, generator=torch.Generator().manual_seed(seed)))
        assert_same(loss, plain(table, mixtures(table), weight), table)


def test_the_ramp_is_a_64th_of_training() -> None:
    """16,384 of 2²⁰ steps."""
    table = Table(MixMatch())
    loss = MixMatch()(table.step(progress=8192 / 2**20, generator=torch.Generator().manual_seed(0)))
    assert_same(loss, plain(table, mixtures(table), 37.5), table)


def test_every_input_is_mixed_with_another_place_of_all_of_them() -> None:
    """Partners are a permutation of labeled inputs and both views; the larger share stays in its place."""
    labeled_with_unlabeled = 0
    for seed in range(5):
        table = Table(MixMatch())
        MixMatch()(table.step(generator=torch.Generator().manual_seed(seed)))
        mixed = mixtures(table)
        assert mixed.shape == (ROWS, ROWS)
        others = mixed - mixed.diagonal().diag()
        assert (mixed.diagonal() >= 0.5).all()
        torch.testing.assert_close(mixed.sum(1), torch.ones(ROWS, dtype=torch.float64))
        partners = [int(row.argmax()) if row.any() else i for i, row in enumerate(others)]
        assert sorted(partners) == list(range(ROWS))
        assert (others.count_nonzero(1) <= 1).all()
        labeled_with_unlabeled += sum(partner >= LABELED for partner in partners[:LABELED])
    assert labeled_with_unlabeled > 0


def test_guesses_are_of_clean_views_without_gradient() -> None:
    table = Table(MixMatch())
    MixMatch()(table.step(generator=torch.Generator().manual_seed(0)))
    assert table.seen[0].equal(torch.eye(ROWS, dtype=torch.float64)[LABELED:])


def test_sharpening_by_hand() -> None:
    """T = 1/2 squares: (0.5, 0.3, 0.2) becomes (25, 9, 4) / 38."""
    found = sharpen(torch.tensor([0.5, 0.3, 0.2]).log(), 0.5).exp()
    torch.testing.assert_close(found, torch.tensor([25.0, 9.0, 4.0]) / 38)
    views = torch.tensor([[[[0.8, 0.2]]], [[[0.4, 0.6]]]])  # their mean is (0.6, 0.4)
    found = guessed(views.log(), 0.5)
    found = found.exp() if (found <= 0).all() else found
    torch.testing.assert_close(found, torch.tensor([[[9.0, 4.0]]]) / 13)


def test_sharpening_of_what_is_impossible() -> None:
    found = sharpen(torch.tensor([0.5, 0.5, 0.0]).log(), 0.5).exp()
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5, 0.0]))


def test_squared_error_by_hand() -> None:
    found = squared_error(torch.tensor([0.9, 0.1, 0.0]), torch.tensor([0.5, 0.25, 0.25]).log())
    assert found.item() == pytest.approx((0.16 + 0.0225 + 0.0625) / 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beta": 0.0}, r"beta must be above 0, got 0\.0"),
        ({"temperature": 0.0}, r"temperature must be above 0, got 0\.0"),
        ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
        ({"ramp": -1.0}, r"ramp must be at least 0.*, got -1\.0"),
    ],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixMatch(**fields)
