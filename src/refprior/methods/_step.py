"""The contract between methods and the training loop: what a method needs, what a step provides, what it returns.

A method is a frozen dataclass. Its fields are its hyperparameters, `needs` declares its data, and calling it turns a
`Step` into a `Loss`. There is no base class.
"""

# K particles, b labeled inputs, n unlabeled inputs, s source inputs, C classes, F features

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor

from refprior._checks import one_of, whole_number

Model = Callable[[Tensor], Tensor]  # (n, ...) -> (K, n, C) log-probabilities
ViewName = Literal["clean", "weak", "strong"]


@dataclass(frozen=True)
class Needs:
    """The data that a method needs, checked before the first step.

    Parameters
    ----------
    labels : bool, default: True
        Whether the method uses labeled inputs of the task.
    views : tuple of {"clean", "weak", "strong"}, default: ()
        One view of every unlabeled input per entry. Empty means no unlabeled inputs.
    tuple_size : int, default: 1
        The number of unlabeled inputs in a step is a multiple of this.
    enumerates : int, default: 0
        Items per tuple whose C^N joint labelings the method enumerates; checked against memory.
    classes : int, optional
        Number of class shares that the method was given, checked against the task. Use 0 if it accepts shares and was
        given none: training then warns about imbalanced labels. None means that it accepts no shares.
    source : bool, default: False
        Whether the method uses labeled inputs of a source task.
    source_tuple_size : int, default: 0
        Source inputs per tuple of unlabeled inputs. With 0 the recipe's `source_batch` decides.
    shardable : bool, default: False
        Whether the loss needs only averages over particles, so that ranks can compute it from their own particles.
    projection : int, default: 0
        Outputs of a two-layer projection head that replaces the output layer. With 0 the outputs are classes.

    Examples
    --------
    >>> from refprior.methods import Needs
    >>> Needs(views=("weak", "weak", "strong")).view_names
    ('weak', 'weak_2', 'strong')
    """

    labels: bool = True
    views: tuple[ViewName, ...] = ()
    tuple_size: int = 1
    enumerates: int = 0
    classes: int | None = None
    source: bool = False
    source_tuple_size: int = 0
    shardable: bool = False
    projection: int = 0

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
        """Names of the views in `Batch.views`: the second of a kind is `weak_2`, the third `weak_3`."""
        counts = [self.views[: i + 1].count(kind) for i, kind in enumerate(self.views)]
        return tuple(k if count == 1 else f"{k}_{count}" for k, count in zip(self.views, counts, strict=True))


class Views(dict[str, Tensor]):
    """The views of a batch by name; raises ValueError for a view that the method did not declare."""

    def __missing__(self, name: str) -> Tensor:
        raise ValueError(f"the method does not declare the view {name!r}; it has {', '.join(self) or 'none'}")


