"""The parts of a recipe as makers and settings, so that they can be written, changed and read back.

Dataclasses and partial functions are taken apart into a `Part`; numbers and text stay as they are. A part of refprior
is written by its public name. A custom part is written by module and qualified name, and reading it back needs the
object itself. Nothing is ever imported or called because a file names it.
"""

import hashlib
import inspect
import math
import re
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from torch import nn

from refprior import data, methods, networks, views
from refprior.data import DataSet, Task
from refprior.training.recipe._optimizer import Optimizer

# The packages of refprior that publish the parts of each field.
PART_PACKAGES = {
    "task": "data",
    "inputs": "data",
    "network": "networks",
    "method": "methods",
    "weak": "views",
    "strong": "views",
    "optimizer": "training",
}
# Settings that hold a part of another package than the part they belong to.
SETTING_PACKAGES = {"view": "views"}
_DEPTH = 100  # of dictionaries and lists in a record
_INPUTS = (
    data.Standardize,
    data.PrincipalComponents,
    data.PatchComponents,
    data.QuantileBins,
    data.TreeLeaves,
    data.NeighborMeans,
    data.Joined,
    data.Identity,
)
Plain = str | int | float | bool | None
Make = Callable[..., Any]  # a class or function that makes a part
Settings = dict[str, Any]
USER_MODULE = "refprior_user_"  # begins the names of modules made from a user's file
_PLAIN_TYPES = (bool, int, float, str, type(None))
_IDENTITY = ("own", "source")  # keys in the record of a custom part that are not settings
_SETTING = "setting "  # begins the key of a setting that is named like one of these


@dataclass(frozen=True)
class Part:
    """A part of a recipe as its maker and its settings by name."""

    make: Make
    settings: Settings
    factory: bool = False  # a function to call later, such as one that makes networks
    original: Any = field(default=None, compare=False, repr=False)  # the object, until a setting changes

    @property
    def hints(self) -> Settings:
        """Return names and types of everything that can be set."""
        return signature_hints(self.make)


class CustomPartError(ValueError):
    """A record holds a custom part, which the caller must pass."""


@cache
def published() -> dict[str, Make]:
    """Return all parts that a recipe may name, by their public names."""

    def those(package: types.ModuleType, wanted: Callable[[Any], bool]) -> list[Make]:
        return [thing for thing in (getattr(package, name) for name in package.__all__) if wanted(thing)]

    packages = {
        "data": (data.FewLabels, data.Pair, data.Answered, *_INPUTS),
        "networks": those(networks, lambda thing: isinstance(thing, type) and issubclass(thing, nn.Module)),
        "methods": those(methods, lambda thing: is_dataclass(thing) and hasattr(thing, "needs")),
        "views": those(views, is_dataclass),
        "training": (Optimizer,),
    }
    return {f"refprior.{package}.{make.__name__}": make for package, makes in packages.items() for make in makes}


def public_name(make: Make) -> str | None:
    """Return the public name of a part of refprior; None for a custom part."""
    return next((name for name, other in published().items() if other is make), None)


