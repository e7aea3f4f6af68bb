"""A loss or gradient that is not finite: which step, which term, which particle, and a dump to look at."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from refprior.methods import Batch, Loss
from refprior.particles import Particles
from refprior.training._folder import write_tensors


@dataclass(frozen=True)
class Trouble:
    """What was not finite in a step."""

    step: int
    terms: list[str]  # of the loss
    particles: list[int]  # whose gradient or predictions are not finite
    batch: Batch

    def __str__(self) -> str:
        terms = f"term {', '.join(self.terms)}" if self.terms else "the gradient"
        who = f"particle {', '.join(map(str, self.particles))}" if self.particles else "no single particle"
        return f"step {self.step}: {terms} not finite, {who}"


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
    """None if the loss and all gradients are finite."""
    gradients = [p.grad for p in particles.parameters() if p.grad is not None]
    largest = torch._foreach_norm(gradients, math.inf)  # the largest entry: a sum of squares could overflow
    if torch.stack([loss.total.float(), *(norm.float() for norm in largest)]).isfinite().all():
        return None
    bad_terms = [name for name, value in loss.terms.items() if not value.isfinite()]
    return Trouble(step, bad_terms, _bad_particles(particles, batch, gradients), batch)


def dump(folder: Path, trouble: Trouble) -> Path:
    """The batch of the step, for debugging."""
    path = folder / f"trouble-step-{trouble.step:08}.safetensors"
    batch = trouble.batch
    tensors = {"labelled": batch.labelled, "labels": batch.labels, "index": batch.index, **batch.views}
    tensors |= {"source": batch.source, "source_labels": batch.source_labels}
    write_tensors(path, tensors, {"trouble": str(trouble)})
    return path


def _bad_particles(particles: Particles, batch: Batch, gradients: list[Tensor]) -> list[int]:
    """Particles whose predictions are not finite; if all are, those whose gradient is not."""
    particles.eval()  # batch norm's statistics stay as they are
    inputs = [x for x in (batch.labelled, *batch.views.values(), batch.source) if len(x)]
    with torch.no_grad():
        good = particles(inputs[0]).isfinite().flatten(1).all(1)  # (K,)
    if good.all():
        finite = [g.isfinite().reshape(len(g), -1).all(1) for g in gradients]  # (K,) each
        good = torch.stack(finite).all(0)
    return [k for k, fine in enumerate(good.tolist()) if not fine]
