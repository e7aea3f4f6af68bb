"""Recipes by name, and their settings by dotted name.

`--set method.alpha=0.05` takes this path: the command line parses NAME=VALUE, `named` gives a setting to the recipe's
function if it is an argument of it, and `override` changes all others. The recipe is taken apart, all settings are
changed, and it is put together and checked once, so that their order never matters.
"""

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from refprior._words import check_name, in_short, reject_name
from refprior.recipes._cifar10 import cifar10_ssl
from refprior.recipes._custom_data import Classes, CustomData, adapted, replaced
from refprior.recipes._images import (
    cifar10_ssl_medium,
    cifar10_ssl_patches,
    cifar10_ssl_small,
    digits_ssl,
    fashion_ssl,
    mnist_ssl,
)
from refprior.recipes._manifold import mnist_manifold
from refprior.recipes._transfer import (
    cifar100_transfer,
    cifar100_transfer_medium,
    cifar100_transfer_small,
    digits_transfer,
    fine_tuning,
    label_free_transfer,
)
from refprior.training import Origin, Recipe
from refprior.training.recipe import (
    PART_PACKAGES,
    SETTING_PACKAGES,
    USER_MODULE,
    Part,
    alternatives,
    expected,
    fitting,
    is_plain,
    published,
    put_together,
    signature_hints,
    take_apart,
)

RECIPES: dict[str, Callable[..., Recipe]] = {
    f.__name__: f
    for f in (
        digits_ssl,
        mnist_ssl,
        fashion_ssl,
        cifar10_ssl_small,
        cifar10_ssl_medium,
        cifar10_ssl_patches,
        cifar10_ssl,
        mnist_manifold,
        label_free_transfer,
        digits_transfer,
        fine_tuning,
        cifar100_transfer,
        cifar100_transfer_small,
        cifar100_transfer_medium,
    )
}

# Settings that select from the data, with their types: every recipe has them with custom data.
OF_THE_DATA = {"labels": int | None, "source_classes": Classes, "target_classes": Classes}
OF_ONE_STAGE = (
    "task",
    "method",
    "folds",
    "doubt_labels",
    "head",
    "readout",
    "start",
)  # settings that stages do not share


class Named(NamedTuple):
    """A recipe and its origin."""

    recipe: Recipe
    origin: Origin


def named(
    recipe: str | Callable[..., Recipe] | Recipe,
    settings: Mapping[str, object],
    data: CustomData | None = None,
    /,
    **arguments: Any,
) -> Named:
    """Find a recipe, change its settings, and adapt it to your data.

    A setting that the recipe's function takes, such as ``labels``, becomes its argument. All others are dotted names
    inside the recipe, such as ``method.alpha``.

    Parameters
    ----------
    recipe : str, function or Recipe
        The name of a recipe, ``"file.py:function"``, a function that returns a recipe, or a recipe.
    settings : mapping
        New values by dotted name, as text or as Python values.
    data : CustomData, optional
        Your data in place of the recipe's.
    **arguments
        Further arguments of the recipe's function, such as ``seed``. A function without a ``seed``, and a `Recipe`,
        get it as the setting ``seed``: it changes weights, batches and views, but not the choice of labeled inputs.

    Returns
    -------
    Named
        A named tuple of the changed ``recipe`` and its ``origin``, which holds the command that reproduces it.

    Raises
    ------
    ValueError
        If a setting is unknown or its value does not fit; the message suggests similar names.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.named("digits_ssl", {"labels": "100", "method.alpha": "0.05"}, seed=1).origin.command
    'refprior train digits_ssl --seed 1 --set labels=100 method.alpha=0.05'
    """
    function = function_of(recipe)
    name = recipe if isinstance(recipe, str) else f"{python_name(recipe)}()"
    hints = signature_hints(function) | (OF_THE_DATA if data is not None else {})
    given = {n: parse(v, hints[n], n) if isinstance(v, str) else v for n, v in settings.items() if n in hints}
    inner = {path: value for path, value in settings.items() if path not in hints}
    if both := set(given) & set(arguments):
        raise ValueError(f"{', '.join(sorted(both))} has its own option: use --{min(both)} instead of --set")
    if "seed" in arguments and "seed" not in hints:
        inner["seed"] = arguments.pop("seed")
    arguments = {**arguments, **given}
    for argument in arguments:
        check_name(argument, hints, f"recipe {name} has no argument")
    of_data = {n: arguments[n] for n in OF_THE_DATA if n in arguments and data is not None}
    with _errors_of(name):
        base = function(**{n: value for n, value in arguments.items() if n not in of_data})
    known = [*hints, *paths(take_apart(base))]
    for path in inner:
        if path.partition(".")[0] not in known:
            reject_name(path, known, f"recipe {name} has no setting {path!r}")
    left = {n: p.default for n, p in inspect.signature(function).parameters.items() if n not in arguments}
    left = {n: value for n, value in left.items() if value is not inspect.Parameter.empty}
    if data is None:
        changed, options = override(base, inner), {}
    else:  # first the tasks, then what has to fit them, then all other settings
        tasks = {path: value for path, value in inner.items() if path.startswith(("task.", "start.task."))}
        fitted = adapted(override(replaced(base, data, **of_data), tasks), base, data.kind)
        changed = override(fitted, {path: value for path, value in inner.items() if path not in tasks})
        options = {n: value for n, value in data._asdict().items() if value is not None}
    return Named(changed, Origin(name, _plain(arguments), _plain(inner), _plain(left), options))


