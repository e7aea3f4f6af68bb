"""The contract between methods and the training loop: what a method declares, what a step gives it, what it returns.

A method is a frozen dataclass. Its fields are its hyper-parameters, `needs` declares what it wants to be given, and
its call turns a `Step` into a `Loss`. There is nothing to inherit from.
"""

# K particles, b labeled images, n unlabeled images, s source images, C classes, F features

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor

from refprior._checks import one_of, whole_number

Model = Callable[[Tensor], Tensor]  # (images, ...) -> (K, images, C) log-probabilities
ViewName = Literal["clean", "weak", "strong"]


@dataclass(frozen=True)
class Needs:
    """What a method wants to be given, checked before the first step.

    >>> from refprior.methods import Needs
    >>> Needs(views=("weak", "weak", "strong")).view_names
    ('weak', 'weak_2', 'strong')
    """

    labels: bool = True  # labeled inputs of the task
    views: tuple[ViewName, ...] = ()  # one view of every unlabeled input per entry; (): no unlabeled inputs
    tuple_size: int = 1  # a step has a multiple of this many unlabeled inputs
    enumerates: int = 0  # items per tuple whose C^n joint labelings are enumerated
    classes: int | None = None  # whose shares the method was told; 0: it was told none, None: it takes none
    source: bool = False  # labeled inputs of a source task
    source_tuple_size: int = 0  # source inputs per tuple of unlabeled ones; 0: `source_batch` of them in all
    shardable: bool = False  # the loss needs only averages over particles, so ranks can compute it from their own
    projection: int = 0  # outputs of a head of two layers that takes the output layer's place; 0: outputs are classes

    def __post_init__(self) -> None:
        for view in self.views if isinstance(self.views, tuple) else [self.views]:
            one_of("a view", view, get_args(ViewName))
        whole_number("tuple_size", self.tuple_size, at_least=1)
        whole_number("enumerates", self.enumerates, at_least=0)
        if self.classes is not None:
            whole_number("classes", self.classes, at_least=0)
        whole_number("source_tuple_size", self.source_tuple_size, at_least=0)
        whole_number("projection", self.projection, at_least=0)

    @property
    def view_names(self) -> tuple[str, ...]:
        """The names of the views in `Batch.views`: the second of a kind is `weak_2`, the third `weak_3`."""
        counts = [self.views[: i + 1].count(kind) for i, kind in enumerate(self.views)]
        return tuple(k if count == 1 else f"{k}_{count}" for k, count in zip(self.views, counts, strict=True))


class Views(dict[str, Tensor]):
    """The views of a batch by name; one that the method has not declared is refused in words."""

    def __missing__(self, name: str) -> Tensor:
        raise ValueError(f"the method does not declare the view {name!r}; it has {', '.join(self) or 'none'}")


