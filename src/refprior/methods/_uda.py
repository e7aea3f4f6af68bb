"""UDA: sharpened predictions of the weak view teach the strong view."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from refprior._checks import number, one_of
from refprior.information import average, log_likelihood, uniform
from refprior.methods._reference_prior import confident
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import sharpen, soft_divergence

Annealing = Literal["none", "linear", "log", "exp"]


@dataclass(frozen=True)
class UDA:
    """UDA (Xie et al. 2020), any number of particles: FixMatch with soft targets.

    annealing: of the training signal; labeled inputs that are already more probable than a rising limit are left out.

    >>> import refprior as rp
    >>> rp.methods.UDA(annealing="linear").limit(progress=0.5, classes=10)
    0.55
    """

    threshold: float = 0.8
    temperature: float = 0.4
    weight: float = 1.0  # of the unlabeled inputs
    annealing: Annealing = "none"
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        number("threshold", self.threshold, above=0, at_most=1)
        number("temperature", self.temperature, above=0)
        number("weight", self.weight, at_least=0)
        one_of("annealing", self.annealing, ("none", "linear", "log", "exp"))

    def __call__(self, step: Step) -> Loss:
        views = step.batch.views
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        log_prior = step.log_prior.detach()
        return uda(labeled, step.batch.labels, weak, strong, log_prior, self, progress=step.progress)

    def limit(self, progress: float, classes: int) -> float:
        """η_t = (1 - 1/C) a(t) + 1/C, the probability up to which a label still teaches."""
        risen = {
            "none": 1.0,
            "linear": progress,
            "log": 1 - math.exp(-5 * progress),
            "exp": math.exp(5 * (progress - 1)),
        }[self.annealing]
        return risen * (1 - 1 / classes) + 1 / classes


def annealed_cross_entropy(log_p: Tensor, y: Tensor, limit: float) -> Tensor:
    """The mean of -log p(y) over the labels with p(y) ≤ η_t, 0 without any: (K, b, C), (b,) -> (K,)."""
    log_y = log_likelihood(log_p, y)
    teaches = log_y.detach() <= math.log(limit)
    return -torch.where(teaches, log_y, 0).sum(1) / teaches.sum(1).clamp_min(1)


_DEFAULT = UDA()


def uda(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    log_prior: Tensor | None = None,
    settings: UDA = _DEFAULT,
    *,
    progress: float = 1.0,
) -> Loss:
    """CE(x) + weight · mean of 1[max p(weak) ≥ threshold] · KL(sharpened p(weak) ‖ p(strong)):
    (K, b, C), (b,), (K, n, C), (K, n, C), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.uda(labeled, torch.arange(5), weak, strong).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    limit = settings.limit(progress, labeled.shape[-1])
    likelihood = average(annealed_cross_entropy(labeled, y, limit), log_prior)
    used = confident(weak, settings.threshold)
    targets = sharpen(weak.detach(), settings.temperature).exp()
    unlabeled = average(soft_divergence(targets, strong) * used, log_prior).mean()
    total = likelihood + settings.weight * unlabeled
    return Loss.of(total, cross_entropy=likelihood, pseudo_label=unlabeled, confident=used.mean())
