"""What a method is given in one step and what it gives back: the whole interface between methods and the loop.

A method is a frozen dataclass: its fields are its hyper-parameters, its call is its loss. `order` says how many
unlabelled items make a tuple (0: the method wants no unlabelled data). There is nothing to inherit from.

Three further attributes may be left out: `label_free = True` says that the method does without labels of the task,
`two_stage = True` that it wants examples of a source task, `needs_source = False` that it can do without.
"""

# K particles, b labelled examples, B unlabelled tuples, N order, s source examples, C classes

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

Model = Callable[[Tensor], Tensor]  # (examples, ...) -> (K, examples, C) log-probabilities


def _nothing() -> Tensor:
    return torch.empty(0)


@dataclass(frozen=True)
class Batch:
    """Images after their views and normalisation. Without unlabelled data, B is 0; without a source, s is 0."""

    x: Tensor  # (b, ...) labelled, weak view
    y: Tensor  # (b,) labels
    weak: Tensor  # (B, N, ...) unlabelled tuples, weak view
    strong: Tensor  # (B, N, ...) the same tuples, strong view
    index: Tensor  # (B, N) where the items stand in the unlabelled pool
    source: Tensor = field(default_factory=_nothing)  # (s, ...) images of the source task, weak view
    source_y: Tensor = field(default_factory=_nothing)  # (s,) their labels


@dataclass(frozen=True)
class Step:
    """One call of a method."""

    batch: Batch
    student: Model  # the particles that learn
    teacher: Model  # their moving average; gives no gradient
    log_prior: Tensor  # (K,) log π(w_k)
    progress: float = 0.0  # of this stage, from 0 to 1
    generator: torch.Generator | None = None  # for methods that draw
    memory: dict[str, Tensor] = field(default_factory=dict)  # the method's own state, saved with the weights
    independent: bool = False  # the networks have no batch norm: an example's prediction depends on it alone
    classes: int | None = None  # C of the task; the outputs after them are the source's own

    def predict(self, *inputs: Tensor, frozen: Sequence[Tensor] = ()) -> list[Tensor]:
        """Log-probabilities of several inputs, those of `frozen` ones last and without gradient.

        Inputs are (b, *image) or tuples (B, N, *image); outputs are (K, b, C) or (K, B, N, C). All go through the
        networks together, so that batch norm sees them as one batch; where examples do not see each other, the frozen
        ones go alone, which saves their backward pass.
        """
        if frozen and self.independent:
            outputs = self._together(inputs)
            with torch.no_grad():
                return [*outputs, *self._together(frozen)]
        outputs = self._together([*inputs, *frozen])
        return [*outputs[: len(inputs)], *(p.detach() for p in outputs[len(inputs) :])]

    def _together(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        image = self.batch.x.dim() - 1
        leads = [x.shape[: x.dim() - image] for x in inputs]
        flat = [x.reshape(-1, *self.batch.x.shape[1:]) for x in inputs]
        parts = self.student(torch.cat(flat)).split([len(x) for x in flat], dim=1)
        return [p.reshape(len(p), *lead, p.shape[-1]) for p, lead in zip(parts, leads, strict=True)]


def split_heads(log_p: Tensor, classes: int | None) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the target's classes and of the source's: (..., C + C') -> (..., C), (..., C').

    A network with no more outputs than the target has classes shares them with the source.
    """
    if classes is None or log_p.shape[-1] == classes:
        return log_p, log_p
    return log_p[..., :classes].log_softmax(-1), log_p[..., classes:].log_softmax(-1)


class Loss(NamedTuple):
    """The scalar to minimise, and its parts for the log."""

    total: Tensor
    terms: dict[str, Tensor]


class Method(Protocol):
    """What the loop asks of a method."""

    @property
    def order(self) -> int: ...

    def __call__(self, step: Step) -> Loss: ...