def _plain(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings that a record can hold; a Python object is only named."""
    values = {name: take_apart(value) for name, value in settings.items()}
    plain = (bool, int, float, str, type(None), tuple)
    return {n: value if isinstance(value, plain) else f"<{type(settings[n]).__name__}>" for n, value in values.items()}


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Report errors of the user's code as such."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        if name in RECIPES:
            raise
        raise ValueError(f"{name} fails with {type(error).__name__}: {in_short(error)}") from error


def function_of(recipe: str | Callable[..., Recipe] | Recipe) -> Callable[..., Recipe]:
    """Return the function that makes a recipe: by name, from ``file.py:function``, or one that returns the recipe."""
    if isinstance(recipe, Recipe):
        return lambda: recipe
    if not isinstance(recipe, str):
        return recipe
    file, colon, function = recipe.rpartition(":")
    if recipe.endswith(".py"):
        raise ValueError(f"{recipe} needs the name of the function that returns the recipe: {recipe}:FUNCTION")
    if not (colon and file.endswith(".py")):
        check_name(recipe, RECIPES, "there is no recipe")
        return RECIPES[recipe]
    found = getattr(_import_file(file), function, None)
    if not callable(found):
        raise ValueError(f"{file} has no function {function!r}")
    return found  # type: ignore[no-any-return]


def python_name(recipe: Callable[..., Recipe] | Recipe) -> str:
    """Return the name of a function, or of the method of a recipe."""
    return type(recipe.method).__name__ if isinstance(recipe, Recipe) else recipe.__name__


def definitions(file: Path | str) -> dict[str, Callable[..., Any]]:
    """Run a Python file that the user names and so trusts; return the classes and functions that it defines."""
    module = _import_file(str(file))
    return {n: v for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__}


def _import_file(file: str) -> ModuleType:
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"{file} is not a file")
    module_name = f"{USER_MODULE}{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    with _errors_of(file):
        spec.loader.exec_module(module)
    return module


def override(recipe: Recipe, settings: Mapping[str, object]) -> Recipe:
    """Change settings of a recipe by dotted name, all at once.

    A part of refprior, such as a method, is selected by its name; its settings may be given with it. In a recipe with
    several stages, a setting changes in all stages so that they still fit each other, except for those that each stage
    has for itself: task, method, head and readout.

    Parameters
    ----------
    recipe : Recipe
        The recipe to change; it stays as it is.
    settings : mapping
        New values by dotted name, as text like on the command line or as Python values.

    Returns
    -------
    Recipe
        The changed recipe.

    Raises
    ------
    ValueError
        If a setting is unknown or its value does not fit; the message suggests similar names.

    Examples
    --------
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
    """Yield the dotted names of all settings below a part."""
    for name in part.hints:
        value = part.settings.get(name)
        yield f"{before}{name}"
        if isinstance(value, Part):
            yield from paths(value, f"{before}{name}.")


def _change(tree: Part, path: str, value: object) -> Part:
    """Change one setting of a stage, and of earlier stages that share it."""
    changed = _set(tree, path, value, path, tree)
    start = tree.settings["start"]
    if start is None or path.partition(".")[0] in OF_ONE_STAGE or path not in paths(start):
        return changed
    return Part(Recipe, {**changed.settings, "start": _change(start, path, value)})


def _set(part: Part, path: str, value: object, whole: str, tree: Part, package: str | None = None) -> Part:
    """Change the setting at `path` of a part; `whole` is the path from the top of the tree."""
    name, _, rest = path.partition(".")
    if name not in part.hints:
        reject_name(whole, paths(tree), f"{part.make.__name__} has no setting {name!r}", listed=part.hints)
    current, hint, of_recipe = part.settings.get(name), part.hints[name], part.make is Recipe
    inner = PART_PACKAGES.get(name) if of_recipe else SETTING_PACKAGES.get(name, package)
    # A text names a part where a part is, or where the type is neither plain, nor a text, nor a choice of words.
    choices = alternatives(hint)
    words = inner is None or any(get_origin(choice) is Literal for choice in choices)
    names_part = not words and (isinstance(current, Part) or not (is_plain(hint) or str in choices))
    if rest:
        if not isinstance(current, Part):
            raise ValueError(f"{name!r} has no settings, so {whole!r} cannot be set")
        new: Any = _set(current, rest, value, whole, tree, inner)
    elif isinstance(value, str) and names_part:
        new = _chosen(value, current, str(inner), whole)
    else:
        new = parse(value, hint, whole) if isinstance(value, str) else take_apart(value)
    if not (of_recipe and name in PART_PACKAGES):  # which the recipe checks
        new = fitting(new, hint, whole)
    return Part(part.make, {**part.settings, name: new}, factory=part.factory)


def _chosen(text: str, current: object, package: str, name: str) -> Part:
    """Return the part or preset of that name; a part takes over the required settings of the part before it."""
    prefix = f"refprior.{package}."
    choices = {full.rpartition(".")[2]: make for full, make in published().items() if full.startswith(prefix)}
    presets = {f"{part}.{method}": construct for part, make in choices.items() for method, construct in _presets(make)}
    if text in presets:
        preset: Part = take_apart(presets[text]())
        return preset
    if text not in choices:
        reject_name(text, [*choices, *presets], f"{name} cannot be {text!r}")
    make = choices[text]
    if isinstance(current, Part) and current.make is make:
        return current  # with the settings that the recipe gives it
    needed = [p.name for p in inspect.signature(make).parameters.values() if p.default is inspect.Parameter.empty]
    known = current.settings if isinstance(current, Part) else {}
    kept = {setting: known[setting] for setting in needed if setting in known}
    chosen = Part(make, kept, factory=package == "networks")
    if len(kept) < len(needed):
        return chosen  # the settings that it lacks may follow
    whole: Part = take_apart(put_together(chosen, name))  # with its defaults
    return replace(whole, original=None)


def _presets(make: Callable[..., Any]) -> list[tuple[str, Callable[[], Any]]]:
    """Return the public class methods of a part, which construct it with other settings."""
    own = vars(make).items() if isinstance(make, type) else ()
    return [(n, getattr(make, n)) for n, value in own if isinstance(value, classmethod) and not n.startswith("_")]


def parse(text: str, hint: object, name: str) -> Any:
    """Parse a value of the type `hint`; a fraction such as 1/3 is a number."""
    choices = alternatives(hint)
    if text.lower() == "none" and type(None) in choices:
        return None
    for choice in choices:
        value = _parse_one(text, choice)
        if value is not None:
            return value
    raise ValueError(f"{name} must be {expected(hint)}, got {text!r}")


def _parse_one(text: str, hint: object) -> Any:
    """Parse a value of one type; None if the text does not fit."""
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
        if hint is float:
            above, _, below = text.partition("/")
            value = float(above) / float(below or 1)
            return value if math.isfinite(value) else None
    except (ValueError, ZeroDivisionError):
        pass
    return None
