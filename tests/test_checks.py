import math
from typing import Any

import numpy as np
import pytest

from refprior._checks import number, one_of, whole_number


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_whole_numbers_are_taken(value: Any) -> None:
    assert whole_number("steps", value, at_least=1) == int(value)
    assert type(whole_number("steps", value, at_least=1)) is int


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None, math.nan])
def test_other_things_are_not_whole_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got"):
        whole_number("steps", value, at_least=1)


def test_both_limits_are_named() -> None:
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0 and at most 9, got 10"):
        whole_number("seed", 10, at_least=0, at_most=9)


@pytest.mark.parametrize("value", [0, 0.5, 1, np.float32(0.25)])
def test_numbers_within_the_limits_are_taken(value: Any) -> None:
    assert number("tau", value, at_least=0, at_most=1) == float(value)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.5", True, None, [1]])
def test_numbers_outside_are_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match="tau must be at least 0 and at most 1, got"):
        number("tau", value, at_least=0, at_most=1)


def test_open_limits_exclude_their_ends() -> None:
    with pytest.raises(ValueError, match="rate must be above 0, got 0"):
        number("rate", 0, above=0)
    with pytest.raises(ValueError, match="ema must be at least 0 and below 1, got 1"):
        number("ema", 1, at_least=0, below=1)
    with pytest.raises(ValueError, match="x must be a finite number, got inf"):
        number("x", math.inf)


def test_choices_are_listed() -> None:
    one_of("head", "new", ("same", "new"))
    with pytest.raises(ValueError, match="head must be 'same', 'new' or 'probe', got 'old'"):
        one_of("head", "old", ("same", "new", "probe"))
    with pytest.raises(ValueError, match="format must be 1, got 2"):
        one_of("format", 2, (1,))
