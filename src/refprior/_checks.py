"""Checks of a user's settings: each raises a ValueError that says what is allowed and what was given.

Plain Python: both halves of the package use them.
"""

import math
import operator
from collections.abc import Iterable
from typing import Any


def whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """The value as an int: 3 and numpy's 3 are whole numbers; 3.0 and True are not."""
    index = None if isinstance(value, bool) else _index(value)
    if index is None or index < at_least or (at_most is not None and index > at_most):
        upper = "" if at_most is None else f" and at most {at_most}"
        raise ValueError(f"{name} must be a whole number of at least {at_least}{upper}, got {value!r}")
    return index


def number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    """The value as a float: finite, and within the limits that are given."""
    limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    if not _finite(value) or not _within(float(value), at_least, above, at_most, below):
        allowed = " and ".join(f"{words} {limit:g}" for words, limit in limits.items() if limit is not None)
        raise ValueError(f"{name} must be {allowed or 'a finite number'}, got {value!r}")
    return float(value)


def one_of(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Refuse a value that is not among the choices."""
    allowed = list(choices)
    if value not in allowed:
        *most, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(most)}{' or ' if most else ''}{last}, got {value!r}")


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def _finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)
    except (TypeError, OverflowError, ValueError):
        return False


def _within(
    value: float, at_least: float | None, above: float | None, at_most: float | None, below: float | None
) -> bool:
    return not (
        (at_least is not None and value < at_least)
        or (above is not None and value <= above)
        or (at_most is not None and value > at_most)
        or (below is not None and value >= below)
    )
