"""Questions about channels and priors, one module each."""

from refprior.exact.ask._compare import PriorComparison, compare_priors
from refprior.exact.ask._designs import (
    CapacityCurve,
    Design,
    DesignSearch,
    best_design,
    capacity_curve,
    compare_designs,
)
from refprior.exact.ask._draws import draw_prior
from refprior.exact.ask._jeffreys import JeffreysPrior, fisher_information, jeffreys_prior
from refprior.exact.ask._scan import PriorScan, scan_priors

__all__ = [
    "CapacityCurve",
    "Design",
    "DesignSearch",
    "JeffreysPrior",
    "PriorComparison",
    "PriorScan",
    "best_design",
    "capacity_curve",
    "compare_designs",
    "compare_priors",
    "draw_prior",
    "fisher_information",
    "jeffreys_prior",
    "scan_priors",
]
