"""Estimators in the manner of scikit-learn, for arrays with few labels or none."""

from refprior.estimators._classifier import ReferencePriorClassifier
from refprior.estimators._clusterer import ReferencePriorClusterer

__all__ = ["ReferencePriorClassifier", "ReferencePriorClusterer"]
