"""Exact reference priors of small models, each with a certificate of how far it can be from the optimum.

    from refprior.exact import Coin, reference_prior
    print(reference_prior(Coin(10)))

It imports numpy and scipy only.
"""

from refprior.exact import models
from refprior.exact._nuisance import NuisancePrior
from refprior.exact._posterior import Posterior
from refprior.exact._priors import certify, known_first_stage, reference_prior, two_stage_prior
from refprior.exact._solution import SearchInterrupted, Solution
from refprior.exact.ask import (
    BestDesign,
    CapacityCurve,
    Design,
    Jeffreys,
    PriorComparison,
    Scan,
    best_design,
    capacity_curve,
    compare_designs,
    compare_priors,
    fisher_information,
    jeffreys,
    scan,
)
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
from refprior.exact.solve import BlahutArimoto, blahut_arimoto

__all__ = [
    "BestDesign",
    "BlahutArimoto",
    "CapacityCurve",
    "Categorical",
    "Channel",
    "Coin",
    "Design",
    "ExponentialDecay",
    "Gaussian",
    "Jeffreys",
    "NuisancePrior",
    "Poisson",
    "Posterior",
    "PriorComparison",
    "Product",
    "Rows",
    "Scan",
    "SearchInterrupted",
    "Solution",
    "TwoCoins",
    "best_design",
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
