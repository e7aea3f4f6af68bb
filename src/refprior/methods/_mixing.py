"""Mixup and MixMatch: predictions of mixed inputs should equal the mixed targets."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number
from refprior.information import average, mixture, uniform
from refprior.methods._consistency import ramp, squared_error
from refprior.methods._fixmatch import sharpen, soft_cross_entropy
from refprior.methods._step import Loss, Needs, Step


@dataclass(frozen=True)
class Mixup:
    """Mixup (Zhang et al. 2018) in its semi-supervised form (Berthelot et al. 2019).

    Minimizes CE(mixed labels, p(mixed x)) + weight · CE(mixed guesses, p(mixed u)). Each input is mixed with the one
    at the same position from the end of the batch. The targets of unlabeled inputs are each particle's own
    predictions. The original uses `Optimizer(kind="adamw", learning_rate=0.002, decay=0.02, schedule="constant")` and
    EMA 0.999.

    Parameters
    ----------
    beta : float, default: 0.75
        β of the Beta(β, β) distribution from which the mixing shares are drawn.
    weight : float, default: 1
        Weight of the unlabeled inputs.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.Mixup().needs.views
    ('weak',)
    """

    beta: float = 0.75
    weight: float = 1.0
    needs: ClassVar[Needs] = Needs(views=("weak",))

    def __post_init__(self) -> None:
        number("beta", self.beta, above=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        x, u = step.batch.labeled, step.batch.views["weak"]
        _check_mixable(x, "Mixup")
        (guesses,) = step.guess(u)
        first, second = (mixing_shares(len(part), self.beta, part, step.generator) for part in (x, u))
        labeled, unlabeled = step.predict(mix(x, x.flip(0), first), mix(u, u.flip(0), second))
        targets = one_hot(step.batch.labels, guesses.shape[-1]).to(labeled)
        targets = mix(targets, targets.flip(0), first)
        guesses = mixed_targets(guesses.exp(), second)
        return mixup(labeled, targets, unlabeled, guesses, step.log_prior.detach(), self)


@dataclass(frozen=True)
class MixMatch:
    """MixMatch (Berthelot et al. 2019): sharpened guesses of two weak views, mixed with the labeled inputs.

    Minimizes CE(labels', p(x')) + weight · ramp · ‖guesses' - p(u')‖² / C, eq. 2 to 5 of the paper, of mixed inputs
    x', u'. Each particle has its own guesses. The original uses `Optimizer(kind="adamw", learning_rate=0.002,
    decay=0.02, schedule="constant")` and EMA 0.999; its ramp of 16,384 of 2²⁰ steps is a share of training here.

    Parameters
    ----------
    beta : float, default: 0.75
        β of the Beta(β, β) distribution from which the mixing shares are drawn.
    temperature : float, default: 0.5
        T of the sharpened guesses.
    weight : float, default: 75
        Weight of the unlabeled inputs after the ramp.
    ramp : float, default: 1/64
        Share of training over which the weight rises linearly from 0.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.MixMatch().needs.view_names
    ('weak', 'weak_2')
    """

    beta: float = 0.75
    temperature: float = 0.5
    weight: float = 75.0
    ramp: float = 1 / 64
    needs: ClassVar[Needs] = Needs(views=("weak", "weak"))

    def __post_init__(self) -> None:
        number("beta", self.beta, above=0)
        number("temperature", self.temperature, above=0)
        number("weight", self.weight, at_least=0)
        number("ramp", self.ramp, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        x, first, second = step.batch.labeled, step.batch.views["weak"], step.batch.views["weak_2"]
        _check_mixable(x, "MixMatch")
        guesses = guessed(torch.stack(step.guess(first, second)), self.temperature).exp()  # (K, n, C)
        labels = one_hot(step.batch.labels, guesses.shape[-1]).to(guesses).expand(len(guesses), -1, -1)
        inputs, targets = torch.cat([x, first, second]), torch.cat([labels, guesses, guesses], dim=1)
        share = mixing_shares(len(inputs), self.beta, inputs, step.generator)
        order = torch.randperm(len(inputs), generator=step.generator, device=inputs.device)
        targets = mix(targets.transpose(0, 1), targets[:, order].transpose(0, 1), share).transpose(0, 1)
        (log_p,) = step.predict(mix(inputs, inputs[order], share))
        b = len(x)
        log_prior = step.log_prior.detach()
        return mixmatch(
            log_p[:, :b], targets[:, :b], log_p[:, b:], targets[:, b:], log_prior, self, progress=step.progress
        )


_MIXUP, _MIXMATCH = Mixup(), MixMatch()


def mixup(
    labeled: Tensor,
    targets: Tensor,
    unlabeled: Tensor,
    guesses: Tensor,
    log_prior: Tensor | None = None,
    settings: Mixup = _MIXUP,
) -> Loss:
    """Compute the objective of semi-supervised Mixup.

    CE(mixed labels, p(mixed x)) + weight · CE(mixed guesses, p(mixed u)).

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the mixed labeled inputs, (K, b, C).
    targets : Tensor
        Their labels as probabilities, mixed the same way, (b, C).
    unlabeled : Tensor
        Log-probabilities of the mixed unlabeled inputs, (K, n, C).
    guesses : Tensor
        Their guessed probabilities, mixed the same way, (K, n, C).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : Mixup, default: Mixup()
        The hyperparameters; only `weight` is used.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy` and `mixed`.

    Examples
    --------
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


def mixmatch(
    labeled: Tensor,
    targets: Tensor,
    unlabeled: Tensor,
    guesses: Tensor,
    log_prior: Tensor | None = None,
    settings: MixMatch = _MIXMATCH,
    *,
    progress: float = 1.0,
) -> Loss:
    """Compute the objective of MixMatch.

    CE(labels', p(x')) + weight · ramp · ‖guesses' - p(u')‖² / C, MixMatch eq. 2 to 5.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the mixed labeled inputs, (K, b, C).
    targets : Tensor
        Their probabilities, mixed the same way, (K, b, C) or (b, C).
    unlabeled : Tensor
        Log-probabilities of the mixed unlabeled inputs, (K, n, C).
    guesses : Tensor
        Their guessed probabilities, mixed the same way, (K, n, C).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : MixMatch, default: MixMatch()
        The hyperparameters.
    progress : float, default: 1
        Completed share of training, from 0 to 1, for the ramp.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy` and `squared_error`.

    Examples
    --------
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


