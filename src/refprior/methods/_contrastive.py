"""Contrastive pretraining: two views of an input should be each other's nearest, among all views of a batch."""

# K particles, n unlabeled inputs, P outputs of the projection head

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from refprior._checks import number, whole_number
from refprior.information import average, finite, uniform
from refprior.methods._step import Loss, Needs, Step


@dataclass(frozen=True)
class Contrastive:
    """SimCLR (Chen et al. 2020) without labels: the first stage of SelfMatch (Kim et al. 2021), or of any other method.

    The network's output layer is replaced by a projection head of two layers, which the next stage drops: give that
    stage `start=` this recipe and `head="new"`. `rp.recipes.pretrained` does it. SelfMatch published no code: the
    temperature is SimCLR's for CIFAR-10, the size of the head our own choice.

    >>> import refprior as rp
    >>> rp.methods.Contrastive().needs.view_names
    ('strong', 'strong_2')
    """

    temperature: float = 0.5
    projection: int = 64  # outputs of the head

    def __post_init__(self) -> None:
        number("temperature", self.temperature, above=0)
        whole_number("projection", self.projection, at_least=2)

    @cached_property
    def needs(self) -> Needs:
        return Needs(labels=False, views=("strong", "strong"), projection=self.projection)

    def __call__(self, step: Step) -> Loss:
        first, second = step.predict(step.batch.views["strong"], step.batch.views["strong_2"])
        # Particles give outputs less a constant per input, the normalizer of a softmax: centering takes that away.
        return contrastive(centered(first), centered(second), step.log_prior.detach(), self)


def centered(outputs: Tensor) -> Tensor:
    """Outputs less their mean over P: (K, n, P) -> (K, n, P)."""
    outputs = finite(outputs)
    return outputs - outputs.mean(-1, keepdim=True)


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """-log of exp(cos(z, z⁺)/T) / Σ_{z' ≠ z} exp(cos(z, z')/T), SimCLR eq. 1: (K, n, P), (K, n, P) -> (K, 2n).

    z' runs over all other views of the batch, z⁺ is the other view of the same input.
    """
    z = normalize(torch.cat([first, second], dim=1), dim=-1)
    similarity = z @ z.transpose(1, 2) / temperature  # (K, 2n, 2n)
    itself = torch.eye(similarity.shape[1], dtype=torch.bool, device=z.device)
    log_p = similarity.masked_fill(itself, -torch.inf).log_softmax(-1)
    partner = torch.arange(similarity.shape[1], device=z.device).roll(len(first[0]))
    return -log_p.gather(-1, partner.expand(len(z), -1).unsqueeze(-1)).squeeze(-1)


_DEFAULT = Contrastive()


def contrastive(
    first: Tensor, second: Tensor, log_prior: Tensor | None = None, settings: Contrastive = _DEFAULT
) -> Loss:
    """NT-Xent of the projections of two views of the same inputs, any vectors: (K, n, P), (K, n, P), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> same = torch.eye(3).expand(2, 3, 3)  # two particles whose views agree and are all different
    >>> rp.losses.contrastive(same, same).terms["agreement"]  # share of views whose nearest is their partner
    tensor(1.)
    """
    log_prior = uniform(len(first), first) if log_prior is None else log_prior
    items = nt_xent(first, second, settings.temperature)
    total = average(items, log_prior).mean()
    return Loss.of(total, contrastive=total, agreement=_agreement(first, second))


@torch.no_grad()
def _agreement(first: Tensor, second: Tensor) -> Tensor:
    """The share of first views whose nearest second view is their partner's: (K, n, P), (K, n, P) -> ()."""
    similarity = normalize(first, dim=-1) @ normalize(second, dim=-1).transpose(1, 2)
    own = torch.arange(similarity.shape[1], device=first.device)
    return (similarity.argmax(-1) == own).float().mean()
