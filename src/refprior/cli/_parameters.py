"""Reading what a person typed, where the parser would be too kind."""

from collections.abc import Sequence
from typing import Any

from cyclopts import Token


def whole(_: Any, tokens: Sequence[Token]) -> int:
    """An integer, refused where the parser would round: 2.5 tosses are a mistake."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {text}") from None
