"""Exact reference priors of small models, each with a certificate of how far it can be from the optimum.

    from refprior.exact import Coin, reference_prior
    print(reference_prior(Coin(10)))

It imports numpy and scipy only.
"""

from refprior.exact import models
from refprior.exact._blahut_arimoto import BlahutArimoto, blahut_arimoto
from refprior.exact._channels import Categorical, Channel, Rows
from refprior.exact._compare import Design, Judged, compare_designs, compare_priors
from refprior.exact._jeffreys import Jeffreys, fisher_information, jeffreys
from refprior.exact._models import Coin, Gaussian, Poisson
from refprior.exact._priors import FirstStage, certify, known_first_stage, reference_prior, two_stage_prior
from refprior.exact._product import Product
from refprior.exact._solution import Solution
from refprior.exact._two_parameters import ExponentialDecay, TwoCoins

__all__ = [
    "BlahutArimoto",
    "Categorical",
    "Channel",
    "Coin",
    "Design",
    "ExponentialDecay",
    "FirstStage",
    "Gaussian",
    "Jeffreys",
    "Judged",
    "Poisson",
    "Product",
    "Rows",
    "Solution",
    "TwoCoins",
    "blahut_arimoto",
    "certify",
    "compare_designs",
    "compare_priors",
    "fisher_information",
    "jeffreys",
    "known_first_stage",
    "models",
    "reference_prior",
    "two_stage_prior",
]
