"""MixMatch: sharpened guesses of two weak views, mixed with the labeled inputs."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number
from refprior.information import average, finite, mixture, uniform
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._targets import check_mixable, mix, ramp, shares_of_mixing, sharpen, soft_cross_entropy


@dataclass(frozen=True)
class MixMatch:
    """MixMatch (Berthelot et al. 2019), any number of particles, each with guesses of its own.

    The original: `Optimizer(kind="adamw", learning_rate=0.002, decay=0.02, schedule="constant")` and EMA 0.999; its
    ramp of 16,384 of 2²⁰ steps is a share of training here.

    >>> import refprior as rp
    >>> rp.methods.MixMatch().needs.view_names
    ('weak', 'weak_2')
    """

    beta: float = 0.75  # of the Beta distribution that shares are drawn from
    temperature: float = 0.5  # that guesses are sharpened with
    weight: float = 75.0  # of the unlabeled inputs, once the ramp is over
    ramp: float = 1 / 64  # share of training over which the weight rises from 0
    needs: ClassVar[Needs] = Needs(views=("weak", "weak"))

    def __post_init__(self) -> None:
        number("beta", self.beta, above=0)
        number("temperature", self.temperature, above=0)
        number("weight", self.weight, at_least=0)
        number("ramp", self.ramp, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        x, first, second = step.batch.labeled, step.batch.views["weak"], step.batch.views["weak_2"]
        check_mixable(x, "MixMatch")
        guesses = guessed(torch.stack(step.guess(first, second)), self.temperature).exp()  # (K, n, C)
        labels = one_hot(step.batch.labels, guesses.shape[-1]).to(guesses).expand(len(guesses), -1, -1)
        inputs, targets = torch.cat([x, first, second]), torch.cat([labels, guesses, guesses], dim=1)
        share = shares_of_mixing(len(inputs), self.beta, inputs, step.generator)
        order = torch.randperm(len(inputs), generator=step.generator, device=inputs.device)
        targets = mix(targets.transpose(0, 1), targets[:, order].transpose(0, 1), share).transpose(0, 1)
        (log_p,) = step.predict(mix(inputs, inputs[order], share))
        b = len(x)
        log_prior = step.log_prior.detach()
        return mixmatch(
            log_p[:, :b], targets[:, :b], log_p[:, b:], targets[:, b:], log_prior, self, progress=step.progress
        )


def guessed(views: Tensor, temperature: float) -> Tensor:
    """The mean prediction of some views, sharpened, MixMatch eq. 6 and 7: (views, K, n, C) -> (K, n, C)."""
    return sharpen(mixture(views, uniform(len(views), views)), temperature)


def squared_error(target: Tensor, log_p: Tensor) -> Tensor:
    """mean over y of (q(y) - p(y))², MixMatch eq. 4 and Mean Teacher: (..., C), (..., C) -> (...)."""
    return (target - finite(log_p).exp()).square().mean(-1)


_DEFAULT = MixMatch()


def mixmatch(
    labeled: Tensor,
    targets: Tensor,
    unlabeled: Tensor,
    guesses: Tensor,
    log_prior: Tensor | None = None,
    settings: MixMatch = _DEFAULT,
    *,
    progress: float = 1.0,
) -> Loss:
    """CE(labels', p(x')) + weight · ramp · ‖guesses' - p(u')‖² / C, MixMatch eq. 2 to 5:
    (K, b, C), (K, b, C) or (b, C), (K, n, C), (K, n, C), (K,).

    labeled and unlabeled are log-probabilities of mixed inputs; targets and guesses are probabilities, mixed alike.

    >>> import torch
    >>> import refprior as rp
    >>> labeled, unlabeled = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 16))
    >>> targets, guesses = torch.full((5, 10), 0.1), torch.full((4, 16, 10), 0.1)
    >>> sorted(rp.losses.mixmatch(labeled, targets, unlabeled, guesses).terms)
    ['cross_entropy', 'squared_error']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = average(soft_cross_entropy(targets.detach(), labeled), log_prior).mean()
    error = average(squared_error(guesses.detach(), unlabeled), log_prior).mean()
    weight = settings.weight * ramp(progress, settings.ramp)
    return Loss.of(likelihood + weight * error, cross_entropy=likelihood, squared_error=error)
