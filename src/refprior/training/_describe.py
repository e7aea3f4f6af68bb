"""A recipe as plain JSON, for people and for comparing two runs: what stands in recipe.json."""

import inspect
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any


def describe(thing: Any) -> Any:
    """Dataclasses and partial functions as dictionaries with their type's name; other callables by name."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, list | tuple):
        return [describe(item) for item in thing]
    if isinstance(thing, dict):
        return {str(key): describe(value) for key, value in thing.items()}
    if is_dataclass(thing) and not isinstance(thing, type):
        values = {f.name: describe(getattr(thing, f.name)) for f in fields(thing)}
        return {"type": _name(type(thing)), **values}
    if isinstance(thing, partial):
        bound = inspect.signature(thing.func).bind_partial(*thing.args, **thing.keywords)
        return {"type": _name(thing.func), **{name: describe(value) for name, value in bound.arguments.items()}}
    return _name(thing if callable(thing) else type(thing))


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"
