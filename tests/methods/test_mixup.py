"""Mixup: who is mixed with whom, by which share, and the loss against a plain loop."""

import pytest
import torch
from scipy import stats
from torch import Tensor

from refprior.methods import Mixup
from refprior.methods._mixing import mix, mixed_targets, mixing_shares
from tests.methods.tables import (
    LABELED,
    UNLABELED,
    C,
    K,
    Table,
    Y,
    assert_same,
    each_input,
    kinds,
    nothing,
    seeds,
)


def mixtures(table: Table) -> Tensor:
    """What the particles saw last, and learned from: a row per mixed input, a column per input."""
    return torch.cat(table.seen[1:])


def plain(table: Table, mixed: Tensor, weight: float) -> Tensor:
    """CE(mixed labels, p(mixed x)) + w · CE(mixed guesses, p(mixed u)), guesses without gradient."""
    log_p, guesses = (mixed @ table.logits).log_softmax(-1), table.logits.detach().softmax(-1)
    total = nothing()
    for k, i in each_input(log_p):
        labeled = i < LABELED
        target = torch.zeros(C, dtype=torch.float64)
        for j, share in enumerate(mixed[i].tolist()):
            if share:
                target = target + share * (torch.eye(C)[Y[j]] if j < LABELED else guesses[k, j])
        value = -sum((target[c] * log_p[k, i, c] for c in range(C) if target[c]), nothing())
        total = total + value / (K * LABELED) if labeled else total + weight * value / (K * UNLABELED)
    return total


@kinds
@seeds
def test_the_loss_equals_a_loop(kind: str, seed: int) -> None:
    method = Mixup(weight=0.7)
    table = Table(method, kind, seed)
    loss = method(table.step(generator=torch.Generator().manual_seed(seed)))
    assert_same(loss, plain(table, mixtures(table), weight=0.7), table)


def test_partners_are_at_the_same_place_from_the_end_and_shares_at_least_a_half() -> None:
    table = Table(Mixup())
    Mixup()(table.step(generator=torch.Generator().manual_seed(0)))
    clean, mixed = table.seen[0], mixtures(table)
    assert clean.equal(torch.eye(LABELED + UNLABELED, dtype=torch.float64)[LABELED:])  # guesses are of clean inputs
    assert len(mixed) == LABELED + UNLABELED
    partners = [3, 2, 1, 0, 9, 8, 7, 6, 5, 4]
    for i, partner in enumerate(partners):
        share = float(mixed[i, i])
        assert 0.5 <= share < 1
        assert mixed[i, partner].item() == pytest.approx(1 - share)
        assert mixed[i].count_nonzero() == 2
    assert len(set(mixed.diagonal().tolist())) == len(mixed)  # one share each


def test_pairs_by_hand() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    share = torch.tensor([0.5, 1.0, 0.75])
    torch.testing.assert_close(mix(x, x.flip(0), share), torch.tensor([[2.0, 3.0], [2.0, 3.0], [3.0, 4.0]]))
    q = torch.tensor([[[1.0, 0.0], [0.3, 0.7], [0.2, 0.8]]])
    expected = torch.tensor([[[0.6, 0.4], [0.3, 0.7], [0.4, 0.6]]])
    torch.testing.assert_close(mixed_targets(q, share), expected)


@pytest.mark.parametrize("beta", [0.2, 0.75, 4.0])
def test_shares_are_the_larger_of_a_beta_distribution(beta: float) -> None:
    drawn = mixing_shares(4000, beta, torch.zeros(1, dtype=torch.float64), torch.Generator().manual_seed(1))
    folded = lambda s: 2 * stats.beta(beta, beta).cdf(s) - 1  # noqa: E731
    assert stats.kstest(drawn.numpy(), folded).pvalue > 0.01


def test_shares_come_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    one, other = (mixing_shares(5, 0.75, torch.zeros(1), torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.equal(other)
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"beta": 0.0}, r"beta must be above 0, got 0\.0"), ({"weight": -1.0}, r"weight must be at least 0, got -1\.0")],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixup(**fields)
