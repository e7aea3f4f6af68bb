"""Questions about channels and priors, one module each."""

from refprior.exact.ask._compare import PriorComparison, compare_priors
from refprior.exact.ask._designs import BestDesign, CapacityCurve, Design, best_design, capacity_curve, compare_designs
from refprior.exact.ask._jeffreys import Jeffreys, fisher_information, jeffreys
from refprior.exact.ask._scan import Scan, scan

__all__ = [
    "BestDesign",
    "CapacityCurve",
    "Design",
    "Jeffreys",
    "PriorComparison",
    "Scan",
    "best_design",
    "capacity_curve",
    "compare_designs",
    "compare_priors",
    "fisher_information",
    "jeffreys",
    "scan",
]
