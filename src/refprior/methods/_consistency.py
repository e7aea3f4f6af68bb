"""Mean Teacher and VAT: predictions should not change under small changes of the input or the weights."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import average, entropy, finite, uniform
from refprior.methods._fixmatch import soft_divergence
from refprior.methods._reference_prior import cross_entropy
from refprior.methods._step import Loss, Needs, Step


@dataclass(frozen=True)
class MeanTeacher:
    """Mean Teacher (Tarvainen and Valpola 2017): the particles agree with their moving average on two views.

    Minimizes CE(y, p(x)) + weight · ramp · mean over y of (p_teacher(u₁) - p(u₂))². Each particle has its own teacher,
    the moving average of the recipe's `ema`, with batch norm and dropout in training mode.

    Parameters
    ----------
    weight : float, default: 50
        Weight of the unlabeled inputs after the ramp.
    ramp : float, default: 0.4
        Share of training over which the weight rises linearly from 0.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.MeanTeacher().needs.view_names
    ('weak', 'weak_2')
    """

    weight: float = 50.0
    ramp: float = 0.4
    needs: ClassVar[Needs] = Needs(views=("weak", "weak"))

    def __post_init__(self) -> None:
        number("weight", self.weight, at_least=0)
        number("ramp", self.ramp, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        views = step.batch.views
        with torch.no_grad():
            teacher = (step.batch_teacher or step.teacher)(views["weak"])
        labeled, student = step.predict(step.batch.labeled, views["weak_2"])
        log_prior = step.log_prior.detach()
        return mean_teacher(labeled, step.batch.labels, teacher, student, log_prior, self, progress=step.progress)


@dataclass(frozen=True)
class VAT:
    """Virtual adversarial training (Miyato et al. 2018) with entropy minimization.

    Minimizes CE(y, p(x)) + weight · ramp · KL(p(u) ‖ p(u + r)) + entropy_weight · H(p(u)), where r is the direction in
    which the prediction of each particle changes most. The original's perturbation has length 6 for CIFAR-10 pixels in
    [-1, 1]; `radius` is that length relative to inputs of any kind.

    Parameters
    ----------
    weight : float, default: 0.3
        Weight of the divergence after the ramp.
    entropy_weight : float, default: 0.06
        Weight of the entropy.
    radius : float, default: 0.22
        Length of the perturbation, relative to the root mean square length of the inputs.
    ramp : float, default: 0.4
        Share of training over which the weight rises linearly from 0.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.VAT().radius
    0.22
    """

    weight: float = 0.3
    entropy_weight: float = 0.06
    radius: float = 0.22
    ramp: float = 0.4
    needs: ClassVar[Needs] = Needs(views=("weak",))

    def __post_init__(self) -> None:
        number("weight", self.weight, at_least=0)
        number("entropy_weight", self.entropy_weight, at_least=0)
        number("radius", self.radius, above=0)
        number("ramp", self.ramp, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        u = step.batch.views["weak"]
        if not u.is_floating_point():
            raise ValueError("VAT perturbs inputs, and token ids cannot be perturbed: use FixMatch or ReferencePrior")
        if step.each is None:
            raise ValueError("VAT needs separate inputs per particle: set `each` of the step, such as Particles.each")
        own = u.expand(len(step.log_prior), *u.shape)
        start = torch.randn(own.shape[1:], dtype=u.dtype, device=u.device, generator=step.generator).expand_as(own)
        length = self.radius * u.flatten(1).square().sum(1).mean().sqrt()
        perturbed = step.each(own + length * worst_direction(step.each, own, start))
        (labeled,) = step.predict(step.batch.labeled)
        # In a pass without updates of batch norm, like the perturbed inputs that it is compared with.
        clean = (step.aside or step.student)(u)
        log_prior = step.log_prior.detach()
        return vat(labeled, step.batch.labels, clean, perturbed, log_prior, self, progress=step.progress)


_MEAN_TEACHER, _VAT = MeanTeacher(), VAT()


def mean_teacher(
    labeled: Tensor,
    y: Tensor,
    teacher: Tensor,
    student: Tensor,
    log_prior: Tensor | None = None,
    settings: MeanTeacher = _MEAN_TEACHER,
    *,
    progress: float = 1.0,
) -> Loss:
    """Compute the objective of Mean Teacher.

    CE(y, p(x)) + weight · ramp · mean over y of (p_teacher(u₁) - p(u₂))².

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    teacher : Tensor
        The teacher's log-probabilities of one view of the unlabeled inputs, (K, n, C).
    student : Tensor
        The student's log-probabilities of another view, (K, n, C).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : MeanTeacher, default: MeanTeacher()
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
    >>> labeled, teacher, student = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.mean_teacher(labeled, torch.arange(5), teacher, student).terms)
    ['cross_entropy', 'squared_error']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    error = average(squared_error(teacher.detach().exp(), student), log_prior).mean()
    weight = settings.weight * ramp(progress, settings.ramp)
    return Loss.of(likelihood + weight * error, cross_entropy=likelihood, squared_error=error)


