"""Transfer: the reference prior of a target task that remembers as much of a source task as 1 - β says."""

# K particles, b labeled, n unlabeled, s source images, C classes of the target, C' of the source

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import uniform
from refprior.methods._reference_prior import ReferencePrior, information_loss, reference_prior
from refprior.methods._step import Loss, Needs, Step, split_heads
from refprior.methods._supervised import cross_entropy


def check_beta(beta: float) -> None:
    """From 0 (remember the source) to 1 (ignore it)."""
    number("beta", beta, at_least=0, at_most=1)


def check_target(target: ReferencePrior) -> None:
    if not isinstance(target, ReferencePrior):
        raise ValueError(f"target must be a ReferencePrior, got {target!r}")


@dataclass(frozen=True)
class Transfer:
    """Two-stage reference prior with target labels, eq:transfer_expt_obj.

    loss = that of the semi-supervised reference prior on the target + (1 - β) cross-entropy of the source. β = 1 is
    plain semi-supervised learning and looks at no source; β = 0 counts the source's labels as the target's own.

    >>> import refprior as rp
    >>> rp.Transfer(beta=0.5).needs.source, rp.Transfer(beta=1).needs.source
    (True, False)
    """

    target: ReferencePrior = field(default_factory=ReferencePrior)
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_target(self.target)

    @cached_property
    def needs(self) -> Needs:
        return replace(self.target.needs, source=self.beta < 1)

    def __call__(self, step: Step) -> Loss:
        past = [step.batch.source] if self.beta < 1 else []  # batch norm would see what the loss ignores
        outputs = self.target.predict(step, *past, step.batch.labeled)
        labeled, strong, weak = (split_heads(log_p, step.classes)[0] for log_p in outputs[len(past) :])
        return transfer(
            labeled,
            step.batch.labels,
            weak,
            strong,
            split_heads(outputs[0], step.classes)[1] if past else None,
            step.batch.source_labels if past else None,
            self.target.log_prior(step),
            self,
            progress=step.progress,
            generator=step.generator,
        )


@dataclass(frozen=True)
class UnsupervisedTransfer:
    """Two-stage reference prior without any target label, eq: mnist_transfer.

    loss = (1 - β) cross-entropy of the source - γ (α h_y - h_yw) on the target. What the outputs mean on the target
    is for `refprior.posterior.consensus` to find out. With β = 1 it needs no source.

    >>> import refprior as rp
    >>> rp.UnsupervisedTransfer().needs.labels
    False
    """

    target: ReferencePrior = field(default_factory=ReferencePrior)
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_target(self.target)

    @cached_property
    def needs(self) -> Needs:
        return replace(self.target.needs, labels=False, source=self.beta < 1)

    def __call__(self, step: Step) -> Loss:
        log_prior = self.target.log_prior(step)
        past = [step.batch.source] if self.beta < 1 else []
        outputs = self.target.predict(step, *past)
        strong, weak = (split_heads(log_p, step.classes)[0] for log_p in outputs[len(past) :])
        return unsupervised_transfer(
            weak,
            strong,
            split_heads(outputs[0], step.classes)[1] if past else None,
            step.batch.source_labels if past else None,
            log_prior,
            self,
            progress=step.progress,
            generator=step.generator,
        )


_TRANSFER, _UNSUPERVISED = Transfer(), UnsupervisedTransfer()


def transfer(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    source: Tensor | None = None,
    source_y: Tensor | None = None,
    log_prior: Tensor | None = None,
    settings: Transfer = _TRANSFER,
    *,
    progress: float = 0.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """eq:transfer_expt_obj, with or without a source: (K, b, C), (b,), (K, n, C), (K, n, C), (K, s, C'), (s,), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong, source = (torch.randn(4, n, 5).log_softmax(-1) for n in (5, 8, 8, 6))
    >>> loss = rp.losses.transfer(labeled, torch.arange(5), weak, strong, source, torch.arange(6) % 5)
    >>> sorted(loss.terms)
    ['conditional_entropy', 'cross_entropy', 'marginal_entropy', 'source']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    target = reference_prior(
        labeled, y, weak, strong, log_prior, settings.target, progress=progress, generator=generator
    )
    if source is None or source_y is None:
        return target
    past = cross_entropy(source, source_y, log_prior).mean()
    return Loss.of(target.total + (1 - settings.beta) * past, source=past, **target.terms)


def unsupervised_transfer(
    weak: Tensor,
    strong: Tensor,
    source: Tensor | None = None,
    source_y: Tensor | None = None,
    log_prior: Tensor | None = None,
    settings: UnsupervisedTransfer = _UNSUPERVISED,
    *,
    progress: float = 0.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """eq: mnist_transfer, with or without a source: (K, n, C), (K, n, C), (K, s, C'), (s,), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> weak, strong, source = (torch.randn(4, n, 5).log_softmax(-1) for n in (8, 8, 6))
    >>> sorted(rp.losses.unsupervised_transfer(weak, strong, source, torch.arange(6) % 5).terms)
    ['conditional_entropy', 'marginal_entropy', 'source']
    """
    log_prior = uniform(len(weak), weak) if log_prior is None else log_prior
    target = information_loss(weak, strong, log_prior, settings.target, progress=progress, generator=generator)
    if source is None or source_y is None:
        return target
    past = cross_entropy(source, source_y, log_prior).mean()
    return Loss.of((1 - settings.beta) * past + target.total, source=past, **target.terms)
