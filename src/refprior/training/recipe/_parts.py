"""A recipe taken apart: every part as what makes it and with which settings, to be written down, changed and read back.

Dataclasses and partial functions come apart into a `Part`; numbers and words stay as they are. A part that refprior
publishes is written by its public name. Everything else is the user's own: it is written down by its qualified name,
and reading it back needs the object itself. Nothing is ever imported or called because a file names it.
"""

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
from typing import Any, get_type_hints

import numpy as np
from torch import nn

from refprior import data, methods, networks, views
from refprior.data import DataSet, Task
from refprior.training.recipe._optimizer import Optimizer
from refprior.training.recipe._types import fitting

# Where the parts of a recipe's fields are published.
ROOMS = {
    "task": "data",
    "inputs": "data",
    "network": "networks",
    "method": "methods",
    "weak": "views",
    "strong": "views",
    "optimizer": "training",
}
# Settings of parts that are parts of another room than their own.
INNER_ROOMS = {"view": "views"}
_DEPTH = 100  # of dictionaries and lists in a record
_INPUTS = (data.Standardize, data.PrincipalComponents, data.PatchComponents, data.Identity)
Plain = str | int | float | bool | None


@dataclass(frozen=True)
class Part:
    """What makes a part of a recipe, and its settings by name."""

    make: Callable[..., Any]
    settings: dict[str, Any]
    factory: bool = False  # it is a function to call later, such as one that makes networks
    original: Any = field(default=None, compare=False, repr=False)  # what was taken apart, as long as nothing changes

    @property
    def hints(self) -> dict[str, Any]:
        """Names and types of everything that can be set."""
        return signature_hints(self.make)


class OwnPartError(ValueError):
    """A record holds a part of the user's own, which only the user can hand in."""


@cache
def published() -> dict[str, Callable[..., Any]]:
    """All parts that a recipe may name, by their public names."""
    rooms = {
        "data": (data.FewLabels, data.Pair, data.Answered, *_INPUTS),
        "networks": _those(networks, lambda thing: isinstance(thing, type) and issubclass(thing, nn.Module)),
        "methods": _those(methods, lambda thing: is_dataclass(thing) and hasattr(thing, "needs")),
        "views": _those(views, is_dataclass),
        "training": (Optimizer,),
    }
    return {f"refprior.{room}.{make.__name__}": make for room, makes in rooms.items() for make in makes}


def _those(room: Any, wanted: Callable[[Any], bool]) -> list[Callable[..., Any]]:
    things = [getattr(room, name) for name in room.__all__]
    return [thing for thing in things if wanted(thing)]


def public_name(make: Callable[..., Any]) -> str | None:
    return next((name for name, other in published().items() if other is make), None)


