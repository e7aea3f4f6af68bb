"""SoftMatch against a plain loop with averages of its own, over several steps, and against FixMatch."""

import math
import statistics

import pytest
import torch
from torch import Tensor

from refprior.losses import fixmatch, softmatch
from refprior.methods import FixMatch, SoftMatch
from refprior.methods._adaptive import aligned, truncated_gaussian
from refprior.methods._reference_prior import confident
from tests.methods.tables import UNLABELED, C, K, Table, assert_same, each_input, kinds, plain_cross_entropy, share

DECAY = 0.8


class Plain:
    """μ and σ² of the aligned confidences, and the mean prediction, of every particle as numbers."""

    def __init__(self, widths: float = 2.0) -> None:
        self.widths = widths
        self.center, self.variance = [1 / C] * K, [1.0] * K
        self.marginal: list[list[float] | None] = [None] * K  # the first batch's own

    def weights(self, k: int, weak: Tensor) -> list[float]:
        """Everything moves first: the mean prediction, then the moments of predictions that are aligned with it."""
        p = weak.detach().exp()
        means = [float(p[:, c].mean()) for c in range(C)]
        before = self.marginal[k]
        now = means if before is None else [DECAY * a + (1 - DECAY) * b for a, b in zip(before, means, strict=True)]
        self.marginal[k] = now
        sure = []
        for row in p:
            scaled = [float(row[c]) * (1 / C + 1e-6) / (now[c] + 1e-6) for c in range(C)]
            sure.append(max(scaled) / sum(scaled))
        self.center[k] = DECAY * self.center[k] + (1 - DECAY) * statistics.mean(sure)
        self.variance[k] = DECAY * self.variance[k] + (1 - DECAY) * statistics.variance(sure)
        width = 2 * self.variance[k] / self.widths**2
        return [math.exp(-(min(s - self.center[k], 0.0) ** 2) / width) for s in sure]

    def loss(self, table: Table) -> tuple[Tensor, float]:
        """CE + mean of λ · CE(argmax p(w), p(s)); the label is that of the prediction as it is, not aligned."""
        weak, strong = table.part("weak"), table.part("strong")
        weights = [self.weights(k, weak[k]) for k in range(K)]
        total = plain_cross_entropy(table)
        for k, i in each_input(weak):
            total = total - weights[k][i] * strong[k, i, int(weak[k, i].argmax())] / (K * UNLABELED)
        return total, share([w for row in weights for w in row])


@kinds
@pytest.mark.parametrize("widths", [2.0, 0.7])
def test_eight_steps_equal_a_loop_with_its_own_averages(kind: str, widths: float) -> None:
    method, memory, plain = SoftMatch(momentum=DECAY, widths=widths), dict[str, Tensor](), Plain(widths)
    for seed in range(8):
        table = Table(method, kind, seed)
        expected, weight = plain.loss(table)
        loss = method(table.step(memory=memory))
        assert_same(loss, expected, table)
        assert loss.terms["confident"].item() == pytest.approx(weight)
    assert kind == "saturated" or weight < 1


@kinds
def test_weights_of_nothing_and_one_are_fixmatch(kind: str) -> None:
    table = Table(FixMatch(), kind)
    labeled, weak, strong = (table.part(name) for name in ("labeled", "weak", "strong"))
    y, weights = torch.tensor([0, 2, 1, 1]), confident(weak, 0.7)
    expected = fixmatch(labeled, y, weak, strong, settings=FixMatch(threshold=0.7, weight=0.3))
    assert_same(softmatch(labeled, y, weak, strong, weights, settings=SoftMatch(weight=0.3)), expected.total, table)


def test_the_truncated_gaussian_by_hand() -> None:
    confidence = torch.tensor([[0.9, 0.6, 0.5, 0.3]])
    found = truncated_gaussian(confidence, torch.tensor([0.6]), torch.tensor([0.04]), widths=2.0)
    torch.testing.assert_close(found, torch.tensor([[1.0, 1.0, math.exp(-0.01 / 0.02), math.exp(-0.09 / 0.02)]]))


def test_no_spread_is_a_step() -> None:
    """σ² = 0, the limit: full weight from μ on, none below."""
    found = truncated_gaussian(torch.tensor([[0.9, 0.6, 0.5]]), torch.tensor([0.6]), torch.zeros(1), widths=2.0)
    assert found.tolist() == [[1.0, 1.0, 0.0]]


def test_alignment_by_hand() -> None:
    p, marginal = torch.tensor([[[0.6, 0.4]]]), torch.tensor([[0.8, 0.2]])
    torch.testing.assert_close(aligned(p.log(), marginal).exp(), torch.tensor([[[0.75, 2.0]]]) / 2.75)


def test_a_class_that_nothing_has_stays_out_of_the_alignment() -> None:
    p = torch.tensor([[[0.5, 0.5, 0.0]]])
    found = aligned(p.log(), torch.tensor([[0.5, 0.5, 0.0]])).exp()
    torch.testing.assert_close(found, p)


def test_a_class_far_below_all_others_does_not_make_everything_confident() -> None:
    """In single precision exp(-200) is 0, and so is its mean over the batch."""
    log_p = torch.tensor([[[-0.7, -0.69, -200.0], [-0.5, -0.93, -200.0]]]).log_softmax(-1)
    expected = aligned(log_p.double(), log_p.double().exp().mean(1))
    torch.testing.assert_close(aligned(log_p, log_p.exp().mean(1)).exp(), expected.exp().float())


def test_confident_batches_without_spread_have_full_weights() -> None:
    """All predictions saturated and no memory of others: σ² is 0."""
    method = SoftMatch(momentum=0.0)
    table = Table(method, "saturated")
    loss = method(table.step(memory={}))
    assert loss.terms["confident"] == 1
    assert_same(loss, FixMatch()(table.step()).total, table)


def test_the_momentum_is_that_of_the_weights_unless_given() -> None:
    for method, ema in ((SoftMatch(), DECAY), (SoftMatch(momentum=DECAY), 0.1)):
        memory, plain = dict[str, Tensor](), Plain()
        for seed in (1, 2):
            table = Table(method, "random", seed=seed)
            assert_same(method(table.step(memory=memory, ema=ema)), plain.loss(table)[0], table)


BAD: list[tuple[dict[str, float], str]] = [
    ({"momentum": -0.1}, r"momentum must be at least 0 and below 1, got -0\.1"),
    ({"widths": 0.0}, r"widths must be above 0, got 0\.0"),
    ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SoftMatch(**fields)
