"""The two cases of a two-stage reference prior for networks, without labels of the target."""

# K particles, B target tuples of N items, B source tuples of M items, s source examples, C classes

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from refprior._checks import one_of, whole_number
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
from refprior.methods._step import Loss, Needs, Step, split_heads
from refprior.methods._transfer import check_beta

_COPIES = 6  # of all labelings' probabilities, alive at the peak of the backward pass


def joint_information(target: Tensor, source: Tensor, log_prior: Tensor) -> Tensor:
    """I_π(w; y_t^n, y_s^m | x_t^n, x_s^m), first term of eq:ref_transfer_mi: (K, B, N, C), (K, B, M, C') -> (B,).

    Given the weights all labels are independent: a target and a source tuple are one tuple of n + m items. The task
    with fewer classes is given further ones of probability 0, which change nothing.
    """
    classes = max(target.shape[-1], source.shape[-1])
    both = [pad(log_p, (0, classes - log_p.shape[-1]), value=-math.inf) for log_p in (target, source)]
    return mutual_information(torch.cat(both, dim=2), log_prior)


def source_posterior(log_p: Tensor, y: Tensor, log_prior: Tensor, beta: float) -> Tensor:
    """log of p(w_k | z^m) ∝ π(w_k) p(z^m | w_k)^(1-β), eq:ref_pinm_beta: (K, s, C), (s,), (K,) -> (K,)."""
    return (log_prior + (1 - beta) * finite(log_likelihood(log_p, y)).sum(-1)).log_softmax(0)


def divergence_from_posterior(log_p: Tensor, log_posterior: Tensor, log_prior: Tensor) -> Tensor:
    """Σ_y p_π(y^n) KL(p(w | y^n, z^m) ‖ p(w | z^m)), eq:ref_pi_transfer_2 with labels averaged by the prior π, as its
    last line reads: (K, B, N, C), (K,), (K,) -> (B,). With the posterior in place of π it is the mutual information.
    """
    particles, count, order, classes = log_p.shape
    needed = _COPIES * particles * count * float(classes) ** order * log_p.element_size()
    check_memory(needed, f"the labelings of {count} tuples of {order} items", "lower order or unlabeled_batch")
    labelings = joint(log_p)  # (K, B, C^N)
    surplus = labelings - mixture(labelings, log_posterior)  # log p(y | w_k) / p(y | z^m)
    updated = (surplus + finite(log_posterior).to(surplus)[:, None, None]).exp()  # p(w_k | y, z^m)
    return (mixture(labelings, log_prior).exp() * (updated * surplus).sum(0)).sum(-1)


@dataclass(frozen=True)
class UnlabeledSource:
    """Case 1, eq:ref_pi_transfer_1: the source is unlabeled too. Maximizes I(w; target and source) - β I(w; source).

    Its labels are averaged over, n + m of them at once: C^(n+m) labelings. β = 1 is eq:ref_transfer_mi; β = 0 is the
    reference prior of both tasks together; in between it weighs forgetting as eq:pib does.

    >>> from refprior.methods import UnlabeledSource
    >>> UnlabeledSource(order=2, source_order=1).needs.enumerates
    3
    """

    order: int = 2  # N, target items in a tuple
    source_order: int = 2  # M, source items in a tuple
    beta: float = 1.0

    def __post_init__(self) -> None:
        check_beta(self.beta)
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
    """Case 2, eq:ref_pi_transfer_2: the source's labels are known. Maximizes the information of the target under the
    source's posterior p(w | z^m) ∝ π(w) p(z^m | w)^(1-β), for the m source images of the step.

    β = 1 forgets the source and needs none: eq:ref_ssl. A particle that explains the source worse than others by some
    nats hardly counts, so that only particles that agree on the source are asked to disagree on the target.

    labels_from: the target's labels are averaged over as the `posterior` predicts them, which makes the divergence a
    mutual information; or as the `prior` does, p_π(y | x) in the line below the paper's equation.

    >>> from refprior.methods import LabeledSource
    >>> LabeledSource().needs.source, LabeledSource(beta=1).needs.source
    (True, False)
    """

    order: int = 2
    beta: float = 0.0
    labels_from: Literal["posterior", "prior"] = "posterior"

    def __post_init__(self) -> None:
        check_beta(self.beta)
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


_UNLABELED, _LABELED = UnlabeledSource(), LabeledSource()


def unlabeled_source(
    target: Tensor, source: Tensor, log_prior: Tensor | None = None, settings: UnlabeledSource = _UNLABELED
) -> Loss:
    """β I(w; source) - I(w; target and source) of as many source as target tuples: (K, B·N, C), (K, B·M, C'), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> target, source = (torch.randn(4, 8, 3).log_softmax(-1) for _ in range(2))
    >>> sorted(rp.losses.unlabeled_source(target, source).terms)
    ['joint_information', 'source_information']
    """
    log_prior = uniform(len(target), target) if log_prior is None else log_prior
    target, source = tuples(target, settings.order), tuples(source, settings.source_order)
    if target.shape[1] != source.shape[1]:
        raise ValueError(f"{target.shape[1]} target tuples but {source.shape[1]} source tuples: need as many of both")
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
    """-I(w; target) under the source's posterior, eq:ref_pi_transfer_2: (K, n, C), (K, s, C'), (s,), (K,).

    Without a source the posterior is the prior. With `labels_from="prior"` it is a divergence, not an information.

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
