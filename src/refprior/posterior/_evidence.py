"""Which source to pretrain on, before anything is trained on the target: how much its outputs tell of target labels."""

# K particles, n labelled target examples, C outputs of the source, C' classes of the target

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior.information import average


def transferability(log_p: Tensor, y: Tensor, classes: int, log_prior: Tensor) -> Tensor:
    """Mean log-probability of target labels read from outputs of a source's particles: (K, n, C), (n,), (K,) -> ().

    The outputs z of a source are taken for what they are, with the joint frequencies of z and y among the labelled
    target examples as their meaning: log Σ_z p(y_i | z) p_k(z | x_i), the log expected empirical prediction of Nguyen
    et al. (2020), averaged over examples and particles. 0 is perfect; constant outputs get minus the entropy of the
    labels, and noise a little more, the more outputs there are: compare sources with equally many.
    """
    if not len(y):
        raise ValueError("need labelled target examples to see what a source tells of them")
    p = log_p.exp()
    joint = torch.einsum("knz,nc->kzc", p, one_hot(y, classes).to(p)) / len(y)  # (K, C, C')
    meaning = joint / joint.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    likelihood = torch.einsum("knz,kzn->kn", p, meaning[..., y])
    return average(likelihood.log().mean(-1), log_prior)
