"""scikit-learn's own checks of an estimator, all of them and none excused."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import refprior as rp

ESTIMATORS = [
    rp.ReferencePriorClassifier(particles=4, steps=100),
    rp.ReferencePriorClusterer(3, particles=8, steps=60),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)  # type: ignore[untyped-decorator]
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)
