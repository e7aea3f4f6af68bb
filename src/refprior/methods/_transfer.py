"""Two-stage reference priors: a target task that remembers as much of a source task as 1 - β allows.

`Transfer` and `UnsupervisedTransfer` are the objectives of the paper's experiments. `UnlabeledSource` and
`LabeledSource` are the two cases of the theory, for networks and without labels of the target.
"""

# K particles, b labeled, n unlabeled, s source inputs, B tuples of N target or M source items, C and C' classes

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from refprior._checks import number, one_of, whole_number
from refprior._process import check_memory
from refprior.information import (
    entropy,
    finite,
    joint,
    log_likelihood,
    mixture,
    mutual_information,
    tuples,
    uniform,
)
from refprior.methods._reference_prior import (
    ReferencePrior,
    cross_entropy,
    information_of_views,
    predict_views,
    reference_prior,
)
from refprior.methods._step import Loss, Needs, Step, split_heads

_COPIES = 6  # of all labelings' probabilities, alive at the peak of the backward pass


@dataclass(frozen=True)
class Transfer:
    """Two-stage reference prior with labels of the target.

    Minimizes the loss of `ReferencePrior` on the target + (1 - β) cross-entropy of the source, eq:transfer_expt_obj.
    β = 1 is semi-supervised learning without a source; β = 0 counts source labels as much as target labels.

    Parameters
    ----------
    target : ReferencePrior, default: ReferencePrior()
        The objective on the target.
    beta : float, default: 0.5
        β, from 0 (remember the source) to 1 (ignore it).

    Examples
    --------
    >>> import refprior as rp
    >>> rp.Transfer(beta=0.5).needs.source, rp.Transfer(beta=1).needs.source
    (True, False)
    """

    target: ReferencePrior = field(default_factory=ReferencePrior)
    beta: float = 0.5

    def __post_init__(self) -> None:
        _check(self.target, self.beta)

    @cached_property
    def needs(self) -> Needs:
        return replace(self.target.needs, source=self.beta < 1)

    def __call__(self, step: Step) -> Loss:
        past = [step.batch.source] if self.beta < 1 else []  # batch norm would see what the loss ignores
        outputs = predict_views(step, self.target, *past, step.batch.labeled)
        labeled, strong, weak = (split_heads(log_p, step.classes)[0] for log_p in outputs[len(past) :])
        return transfer(
            labeled,
            step.batch.labels,
            weak,
            strong,
            split_heads(outputs[0], step.classes)[1] if past else None,
            step.batch.source_labels if past else None,
            step.log_prior if self.target.trainable_prior else step.log_prior.detach(),
            self,
            progress=step.progress,
            generator=step.generator,
        )


@dataclass(frozen=True)
class UnsupervisedTransfer:
    """Two-stage reference prior without labels of the target.

    Minimizes (1 - β) cross-entropy of the source - γ (α h_y - h_yw) on the target, eq: mnist_transfer. With β = 1 it
    needs no source. `refprior.posterior.cluster` finds the classes of the target in the outputs.

    Parameters
    ----------
    target : ReferencePrior, default: ReferencePrior()
        The objective on the target.
    beta : float, default: 0.5
        β, from 0 (remember the source) to 1 (ignore it).

    Examples
    --------
    >>> import refprior as rp
    >>> rp.UnsupervisedTransfer().needs.labels
    False
    """

    target: ReferencePrior = field(default_factory=ReferencePrior)
    beta: float = 0.5

    def __post_init__(self) -> None:
        _check(self.target, self.beta)

    @cached_property
    def needs(self) -> Needs:
        return replace(self.target.needs, labels=False, source=self.beta < 1)

    def __call__(self, step: Step) -> Loss:
        past = [step.batch.source] if self.beta < 1 else []
        outputs = predict_views(step, self.target, *past)
        strong, weak = (split_heads(log_p, step.classes)[0] for log_p in outputs[len(past) :])
        return unsupervised_transfer(
            weak,
            strong,
            split_heads(outputs[0], step.classes)[1] if past else None,
            step.batch.source_labels if past else None,
            step.log_prior if self.target.trainable_prior else step.log_prior.detach(),
            self,
            progress=step.progress,
            generator=step.generator,
        )


