"""Contrastive pretraining: among all views of a batch, the two views of an input should be nearest to each other."""

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
    """SimCLR (Chen et al. 2020): contrastive pretraining without labels.

    Minimizes NT-Xent, SimCLR eq. 1, of two strong views. It is the first stage of SelfMatch (Kim et al. 2021), or of
    any other method. A projection head of two layers replaces the network's output layer, and the next stage drops it:
    give that stage `start=` this recipe and `head="new"`, as `rp.recipes.pretrained` does. SelfMatch published no
    code: the temperature is SimCLR's for CIFAR-10, the size of the head is our choice.

    Parameters
    ----------
    temperature : float, default: 0.5
        T, by which the cosine similarities are divided.
    projection : int, default: 64
        P, outputs of the projection head.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.Contrastive().needs.view_names
    ('strong', 'strong_2')
    """

    temperature: float = 0.5
    projection: int = 64

    def __post_init__(self) -> None:
        number("temperature", self.temperature, above=0)
        whole_number("projection", self.projection, at_least=2)

    @cached_property
    def needs(self) -> Needs:
        return Needs(labels=False, views=("strong", "strong"), projection=self.projection)

    def __call__(self, step: Step) -> Loss:
        outputs = step.predict(step.batch.views["strong"], step.batch.views["strong_2"])
        # Particles return outputs less a constant per input, the normalizer of a softmax. Centering removes it.
        first, second = (z - z.mean(-1, keepdim=True) for z in map(finite, outputs))
        return contrastive(first, second, step.log_prior.detach(), self)


_CONTRASTIVE = Contrastive()


def contrastive(
    first: Tensor, second: Tensor, log_prior: Tensor | None = None, settings: Contrastive = _CONTRASTIVE
) -> Loss:
    """Compute the contrastive loss of two views.

    The mean of -log of exp(cos(z, z⁺)/T) / Σ_{z' ≠ z} exp(cos(z, z')/T), NT-Xent, SimCLR eq. 1.

    Parameters
    ----------
    first, second : Tensor
        Projections of two views of the same inputs, any vectors, (K, n, P) each.
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : Contrastive, default: Contrastive()
        The hyperparameters.

    Returns
    -------
    Loss
        The total and the terms `contrastive` and `agreement`, the share of first views whose nearest second view is
        that of the same input.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> same = torch.eye(3).expand(2, 3, 3)  # two particles whose views agree and are all different
    >>> rp.losses.contrastive(same, same).terms["agreement"]
    tensor(1.)
    """
    log_prior = uniform(len(first), first) if log_prior is None else log_prior
    total = average(nt_xent(first, second, settings.temperature), log_prior).mean()
    with torch.no_grad():
        similarity = normalize(first, dim=-1) @ normalize(second, dim=-1).transpose(1, 2)
        partner = torch.arange(similarity.shape[1], device=first.device)
        agreement = (similarity.argmax(-1) == partner).float().mean()
    return Loss.of(total, contrastive=total, agreement=agreement)


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return -log of exp(cos(z, z⁺)/T) / Σ_{z' ≠ z} exp(cos(z, z')/T), SimCLR eq. 1: (K, n, P), (K, n, P) -> (K, 2n).

    z' runs over all other views of the batch, z⁺ is the other view of the same input.
    """
    z = normalize(torch.cat([first, second], dim=1), dim=-1)
    similarity = z @ z.transpose(1, 2) / temperature  # (K, 2n, 2n)
    itself = torch.eye(similarity.shape[1], dtype=torch.bool, device=z.device)
    log_p = similarity.masked_fill(itself, -torch.inf).log_softmax(-1)
    partner = torch.arange(similarity.shape[1], device=z.device).roll(len(first[0]))
    return -log_p.gather(-1, partner.expand(len(z), -1).unsqueeze(-1)).squeeze(-1)
