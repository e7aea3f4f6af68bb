"""From particles to predictions: the ensemble, its scores and uncertainty, and consensus clusters without labels.

Names that are imported here but not in `__all__` are results that users only receive, or internal.
"""

from refprior.posterior._clusters import Consensus, cluster, match, stability
from refprior.posterior._clusters import output_code as output_code
from refprior.posterior._ensemble import Average as Average
from refprior.posterior._ensemble import Bins as Bins
from refprior.posterior._ensemble import PerClass as PerClass
from refprior.posterior._ensemble import Reliability as Reliability
from refprior.posterior._ensemble import Scores as Scores
from refprior.posterior._ensemble import Uncertainty as Uncertainty
from refprior.posterior._ensemble import (
    accuracy,
    brier_score,
    change_class_prior,
    confusion_matrix,
    expected_calibration_error,
    group_accuracy,
    likelihood_weights,
    negative_log_likelihood,
    per_class,
    predictive,
    reliability,
    score,
    transferability,
    uncertainty,
)
from refprior.posterior._ensemble import tempered as tempered
from refprior.posterior._held_out import LabelQuality as LabelQuality
from refprior.posterior._held_out import OutOfFold as OutOfFold
from refprior.posterior._held_out import OutOfFoldScores as OutOfFoldScores
from refprior.posterior._held_out import conformal_sets as conformal_sets
from refprior.posterior._held_out import ensemble_temperature as ensemble_temperature
from refprior.posterior._held_out import held_out_weights as held_out_weights
from refprior.posterior._held_out import label_posterior as label_posterior
from refprior.posterior._held_out import log_temperature_ratio as log_temperature_ratio
from refprior.posterior._held_out import out_of_fold_mixture as out_of_fold_mixture
from refprior.posterior._held_out import score_out_of_fold as score_out_of_fold
from refprior.posterior._new_labels import NOISE as NOISE
from refprior.posterior._new_labels import Evidence
from refprior.posterior._new_labels import with_noise as with_noise
from refprior.posterior._rules import Rules, find_rules

__all__ = [
    "Consensus",
    "Evidence",
    "Rules",
    "accuracy",
    "brier_score",
    "change_class_prior",
    "cluster",
    "confusion_matrix",
    "expected_calibration_error",
    "find_rules",
    "group_accuracy",
    "likelihood_weights",
    "match",
    "negative_log_likelihood",
    "per_class",
    "predictive",
    "reliability",
    "score",
    "stability",
    "transferability",
    "uncertainty",
]
