"""Changing settings of a recipe by their dotted names: `method.alpha=0.05`, `network=WideResNet`, `steps=1000`.

The recipe is taken apart, all settings are changed, and it is put together and checked once. Their order never matters.
"""

import difflib
import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, NoReturn, get_args, get_origin

from refprior.training import Recipe
from refprior.training.recipe import (
    PART_PACKAGES,
    SETTING_PACKAGES,
    Part,
    alternatives,
    expected,
    fitting,
    is_plain,
    published,
    put_together,
    take_apart,
)

OF_ONE_STAGE = ("task", "method", "head", "readout", "start")  # settings that other stages do not take over


def override(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings changed, all at once.

    Values are text as on the command line, or Python values. A part of refprior is chosen by its name; its own
    settings may be given next to it. In a recipe of several stages, a setting is changed in all of them, so that they
    still fit each other, except for those that each stage has for itself (task, method, head, readout).

    >>> import refprior as rp
    >>> recipe = rp.recipes.digits_ssl(labels=50)
    >>> rp.recipes.override(recipe, {"strong.cutout": 4, "strong": "CTAugment", "steps": "1000"}).strong.cutout
    4
    """
    tree: Part = take_apart(recipe)
    for name in sorted(settings, key=lambda name: (name.count("."), name != "start")):  # a part before its settings
        tree = _change(tree, name, settings[name])
    changed: Recipe = put_together(tree)
    return changed


def paths(part: Part, before: str = "") -> Iterable[str]:
    """The dotted names of everything below a part that can be set."""
    for name in part.hints:
        value = part.settings.get(name)
        yield f"{before}{name}"
        if isinstance(value, Part):
            yield from paths(value, f"{before}{name}.")


def _change(tree: Part, path: str, value: Any) -> Part:
    """A stage with one setting changed, and the stages before it if they share the setting."""
    changed = _set(tree, path, value, path, tree)
    start = tree.settings["start"]
    if start is None or path.partition(".")[0] in OF_ONE_STAGE or path not in paths(start):
        return changed
    return Part(Recipe, {**changed.settings, "start": _change(start, path, value)})


def _set(part: Part, path: str, value: Any, whole: str, tree: Part, room: str | None = None) -> Part:
    """A part with the setting at `path` changed; `whole` is the path from the top of the tree."""
    name, _, rest = path.partition(".")
    if name not in part.hints:
        refuse(whole, paths(tree), f"{part.make.__name__} has no setting {name!r}", listed=part.hints)
    current = part.settings.get(name)
    inner_room = PART_PACKAGES.get(name) if part.make is Recipe else SETTING_PACKAGES.get(name, room)
    if rest:
        if not isinstance(current, Part):
            raise ValueError(f"{name!r} has no settings of its own, so {whole!r} cannot be set")
        new: Any = _set(current, rest, value, whole, tree, inner_room)
    elif isinstance(value, str) and _names_a_part(part.hints[name], current, inner_room):
        new = _chosen(value, current, str(inner_room), whole)
    else:
        new = parse(value, part.hints[name], whole) if isinstance(value, str) else take_apart(value)
    if not (part.make is Recipe and name in PART_PACKAGES):  # the recipe itself says what these may be
        new = fitting(new, part.hints[name], whole)
    return Part(part.make, {**part.settings, name: new}, factory=part.factory)


def _names_a_part(hint: Any, current: Any, room: str | None) -> bool:
    """Return whether a text names a part: where one is, and where the type is neither plain nor may be a text."""
    if room is None or any(get_origin(choice) is Literal for choice in alternatives(hint)):
        return False
    return isinstance(current, Part) or not (is_plain(hint) or str in alternatives(hint))


def _chosen(text: str, current: Any, room: str, name: str) -> Part:
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
    chosen = Part(make, kept, factory=room == "networks")
    if len(kept) < len(needed):
        return chosen  # the settings that it lacks may follow
    whole: Part = take_apart(put_together(chosen, name))  # with its defaults
    return replace(whole, original=None)


def parse(text: str, hint: Any, name: str) -> Any:
    """A value of the type `hint` from its text; a fraction such as 1/3 is a number too."""
    choices = alternatives(hint)
    if text.lower() == "none" and type(None) in choices:
        return None
    for choice in choices:
        value = _parse_one(text, choice)
        if value is not None:
            return value
    raise ValueError(f"{name} must be {expected(hint)}, got {text!r}")


def refuse(name: str, known: Iterable[str], problem: str, listed: Iterable[str] | None = None) -> NoReturn:
    """Refuse an unknown name: suggest the likeliest known ones, and list those of one place."""
    known = list(dict.fromkeys(known))
    last = name.rpartition(".")[2].lower()
    same = [other for other in known if other.rpartition(".")[2].lower() == last]
    lower = {other.lower(): other for other in reversed(known)}
    near = [lower[match] for match in difflib.get_close_matches(name.lower().replace("_", ""), lower, 2, 0.6)]
    ends = {other.rpartition(".")[2].lower(): other for other in reversed(known)}
    near += [ends[match] for match in difflib.get_close_matches(last, ends, 2, 0.7)]
    likely = [other for other in dict.fromkeys([*same, *near]) if not name.startswith(f"{other}.")][:3]
    hint = f"did you mean {' or '.join(map(repr, likely))}? " if likely else ""
    shown = [other for other in known if "." not in other] if listed is None else list(listed)
    raise ValueError(f"{problem}; {hint}known are: {', '.join(shown) or 'none'}")


def check_name(name: str, known: Iterable[str], problem: str) -> None:
    """Refuse a name that is not known."""
    known = list(known)
    if name not in known:
        refuse(name, known, f"{problem} {name!r}")


def _parse_one(text: str, hint: Any) -> Any:
    """None where the text does not fit."""
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == text), None)
    if get_origin(hint) is tuple:
        items = [_parse_one(item.strip(), get_args(hint)[0]) for item in text.strip("()[]").split(",")]
        return None if None in items else tuple(items)
    if hint is bool:
        return {"true": True, "false": False}.get(text.lower())
    if hint is str:
        return text
    try:
        if hint is int:
            return int(text)
        return _decimal(text) if hint is float else None
    except (ValueError, ZeroDivisionError):
        return None


def _decimal(text: str) -> float | None:
    """A number, or a fraction of two; None if it is not finite."""
    above, _, below = text.partition("/")
    value = float(above) / float(below or 1)
    return value if math.isfinite(value) else None