@dataclass(frozen=True)
class UnlabeledSource:
    """Case 1 of the two-stage reference prior: neither target nor source has labels.

    Maximizes I(w; target and source) - β I(w; source), eq:ref_pi_transfer_1. The source's labels are averaged over
    together with the target's, C^(N+M) labelings. β = 1 is eq:ref_transfer_mi; β = 0 is the reference prior of both
    tasks together; in between, β weighs forgetting as in eq:pib.

    Parameters
    ----------
    order : int, default: 2
        N, target items in a tuple.
    source_order : int, default: 2
        M, source items in a tuple.
    beta : float, default: 1
        β, from 0 (remember the source) to 1 (ignore it).

    Examples
    --------
    >>> from refprior.methods import UnlabeledSource
    >>> UnlabeledSource(order=2, source_order=1).needs.enumerates
    3
    """

    order: int = 2
    source_order: int = 2
    beta: float = 1.0

    def __post_init__(self) -> None:
        number("beta", self.beta, at_least=0, at_most=1)
        whole_number("order", self.order, at_least=1)
        whole_number("source_order", self.source_order, at_least=1)

    @cached_property
    def needs(self) -> Needs:
        return Needs(
            labels=False,
            views=("weak",),
            tuple_size=self.order,
            enumerates=self.order + self.source_order,
            source=True,
            source_tuple_size=self.source_order,
        )

    def __call__(self, step: Step) -> Loss:
        target, source = step.predict(step.batch.views["weak"], step.batch.source)
        target, source = split_heads(target, step.classes)[0], split_heads(source, step.classes)[1]
        return unlabeled_source(target, source, step.log_prior.detach(), self)


@dataclass(frozen=True)
class LabeledSource:
    """Case 2 of the two-stage reference prior: the labels of the source are known.

    Maximizes the information of the target under the source's posterior p(w | z^m) ∝ π(w) p(z^m | w)^(1-β),
    eq:ref_pi_transfer_2, for the m source inputs of the step. β = 1 ignores the source and needs none: eq:ref_ssl. A
    particle that explains the source worse than others by some nats hardly counts, so only particles that agree on
    the source are asked to disagree on the target. The likelihood is a product over m inputs: with β = 0 and m = 64
    the posterior is one particle from the first steps on, and nothing is learned. β = 1 - 1/m compares particles by
    the mean of their log-likelihoods and keeps nearly all of them: docs/results.md.

    Parameters
    ----------
    order : int, default: 2
        N, target items in a tuple.
    beta : float, default: 0
        β, from 0 (remember the source) to 1 (ignore it).
    labels_from : {"posterior", "prior"}, default: "posterior"
        Distribution over which the target's labels are averaged. The posterior makes the divergence a mutual
        information; the prior is p_π(y | x) in the line below the paper's equation.

    Examples
    --------
    >>> from refprior.methods import LabeledSource
    >>> LabeledSource().needs.source, LabeledSource(beta=1).needs.source
    (True, False)
    """

    order: int = 2
    beta: float = 0.0
    labels_from: Literal["posterior", "prior"] = "posterior"

    def __post_init__(self) -> None:
        number("beta", self.beta, at_least=0, at_most=1)
        whole_number("order", self.order, at_least=1)
        one_of("labels_from", self.labels_from, ("posterior", "prior"))

    @cached_property
    def needs(self) -> Needs:
        return Needs(labels=False, views=("weak",), tuple_size=self.order, enumerates=self.order, source=self.beta < 1)

    def __call__(self, step: Step) -> Loss:
        past = [step.batch.source] if self.beta < 1 else []  # batch norm would see what the loss ignores
        outputs = step.predict(step.batch.views["weak"], *past)
        return labeled_source(
            split_heads(outputs[0], step.classes)[0],
            split_heads(outputs[1], step.classes)[1] if past else None,
            step.batch.source_labels if past else None,
            step.log_prior.detach(),
            self,
        )


