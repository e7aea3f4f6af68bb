"""The two cases of a two-stage reference prior for networks, as the equations have them: no labels of the target."""

# K particles, B target tuples of N items, B source tuples of M items, s source examples, C classes

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from refprior.information import entropy, finite, log_likelihood, mutual_information
from refprior.methods._step import Loss, Step, split_heads
from refprior.methods._transfer import check_beta


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


@dataclass(frozen=True)
class UnlabelledSource:
    """Case 1, eq:ref_pi_transfer_1: the source is unlabelled too. Maximises I(w; target and source) - β I(w; source).

    Its labels are averaged over, n + m of them at once: C^(n+m) labelings. β = 1 is eq:ref_transfer_mi; β = 0 is the
    reference prior of both tasks together.
    """

    order: int = 2  # N, target items in a tuple
    source_order: int = 2  # M, source items in a tuple
    beta: float = 1.0
    two_stage: ClassVar[bool] = True
    label_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_beta(self.beta)
        if self.order < 1 or self.source_order < 1:
            raise ValueError(f"both orders must be at least 1, got {self.order} and {self.source_order}")

    def __call__(self, step: Step) -> Loss:
        target, source = step.predict(step.batch.weak, self.source_tuples(step))
        target, source = split_heads(target, step.classes)[0], split_heads(source, step.classes)[1]
        log_prior = step.log_prior.detach()
        both = joint_information(target, source, log_prior).mean()
        past = mutual_information(source, log_prior).mean()
        terms = {"joint_information": both, "source_information": past}
        return Loss(self.beta * past - both, {name: term.detach() for name, term in terms.items()})

    def source_tuples(self, step: Step) -> Tensor:
        """As many source tuples as target tuples: (B·M, ...) -> (B, M, ...)."""
        tuples, images = len(step.batch.weak), step.batch.source
        if len(images) != tuples * self.source_order:
            needed = tuples * self.source_order
            raise ValueError(f"{tuples} tuples of {self.source_order} need source={needed}, got {len(images)}")
        return images.reshape(tuples, self.source_order, *images.shape[1:])


@dataclass(frozen=True)
class LabelledSource:
    """Case 2, eq:ref_pi_transfer_2: the source's labels are known. Maximises the information of the target under the
    source's posterior p(w | z^m) ∝ π(w) p(z^m | w)^(1-β), for the m source examples of the step.

    β = 1 forgets the source: eq:ref_ssl. A particle that explains the source worse than others by some nats hardly
    counts, so that only particles that agree on the source are asked to disagree on the target.
    """

    order: int = 2
    beta: float = 0.0
    two_stage: ClassVar[bool] = True
    label_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_beta(self.beta)
        if self.order < 1:
            raise ValueError(f"order must be at least 1, got {self.order}")

    def __call__(self, step: Step) -> Loss:
        target, source = step.predict(step.batch.weak, step.batch.source)
        target, source = split_heads(target, step.classes)[0], split_heads(source, step.classes)[1]
        posterior = source_posterior(source, step.batch.source_y, step.log_prior.detach(), self.beta)
        information = mutual_information(target, posterior).mean()
        terms = {"information": information, "source_weights": entropy(posterior).exp()}
        return Loss(-information, {name: term.detach() for name, term in terms.items()})
