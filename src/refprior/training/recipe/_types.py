"""Whether a setting has the type that its part declares, in words for people."""

import inspect
import types
from os import PathLike, fspath
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

_PLAIN = (bool, int, float, str, type(None))


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def is_plain(hint: Any) -> bool:
    """Whether all that a setting may be can be written as a word or a number."""
    return all(choice in _PLAIN or get_origin(choice) in (Literal, tuple) for choice in alternatives(hint))


def fitting(value: Any, hint: Any, where: str) -> Any:
    """The value, if a setting of this type may have it; lists become tuples, numpy's numbers Python's."""
    if isinstance(value, list | range):
        value = tuple(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PathLike) and str in alternatives(hint):
        value = fspath(value)
    if any(_fits(value, choice) for choice in alternatives(hint)):
        return value
    shown = getattr(getattr(value, "make", None), "__name__", repr(value))
    raise ValueError(f"{where} must be {expected(hint)}, got {shown}")


def expected(hint: Any) -> str:
    """What a setting may be."""
    return " or ".join(_in_words(choice) for choice in alternatives(hint))


def _fits(value: Any, choice: Any) -> bool:
    origin, make = get_origin(choice), getattr(value, "make", None)  # what makes a part
    if choice is Any or getattr(choice, "_is_protocol", False):
        return True
    if origin is Literal:
        return any(value == allowed and type(value) is type(allowed) for allowed in get_args(choice))
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(choice)[0]) for item in value)
    if choice is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if choice in _PLAIN:
        return type(value) is choice
    if isinstance(choice, type):
        return isinstance(value, choice) or (inspect.isclass(make) and issubclass(make, choice))
    return make is not None or callable(value)


def _in_words(choice: Any) -> str:
    if get_origin(choice) is Literal:
        return "one of " + ", ".join(repr(allowed) for allowed in get_args(choice))
    if get_origin(choice) is tuple:
        return ("whole " if get_args(choice)[0] is int else "") + "numbers separated by commas"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "none"}
    named = choice.__name__ if isinstance(choice, type) else "set from Python"
    return names.get(choice, named)