def take_apart(value: object) -> Any:
    """Turn configurations, partial functions, functions and classes into a `Part`."""
    if isinstance(value, partial):
        return Part(value.func, _arguments(value), factory=True, original=value)
    # A dataclass compared by value is a configuration; others, such as tasks, are data.
    if is_dataclass(value) and not isinstance(value, type) and type(value).__eq__ is not object.__eq__:
        settings = {f.name: take_apart(getattr(value, f.name)) for f in fields(value) if f.init and f.compare}
        return Part(type(value), settings, original=value)
    if inspect.isclass(value) or inspect.isfunction(value):
        return Part(value, _arguments(partial(value)), factory=True, original=value)
    if isinstance(value, list | tuple | range):
        return tuple(take_apart(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _arguments(function: "partial[Any]") -> Settings:
    """Return the arguments of a partial function, defaults included."""
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


def put_together(value: object, where: str = "recipe") -> Any:
    """Invert `take_apart`; a part that was not changed is the same object."""
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


def check_writable(value: object, where: str) -> None:
    """Raise a ValueError if a part of refprior has a setting that recipe.json cannot hold."""
    if not isinstance(value, Part):
        return
    for key, item in value.settings.items():
        check_writable(item, f"{where}.{key}")
        writable = _is_plain(item) or isinstance(item, tuple | Part | DataSet | Task)
        if not writable and public_name(value.make) is not None:
            kind = type(item).__name__
            raise ValueError(f"{where}.{key} must be a number or text that recipe.json can hold, got a {kind}")


def to_plain(value: object) -> Any:
    """Return what JSON can hold: parts as dictionaries that name their type."""
    if isinstance(value, Part):
        name = public_name(value.make)
        plain = {key: to_plain(item) for key, item in value.settings.items()}
        return {"type": name} | plain if name is not None else _custom(value.make, plain)
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    if _is_plain(value):
        return value
    if isinstance(value, Mapping):
        return {"own": "dict", "items": {str(key): to_plain(item) for key, item in value.items()}}
    known = {} if isinstance(value, Task | DataSet) else getattr(value, "__dict__", {})
    return _custom(type(value), {key: item for key, item in known.items() if _is_plain(item)})


def _custom(make: Make, settings: Settings) -> Settings:
    """Return the identity of a custom part, a hash of its source if that can be read, and its settings."""
    record: Settings = {"own": identity(make)}
    if not make.__module__.startswith("refprior."):
        with suppress(OSError, TypeError):
            record["source"] = hashlib.sha256(inspect.getsource(make).encode()).hexdigest()[:16]
    return record | {_SETTING + key if key in _IDENTITY else key: item for key, item in settings.items()}


def identity(make: Make) -> str:
    """Return `module.qualname` of a custom part, the same however its file is run.

    In `python mine.py` the module is `__main__`, in `refprior train mine.py:recipe` it has the prefix of a user's file,
    and after `import mine` it is `mine`. All three give `mine`.
    """
    module = make.__module__
    if module in ("__main__", "__mp_main__"):  # the second in a process that multiprocessing started
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else module
    return f"{module.removeprefix(USER_MODULE)}.{getattr(make, '__qualname__', type(make).__qualname__)}"


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def from_plain(record: object, package: str, where: str, custom: Mapping[str, Make] | None) -> Any:
    """Read parts of one package from JSON; `where` names the place in errors, `custom` holds the user's definitions."""
    if isinstance(record, list):
        return tuple(from_plain(item, package, where, custom) for item in record)
    if not isinstance(record, Mapping):
        return record
    name = record.get("type")
    if "own" in record:
        own = record["own"]
        shown = own if isinstance(own, str) and own.isprintable() else "part"
        called = re.split("[.:]", shown)[-1]  # its name among the user's definitions
        if custom is None or called not in custom:
            missing = "" if custom is None else f", and the file defines no class or function {called!r}"
            raise CustomPartError(f"{where} is the custom {shown}{missing}")
        make = custom[called]
    elif isinstance(name, str) and name.startswith(f"refprior.{package}.") and name in published():
        make = published()[name]
    else:
        raise ValueError(f"{where} names {name!r}, which is not part of refprior.{package}")
    named = _IDENTITY if "own" in record else ("type",)
    settings = {key: item for key, item in record.items() if key not in named}
    settings |= {key: settings.pop(_SETTING + key) for key in _IDENTITY if _SETTING + key in settings}
    if inspect.isclass(make) or "own" not in record:
        checked_settings(
            make, settings, where
        )  # a custom function receives the rest of its arguments when it is called
    hints = signature_hints(make)
    fitted = {}
    for key, item in settings.items():
        part = from_plain(item, SETTING_PACKAGES.get(key, package), f"{where}.{key}", custom)
        fitted[key] = fitting(part, hints.get(key, Any), f"{where}.{key}")
    return Part(make, fitted, factory=package == "networks" or not inspect.isclass(make))


def check_depth(record: object, where: str) -> None:
    """Raise a ValueError for a record that is nested more deeply than any recipe, before anything recurses into it."""
    level = [record] if isinstance(record, Mapping | list) else []
    for _ in range(_DEPTH):
        inner = (value.values() if isinstance(value, Mapping) else value for value in level)
        level = [item for items in inner for item in items if isinstance(item, Mapping | list)]
        if not level:
            return
    raise ValueError(f"{where} is nested more than {_DEPTH} levels deep")


def is_custom(record: object) -> bool:
    """Return whether a part as JSON holds it has a custom part in it."""
    if isinstance(record, Mapping):
        return "own" in record or any(is_custom(item) for item in record.values())
    return isinstance(record, list) and any(is_custom(item) for item in record)


def checked_settings(make: Make, settings: Settings, where: str) -> Settings:
    """Return the settings if the part has them all."""
    known = inspect.signature(make).parameters
    unknown = [name for name in settings if name not in known]
    missing = [n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in settings]
    if unknown or missing:
        problem = f"has no setting {unknown[0]!r}" if unknown else f"lacks the setting {missing[0]!r}"
        raise ValueError(f"{where}: {make.__name__} {problem}")
    return settings


def signature_hints(make: Make) -> Settings:
    """Return names and types of the parameters of a function or class; without a type, that of the default."""
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


def alternatives(hint: object) -> tuple[object, ...]:
    """Return the members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def is_plain(hint: object) -> bool:
    """Return whether every value of a setting can be written as text or a number."""
    return all(choice in _PLAIN_TYPES or get_origin(choice) in (Literal, tuple) for choice in alternatives(hint))


def fitting(value: object, hint: object, where: str) -> Any:
    """Return the value if it fits the type of a setting; lists become tuples, numpy's numbers Python's."""
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


def expected(hint: object) -> str:
    """Describe the values that a setting may have."""
    return " or ".join(_in_words(choice) for choice in alternatives(hint))


def _fits(value: object, choice: object) -> bool:
    origin, make = get_origin(choice), getattr(value, "make", None)  # what makes a part
    if choice is Any or getattr(choice, "_is_protocol", False):
        return True
    if origin is Literal:
        return any(value == allowed and type(value) is type(allowed) for allowed in get_args(choice))
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(choice)[0]) for item in value)
    if choice is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if choice in _PLAIN_TYPES:
        return type(value) is choice
    if isinstance(choice, type):
        return isinstance(value, choice) or (inspect.isclass(make) and issubclass(make, choice))
    return make is not None or callable(value)


def _in_words(choice: object) -> str:
    if get_origin(choice) is Literal:
        return "one of " + ", ".join(repr(allowed) for allowed in get_args(choice))
    if get_origin(choice) is tuple:
        return ("whole " if get_args(choice)[0] is int else "") + "numbers separated by commas"
    names: dict[object, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        type(None): "none",
    }
    named = choice.__name__ if isinstance(choice, type) else "set from Python"
    return names.get(choice, named)
