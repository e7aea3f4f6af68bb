"""Particles that are tables of logits, and steps made of them, for tests against plain versions of the equations.

Input i is row i of the unit matrix and its logits are row i of the table, so that gradients with respect to single
logits are visible. An input that was mixed shows in its entries what was mixed with what.
"""

# K particles, R rows, C classes

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from refprior.information import uniform
from refprior.methods import Batch, Loss, Method, Step

K, LABELED, UNLABELED, C = 2, 4, 6, 3
Y = [0, 2, 1, 1]
KINDS = ["random", "confident", "saturated"]


class Table:
    """K tables of logits (K, R, C) as a model."""

    def __init__(self, method: Method, kind: str = "random", seed: int = 0, count: int = K) -> None:
        self.names = method.needs.view_names
        rows = LABELED + UNLABELED * len(self.names)
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(count, rows, C, generator=generator, dtype=torch.float64)
        scale = {"random": 1.0, "confident": 4.0}
        # Saturated: the most probable class is 2000 above the next, which is 2000 above the last.
        self.logits = (
            2000 * noise.argsort(-1).double() if kind == "saturated" else scale[kind] * noise
        ).requires_grad_()
        self.seen: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach())
        return (x @ self.logits).log_softmax(-1)

    def part(self, name: str) -> Tensor:
        """The log-probabilities of the labeled inputs or of a view, (K, n, C), with gradient."""
        places = [LABELED] + [UNLABELED] * len(self.names)
        parts = dict(zip(["labeled", *self.names], self.logits.log_softmax(-1).split(places, 1), strict=True))
        found: Tensor = parts[name]
        return found

    def step(self, **more: Any) -> Step:
        rows = torch.eye(self.logits.shape[1], dtype=torch.float64)
        labeled, *views = rows.split([LABELED] + [UNLABELED] * len(self.names))
        batch = Batch(
            labeled=labeled,
            labels=torch.tensor(Y),
            views=dict(zip(self.names, views, strict=True)),
            index=more.pop("index", torch.arange(UNLABELED)),
        )
        count = len(self.logits)
        given: dict[str, Any] = {"student": self, "teacher": self, "pool_size": UNLABELED, "classes": C, "each": self}
        return Step(batch=batch, log_prior=uniform(count, self.logits), **{**given, **more})


def nothing() -> Tensor:
    return torch.zeros((), dtype=torch.float64)


def plain_cross_entropy(table: Table) -> Tensor:
    """-log p(y_i) of every labeled input, mean over inputs and particles."""
    log_p, total = table.part("labeled"), nothing()
    for k in range(len(log_p)):
        for i, y in enumerate(Y):
            total = total - log_p[k, i, y] / (LABELED * len(log_p))
    return total


def each_input(log_p: Tensor) -> list[tuple[int, int]]:
    """All pairs of a particle and an input."""
    return [(k, i) for k in range(len(log_p)) for i in range(log_p.shape[1])]


def sharp(log_p: Tensor, temperature: float) -> list[float]:
    """p^(1/T) / Σ p^(1/T) of one prediction, as numbers."""
    powers = [float(value.detach().exp()) ** (1 / temperature) for value in log_p]
    return [power / sum(powers) for power in powers]


def assert_same(loss: Loss, expected: Tensor, table: Table) -> None:
    """Value and gradient with respect to every logit; both finite."""
    torch.testing.assert_close(loss.total, expected)
    found, wanted = (torch.autograd.grad(t, table.logits, retain_graph=True)[0] for t in (loss.total, expected))
    assert found.isfinite().all()
    torch.testing.assert_close(found, wanted)


def share(mask: Sequence[float]) -> float:
    return sum(mask) / len(mask)


kinds = pytest.mark.parametrize("kind", KINDS)
seeds = pytest.mark.parametrize("seed", range(3))
Plain = Callable[..., Tensor]
