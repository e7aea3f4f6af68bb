"""FreeMatch against a plain loop with beliefs of its own, over several steps, and against FixMatch."""

import math

import pytest
import torch
from torch import Tensor

from refprior.losses import fixmatch, freematch
from refprior.methods import FixMatch, FreeMatch
from refprior.methods._adaptive import Beliefs
from tests.methods.tables import UNLABELED, C, K, Table, assert_same, each_input, kinds, nothing, plain_cross_entropy

DECAY = 0.8


class Plain:
    """τ, p̃ and h̃ of every particle as lists of numbers, 1/C at first."""

    def __init__(self) -> None:
        self.tau = [1 / C] * K
        self.marginal = [[1 / C] * C for _ in range(K)]
        self.histogram = [[1 / C] * C for _ in range(K)]

    def learn(self, weak: Tensor) -> None:
        p = weak.detach().exp()
        for k in range(K):
            labels = p[k].argmax(-1).tolist()
            self.tau[k] = DECAY * self.tau[k] + (1 - DECAY) * sum(float(row.max()) for row in p[k]) / UNLABELED
            for c in range(C):
                mean, counted = float(p[k, :, c].mean()), labels.count(c) / UNLABELED
                self.marginal[k][c] = DECAY * self.marginal[k][c] + (1 - DECAY) * mean
                self.histogram[k][c] = DECAY * self.histogram[k][c] + (1 - DECAY) * counted

    def loss(self, table: Table, fairness: float) -> tuple[Tensor, Tensor]:
        """The beliefs move first, then come thresholds, pseudo-labels and fairness. The total, and which are used."""
        weak, strong = table.part("weak"), table.part("strong")
        self.learn(weak)
        total, used = plain_cross_entropy(table), torch.zeros(K, UNLABELED)
        for k, i in each_input(weak):
            best, label = (v.item() for v in weak[k, i].exp().max(0))
            limit = self.tau[k] * self.marginal[k][int(label)] / max(self.marginal[k])
            used[k, i] = best >= limit
            total = total - float(used[k, i]) * strong[k, i, int(label)] / (K * UNLABELED)
        for k in range(K):
            total = total + fairness * self.fairness(k, strong[k][used[k] > 0]) / K
        return total, used

    def fairness(self, k: int, strong: Tensor) -> Tensor:
        """Σ_c a_c log b_c = -CE(a, b): a is p̃ / h̃ and b the same of strong views in use, both normalized. The original
        adds 1e-12 to b, which is a constant for classes that no strong view has: they are left out here."""
        if not len(strong):
            return nothing()
        a = [p / h for p, h in zip(self.marginal[k], self.histogram[k], strict=True)]
        labels = strong.argmax(-1).tolist()
        there = [c for c in range(C) if c in labels]
        b = {c: strong[:, c].exp().mean() / (labels.count(c) / len(labels)) for c in there}
        return sum((a[c] / sum(a) * (b[c] / sum(b.values())).log() for c in there), nothing())


@kinds
@pytest.mark.parametrize("fairness", [0.0, 0.3])
def test_eight_steps_equal_a_loop_with_its_own_beliefs(kind: str, fairness: float) -> None:
    method, memory, plain = FreeMatch(momentum=DECAY, fairness=fairness), dict[str, Tensor](), Plain()
    shares = []
    for seed in range(8):
        table = Table(method, kind, seed)
        expected, used = plain.loss(table, fairness)
        loss = method(table.step(memory=memory))
        assert_same(loss, expected, table)
        assert loss.terms["confident"].item() == pytest.approx(used.mean().item())
        shares.append(used.mean().item())
    assert min(shares) < 1 if kind == "random" else max(shares) > 0


def test_fairness_is_higher_where_strong_views_are_unfair() -> None:
    """Two strong views for class 0 and one for class 1, by hand."""
    beliefs = Beliefs(torch.tensor([0.5]), torch.tensor([[0.5, 0.5]]), torch.tensor([[0.6, 0.4]]))
    p = torch.tensor([[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]]).log()
    a = [0.5 / 0.6, 0.5 / 0.4]
    b = [2 / 3 / (2 / 3), 1 / 3 / (1 / 3)]
    expected = sum(x / sum(a) * math.log(y / sum(b)) for x, y in zip(a, b, strict=True))
    loss = freematch(p[:, :1], torch.tensor([0]), p, p, beliefs)
    assert loss.terms["fairness"].item() == pytest.approx(expected, rel=1e-5)


def test_a_particle_that_uses_nothing_has_no_fairness_term() -> None:
    table = Table(FreeMatch(), "random")
    sure = Beliefs(torch.ones(K), torch.full((K, C), 1 / C), torch.full((K, C), 1 / C))
    labeled, weak, strong = (table.part(name) for name in ("labeled", "weak", "strong"))
    loss = freematch(labeled, torch.tensor([0, 2, 1, 1]), weak, strong, Beliefs(*(b.double() for b in sure)))
    assert loss.terms["confident"] == 0
    assert loss.terms["fairness"] == 0
    assert_same(loss, plain_cross_entropy(table), table)


@kinds
def test_without_fairness_and_with_constant_beliefs_it_is_fixmatch(kind: str) -> None:
    table = Table(FixMatch(), kind)
    labeled, weak, strong = (table.part(name) for name in ("labeled", "weak", "strong"))
    y = torch.tensor([0, 2, 1, 1])
    beliefs = Beliefs(*(torch.full(shape, value, dtype=torch.float64) for shape, value in (
        ((K,), 0.7), ((K, C), 1 / C), ((K, C), 1 / C)
    )))  # fmt: skip
    expected = fixmatch(labeled, y, weak, strong, settings=FixMatch(threshold=0.7, weight=0.3))
    settings = FreeMatch(fairness=0.0, weight=0.3)
    assert_same(freematch(labeled, y, weak, strong, beliefs, settings=settings), expected.total, table)


def test_the_momentum_is_that_of_the_weights_unless_given() -> None:
    for method, ema in ((FreeMatch(), DECAY), (FreeMatch(momentum=DECAY), 0.1)):
        memory, plain = dict[str, Tensor](), Plain()
        table = Table(method, "random", seed=1)
        expected, _ = plain.loss(table, method.fairness)
        assert_same(method(table.step(memory=memory, ema=ema)), expected, table)


BAD: list[tuple[dict[str, float], str]] = [
    ({"momentum": 1.0}, r"momentum must be at least 0 and below 1, got 1\.0"),
    ({"fairness": -1.0}, r"fairness must be at least 0, got -1\.0"),
    ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FreeMatch(**fields)
