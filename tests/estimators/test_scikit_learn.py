"""scikit-learn's own checks of an estimator, all of them and none excused."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import refprior as rp

QUICK = [
    rp.ReferencePriorClassifier(particles=4, steps=100, inputs="columns"),
    rp.ReferencePriorClusterer(3, particles=8, steps=60),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(QUICK)  # type: ignore[untyped-decorator]
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.thorough  # each fit trains six kinds of inputs
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([rp.ReferencePriorClassifier(particles=4, steps=100)])  # type: ignore[untyped-decorator]
def test_check_with_chosen_inputs(estimator: Any, check: Any) -> None:
    check(estimator)
