"""Scikit-learn compatible estimators for arrays with few labels or none."""

from refprior.estimators._choice import choose as choose  # for the command line; not public
from refprior.estimators._classifier import ReferencePriorClassifier
from refprior.estimators._classifier import classifier_recipes as classifier_recipes  # for the command line; not public
from refprior.estimators._clusterer import ReferencePriorClusterer
from refprior.estimators._report import fit_report as fit_report  # for the command line; not public

__all__ = ["ReferencePriorClassifier", "ReferencePriorClusterer"]
