"""From particles to predictions: what the ensemble says, how good it is, and what it agrees on without labels."""

from refprior.posterior._clusters import Consensus, consensus, match, output_code, stability
from refprior.posterior._ensemble import (
    Average,
    Bins,
    Reliability,
    Scores,
    Uncertainty,
    accuracy,
    brier_score,
    change_class_prior,
    expected_calibration_error,
    likelihood_weights,
    negative_log_likelihood,
    predictive,
    reliability,
    scores,
    uncertainty,
)
from refprior.posterior._evidence import transferability
from refprior.posterior._per_class import PerClass, confusion, per_class

__all__ = [
    "Average",
    "Bins",
    "Consensus",
    "PerClass",
    "Reliability",
    "Scores",
    "Uncertainty",
    "accuracy",
    "brier_score",
    "change_class_prior",
    "confusion",
    "consensus",
    "expected_calibration_error",
    "likelihood_weights",
    "match",
    "negative_log_likelihood",
    "output_code",
    "per_class",
    "predictive",
    "reliability",
    "scores",
    "stability",
    "transferability",
    "uncertainty",
]
