"""VAT: predictions should not change in the direction in which they would change most."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import average, entropy, uniform
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._supervised import cross_entropy
from refprior.methods._targets import ramp, soft_divergence


@dataclass(frozen=True)
class VAT:
    """Virtual adversarial training (Miyato et al. 2018) with entropy minimization, any number of particles.

    Every particle is perturbed in its own worst direction. The original's perturbation has length 6 where pixels of
    CIFAR-10 lie in [-1, 1]; `radius` is that length relative to inputs of any kind.

    >>> import refprior as rp
    >>> rp.methods.VAT().radius
    0.22
    """

    weight: float = 0.3  # of the perturbed inputs, once the ramp is over
    entropy_weight: float = 0.06
    radius: float = 0.22  # length of the perturbation, relative to the root mean square length of the inputs
    ramp: float = 0.4  # share of training over which the weight rises from 0
    needs: ClassVar[Needs] = Needs(views=("weak",))

    def __post_init__(self) -> None:
        number("weight", self.weight, at_least=0)
        number("entropy_weight", self.entropy_weight, at_least=0)
        number("radius", self.radius, above=0)
        number("ramp", self.ramp, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        u = step.batch.views["weak"]
        if not u.is_floating_point():
            raise ValueError("VAT moves inputs, and token ids cannot be moved: take FixMatch or ReferencePrior")
        if step.each is None:
            raise ValueError("VAT gives each particle inputs of its own: the step needs `each`, such as Particles.each")
        own = u.expand(len(step.log_prior), *u.shape)
        start = torch.randn(own.shape[1:], dtype=u.dtype, device=u.device, generator=step.generator).expand_as(own)
        length = self.radius * u.flatten(1).square().sum(1).mean().sqrt()
        perturbed = step.each(own + length * worst_direction(step.each, own, start))
        (labeled,) = step.predict(step.batch.labeled)
        clean = (step.aside or step.student)(u)  # alone, as what it is compared with: batch norm sees the others
        log_prior = step.log_prior.detach()
        return vat(labeled, step.batch.labels, clean, perturbed, log_prior, self, progress=step.progress)


def worst_direction(model: Callable[[Tensor], Tensor], inputs: Tensor, start: Tensor) -> Tensor:
    """One power iteration for the direction in which KL(p(u) ‖ p(u + r)) grows fastest: (K, n, ...) -> (K, n, ...).

    H d / ‖H d‖ with the Hessian H = Σ_y p(y) ∇log p(y) ∇log p(y)ᵀ of that divergence at r = 0, per input. The original
    takes H d as a difference of gradients ξ = 1e-6 apart, which single precision does not resolve; here it is exact.
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
    """Each input divided by its length; zero stays zero: (K, n, ...) -> (K, n, ...)."""
    largest = vectors.flatten(2).abs().amax(2)  # first: squares of small numbers underflow
    scaled = vectors / _shaped(torch.where(largest > 0, largest, 1), vectors)
    length = scaled.flatten(2).norm(dim=2)
    return scaled / _shaped(torch.where(length > 0, length, 1), scaled)


def _shaped(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(*values.shape, *[1] * (like.dim() - 2))


_DEFAULT = VAT()


def vat(
    labeled: Tensor,
    y: Tensor,
    clean: Tensor,
    perturbed: Tensor,
    log_prior: Tensor | None = None,
    settings: VAT = _DEFAULT,
    *,
    progress: float = 1.0,
) -> Loss:
    """CE(x) + weight · ramp · KL(p(u) ‖ p(u + r)) + entropy_weight · H(p(u)), no gradient through the divergence's
    first argument: (K, b, C), (b,), (K, n, C), (K, n, C), (K,).

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
