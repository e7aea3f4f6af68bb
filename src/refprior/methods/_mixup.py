"""Mixup for few labels: predictions of inputs between two inputs are asked to be between their targets."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number
from refprior.information import average, uniform
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import check_mixable, mix, shares_of_mixing, soft_cross_entropy


@dataclass(frozen=True)
class Mixup:
    """Mixup (Zhang et al. 2018) in its semi-supervised form (Berthelot et al. 2019), any number of particles.

    The partner of an input is the one at the same place from the end of the batch. Targets of unlabeled inputs are
    what each particle predicts of them itself. The original: `Optimizer(kind="adamw", learning_rate=0.002,
    decay=0.02, schedule="constant")` and EMA 0.999.

    >>> import refprior as rp
    >>> rp.methods.Mixup().needs.views
    ('weak',)
    """

    beta: float = 0.75  # of the Beta distribution that shares are drawn from
    weight: float = 1.0  # of the unlabeled inputs
    needs: ClassVar[Needs] = Needs(views=("weak",))

    def __post_init__(self) -> None:
        number("beta", self.beta, above=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        x, u = step.batch.labeled, step.batch.views["weak"]
        check_mixable(x, "Mixup")
        (guesses,) = step.guess(u)
        first, second = (shares_of_mixing(len(part), self.beta, part, step.generator) for part in (x, u))
        labeled, unlabeled = step.predict(mix(x, x.flip(0), first), mix(u, u.flip(0), second))
        targets = one_hot(step.batch.labels, guesses.shape[-1]).to(labeled)
        targets = mix(targets, targets.flip(0), first)
        guesses = mixed_targets(guesses.exp(), second)
        return mixup(labeled, targets, unlabeled, guesses, step.log_prior.detach(), self)


def mixed_targets(guesses: Tensor, share: Tensor) -> Tensor:
    """λ q + (1 - λ) q' of the partners' probabilities: (K, n, C), (n,) -> (K, n, C)."""
    return mix(guesses.transpose(0, 1), guesses.flip(1).transpose(0, 1), share).transpose(0, 1)


_DEFAULT = Mixup()


def mixup(
    labeled: Tensor,
    targets: Tensor,
    unlabeled: Tensor,
    guesses: Tensor,
    log_prior: Tensor | None = None,
    settings: Mixup = _DEFAULT,
) -> Loss:
    """CE(mixed labels, p(mixed x)) + weight · CE(mixed guesses, p(mixed u)): (K, b, C), (b, C), (K, n, C), (K, n, C).

    labeled and unlabeled are log-probabilities of mixed inputs; targets and guesses are probabilities, mixed alike.

    >>> import torch
    >>> import refprior as rp
    >>> labeled, unlabeled = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8))
    >>> targets, guesses = torch.full((5, 10), 0.1), torch.full((4, 8, 10), 0.1)
    >>> sorted(rp.losses.mixup(labeled, targets, unlabeled, guesses).terms)
    ['cross_entropy', 'mixed']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = average(soft_cross_entropy(targets, labeled), log_prior).mean()
    mixed = average(soft_cross_entropy(guesses.detach(), unlabeled), log_prior).mean()
    return Loss.of(likelihood + settings.weight * mixed, cross_entropy=likelihood, mixed=mixed)