def _check(target: ReferencePrior, beta: float) -> None:
    number("beta", beta, at_least=0, at_most=1)
    if not isinstance(target, ReferencePrior):
        raise ValueError(f"target must be a ReferencePrior, got {target!r}")


_TRANSFER, _UNSUPERVISED = Transfer(), UnsupervisedTransfer()
_UNLABELED, _LABELED = UnlabeledSource(), LabeledSource()


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
    """Compute the objective of transfer with labels of the target.

    The loss of `reference_prior` on the target + (1 - β) cross-entropy of the source, eq:transfer_expt_obj.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    source : Tensor, optional
        Log-probabilities of the source inputs, (K, s, C').
    source_y : Tensor, optional
        Their classes, (s,).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : Transfer, default: Transfer()
        The hyperparameters.
    progress : float, default: 0
        Completed share of training, from 0 to 1, for `final_alpha`.
    generator : torch.Generator, optional
        Source of randomness for `samples`.

    Returns
    -------
    Loss
        The total and the terms of `reference_prior`, and `source` if there is one.

    Examples
    --------
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
    """Compute the objective of transfer without labels of the target.

    (1 - β) cross-entropy of the source - γ (α h_y - h_yw) on the target, eq: mnist_transfer.

    Parameters
    ----------
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    source : Tensor, optional
        Log-probabilities of the source inputs, (K, s, C').
    source_y : Tensor, optional
        Their classes, (s,).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : UnsupervisedTransfer, default: UnsupervisedTransfer()
        The hyperparameters.
    progress : float, default: 0
        Completed share of training, from 0 to 1, for `final_alpha`.
    generator : torch.Generator, optional
        Source of randomness for `samples`.

    Returns
    -------
    Loss
        The total and the terms `marginal_entropy`, `conditional_entropy`, and `source` if there is one.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> weak, strong, source = (torch.randn(4, n, 5).log_softmax(-1) for n in (8, 8, 6))
    >>> sorted(rp.losses.unsupervised_transfer(weak, strong, source, torch.arange(6) % 5).terms)
    ['conditional_entropy', 'marginal_entropy', 'source']
    """
    log_prior = uniform(len(weak), weak) if log_prior is None else log_prior
    target = information_of_views(weak, strong, log_prior, settings.target, progress=progress, generator=generator)
    if source is None or source_y is None:
        return target
    past = cross_entropy(source, source_y, log_prior).mean()
    return Loss.of((1 - settings.beta) * past + target.total, source=past, **target.terms)


def unlabeled_source(
    target: Tensor, source: Tensor, log_prior: Tensor | None = None, settings: UnlabeledSource = _UNLABELED
) -> Loss:
    """Compute the objective of the two-stage prior with an unlabeled source.

    β I(w; source) - I(w; target and source), eq:ref_pi_transfer_1, of as many source as target tuples.

    Parameters
    ----------
    target : Tensor
        Log-probabilities of the target inputs, (K, B·N, C).
    source : Tensor
        Log-probabilities of the source inputs, (K, B·M, C').
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : UnlabeledSource, default: UnlabeledSource()
        The hyperparameters.

    Returns
    -------
    Loss
        The total and the terms `joint_information` and `source_information`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> target, source = (torch.randn(4, 8, 3).log_softmax(-1) for _ in range(2))
    >>> sorted(rp.losses.unlabeled_source(target, source).terms)
    ['joint_information', 'source_information']
    """
    log_prior = uniform(len(target), target) if log_prior is None else log_prior
    target, source = tuples(target, settings.order), tuples(source, settings.source_order)
    if target.shape[1] != source.shape[1]:
        raise ValueError(f"expected as many source as target tuples, got {source.shape[1]} and {target.shape[1]}")
    both = joint_information(target, source, log_prior).mean()
    past = mutual_information(source, log_prior).mean()
    return Loss.of(settings.beta * past - both, joint_information=both, source_information=past)


def labeled_source(
    target: Tensor,
    source: Tensor | None = None,
    source_y: Tensor | None = None,
    log_prior: Tensor | None = None,
    settings: LabeledSource = _LABELED,
) -> Loss:
    """Compute the objective of the two-stage prior with a labeled source.

    -I(w; target) under the source's posterior, eq:ref_pi_transfer_2. Without a source the posterior is the prior. With
    `labels_from="prior"` it is a divergence instead of an information.

    Parameters
    ----------
    target : Tensor
        Log-probabilities of the target inputs, (K, n, C).
    source : Tensor, optional
        Log-probabilities of the source inputs, (K, s, C').
    source_y : Tensor, optional
        Their classes, (s,).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : LabeledSource, default: LabeledSource()
        The hyperparameters.

    Returns
    -------
    Loss
        The total, the terms `information` and `source_weights` (the effective number of particles), and as `weights`
        the source's posterior.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> target, source = (torch.randn(4, 8, 3).log_softmax(-1) for _ in range(2))
    >>> sorted(rp.losses.labeled_source(target, source, torch.arange(8) % 3).terms)
    ['information', 'source_weights']
    """
    log_prior = uniform(len(target), target) if log_prior is None else log_prior
    posterior = log_prior
    if source is not None and source_y is not None:
        posterior = source_posterior(source, source_y, log_prior, settings.beta)
    grouped = tuples(target, settings.order)
    if settings.labels_from == "posterior":
        information = mutual_information(grouped, posterior).mean()
    else:
        information = divergence_from_posterior(grouped, posterior, log_prior).mean()
    loss = Loss.of(-information, information=information, source_weights=entropy(posterior).exp())
    return loss._replace(weights=posterior.detach().exp())


def joint_information(target: Tensor, source: Tensor, log_prior: Tensor) -> Tensor:
    """Return I_π(w; y_t^n, y_s^m), first term of eq:ref_transfer_mi: (K, B, N, C), (K, B, M, C') -> (B,).

    Given the weights all labels are independent: a target and a source tuple are one tuple of n + m items. The task
    with fewer classes is padded with classes of probability 0, which change nothing.
    """
    classes = max(target.shape[-1], source.shape[-1])
    both = [pad(log_p, (0, classes - log_p.shape[-1]), value=-math.inf) for log_p in (target, source)]
    return mutual_information(torch.cat(both, dim=2), log_prior)


def source_posterior(log_p: Tensor, y: Tensor, log_prior: Tensor, beta: float) -> Tensor:
    """Return log of p(w_k | z^m) ∝ π(w_k) p(z^m | w_k)^(1-β), eq:ref_pinm_beta: (K, s, C), (s,), (K,) -> (K,)."""
    return (log_prior + (1 - beta) * finite(log_likelihood(log_p, y)).sum(-1)).log_softmax(0)


def divergence_from_posterior(log_p: Tensor, log_posterior: Tensor, log_prior: Tensor) -> Tensor:
    """Return Σ_y p_π(y^n) KL(p(w | y^n, z^m) ‖ p(w | z^m)): (K, B, N, C), (K,), (K,) -> (B,).

    This is eq:ref_pi_transfer_2 with labels averaged over the prior π, as its last line reads. With the posterior in
    place of π it is the mutual information.
    """
    particles, count, order, classes = log_p.shape
    needed = _COPIES * particles * count * float(classes) ** order * log_p.element_size()
    check_memory(needed, f"the labelings of {count} tuples of {order} items", "lower order or unlabeled_batch")
    labelings = joint(log_p)  # (K, B, C^N)
    surplus = labelings - mixture(labelings, log_posterior)  # log p(y | w_k) / p(y | z^m)
    updated = (surplus + finite(log_posterior).to(surplus)[:, None, None]).exp()  # p(w_k | y, z^m)
    return (mixture(labelings, log_prior).exp() * (updated * surplus).sum(0)).sum(-1)
