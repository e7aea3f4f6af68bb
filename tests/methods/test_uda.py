"""UDA against a plain loop, its annealing of the training signal, and what makes it differ from FixMatch."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from refprior.methods import UDA, FixMatch
from refprior.methods._fixmatch import Annealing
from tests.methods.tables import (
    LABELED,
    Table,
    Y,
    assert_same,
    each_input,
    kinds,
    nothing,
    plain_cross_entropy,
    seeds,
    share,
    sharp,
)


def plain(table: Table, threshold: float = 0.8, temperature: float = 0.4, weight: float = 1.0) -> tuple[Tensor, float]:
    """CE + w · mean of 1[max p(w) ≥ τ] · KL(p(w)^(1/T), normalized ‖ p(s)); and the share of inputs used."""
    weak, strong = table.part("weak"), table.part("strong")
    total, used = plain_cross_entropy(table), []
    for k, i in each_input(weak):
        used.append(float(weak[k, i].max().exp() >= threshold))
        if used[-1]:
            for q, log_p in zip(sharp(weak[k, i], temperature), strong[k, i], strict=True):
                if q > 0:
                    total = total + weight * q * (math.log(q) - log_p) / weak[..., 0].numel()
    return total, share(used)


@kinds
@seeds
def test_the_loss_equals_a_loop(kind: str, seed: int) -> None:
    method = UDA(threshold=0.6, weight=0.7)
    table = Table(method, kind, seed)
    expected, used = plain(table, threshold=0.6, weight=0.7)
    loss = method(table.step())
    assert_same(loss, expected, table)
    assert loss.terms["confident"].item() == pytest.approx(used)
    assert used == 1 if kind == "saturated" else 0 < used < 1


def test_the_defaults_are_the_published_ones() -> None:
    table = Table(UDA(), "confident")
    assert_same(UDA()(table.step()), plain(table)[0], table)
    assert UDA() == UDA(threshold=0.8, temperature=0.4, weight=1.0, annealing="none")


@kinds
def test_cold_targets_are_those_of_fixmatch(kind: str) -> None:
    """T → 0 and the same threshold: loss and gradient of FixMatch, since the entropy of hard targets is 0."""
    table = Table(UDA(), kind)
    assert_same(UDA(threshold=0.7, temperature=1e-3)(table.step()), FixMatch(threshold=0.7)(table.step()).total, table)


@pytest.mark.parametrize(
    ("annealing", "progress", "expected"),
    [
        ("linear", 0.0, 1 / 3),
        ("linear", 0.5, 2 / 3),
        ("linear", 1.0, 1.0),
        ("log", 0.5, (1 - math.exp(-2.5)) * 2 / 3 + 1 / 3),
        ("exp", 0.5, math.exp(-2.5) * 2 / 3 + 1 / 3),
        ("exp", 1.0, 1.0),
    ],
)
def test_the_limit_of_annealing(annealing: Annealing, progress: float, expected: float) -> None:
    assert UDA(annealing=annealing).limit(progress, classes=3) == pytest.approx(expected)


@kinds
def test_annealing_averages_over_the_labels_that_still_teach(kind: str) -> None:
    """1/Z Σ 1[p(y) ≤ η] · (-log p(y)) with Z = Σ 1[p(y) ≤ η], each particle by itself; no label left: 0."""
    method = UDA(annealing="linear", weight=0.0)
    table = Table(method, kind)
    if kind == "confident":  # nothing left for the first particle
        with torch.no_grad():
            for i, y in enumerate(Y):
                table.logits[0, i] = 9.0 * (torch.arange(3) == y)
    limit, expected, left = method.limit(0.5, classes=3), nothing(), 0
    for log_p in table.part("labeled"):
        teaching = [-log_p[i, y] for i, y in enumerate(Y) if log_p[i, y].exp() <= limit]
        left += LABELED - len(teaching)
        if teaching:
            expected = expected + sum(teaching, nothing()) / len(teaching) / len(table.logits)
    assert 0 < left < LABELED * len(table.logits)
    assert_same(method(table.step(progress=0.5)), expected, table)
    assert_same(replace(method, annealing="none")(table.step(progress=0.5)), plain(table, weight=0.0)[0], table)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"threshold": 1.1}, r"threshold must be .*at most 1, got 1\.1"),
    ({"temperature": 0.0}, r"temperature must be above 0, got 0\.0"),
    ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
    ({"annealing": "cubic"}, "annealing must be .*got 'cubic'"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=str)
def test_bad_settings_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UDA(**fields)
