"""Exact reference priors of small models, each with a certificate of how far it can be from the optimum.

    from refprior.exact import Coin, reference_prior
    print(reference_prior(Coin(10)))

It imports numpy and scipy only.
"""

from refprior.exact import models
from refprior.exact._priors import FirstStage, certify, known_first_stage, reference_prior, two_stage_prior
from refprior.exact._solution import Solution
from refprior.exact.ask._compare import Judged, PriorComparison, compare_priors
from refprior.exact.ask._designs import BestDesign, CapacityCurve, Design, best_design, capacity_curve, compare_designs
from refprior.exact.ask._jeffreys import Jeffreys, fisher_information, jeffreys
from refprior.exact.ask._nuisance import NuisancePrior
from refprior.exact.ask._posterior import CredibleSet, Posterior
from refprior.exact.ask._scan import Fork, Scan, scan
from refprior.exact.channels import (
    Categorical,
    Channel,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    Product,
    Rows,
    TwoCoins,
)
from refprior.exact.solve import BlahutArimoto, best_so_far, blahut_arimoto

__all__ = [
    "BestDesign",
    "BlahutArimoto",
    "CapacityCurve",
    "Categorical",
    "Channel",
    "Coin",
    "CredibleSet",
    "Design",
    "ExponentialDecay",
    "FirstStage",
    "Fork",
    "Gaussian",
    "Jeffreys",
    "Judged",
    "NuisancePrior",
    "Poisson",
    "Posterior",
    "PriorComparison",
    "Product",
    "Rows",
    "Scan",
    "Solution",
    "TwoCoins",
    "best_design",
    "best_so_far",
    "blahut_arimoto",
    "capacity_curve",
    "certify",
    "compare_designs",
    "compare_priors",
    "fisher_information",
    "jeffreys",
    "known_first_stage",
    "models",
    "reference_prior",
    "scan",
    "two_stage_prior",
]
