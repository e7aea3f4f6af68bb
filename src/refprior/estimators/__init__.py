"""Scikit-learn compatible estimators for arrays with few labels or none."""

from refprior.estimators._classifier import ReferencePriorClassifier
from refprior.estimators._classifier import classifier_recipe as classifier_recipe  # for the command line; not public
from refprior.estimators._clusterer import ReferencePriorClusterer

__all__ = ["ReferencePriorClassifier", "ReferencePriorClusterer"]