def take_apart(value: Any) -> Any:
    """Dataclasses that are compared by value, partial functions, functions and classes become a `Part`."""
    if isinstance(value, partial):
        return Part(value.func, _arguments(value), factory=True, original=value)
    if is_configuration(value):
        settings = {f.name: take_apart(getattr(value, f.name)) for f in fields(value) if f.init and f.compare}
        return Part(type(value), settings, original=value)
    if inspect.isclass(value) or inspect.isfunction(value):
        return Part(value, _arguments(partial(value)), factory=True, original=value)
    if isinstance(value, list | tuple | range):
        return tuple(take_apart(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _arguments(function: "partial[Any]") -> dict[str, Any]:
    """The arguments that a partial function has, defaults included."""
    try:
        signature = inspect.signature(function.func)
        bound = signature.bind_partial(*function.args, **function.keywords)
    except (TypeError, ValueError):
        return {}
    bound.apply_defaults()
    given = {name: value for name, value in bound.arguments.items() if name in signature.parameters}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(name, {})
        if parameter.kind is parameter.VAR_POSITIONAL and not given.get(name):
            given.pop(name, None)
    return {name: take_apart(value) for name, value in given.items()}


def put_together(value: Any, where: str = "recipe") -> Any:
    """The inverse of `take_apart`; a part that was not changed is the same object."""
    if isinstance(value, tuple):
        return tuple(put_together(item, where) for item in value)
    if not isinstance(value, Part):
        return value
    if value.original is not None:
        return value.original
    settings = {name: put_together(item, f"{where}.{name}") for name, item in value.settings.items()}
    if is_dataclass(value.make) or public_name(value.make) is not None:
        checked_settings(value.make, settings, where)
    if not value.factory:
        return value.make(**settings)
    return partial(value.make, **settings) if settings else value.make


def is_configuration(value: Any) -> bool:
    """Dataclass objects that are compared by value; those that are not, such as tasks, are data."""
    return is_dataclass(value) and not isinstance(value, type) and type(value).__eq__ is not object.__eq__


def to_plain(value: Any, where: str = "recipe") -> Any:
    """What JSON can hold: parts as dictionaries that name their type."""
    if isinstance(value, Part):
        name = public_name(value.make)
        plain = {key: to_plain(item, f"{where}.{key}") for key, item in value.settings.items()}
        for key, item in plain.items():
            if (
                name is not None
                and isinstance(item, dict)
                and not isinstance(value.settings[key], Part | DataSet | Task)
            ):
                kind = type(value.settings[key]).__name__
                raise ValueError(f"{where}.{key} must be a plain number or word to be written down, got a {kind}")
        return ({"type": name} if name is not None else _own(value.make)) | plain
    if isinstance(value, tuple):
        return [to_plain(item, where) for item in value]
    if _is_plain(value):
        return value
    if isinstance(value, Mapping):
        return {"own": "dict", "items": {str(key): to_plain(item, where) for key, item in value.items()}}
    known = {} if isinstance(value, Task | DataSet) else getattr(value, "__dict__", {})
    return _own(type(value)) | {key: item for key, item in known.items() if _is_plain(item)}


def _own(make: Callable[..., Any]) -> dict[str, str]:
    """The name of a part of the user's own, and a hash of its code where that can be read."""
    if make.__module__.startswith("refprior."):
        return {"own": qualified_name(make)}
    try:
        source = hashlib.sha256(inspect.getsource(make).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return {"own": qualified_name(make)}
    return {"own": qualified_name(make), "source": source}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def from_plain(record: Any, room: str, where: str, custom: Mapping[str, Any] | None = None) -> Any:
    """Read parts of one room from JSON; `where` names the place in errors, `custom` holds the user's definitions."""
    if isinstance(record, list):
        return tuple(from_plain(item, room, where, custom) for item in record)
    if not isinstance(record, Mapping):
        return record
    name = record.get("type")
    if "own" in record:
        make = _defined(record["own"], where, custom)
    elif isinstance(name, str) and name.startswith(f"refprior.{room}.") and name in published():
        make = published()[name]
    else:
        raise ValueError(f"{where} names {name!r}, which is no part of refprior.{room}: not read")
    named = ("own", "source") if "own" in record else ("type",)
    settings = {key: item for key, item in record.items() if key not in named}
    checked_settings(make, settings, where)
    hints = signature_hints(make)
    fitted = {}
    for key, item in settings.items():
        part = from_plain(item, INNER_ROOMS.get(key, room), f"{where}.{key}", custom)
        fitted[key] = fitting(part, hints.get(key, Any), f"{where}.{key}")
    return Part(make, fitted, factory=room == "networks" or not inspect.isclass(make))


def _defined(own: Any, where: str, custom: Mapping[str, Any] | None) -> Callable[..., Any]:
    """Return the class or function of a recorded custom part, by its name among the user's definitions."""
    shown = own if isinstance(own, str) and own.isprintable() else "part"
    name = re.split("[.:]", shown)[-1]
    if custom is None or name not in custom:
        missing = "" if custom is None else f", and the file defines no class or function {name!r}"
        raise OwnPartError(f"{where} is the custom {shown}{missing}")
    return custom[name]  # type: ignore[no-any-return]


def check_depth(record: Any, where: str) -> None:
    """Refuse a record that is nested more deeply than any recipe, before anything goes down into it."""
    level = [record] if isinstance(record, Mapping | list) else []
    for _ in range(_DEPTH):
        inner = (value.values() if isinstance(value, Mapping) else value for value in level)
        level = [item for items in inner for item in items if isinstance(item, Mapping | list)]
        if not level:
            return
    raise ValueError(f"{where} is nested more than {_DEPTH} levels deep: not read")


def is_own(record: Any) -> bool:
    """Whether a part as JSON holds it has something that refprior does not publish."""
    if isinstance(record, Mapping):
        return "own" in record or any(is_own(item) for item in record.values())
    return isinstance(record, list) and any(is_own(item) for item in record)


def checked_settings(make: Callable[..., Any], settings: dict[str, Any], where: str) -> dict[str, Any]:
    """The settings, if the part has them all."""
    known = inspect.signature(make).parameters
    unknown = [name for name in settings if name not in known]
    missing = [n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in settings]
    if unknown or missing:
        problem = f"has no setting {unknown[0]!r}" if unknown else f"lacks the setting {missing[0]!r}"
        raise ValueError(f"{where}: {make.__name__} {problem}")
    return settings


def signature_hints(make: Callable[..., Any]) -> dict[str, Any]:
    """Names and types of the parameters of a function or class; without a type, that of the default."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return {}
    try:
        hints = get_type_hints(make.__init__ if inspect.isclass(make) and not is_dataclass(make) else make)
    except (TypeError, NameError):  # a callable object, or a name that only a type checker knows
        hints = {}
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: hints.get(p.name, Any if p.default in (p.empty, None) else type(p.default)) for p in named}


def qualified_name(thing: Any) -> str:
    return f"{thing.__module__}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"
