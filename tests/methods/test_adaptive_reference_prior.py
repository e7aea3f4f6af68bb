"""The adaptive reference prior against a plain loop with beliefs of its own, over several steps."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from refprior.information import marginal_entropy, tuples, uniform
from refprior.methods import AdaptiveReferencePrior
from refprior.methods._adaptive_reference_prior import corrected
from tests.methods.tables import UNLABELED, C, K, Table, assert_same, each_input, kinds, plain_cross_entropy

DECAY, COUNT, SHARES = 0.8, 0.25, (2.0, 1.0, 3.0)


class Plain:
    """Confidence and shares of the pool as numbers."""

    def __init__(self) -> None:
        self.confidence, self.pool = 1 / C, [1 / C] * C

    def targets(self, weak: Tensor, progress: float) -> list[list[list[float]]]:
        """The beliefs about the classes move, then predictions are corrected to the posterior class shares."""
        p = weak.detach().exp()
        mean = p.mean(0)  # (n, C)
        for c in range(C):
            self.pool[c] = DECAY * self.pool[c] + (1 - DECAY) * float(mean[:, c].mean())
        share = 1 / (1 + progress / COUNT)
        self.shares = [(1 - share) * m + share * s / sum(SHARES) for s, m in zip(SHARES, self.pool, strict=True)]
        posterior = [share / (m + 1e-4) for share, m in zip(self.shares, self.pool, strict=True)]
        found = []
        for k in range(K):
            rows = [[float(q) * r for q, r in zip(row, posterior, strict=True)] for row in p[k]]
            found.append([[q / sum(row) for q in row] for row in rows])
        return found

    def loss(self, table: Table, progress: float, balance: float) -> Tensor:
        weak, strong = table.part("weak"), table.part("strong")
        targets = self.targets(weak, progress)
        seen = sum(max(row) for rows in targets for row in rows) / (K * UNLABELED)
        self.confidence = DECAY * self.confidence + (1 - DECAY) * seen
        total = plain_cross_entropy(table)
        for k, i in each_input(weak):
            target = max(range(C), key=targets[k][i].__getitem__)
            if targets[k][i][target] >= self.confidence * self.pool[target] / max(self.pool):
                total = total - strong[k, i, target] / (K * UNLABELED)
        for k, c in product(range(K), range(C)):
            log_mean = strong[k, :, c].logsumexp(0) - math.log(UNLABELED)
            total = total + balance * self.shares[c] * (math.log(self.shares[c]) - log_mean) / K
        mixed = (weak.detach().exp() / 3 + 2 * strong.exp() / 3).clamp_min(1e-300).log()
        h_y = marginal_entropy(tuples(mixed, 2), uniform(K, mixed)).mean()
        return total - (1 - progress) * 0.3 * h_y


@kinds
@pytest.mark.parametrize("balance", [0.0, 0.7])
def test_steps_equal_a_loop_with_its_own_beliefs(kind: str, balance: float) -> None:
    settings: dict[str, Any] = {"alpha": 0.3, "count": COUNT, "balance": balance}
    method = AdaptiveReferencePrior(class_prior=SHARES, momentum=DECAY, **settings)
    memory, plain, shares = dict[str, Tensor](), Plain(), []
    for seed in range(6):
        table = Table(method, kind, seed)
        expected = plain.loss(table, seed / 6, balance)
        loss = method(table.step(memory=memory, progress=seed / 6))
        assert_same(loss, expected, table)
        shares.append(loss.terms["confident"].item())
    assert 0 < min(shares) <= max(shares) <= 1
    assert {name: tensor.shape for name, tensor in memory.items()} == {"confidence": (), "pool": (C,)}


def test_class_shares_move_from_the_prior_to_the_pool() -> None:
    """Predictions of the pool by Bayes' law, with the posterior mean of a Dirichlet prior."""
    pool = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    log_p = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).log()
    settings = AdaptiveReferencePrior(class_prior=(1, 1, 2), count=0.5)
    for progress, share in ((0.0, 1.0), (0.25, 2 / 3), (1.0, 1 / 3)):
        posterior = (1 - share) * pool + share * torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64)
        expected = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64) * posterior / (pool + 1e-4)
        found = corrected(log_p, pool, settings, progress).exp()[0]
        torch.testing.assert_close(found, expected / expected.sum(), rtol=1e-3, atol=0)


BAD = [
    ({"alpha": -1.0}, "alpha must be at least 0"),
    ({"count": 0.0}, "count must be above 0"),
    ({"balance": -1.0}, "balance must be at least 0"),
    ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdaptiveReferencePrior(**settings)  # type: ignore[arg-type]
