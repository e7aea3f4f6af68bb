"""FlexMatch: FixMatch with a lower threshold for classes that are learned slowly."""

# K particles, b labeled inputs, n unlabeled inputs, M inputs in the pool, C classes

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import uniform
from refprior.methods._fixmatch import pseudo_label_loss
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import with_pseudo_labels

_NEVER = -1  # the label of an input that has not been confident yet


@dataclass(frozen=True)
class FlexMatch:
    """FlexMatch (Zhang et al. 2021), any number of particles, each with thresholds of its own.

    It remembers the last confident label of every input of the pool, in the checkpoint.

    >>> import refprior as rp
    >>> rp.methods.FlexMatch()
    FlexMatch(threshold=0.95, weight=1.0)
    """

    threshold: float = 0.95
    weight: float = 1.0  # of the unlabeled inputs
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        number("threshold", self.threshold, above=0, at_most=1)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views, log_prior = step.batch.views, step.log_prior.detach()
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        before = step.memory.get("labels")
        if before is None:
            before = torch.full((len(weak), step.pool_size), _NEVER, dtype=torch.int32, device=weak.device)
        thresholds = self.threshold * convex(learning_effect(before, weak.shape[-1]))
        step.memory["labels"] = remembered(before, weak, step.batch.index, self.threshold)
        return flexmatch(labeled, step.batch.labels, weak, strong, thresholds, log_prior, self)


def learning_effect(labels: Tensor, classes: int) -> Tensor:
    """β_c = σ_c / max(max σ, inputs without a label), FlexMatch eq. 5, 6 and 11: (K, M) -> (K, C).

    σ_c counts the inputs of the pool whose last confident label is c.
    """
    counts = torch.zeros(len(labels), classes + 1, device=labels.device)
    counts.scatter_add_(1, labels.long() + 1, torch.ones_like(labels, dtype=counts.dtype))
    return counts[:, 1:] / counts.amax(1, keepdim=True)


def convex(effect: Tensor) -> Tensor:
    """M(β) = β / (2 - β), FlexMatch eq. 12: slow at first, fast where a class is learned."""
    return effect / (2 - effect)


def remembered(labels: Tensor, weak: Tensor, index: Tensor, threshold: float) -> Tensor:
    """The labels of the pool after a batch, confident ones replaced: (K, M), (K, n, C), (n,) -> (K, M)."""
    confidence, label = weak.exp().max(-1)
    new = torch.where(confidence >= threshold, label.to(labels.dtype), labels[:, index])
    return labels.index_copy(1, index, new)


def above(weak: Tensor, thresholds: Tensor) -> Tensor:
    """1[max p(weak) ≥ threshold of that class]: (K, n, C), (K, C) -> (K, n)."""
    confidence, label = weak.detach().exp().max(-1)
    return (confidence >= thresholds.gather(1, label)).to(weak.dtype)


_DEFAULT = FlexMatch()


def flexmatch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    thresholds: Tensor,
    log_prior: Tensor | None = None,
    settings: FlexMatch = _DEFAULT,
) -> Loss:
    """FixMatch with a threshold per particle and class: (K, b, C), (b,), (K, n, C), (K, n, C), (K, C), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> thresholds = torch.full((4, 10), 0.95)
    >>> sorted(rp.losses.flexmatch(labeled, torch.arange(5), weak, strong, thresholds).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    used = above(weak, thresholds)
    return with_pseudo_labels(labeled, y, pseudo_label_loss(weak, strong), used, log_prior, settings.weight)
