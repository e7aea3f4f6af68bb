"""Changing settings of a recipe by their dotted names: `method.alpha=0.05`, `network=WideResNet`, `steps=1000`.

The recipe is taken apart, all settings are changed, and it is put together and checked once. Their order never matters.
"""

import difflib
import inspect
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, Literal, NoReturn, Union, get_args, get_origin

from refprior.training import Recipe
from refprior.training._parts import ROOMS, Part, published, put_together, take_apart

OF_ONE_STAGE = ("task", "method", "head", "readout", "start")  # settings that other stages do not take over


def override(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings changed, all at once.

    Values are text as on the command line, or Python values. A part of refprior is chosen by its name; its own
    settings may be given beside it. In a recipe of several stages, a setting is changed in all of them, so that they
    still fit each other, except for those that each stage has for itself (task, method, head, readout).

    >>> import refprior as rp
    >>> recipe = rp.recipes.digits_ssl(labels=50)
    >>> rp.recipes.override(recipe, {"strong.cutout": 4, "strong": "CTAugment", "steps": "1000"}).strong.cutout
    4
    """
    tree = recipe_tree(recipe)
    names = [*tree.settings, *(path for path in paths(tree))]
    for name in sorted(settings, key=lambda name: name.count(".")):  # a part before its settings
        tree = _change(tree, name, settings[name], names)
    return _recipe(tree)


def recipe_tree(recipe: Recipe) -> Part:
    parts = {f.name: getattr(recipe, f.name) for f in fields(recipe)}
    start = parts.pop("start")
    tree = {name: take_apart(value) for name, value in parts.items()}
    return Part(Recipe, {**tree, "start": None if start is None else recipe_tree(start)})


def _recipe(tree: Part) -> Recipe:
    start = tree.settings["start"]
    whole = {name: put_together(value) for name, value in tree.settings.items() if name != "start"}
    return Recipe(**whole, start=None if start is None else _recipe(start))


def paths(part: Part, before: str = "") -> Iterable[str]:
    """The dotted names of everything below a part that can be set."""
    for name in part.hints:
        value = part.settings.get(name)
        yield f"{before}{name}"
        if isinstance(value, Part):
            yield from paths(value, f"{before}{name}.")


def _change(tree: Part, path: str, value: Any, names: Iterable[str]) -> Part:
    """A stage with one setting changed, and the stages before it if they share the setting."""
    changed = _set(tree, path, value, path, names, None)
    start = tree.settings["start"]
    if start is None or path.partition(".")[0] in OF_ONE_STAGE:
        return changed
    return Part(Recipe, {**changed.settings, "start": _change(start, path, value, names)})


def _set(part: Part, path: str, value: Any, whole: str, names: Iterable[str], room: str | None) -> Part:
    name, _, rest = path.partition(".")
    if name not in part.hints:
        refuse(whole, names, f"{part.make.__name__} has no setting {name!r}")
    current = part.settings.get(name)
    inner_room = ROOMS.get(name, room) if part.make is Recipe else room
    if rest:
        if not isinstance(current, Part):
            raise ValueError(f"{name!r} has no settings of its own, so {whole!r} cannot be set")
        new: Any = _set(current, rest, value, whole, names, inner_room)
    else:
        new = _value(value, part.hints[name], whole, current, inner_room)
    return Part(part.make, {**part.settings, name: new})


def _value(value: Any, hint: Any, name: str, current: Any, room: str | None) -> Any:
    """A plain value, a part of refprior by its name, or an object of the user's."""
    text_allowed = str in _alternatives(hint) and not isinstance(current, Part)
    if isinstance(current, Part) or (room is not None and not _is_plain(hint) and not text_allowed):
        return _chosen(value, current, room, name) if isinstance(value, str) else take_apart(value)
    if isinstance(value, str):
        return parse(value, hint, name)
    if isinstance(value, bool) or _is_plain(hint):
        return _fitting(value, hint, name)
    return take_apart(value)


def _chosen(text: str, current: Any, room: str | None, name: str) -> Part:
    """The part of that name, with what it cannot do without taken over from the one before it."""
    choices = {
        full.rpartition(".")[2]: make for full, make in published().items() if full.startswith(f"refprior.{room}.")
    }
    if text not in choices:
        refuse(text, choices, f"{name} cannot be {text!r}")
    make = choices[text]
    if isinstance(current, Part) and current.make is make:
        return current  # with the settings that the recipe gives it
    needed = [p.name for p in inspect.signature(make).parameters.values() if p.default is inspect.Parameter.empty]
    known = current.settings if isinstance(current, Part) else {}
    kept = {setting: known[setting] for setting in needed if setting in known}
    whole = len(kept) == len(needed)
    return take_apart(put_together(Part(make, kept))) if whole else Part(make, kept)


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


def refuse(name: str, known: Iterable[str], problem: str) -> NoReturn:
    """Refuse an unknown name: suggest the likeliest known ones, and list them if they are few."""
    known = list(dict.fromkeys(known))
    last = name.rpartition(".")[2].lower()
    same = [other for other in known if other.rpartition(".")[2].lower() == last]
    lower = {other.lower(): other for other in reversed(known)}
    near = [lower[match] for match in difflib.get_close_matches(name.lower().replace("_", ""), lower, 2, 0.6)]
    ends = {other.rpartition(".")[2].lower(): other for other in reversed(known)}
    near += [ends[match] for match in difflib.get_close_matches(last, ends, 2, 0.7)]
    likely = list(dict.fromkeys([*same, *near]))[:3]
    hint = f"did you mean {' or '.join(map(repr, likely))}? " if likely else ""
    top = [other for other in known if "." not in other]
    raise ValueError(f"{problem}; {hint}known are: {', '.join(top) or 'none'}")


def check_name(name: str, known: Iterable[str], problem: str) -> None:
    """Refuse a name that is not known."""
    known = list(known)
    if name not in known:
        refuse(name, known, f"{problem} {name!r}")


def _is_plain(hint: Any) -> bool:
    """Whether all that a setting may be can be written as a word or a number."""
    plain = (bool, int, float, str, type(None))
    return all(choice in plain or get_origin(choice) in (Literal, tuple) for choice in _alternatives(hint))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fitting(value: Any, hint: Any, name: str) -> Any:
    """A Python value, if a setting of this type may have it."""
    if isinstance(value, list | range):
        value = tuple(value)
    for choice in _alternatives(hint):
        if get_origin(choice) is Literal and value in get_args(choice):
            return value
        if get_origin(choice) is tuple and isinstance(value, tuple):
            return value
        if choice is float and isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if isinstance(choice, type) and type(value) is choice:
            return value
    expected = " or ".join(_expected(choice) for choice in _alternatives(hint))
    raise ValueError(f"{name} must be {expected}, got {value!r}")


def _parse_one(text: str, hint: Any) -> Any:
    """None where the text does not fit."""
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == text), None)
    if get_origin(hint) is tuple:
        items = [_parse_one(item, get_args(hint)[0]) for item in text.split(",")]
        return None if None in items else tuple(items)
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
    if get_origin(hint) is tuple:
        return "whole numbers separated by commas"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "none"}
    return names.get(hint, "set from Python")
