"""FlexMatch against a plain loop with a memory of its own, over several steps, and against FixMatch."""

import pytest
import torch
from torch import Tensor

from refprior.losses import fixmatch, flexmatch
from refprior.methods import FixMatch, FlexMatch
from refprior.methods._adaptive import convex, learning_effect
from tests.methods.tables import UNLABELED, C, K, Table, assert_same, each_input, kinds, plain_cross_entropy, share

POOL = 9


class Plain:
    """The last confident label of every input of the pool, -1: none yet; one list per particle."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.labels = [[-1] * POOL for _ in range(K)]

    def thresholds(self, k: int) -> list[float]:
        counts = [self.labels[k].count(c) for c in range(C)]
        beta = [count / max(*counts, self.labels[k].count(-1)) for count in counts]
        return [self.threshold * b / (2 - b) for b in beta]

    def loss(self, table: Table, index: list[int]) -> tuple[Tensor, float]:
        """CE + mean of 1[max p(w) ≥ τ M(β_c)] · CE(c, p(s)); then the memory moves on."""
        weak, strong = table.part("weak"), table.part("strong")
        total, used = plain_cross_entropy(table), []
        limits = [self.thresholds(k) for k in range(K)]
        for k, i in each_input(weak):
            best, label = (v.item() for v in weak[k, i].exp().max(0))
            used.append(float(best >= limits[k][int(label)]))
            total = total - used[-1] * strong[k, i, int(label)] / (K * UNLABELED)
            if best >= self.threshold:
                self.labels[k][index[i]] = int(label)
        return total, share(used)


@kinds
def test_eight_steps_equal_a_loop_with_its_own_memory(kind: str) -> None:
    method, memory, plain, shares = FlexMatch(threshold=0.7), dict[str, Tensor](), Plain(0.7), []
    for seed in range(8):
        table = Table(method, kind, seed)
        index = torch.randperm(POOL, generator=torch.Generator().manual_seed(seed))[:UNLABELED]
        expected, used = plain.loss(table, index.tolist())
        loss = method(table.step(memory=memory, index=index, pool_size=POOL))
        assert_same(loss, expected, table)
        assert loss.terms["confident"].item() == pytest.approx(used)
        shares.append(used)
    assert shares[0] == 1  # no class is learned yet: every threshold is 0
    assert kind == "saturated" or min(shares) < 1


def test_an_unsure_input_keeps_its_last_label() -> None:
    method, memory, plain = FlexMatch(threshold=0.9), dict[str, Tensor](), Plain(0.9)
    for kind in ("saturated", "random", "random"):
        table = Table(method, kind, seed=3)
        expected, _ = plain.loss(table, list(range(UNLABELED)))
        assert_same(method(table.step(memory=memory, pool_size=POOL)), expected, table)
        assert all(labels.count(-1) == POOL - UNLABELED for labels in plain.labels)


@kinds
def test_equal_thresholds_are_fixmatch(kind: str) -> None:
    table = Table(FixMatch(), kind)
    labeled, weak, strong = (table.part(name) for name in ("labeled", "weak", "strong"))
    y = torch.tensor([0, 2, 1, 1])
    equal = torch.full((K, C), 0.7, dtype=torch.float64)
    expected = fixmatch(labeled, y, weak, strong, settings=FixMatch(threshold=0.7, weight=0.3))
    assert_same(flexmatch(labeled, y, weak, strong, equal, settings=FlexMatch(weight=0.3)), expected.total, table)


def test_classes_that_are_learned_alike_have_the_threshold_of_fixmatch() -> None:
    """Three labels of each class and no input without one: β = 1 and M(1) = 1 for all."""
    labels = torch.arange(9).remainder(3).expand(2, 9)
    assert convex(learning_effect(labels, 3)).tolist() == [[1.0] * 3] * 2


def test_learning_effect_by_hand() -> None:
    """σ = (4, 2, 0); 3 inputs without a label: by the largest count; 6 without: by those."""
    few, many = torch.tensor([[0, 0, 0, 0, 1, 1, -1, -1, -1]]), torch.tensor([[0, 0, 0, 0, 1, 1] + [-1] * 6])
    torch.testing.assert_close(learning_effect(few, 3), torch.tensor([[1, 1 / 2, 0]]))
    torch.testing.assert_close(learning_effect(many, 3), torch.tensor([[4 / 6, 2 / 6, 0]]))
    torch.testing.assert_close(convex(torch.tensor([0, 0.5, 1])), torch.tensor([0, 1 / 3, 1]))


BAD: list[tuple[dict[str, float], str]] = [
    ({"threshold": 0.0}, r"threshold must be above 0 and at most 1, got 0\.0"),
    ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FlexMatch(**fields)
