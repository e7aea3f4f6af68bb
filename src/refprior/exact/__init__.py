"""Exact reference priors of small models, each with a certificate of how far it can be from the optimum.

    from refprior.exact import Coin, reference_prior
    print(reference_prior(Coin(10)))

Numpy and scipy only.
"""

from .blahut_arimoto import BlahutArimoto, blahut_arimoto
from .channels import Categorical, Channel
from .jeffreys import Jeffreys, fisher_information, jeffreys
from .models import Coin, Gaussian, Poisson
from .plane import ExponentialDecay, TwoCoins
from .priors import FirstStage, certify, known_first_stage, reference_prior, two_stage_prior
from .solution import Solution

__all__ = [
    "BlahutArimoto",
    "Categorical",
    "Channel",
    "Coin",
    "ExponentialDecay",
    "FirstStage",
    "Gaussian",
    "Jeffreys",
    "Poisson",
    "Solution",
    "TwoCoins",
    "blahut_arimoto",
    "certify",
    "fisher_information",
    "jeffreys",
    "known_first_stage",
    "reference_prior",
    "two_stage_prior",
]