def _nothing() -> Tensor:
    return torch.empty(0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """The inputs of one step, augmented and normalized; parts that the method does not need are empty.

    Parameters
    ----------
    labeled : Tensor, optional
        Weak view of the labeled inputs, (b, ...).
    labels : Tensor, optional
        Their classes, (b,).
    labeled_index : Tensor, optional
        Their positions in the labeled part of the task, (b,).
    views : mapping of str to Tensor, optional
        Each view of the unlabeled inputs by name, (n, ...). Consecutive inputs form the tuples.
    index : Tensor, optional
        Positions of the unlabeled inputs in the pool, (n,).
    source : Tensor, optional
        Weak view of the source inputs, (s, ...).
    source_labels : Tensor, optional
        Their classes, (s,).

    Examples
    --------
    >>> import torch
    >>> from refprior.methods import Batch
    >>> batch = Batch(labeled=torch.zeros(4, 1, 8, 8), labels=torch.tensor([0, 1, 0, 1]))
    >>> len(batch.labeled), len(batch.index)
    (4, 0)
    """

    labeled: Tensor = field(default_factory=_nothing)
    labels: Tensor = field(default_factory=_nothing)
    labeled_index: Tensor = field(default_factory=_nothing)
    views: Mapping[str, Tensor] = field(default_factory=Views)
    index: Tensor = field(default_factory=_nothing)
    source: Tensor = field(default_factory=_nothing)
    source_labels: Tensor = field(default_factory=_nothing)


@dataclass(eq=False)
class LabelWeights:
    """How much each label of a batch counts for each particle; 0 hides a label from a particle."""

    weights: Tensor  # (K, b)
    trust: Callable[[Tensor], Tensor] | None = None  # (K, b, C) log-probabilities -> (b,) factors, taken once a step
    applied: bool = False  # a method that never predicts the labeled inputs as they are cannot have its labels weighted

    def apply(self, log_p: Tensor) -> None:
        """Multiply the gradient of the labeled inputs' log-probabilities by the weights: (K, b, C).

        Every supervised term is linear in these log-probabilities, so that this weights its examples.
        """
        self.applied = True
        if self.trust is not None:
            self.weights, self.trust = self.weights * self.trust(log_p.detach()), None
        if log_p.requires_grad:
            log_p.register_hook(lambda slope: slope * self.weights.unsqueeze(-1).to(slope.dtype))


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """Everything that a method can use in one step.

    A model maps inputs (n, ...) to log-probabilities (K, n, C).

    Parameters
    ----------
    batch : Batch
        The inputs of this step.
    student : callable
        The particles that learn.
    teacher : callable
        Their exponential moving average, without gradient.
    log_prior : Tensor
        log π(w_k), (K,).
    features : callable, optional
        Inputs of the student's output layer, (n, ...) -> (K, n, F).
    parameters : mapping of str to Tensor, optional
        The student's weights by name, (K, ...) each.
    number : int, default: 0
        Steps completed before this one.
    progress : float, default: 0
        Completed share of this training stage, from 0 to 1.
    generator : torch.Generator, optional
        Source of randomness for methods that draw.
    memory : dict of str to Tensor, optional
        State of the method, saved with the weights.
    pool_size : int, default: 0
        Number of unlabeled inputs in the pool.
    classes : int, optional
        C of the task. Outputs beyond them belong to the source task.
    independent : bool, default: False
        True if the networks have no batch norm, so that a prediction depends on its own input only.
    aside : callable, optional
        The student without updates of batch norm statistics.
    each : callable, optional
        The same for separate inputs per particle, (K, n, ...) -> (K, n, C).
    batch_teacher : callable, optional
        The teacher with batch norm and dropout in training mode.
    ema : float, default: 0.999
        Decay of the teacher's moving average.
    label_weights : LabelWeights, optional
        Weights of the labels by particle, which `predict` applies to the gradient. By default all labels count equally.

    Examples
    --------
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
    student: Model
    teacher: Model
    log_prior: Tensor
    features: Model | None = None
    parameters: Mapping[str, Tensor] = field(default_factory=dict)
    number: int = 0
    progress: float = 0.0
    generator: torch.Generator | None = None
    memory: dict[str, Tensor] = field(default_factory=dict)
    pool_size: int = 0
    classes: int | None = None
    independent: bool = False
    aside: Model | None = None
    each: Model | None = None
    batch_teacher: Model | None = None
    ema: float = 0.999
    label_weights: LabelWeights | None = None

    def predict(self, *inputs: Tensor, frozen: Sequence[Tensor] = ()) -> list[Tensor]:
        """Predict with the student.

        All inputs pass through the networks together, so that batch norm sees them as one batch. Without batch norm the
        frozen inputs pass separately, which saves their backward pass. The gradient of `batch.labeled` is multiplied by
        `label_weights`: a particle learns nothing from the labels that it leaves out.

        Parameters
        ----------
        *inputs : Tensor
            Inputs, (n, ...) each.
        frozen : sequence of Tensor, default: ()
            Further inputs whose predictions get no gradient.

        Returns
        -------
        list of Tensor
            Log-probabilities, (K, n, C) for each input; those of `frozen` come last.
        """
        if frozen and self.independent:
            outputs = self._together(inputs)
            with torch.no_grad():
                frozen_outputs = self._together(frozen)
        else:
            together = self._together([*inputs, *frozen])
            outputs, frozen_outputs = together[: len(inputs)], [p.detach() for p in together[len(inputs) :]]
        if self.label_weights is not None:
            for x, log_p in zip(inputs, outputs, strict=True):
                if x is self.batch.labeled:
                    self.label_weights.apply(log_p)
        return [*outputs, *frozen_outputs]

    @torch.no_grad()
    def guess(self, *inputs: Tensor) -> list[Tensor]:
        """Predict with the student in a separate pass, without gradient and without updating batch norm.

        Parameters
        ----------
        *inputs : Tensor
            Inputs, (n, ...) each.

        Returns
        -------
        list of Tensor
            Log-probabilities, (K, n, C) for each input.
        """
        return list((self.aside or self.student)(torch.cat(inputs)).split([len(x) for x in inputs], dim=1))

    def _together(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if not inputs:
            return []
        return list(self.student(torch.cat(list(inputs))).split([len(x) for x in inputs], dim=1))


def split_heads(log_p: Tensor, classes: int | None) -> tuple[Tensor, Tensor]:
    """Split outputs into those of the target and those of the source: (..., C + C') -> (..., C), (..., C').

    A network with no more outputs than the target has classes shares them with the source.
    """
    if classes is None or log_p.shape[-1] == classes:
        return log_p, log_p
    return log_p[..., :classes].log_softmax(-1), log_p[..., classes:].log_softmax(-1)


class Loss(NamedTuple):
    """The scalar to minimize, and its terms for the record.

    Parameters
    ----------
    total : Tensor
        The scalar to minimize.
    terms : dict of str to Tensor
        Its terms by name, without gradient. They are written to metrics.jsonl.
    weights : Tensor, optional
        Weights by which `total` averages over particles, (K,), if not those of the prior.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> loss = rp.Loss.of(torch.tensor(1.5, requires_grad=True) * 2, cross_entropy=torch.tensor(3.0))
    >>> loss.total.requires_grad, loss.terms["cross_entropy"].item()
    (True, 3.0)
    """

    total: Tensor
    terms: dict[str, Tensor]
    weights: Tensor | None = None

    @classmethod
    def of(cls, total: Tensor, **terms: Tensor | float) -> "Loss":
        """Make a loss and detach its terms.

        Parameters
        ----------
        total : Tensor
            The scalar to minimize.
        **terms : Tensor or float
            Its terms by name.

        Returns
        -------
        Loss
            The total with its gradient, the terms without.
        """
        return cls(total, {name: torch.as_tensor(term).detach() for name, term in terms.items()})


class Method(Protocol):
    """The interface that the training loop requires of a method."""

    @property
    def needs(self) -> Needs: ...

    def __call__(self, step: Step, /) -> Loss: ...
