"""Dash: FixMatch that selects by a loss below a limit, which falls as training goes on."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number
from refprior.information import uniform
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._supervised import supervised
from refprior.methods._targets import sharpen, soft_cross_entropy, with_pseudo_labels


@dataclass(frozen=True)
class Dash:
    """Dash (Xu et al. 2021), any number of particles, each with a limit of its own.

    The original's lengths, a supervised warm-up of 2,048 steps and a decay every 10 of 1,024 epochs, are shares of
    training here. The first limit is the mean loss of the first unlabeled batch after the warm-up; no held-out part
    is used.

    >>> import refprior as rp
    >>> rp.methods.Dash().needs.views
    ('weak', 'strong')
    """

    slack: float = 1.0001  # C, the limit is at first this many times the mean loss
    decay: float = 1.27  # γ, what the limit is divided by each time
    floor: float = 0.05  # the limit falls no further, and targets are hard from there on
    temperature: float = 0.5  # of soft targets before that
    warmup: float = 1 / 512  # share of training with labels alone
    decay_every: float = 10 / 1024  # share of training between two decays
    weight: float = 1.0  # of the unlabeled inputs
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        number("slack", self.slack, above=0)
        number("decay", self.decay, above=1)
        number("floor", self.floor, above=0)
        number("temperature", self.temperature, above=0)
        number("warmup", self.warmup, at_least=0, below=1)
        number("decay_every", self.decay_every, above=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        if step.progress < self.warmup:
            (labeled,) = step.predict(step.batch.labeled)
            return supervised(labeled, step.batch.labels, step.log_prior.detach())
        views = step.batch.views
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        if "first_loss" not in step.memory:
            step.memory["first_loss"] = own_loss(weak, soft_targets(weak, self.temperature)).mean(1)  # ρ̂: (K,)
        limit = self.limit(step.memory["first_loss"], step.progress)
        return dash(labeled, step.batch.labels, weak, strong, limit, step.log_prior.detach(), self)

    def limit(self, first_loss: Tensor, progress: float) -> Tensor:
        """ρ_t = max(C γ^-(t-1) ρ̂, floor), Dash eq. 6: (K,) -> (K,)."""
        decays = math.floor((progress - self.warmup) / self.decay_every + 1e-9)
        return (self.slack * self.decay**-decays * first_loss).clamp_min(self.floor)


def soft_targets(weak: Tensor, temperature: float) -> Tensor:
    """The weak view's prediction, sharpened: (K, n, C) -> (K, n, C)."""
    return sharpen(weak.detach(), temperature).exp()


def hard_targets(weak: Tensor) -> Tensor:
    """1 for the most probable class: (K, n, C) -> (K, n, C)."""
    return one_hot(weak.detach().argmax(-1), weak.shape[-1]).to(weak.dtype)


def own_loss(weak: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the weak view and the target made of it: (K, n, C), (K, n, C) -> (K, n)."""
    return soft_cross_entropy(targets, weak.detach())


_DEFAULT = Dash()


def dash(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    limit: Tensor,
    log_prior: Tensor | None = None,
    settings: Dash = _DEFAULT,
) -> Loss:
    """CE(x) + weight · mean of 1[CE(target, p(weak)) ≤ ρ_t] · CE(target, p(strong)):
    (K, b, C), (b,), (K, n, C), (K, n, C), (K,), (K,).

    Targets are hard where the limit has reached its floor, and soft before.

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.dash(labeled, torch.arange(5), weak, strong, torch.full((4,), 1.5)).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    ended = (limit <= settings.floor).reshape(-1, 1, 1)
    targets = torch.where(ended, hard_targets(weak), soft_targets(weak, settings.temperature))
    used = (own_loss(weak, targets) <= limit.unsqueeze(1)).to(weak.dtype)
    return with_pseudo_labels(labeled, y, soft_cross_entropy(targets, strong), used, log_prior, settings.weight)