def guessed(views: Tensor, temperature: float) -> Tensor:
    """Sharpen the mean prediction of some views, MixMatch eq. 6 and 7: (views, K, n, C) -> (K, n, C)."""
    return sharpen(mixture(views, uniform(len(views), views)), temperature)


def mixing_shares(count: int, beta: float, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw max(λ, 1 - λ) of λ ~ Beta(β, β), one per input, MixMatch eq. 8 and 9: (n,)."""
    # torch.distributions takes no generator.
    concentration = torch.full((count, 2), beta, dtype=like.dtype, device=like.device)
    return torch._sample_dirichlet(concentration, generator=generator).amax(-1)


def mix(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """Return λ x + (1 - λ) x' of one share per input, MixMatch eq. 10: (n, ...), (n, ...), (n,) -> (n, ...)."""
    weights = share.reshape(-1, *[1] * (first.dim() - 1))
    return weights * first + (1 - weights) * second


def mixed_targets(guesses: Tensor, share: Tensor) -> Tensor:
    """Mix probabilities with those at the same position from the end: (K, n, C), (n,) -> (K, n, C)."""
    return mix(guesses.transpose(0, 1), guesses.flip(1).transpose(0, 1), share).transpose(0, 1)


def _check_mixable(inputs: Tensor, name: str) -> None:
    """Reject token ids: nothing lies between two of them."""
    if not inputs.is_floating_point():
        raise ValueError(f"{name} mixes inputs, and token ids cannot be mixed: use FixMatch or ReferencePrior")
