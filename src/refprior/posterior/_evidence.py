"""Which source to pretrain on, before anything is trained on the target: how much its outputs tell of target labels."""

# K particles, n labeled target examples, C outputs of the source, C' classes of the target

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior.information import average


def transferability(log_p: Tensor, y: Tensor, classes: int, log_prior: Tensor) -> Tensor:
    """Mean log-probability of target labels read from outputs of a source's particles: (K, n, C), (n,), (K,) -> ().

    What an output z of the source means is read from the joint frequencies of z and y among the labeled target
    examples: log Σ_z p(y_i | z) p_k(z | x_i), the log expected empirical prediction of Nguyen et al. (2020), averaged
    over examples and particles. 0 is perfect. Constant outputs get minus the entropy of the labels. Noise gets a
    little more, the more outputs there are: compare sources with equally many.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(3)[[1, 2, 1, 2]].log().unsqueeze(0)  # one particle, four images, three source classes
    >>> prior = torch.zeros(1)
    >>> rp.posterior.transferability(log_p, torch.tensor([0, 1, 0, 1]), classes=2, log_prior=prior)
    tensor(0.)
    """
    if not len(y):
        raise ValueError("need labeled target examples to see what a source tells of them")
    p = log_p.exp()
    joint = torch.einsum("knz,nc->kzc", p, one_hot(y, classes).to(p)) / len(y)  # (K, C, C')
    meaning = joint / joint.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    likelihood = torch.einsum("knz,kzn->kn", p, meaning[..., y])
    return average(likelihood.log().mean(-1), log_prior)
