"""Exact reference priors of small models, each with a certificate of its distance from the optimum.

    from refprior.exact import Coin, reference_prior
    print(reference_prior(Coin(10)))

It imports numpy and scipy, msgspec and filelock for files, and never torch. matplotlib is imported to draw.
"""

from refprior.exact import models
from refprior.exact._bottleneck import predictive_bottleneck
from refprior.exact._nuisance import NuisancePrior
from refprior.exact._posterior import Posterior
from refprior.exact._priors import certify, known_first_stage, reference_prior, two_stage_prior
from refprior.exact._solution import SearchInterrupted, Solution
from refprior.exact.ask import (
    Design,
    DesignSearch,
    PriorComparison,
    PriorScan,
    best_design,
    capacity_curve,
    compare_designs,
    compare_priors,
    draw_prior,
    fisher_information,
    jeffreys_prior,
    scan_priors,
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
from refprior.exact.solve import blahut_arimoto

__all__ = [
    "Categorical",
    "Channel",
    "Coin",
    "Design",
    "DesignSearch",
    "ExponentialDecay",
    "Gaussian",
    "NuisancePrior",
    "Poisson",
    "Posterior",
    "PriorComparison",
    "PriorScan",
    "Product",
    "Rows",
    "SearchInterrupted",
    "Solution",
    "TwoCoins",
    "best_design",
    "blahut_arimoto",
    "capacity_curve",
    "certify",
    "compare_designs",
    "compare_priors",
    "draw_prior",
    "fisher_information",
    "jeffreys_prior",
    "known_first_stage",
    "models",
    "predictive_bottleneck",
    "reference_prior",
    "scan_priors",
    "two_stage_prior",
]
