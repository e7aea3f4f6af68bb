"""FreeMatch: thresholds that follow what the particles believe, and a term for fairness between classes."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number
from refprior.information import average, uniform
from refprior.methods._fixmatch import pseudo_label_loss
from refprior.methods._flexmatch import above
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import moved, with_pseudo_labels


class Beliefs(NamedTuple):
    """What FreeMatch keeps track of: moving averages over batches of weak views.

    >>> import torch
    >>> import refprior as rp
    >>> equal = torch.full((4, 10), 0.1)  # four particles, ten classes, before the first batch
    >>> rp.losses.Beliefs(equal[:, 0], marginal=equal, histogram=equal).confidence
    tensor([0.1000, 0.1000, 0.1000, 0.1000])
    """

    confidence: Tensor  # (K,) τ_t, of the most probable class
    marginal: Tensor  # (K, C) p̃_t, of the predictions
    histogram: Tensor  # (K, C) h̃_t, of the most probable classes


@dataclass(frozen=True)
class FreeMatch:
    """FreeMatch (Wang et al. 2023), any number of particles, each with beliefs of its own, kept in the checkpoint.

    fairness is small and chosen by data set in the original: 0.001 is that of its configuration for CIFAR-10.

    >>> import refprior as rp
    >>> rp.methods.FreeMatch()
    FreeMatch(momentum=None, fairness=0.001, weight=1.0)
    """

    momentum: float | None = None  # of the beliefs; None: that of the moving average of weights, both 0.999 originally
    fairness: float = 0.001  # weight of the fairness term
    weight: float = 1.0  # of the unlabeled inputs
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        if self.momentum is not None:
            number("momentum", self.momentum, at_least=0, below=1)
        number("fairness", self.fairness, at_least=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views, log_prior = step.batch.views, step.log_prior.detach()
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        known = Beliefs(**step.memory) if step.memory else no_beliefs(weak)
        beliefs = updated(known, weak, step.ema if self.momentum is None else self.momentum)
        step.memory.update(beliefs._asdict())
        return freematch(labeled, step.batch.labels, weak, strong, beliefs, log_prior, self)


def no_beliefs(weak: Tensor) -> Beliefs:
    """1/C everywhere, before the first batch."""
    particles, _, classes = weak.shape
    equal = torch.full((particles, classes), 1 / classes, dtype=weak.dtype, device=weak.device)
    return Beliefs(equal[:, 0], equal, equal)


def updated(beliefs: Beliefs, weak: Tensor, momentum: float) -> Beliefs:
    """The moving averages after a batch, FreeMatch eq. 5, 6 and 9: (K, n, C)."""
    p = weak.detach().exp()
    hard = one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype)
    seen = (p.amax(-1).mean(1), p.mean(1), hard.mean(1))
    return Beliefs(*(moved(before, now, momentum) for before, now in zip(beliefs, seen, strict=True)))


def thresholds(beliefs: Beliefs) -> Tensor:
    """τ_t(c) = τ_t p̃_t(c) / max p̃_t, FreeMatch eq. 7: (K, C)."""
    return beliefs.confidence.unsqueeze(1) * beliefs.marginal / beliefs.marginal.amax(1, keepdim=True)


def fairness(beliefs: Beliefs, strong: Tensor, used: Tensor) -> Tensor:
    """Σ_c a_c log b_c with a = p̃_t / h̃_t and b = p̄ / h̄, each normalized, FreeMatch eq. 10 to 12:
    (K, n, C), (K, n) -> (K,).

    p̄ and h̄ are the mean prediction and the histogram of the strong views that are used. Classes that are empty in h̄
    have no gradient in the original; here they are left out. 0 for a particle that uses none.
    """
    p, chosen = strong.exp(), used.unsqueeze(-1)
    histogram = (one_hot(strong.argmax(-1), strong.shape[-1]) * chosen).sum(1)
    seen = histogram > 0
    ratio = torch.where(seen, (p * chosen).sum(1) / torch.where(seen, histogram, 1), 0)
    total = ratio.sum(1, keepdim=True)
    b = torch.where(seen, ratio / torch.where(total > 0, total, 1), 1)
    believed = beliefs.histogram > 0
    a = torch.where(believed, beliefs.marginal / torch.where(believed, beliefs.histogram, 1), 0)
    a = a / a.sum(1, keepdim=True)
    return (a * b.log()).sum(1)


_DEFAULT = FreeMatch()


def freematch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    beliefs: Beliefs,
    log_prior: Tensor | None = None,
    settings: FreeMatch = _DEFAULT,
) -> Loss:
    """FixMatch with the thresholds of the beliefs, and the fairness term: (K, b, C), (b,), (K, n, C), (K, n, C), (K,).

    beliefs: (confidence (K,), marginal (K, C), histogram (K, C)), moving averages that the caller keeps.

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> beliefs = rp.losses.Beliefs(torch.full((4,), 0.1), torch.full((4, 10), 0.1), torch.full((4, 10), 0.1))
    >>> sorted(rp.losses.freematch(labeled, torch.arange(5), weak, strong, beliefs).terms)
    ['confident', 'cross_entropy', 'fairness', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    used = above(weak, thresholds(beliefs))
    loss = with_pseudo_labels(labeled, y, pseudo_label_loss(weak, strong), used, log_prior, settings.weight)
    fair = average(fairness(beliefs, strong, used), log_prior)
    return Loss.of(loss.total + settings.fairness * fair, **loss.terms, fairness=fair)
