"""Validation of a user's settings: each check raises a ValueError that states what is allowed and what was given.

Plain Python: both halves of the package use it.
"""

import math
import operator
from collections.abc import Iterable
from importlib.util import find_spec
from typing import SupportsFloat, SupportsIndex, cast


def whole_number(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return the value as an int. 3 and numpy's 3 are whole numbers; 3.0 and True are not."""
    try:
        index = None if isinstance(value, bool) else operator.index(cast(SupportsIndex, value))
    except TypeError:
        index = None
    if index is None or index < at_least or (at_most is not None and index > at_most):
        upper = "" if at_most is None else f" and at most {at_most}"
        raise ValueError(f"{name} must be a whole number of at least {at_least}{upper}, got {value!r}")
    return index


def number(
    name: str,
    value: object,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    """Return the value as a float if it is finite and within the limits."""
    found = math.nan
    try:
        if not isinstance(value, bool | str) and math.isfinite(cast(SupportsFloat, value)):
            found = float(cast(SupportsFloat, value))
    except (TypeError, OverflowError, ValueError):
        pass
    if (
        math.isnan(found)
        or (at_least is not None and found < at_least)
        or (above is not None and found <= above)
        or (at_most is not None and found > at_most)
        or (below is not None and found >= below)
    ):
        limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
        allowed = " and ".join(f"{words} {limit:g}" for words, limit in limits.items() if limit is not None)
        raise ValueError(f"{name} must be {allowed or 'a finite number'}, got {value!r}")
    return found


def missing_for_networks() -> str | None:
    """Return a package of the extra `deep` that is not installed, or None."""
    needed = ("torch", "sklearn", "safetensors", "joblib", "plotly", "platformdirs", "PIL")
    return next((name for name in needed if find_spec(name) is None), None)


def one_of(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise a ValueError if a value is not among the choices."""
    allowed = list(choices)
    if value not in allowed:
        *most, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(most)}{' or ' if most else ''}{last}, got {value!r}")
