"""Changing one setting of a recipe by its dotted name: `method.alpha=0.05`, `network.width=32`, `steps=1000`."""

import difflib
import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def override(thing: T, path: str, text: str) -> T:
    """A copy of a dataclass or partial function with the setting at `path` read from `text`."""
    name, _, rest = path.partition(".")
    hints = _settings(thing)
    check_name(name, hints, f"{_name(thing)} has no setting")
    current = _get(thing, name)
    if rest and not (is_dataclass(current) or isinstance(current, partial)):
        raise ValueError(f"{name!r} has no settings of its own, so {path!r} cannot be set")
    value = override(current, rest, text) if rest else parse(text, hints[name], path)
    if isinstance(thing, partial):
        return partial(thing.func, *thing.args, **{**thing.keywords, name: value})  # type: ignore[return-value]
    return replace(thing, **{name: value})  # type: ignore[type-var]


def parse(text: str, hint: Any, name: str) -> Any:
    """A value of the type `hint` from its text; a fraction such as 1/3 is a number too."""
    choices = _alternatives(hint)
    if text.lower() == "none" and type(None) in choices:
        return None
    for choice in choices:
        value = _parse_one(text, choice)
        if value is not None:
            return value
    raise ValueError(f"{name} must be {' or '.join(_expected(c) for c in choices)}, got {text!r}")


def check_name(name: str, known: Iterable[str], problem: str) -> None:
    """Refuse an unknown name in words that list the known ones, the likeliest first."""
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"{problem} {name!r}; {hint}known are: {', '.join(known) or 'none'}")


def _settings(thing: Any) -> dict[str, Any]:
    """Names and types of what can be set."""
    if isinstance(thing, partial):
        return signature_hints(thing.func)
    if is_dataclass(thing):
        hints = get_type_hints(type(thing))
        return {f.name: hints[f.name] for f in fields(thing)}
    return {}


def signature_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Names and types of the parameters of a function or class."""
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    return {name: hints.get(name, Any) for name in inspect.signature(function).parameters}


def _get(thing: Any, name: str) -> Any:
    return thing.keywords.get(name) if isinstance(thing, partial) else getattr(thing, name)


def _name(thing: Any) -> str:
    return str(thing.func.__name__) if isinstance(thing, partial) else type(thing).__name__


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _parse_one(text: str, hint: Any) -> Any:
    """None where the text does not fit."""
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == text), None)
    if hint is bool:
        return {"true": True, "false": False}.get(text.lower())
    if hint is str:
        return text
    try:
        if hint is int:
            return int(text)
        return float(Fraction(text)) if hint is float else None
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def _expected(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(hint))
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "none"}
    return names.get(hint, "set from Python")