def _nothing() -> Tensor:
    return torch.empty(0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Images after their views and normalization; what a method does not need is empty.

    >>> import torch
    >>> from refprior.methods import Batch
    >>> batch = Batch(labeled=torch.zeros(4, 1, 8, 8), labels=torch.tensor([0, 1, 0, 1]))
    >>> len(batch.labeled), len(batch.index)
    (4, 0)
    """

    labeled: Tensor = field(default_factory=_nothing)  # (b, ...) weak view
    labels: Tensor = field(default_factory=_nothing)  # (b,)
    views: Mapping[str, Tensor] = field(default_factory=Views)  # (n, ...) each; consecutive inputs form the tuples
    index: Tensor = field(default_factory=_nothing)  # (n,) places of the unlabeled inputs in the pool
    source: Tensor = field(default_factory=_nothing)  # (s, ...) inputs of the source task, weak view
    source_labels: Tensor = field(default_factory=_nothing)  # (s,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """Everything a method may look at in one step.

    >>> import torch
    >>> import refprior as rp
    >>> from refprior.methods import Batch
    >>> particles = rp.Particles(lambda: torch.nn.Linear(3, 2), count=4)
    >>> batch = Batch(labeled=torch.randn(5, 3), labels=torch.tensor([0, 1, 0, 1, 1]))
    >>> step = rp.Step(batch=batch, student=particles, teacher=particles, log_prior=particles.log_prior)
    >>> tuple(step.predict(batch.labeled)[0].shape)
    (4, 5, 2)
    """

    batch: Batch
    student: Model  # the particles that learn
    teacher: Model  # their moving average; gives no gradient
    log_prior: Tensor  # (K,) log π(w_k)
    features: Model | None = None  # (images, ...) -> (K, images, F): what the student's output layer sees
    parameters: Mapping[str, Tensor] = field(default_factory=dict)  # (K, ...) of the student, by name
    number: int = 0  # steps done before this one
    progress: float = 0.0  # of this stage, from 0 to 1
    generator: torch.Generator | None = None  # for methods that draw
    memory: dict[str, Tensor] = field(default_factory=dict)  # the method's own state, saved with the weights
    pool_size: int = 0  # unlabeled inputs in all
    classes: int | None = None  # C of the task; the outputs after them are the source's own
    independent: bool = False  # the networks have no batch norm: a prediction depends on its own input alone
    aside: Model | None = None  # the student in a pass that leaves batch norm's statistics as they are
    each: Model | None = None  # the same for inputs that every particle has for itself: (K, n, ...) -> (K, n, C)
    batch_teacher: Model | None = None  # the teacher with batch norm and dropout as in training
    ema: float = 0.999  # decay of the teacher's moving average

    def predict(self, *inputs: Tensor, frozen: Sequence[Tensor] = ()) -> list[Tensor]:
        """The student's log-probabilities of several inputs, (n, ...) -> (K, n, C) each; `frozen` ones come last and
        have no gradient.

        All go through the networks together, so that batch norm sees them as one batch. Where images do not see each
        other, the frozen ones go alone, which saves their backward pass.
        """
        if frozen and self.independent:
            outputs = self._together(inputs)
            with torch.no_grad():
                return [*outputs, *self._together(frozen)]
        outputs = self._together([*inputs, *frozen])
        return [*outputs[: len(inputs)], *(p.detach() for p in outputs[len(inputs) :])]

    @torch.no_grad()
    def guess(self, *inputs: Tensor) -> list[Tensor]:
        """The student's log-probabilities in a pass of their own, without gradient and without a trace."""
        return list((self.aside or self.student)(torch.cat(inputs)).split([len(x) for x in inputs], dim=1))

    def _together(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if not inputs:
            return []
        return list(self.student(torch.cat(list(inputs))).split([len(x) for x in inputs], dim=1))


def split_heads(log_p: Tensor, classes: int | None) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the target's classes and of the source's: (..., C + C') -> (..., C), (..., C').

    A network with no more outputs than the target has classes shares them with the source.

    >>> import torch
    >>> from refprior.methods import split_heads
    >>> target, source = split_heads(torch.zeros(4, 7, 5).log_softmax(-1), classes=2)
    >>> target.shape[-1], source.shape[-1]
    (2, 3)
    """
    if classes is None or log_p.shape[-1] == classes:
        return log_p, log_p
    return log_p[..., :classes].log_softmax(-1), log_p[..., classes:].log_softmax(-1)


class Loss(NamedTuple):
    """The scalar to minimize, and its parts for the record.

    >>> import torch
    >>> import refprior as rp
    >>> loss = rp.Loss.of(torch.tensor(1.5, requires_grad=True) * 2, cross_entropy=torch.tensor(3.0))
    >>> loss.total.requires_grad, loss.terms["cross_entropy"].item()
    (True, 3.0)
    """

    total: Tensor
    terms: dict[str, Tensor]  # without gradient
    weights: Tensor | None = None  # (K,) by which the total averages over particles, if not those of the prior

    @classmethod
    def of(cls, total: Tensor, **terms: Tensor | float) -> "Loss":
        """A loss whose terms are cut off from the gradient."""
        return cls(total, {name: torch.as_tensor(term).detach() for name, term in terms.items()})


class Method(Protocol):
    """What the loop asks of a method.

    >>> import refprior as rp
    >>> rp.FixMatch().needs.views
    ('weak', 'strong')
    """

    @property
    def needs(self) -> Needs: ...

    def __call__(self, step: Step, /) -> Loss: ...
