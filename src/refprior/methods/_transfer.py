"""Transfer: the reference prior of a target task that remembers as much of a source task as 1 - β says."""

# K particles, B tuples, N order, s source examples, C classes

from dataclasses import dataclass, field
from typing import ClassVar

from refprior.methods._reference_prior import ReferencePrior
from refprior.methods._step import Loss, Step, split_heads
from refprior.methods._supervised import cross_entropy


def check_beta(beta: float) -> None:
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must lie in [0, 1], from 0 (remember the source) to 1 (ignore it), got {beta}")


@dataclass(frozen=True)
class Transfer:
    """Two-stage reference prior with target labels, eq:transfer_expt_obj.

    loss = that of the semi-supervised reference prior on the target + (1 - β) cross-entropy of the source. β = 1 is
    plain semi-supervised learning, β = 0 counts the source's labels as the target's own.
    """

    target: ReferencePrior = field(default_factory=ReferencePrior)
    beta: float = 0.5
    two_stage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_beta(self.beta)

    @property
    def order(self) -> int:
        return self.target.order

    @property
    def samples(self) -> int | None:
        return self.target.samples

    def __call__(self, step: Step) -> Loss:
        outputs = self.target.predict(step, step.batch.source, step.batch.x)
        source = split_heads(outputs[0], step.classes)[1]
        labelled, strong, weak = (split_heads(log_p, step.classes)[0] for log_p in outputs[1:])
        log_prior = self.target.log_prior(step)
        likelihood = cross_entropy(labelled, step.batch.y, log_prior).mean()
        past = cross_entropy(source, step.batch.source_y, log_prior).mean()
        unlabelled = self.target.information_loss(weak, strong, log_prior, step)
        terms = {"cross_entropy": likelihood.detach(), "source": past.detach(), **unlabelled.terms}
        return Loss(likelihood + (1 - self.beta) * past + unlabelled.total, terms)


@dataclass(frozen=True)
class UnsupervisedTransfer:
    """Two-stage reference prior without any target label, eq: mnist_transfer.

    loss = (1 - β) cross-entropy of the source - γ (α h_y - h_yw) on the target. What the outputs mean on the target
    is for `refprior.posterior.consensus` to find out. With β = 1 the task may have no source.
    """

    target: ReferencePrior = field(default_factory=ReferencePrior)
    beta: float = 0.5
    two_stage: ClassVar[bool] = True
    label_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_beta(self.beta)

    @property
    def order(self) -> int:
        return self.target.order

    @property
    def samples(self) -> int | None:
        return self.target.samples

    @property
    def needs_source(self) -> bool:
        return self.beta < 1

    def __call__(self, step: Step) -> Loss:
        log_prior = self.target.log_prior(step)
        if not len(step.batch.source):
            strong, weak = self.target.predict(step)
            return self.target.information_loss(weak, strong, log_prior, step)
        outputs = self.target.predict(step, step.batch.source)
        source = split_heads(outputs[0], step.classes)[1]
        strong, weak = (split_heads(log_p, step.classes)[0] for log_p in outputs[1:])
        past = cross_entropy(source, step.batch.source_y, log_prior).mean()
        unlabelled = self.target.information_loss(weak, strong, log_prior, step)
        return Loss((1 - self.beta) * past + unlabelled.total, {"source": past.detach(), **unlabelled.terms})
