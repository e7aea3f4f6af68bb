"""Dash against a plain loop over a whole short training, its limit by hand, and against FixMatch."""

import math

import pytest
import torch
from torch import Tensor

from refprior.losses import dash, fixmatch
from refprior.methods import Dash, FixMatch
from tests.methods.tables import (
    UNLABELED,
    C,
    K,
    Table,
    assert_same,
    each_input,
    kinds,
    plain_cross_entropy,
    share,
    sharp,
)

STEPS = 16


class Plain:
    """ρ̂ of every particle as a number, None during the warm-up."""

    def __init__(self, settings: Dash) -> None:
        self.settings = settings
        self.first: list[float] | None = None
        self.hard: list[bool] = []

    def target(self, weak: Tensor, hard: bool) -> list[float]:
        return [float(c == weak.argmax()) for c in range(C)] if hard else sharp(weak, self.settings.temperature)

    def own(self, weak: Tensor, hard: bool) -> float:
        """CE(target, p(w))."""
        loss: float = -sum(q * p for q, p in zip(self.target(weak, hard), weak.tolist(), strict=True) if q)
        return loss

    def loss(self, table: Table, number: int) -> tuple[Tensor, float]:
        settings, weak, strong = self.settings, table.part("weak"), table.part("strong")
        warm = int(settings.warmup * STEPS)
        total = plain_cross_entropy(table)
        if number < warm:
            return total, 0.0
        if self.first is None:
            self.first = [sum(self.own(row, hard=False) for row in weak[k]) / UNLABELED for k in range(K)]
        decays = (number - warm) // int(settings.decay_every * STEPS)
        limits = [max(settings.slack * settings.decay**-decays * first, settings.floor) for first in self.first]
        self.hard, used = [limit == settings.floor for limit in limits], []
        for k, i in each_input(weak):
            used.append(float(self.own(weak[k, i], self.hard[k]) <= limits[k]))
            for q, log_p in zip(self.target(weak[k, i], self.hard[k]), strong[k, i], strict=True):
                if q and used[-1]:
                    total = total - settings.weight * q * log_p / (K * UNLABELED)
        return total, share(used)


@kinds
def test_a_whole_training_equals_a_loop(kind: str) -> None:
    method = Dash(warmup=0.25, decay_every=0.125, decay=2.0, floor=0.1, weight=0.7)
    memory, plain, shares, floors = dict[str, Tensor](), Plain(method), [], []
    for number in range(STEPS):
        table = Table(method, kind, seed=number)
        expected, used = plain.loss(table, number)
        loss = method(table.step(memory=memory, number=number, progress=number / STEPS))
        assert_same(loss, expected, table)
        assert float(loss.terms.get("confident", 0)) == pytest.approx(used)  # there are none in the warm-up
        shares.append(used)
        floors.append(sum(plain.hard))
    assert shares[:4] == [0.0] * 4
    assert max(shares) > 0
    assert floors[-1] == K  # hard targets at the end
    assert kind == "saturated" or floors[4] == 0  # and soft ones at first


@kinds
def test_the_loss_at_a_given_limit_equals_a_loop(kind: str) -> None:
    method = Dash()
    table = Table(method, kind)
    plain = Plain(method)
    limits = [0.4, method.floor]  # one particle on its way, one at the floor
    labeled, weak, strong = (table.part(name) for name in ("labeled", "weak", "strong"))
    expected = plain_cross_entropy(table)
    for k, i in each_input(weak):
        hard = k == 1
        if plain.own(weak[k, i], hard) <= limits[k]:
            for q, log_p in zip(plain.target(weak[k, i], hard), strong[k, i], strict=True):
                expected = expected - q * log_p / (K * UNLABELED) if q else expected
    limit = torch.tensor(limits, dtype=torch.float64)
    assert_same(dash(labeled, torch.tensor([0, 2, 1, 1]), weak, strong, limit, settings=method), expected, table)


@kinds
@pytest.mark.parametrize("floor", [0.05, 0.4])
def test_at_its_floor_it_is_fixmatch(kind: str, floor: float) -> None:
    """Hard targets and -log max p ≤ floor, which is max p ≥ exp(-floor)."""
    table = Table(FixMatch(), kind)
    labeled, weak, strong = (table.part(name) for name in ("labeled", "weak", "strong"))
    y, limit = torch.tensor([0, 2, 1, 1]), torch.full((K,), floor, dtype=torch.float64)
    expected = fixmatch(labeled, y, weak, strong, settings=FixMatch(threshold=math.exp(-floor), weight=0.3))
    found = dash(labeled, y, weak, strong, limit, settings=Dash(floor=floor, weight=0.3))
    assert_same(found, expected.total, table)


def test_single_precision_reaches_the_floor_too() -> None:
    """0.05 is another number in single precision: targets are hard there all the same."""
    log_p = torch.tensor([[[0.96, 0.04]]]).log()
    limit = Dash().limit(torch.tensor([1.0]), progress=1.0)
    loss = dash(log_p, torch.tensor([0]), log_p, log_p, limit)
    assert loss.terms["pseudo_label"].item() == pytest.approx(-math.log(0.96))


def test_the_limit_by_hand() -> None:
    """After the warm-up C ρ̂, divided by 1.27 every 10 of 1,024 epochs, never below the floor."""
    method, first = Dash(), torch.tensor([1.0, 0.06])
    epoch, warm = 1 / 1024, 1 / 512
    for epochs, expected in ((0, 1.0001), (9.9, 1.0001), (10, 1.0001 / 1.27), (25, 1.0001 / 1.27**2)):
        limit = method.limit(first, progress=warm + epochs * epoch)
        torch.testing.assert_close(limit, torch.tensor([expected, max(0.06 * expected, 0.05)]))
    torch.testing.assert_close(method.limit(first, progress=1.0), torch.tensor([0.05, 0.05]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"slack": 0.0}, r"slack must be .*, got 0\.0"),
        ({"decay": 0.5}, r"decay must be .*1, got 0\.5"),
        ({"floor": 0.0}, r"floor must be above 0, got 0\.0"),
        ({"temperature": 0.0}, r"temperature must be above 0, got 0\.0"),
        ({"warmup": 1.5}, r"warmup must be .*1, got 1\.5"),
        ({"decay_every": 0.0}, r"decay_every must be above 0.*, got 0\.0"),
        ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
    ],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dash(**fields)
