"""Numbers that are not finite: which step, which of them, which particle, and a dump to look at."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from refprior.methods import Batch, Loss
from refprior.particles import Particles
from refprior.training.loop._records import Evaluation, PartScores

_NAMED = 5  # particles


@dataclass(frozen=True)
class Trouble:
    """What was not finite in a step."""

    step: int
    what: str
    particles: list[int]  # whose predictions, gradient or weights are not finite
    batch: Batch

    def __str__(self) -> str:
        return f"step {self.step}: {self.what} not finite, {self._who()}: lower the learning rate"

    def _who(self) -> str:
        if not self.particles:
            return "in no particle alone"
        more = f" and {len(self.particles) - _NAMED} more" if len(self.particles) > _NAMED else ""
        return f"particle {', '.join(map(str, self.particles[:_NAMED]))}{more}"


class NotFiniteError(ArithmeticError):
    """Training met a number that is not finite and stopped; the weights are those of the last good step.

    >>> from refprior.training import NotFiniteError
    >>> issubclass(NotFiniteError, ArithmeticError)
    True
    """

    def __init__(self, trouble: Trouble, where: str = "") -> None:
        super().__init__(f"{trouble}{where}")
        self.trouble = trouble


def find_trouble(particles: Particles, batch: Batch, loss: Loss, step: int) -> Trouble | None:
    """None if the loss and all gradients are finite, on all ranks: they go on, skip or stop together."""
    gradients = [p.grad for p in particles.parameters() if p.grad is not None]
    if not particles.mesh.any(not all_finite([loss.total, *gradients])):
        return None
    terms = [name for name, value in loss.terms.items() if not value.isfinite()]
    what = f"term {', '.join(terms)} is" if terms else "the gradient is"
    bad = _bad_predictions(particles, batch)
    return Trouble(step, what, bad or _bad_rows(particles, lambda p: p.grad), batch)


def find_bad_weights(particles: Particles, batch: Batch, step: int) -> Trouble | None:
    """None if all weights are finite after their update, on all ranks."""
    if not particles.mesh.any(not all_finite([p.detach() for p in particles.parameters()])):
        return None
    return Trouble(step, "the weights after it are", _bad_rows(particles, lambda p: p.detach()), batch)


def find_bad_scores(evaluation: Evaluation, particles: Particles, batch: Batch, step: int) -> Trouble | None:
    """None if all losses of an evaluation are finite: weights can be, and what they predict not."""
    parts = {"test": evaluation.test, "validation": evaluation.validation}
    bad = [name for name, part in parts.items() if part is not None and not _is_finite(part)]
    if not bad:
        return None
    return Trouble(step, f"the loss on the {' and '.join(bad)} part is", _bad_predictions(particles, batch), batch)


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether every number is finite. A sum is the cheapest look at all of them; one that overflows needs a second."""
    sums = torch.stack([tensor.sum().float() for tensor in tensors])
    return bool(sums.isfinite().all()) or all(bool(tensor.isfinite().all()) for tensor in tensors)


def _is_finite(part: PartScores) -> bool:
    return all(math.isfinite(scores.negative_log_likelihood) for scores in (part.ema, part.raw))


def _bad_predictions(particles: Particles, batch: Batch) -> list[int]:
    """Particles whose predictions on the batch are not finite."""
    particles.eval()  # batch norm's statistics stay as they are
    inputs = [x for x in (batch.labeled, *batch.views.values(), batch.source) if len(x)]
    with torch.no_grad():
        good = particles(inputs[0]).isfinite().flatten(1).all(1)  # (K,)
    return [k for k, fine in enumerate(good.tolist()) if not fine]


def _bad_rows(particles: Particles, of: Callable[[Tensor], Tensor | None]) -> list[int]:
    """Particles of which a tensor, one of each parameter, (K, …), is not finite."""
    network = _finite_rows([t for t in map(of, particles.network.parameters()) if t is not None])
    good = particles.mesh.whole(network.reshape(-1, 1), 1).reshape(-1) if len(network) else network
    prior = of(particles.prior_logits)
    good = good & prior.isfinite() if prior is not None and len(good) else good
    return [k for k, fine in enumerate(good.tolist()) if not fine]


def _finite_rows(tensors: list[Tensor]) -> Tensor:
    """(K, …) each -> (K,)."""
    return torch.stack([t.isfinite().reshape(len(t), -1).all(1) for t in tensors]).all(0) if tensors else torch.ones(0)