def vat(
    labeled: Tensor,
    y: Tensor,
    clean: Tensor,
    perturbed: Tensor,
    log_prior: Tensor | None = None,
    settings: VAT = _VAT,
    *,
    progress: float = 1.0,
) -> Loss:
    """Compute the objective of virtual adversarial training.

    CE(y, p(x)) + weight · ramp · KL(p(u) ‖ p(u + r)) + entropy_weight · H(p(u)). No gradient passes through the first
    argument of the divergence.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    clean, perturbed : Tensor
        Log-probabilities of the unlabeled inputs before and after the perturbation, (K, n, C) each.
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : VAT, default: VAT()
        The hyperparameters.
    progress : float, default: 1
        Completed share of training, from 0 to 1, for the ramp.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `divergence` and `entropy`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, clean, perturbed = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.vat(labeled, torch.arange(5), clean, perturbed).terms)
    ['cross_entropy', 'divergence', 'entropy']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    change = average(soft_divergence(clean.detach().exp(), perturbed), log_prior).mean()
    uncertainty = average(entropy(clean), log_prior).mean()
    weight = settings.weight * ramp(progress, settings.ramp)
    total = likelihood + weight * change + settings.entropy_weight * uncertainty
    return Loss.of(total, cross_entropy=likelihood, divergence=change, entropy=uncertainty)


def squared_error(target: Tensor, log_p: Tensor) -> Tensor:
    """Return the mean over y of (q(y) - p(y))², MixMatch eq. 4 and Mean Teacher: (..., C), (..., C) -> (...)."""
    return (target - finite(log_p).exp()).square().mean(-1)


def ramp(progress: float, length: float) -> float:
    """Return a weight that rises linearly from 0 to 1 over the first `length` of training."""
    return 1.0 if length == 0 else min(1.0, progress / length)


def worst_direction(model: Callable[[Tensor], Tensor], inputs: Tensor, start: Tensor) -> Tensor:
    """Find the direction in which KL(p(u) ‖ p(u + r)) grows fastest: (K, n, ...) -> (K, n, ...).

    One power iteration: H d / ‖H d‖ with the Hessian H = Σ_y p(y) ∇log p(y) ∇log p(y)ᵀ of that divergence at r = 0,
    per input. The original takes H d as a difference of gradients ξ = 1e-6 apart, which single precision does not
    resolve; here it is exact.
    """
    u, unit_start = inputs.detach().clone().requires_grad_(), unit(start)
    with torch.enable_grad():
        log_p = model(u)
        weights = torch.zeros_like(log_p, requires_grad=True)
        (pulled,) = torch.autograd.grad((log_p * weights).sum(), u, create_graph=True)  # Jᵀ weights, linear in them
        (change,) = torch.autograd.grad((pulled * unit_start).sum(), weights)  # J d
        p = log_p.detach().exp()
        (hessian_start,) = torch.autograd.grad(log_p, u, grad_outputs=p * change)  # Jᵀ diag(p) J d = H d
    return unit(hessian_start)


def unit(vectors: Tensor) -> Tensor:
    """Divide each input by its length; zero stays zero: (K, n, ...) -> (K, n, ...)."""

    def divided(values: Tensor, by: Tensor) -> Tensor:
        return values / torch.where(by > 0, by, 1).reshape(*by.shape, *[1] * (values.dim() - 2))

    # By the largest entry first, because squares of small numbers underflow.
    scaled = divided(vectors, vectors.flatten(2).abs().amax(2))
    return divided(scaled, scaled.flatten(2).norm(dim=2))
