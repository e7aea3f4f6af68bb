"""Recipes by name, or from a function in the user's own file, with settings changed as the user says."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from refprior._words import in_short
from refprior.recipes._cifar10 import cifar10_ssl
from refprior.recipes._images import cifar10_ssl_patches, cifar10_ssl_small, digits_ssl, fashion_ssl, mnist_ssl
from refprior.recipes._manifold import mnist_manifold
from refprior.recipes._own_data import Classes, OwnData, adapted, replaced
from refprior.recipes._settings import check_name, override, parse, paths, refuse
from refprior.recipes._transfer import (
    cifar100_transfer,
    cifar100_transfer_small,
    digits_transfer,
    fine_tuning,
    label_free_transfer,
)
from refprior.training import Origin, Recipe
from refprior.training.recipe import USER_MODULE, signature_hints, take_apart

RECIPES: dict[str, Callable[..., Recipe]] = {
    f.__name__: f
    for f in (
        digits_ssl,
        mnist_ssl,
        fashion_ssl,
        cifar10_ssl_small,
        cifar10_ssl_patches,
        cifar10_ssl,
        mnist_manifold,
        label_free_transfer,
        digits_transfer,
        fine_tuning,
        cifar100_transfer,
        cifar100_transfer_small,
    )
}

# Settings that choose from the data, with their types: with the user's own data every recipe has them.
OF_THE_DATA = {"labels": int | None, "source_classes": Classes, "target_classes": Classes}


class Named(NamedTuple):
    """A recipe and where it came from.

    >>> import refprior as rp
    >>> rp.recipes.named("digits_ssl", {}, seed=1).recipe.seed
    1
    """

    recipe: Recipe
    origin: Origin


def named(
    recipe: str | Callable[..., Recipe] | Recipe,
    settings: Mapping[str, Any],
    own: OwnData | None = None,
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
    own : OwnData, optional
        Your data in place of the recipe's.
    **arguments
        Further arguments of the recipe's function, such as ``seed``. A function without a ``seed``, and a `Recipe`,
        get it as the setting ``seed``: it changes weights, batches and views, but not the choice of labeled inputs.

    Returns
    -------
    Named
        The changed recipe and its origin.

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
    hints = signature_hints(function) | (OF_THE_DATA if own is not None else {})
    given = {n: parse(v, hints[n], n) if isinstance(v, str) else v for n, v in settings.items() if n in hints}
    inner = {path: value for path, value in settings.items() if path not in hints}
    if both := set(given) & set(arguments):
        raise ValueError(f"{', '.join(sorted(both))} has an option of its own: give --{min(both)} instead of --set")
    if "seed" in arguments and "seed" not in hints:
        inner["seed"] = arguments.pop("seed")
    arguments = {**arguments, **given}
    for argument in arguments:
        check_name(argument, hints, f"recipe {name} has no argument")
    ours = {n: arguments[n] for n in OF_THE_DATA if n in arguments and own is not None}
    with _mistakes_in(name):
        base = function(**{n: value for n, value in arguments.items() if n not in ours})
    known = [*hints, *paths(take_apart(base))]
    for path in inner:
        if path.partition(".")[0] not in known:
            refuse(path, known, f"recipe {name} has no setting {path!r}")
    left = {n: p.default for n, p in inspect.signature(function).parameters.items() if n not in arguments}
    left = {n: value for n, value in left.items() if value is not inspect.Parameter.empty}
    changed = override(base, inner) if own is None else _for_own_data(base, inner, own, ours)
    options = {} if own is None else {n: value for n, value in own._asdict().items() if value is not None}
    return Named(changed, Origin(name, _plain(arguments), _plain(inner), _plain(left), options))


def _for_own_data(base: Recipe, settings: Mapping[str, Any], own: OwnData, ours: Mapping[str, Any]) -> Recipe:
    """First the data with their settings, then what has to fit them, then all other settings."""
    of_data = {path: value for path, value in settings.items() if path.startswith(("task.", "start.task."))}
    with_tasks = replaced(base, own, **ours)
    fitted = adapted(override(with_tasks, of_data), base, own.kind)
    return override(fitted, {path: value for path, value in settings.items() if path not in of_data})


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a record can hold them; an object of Python is only named."""
    values = {name: take_apart(value) for name, value in settings.items()}
    plain = (bool, int, float, str, type(None), tuple)
    return {n: value if isinstance(value, plain) else f"<{type(settings[n]).__name__}>" for n, value in values.items()}


@contextmanager
def _mistakes_in(name: str) -> Iterator[None]:
    """Errors of the user's own code, named as such."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        if name in RECIPES:
            raise
        raise ValueError(f"{name} fails with {type(error).__name__}: {in_short(error)}") from error


def function_of(recipe: str | Callable[..., Recipe] | Recipe) -> Callable[..., Recipe]:
    """Return the function that makes a recipe; for a `Recipe`, one without arguments that returns it."""
    if isinstance(recipe, Recipe):
        return lambda: recipe
    return find(recipe) if isinstance(recipe, str) else recipe


def python_name(recipe: Callable[..., Recipe] | Recipe) -> str:
    """Return the name of a function, or of the method of a recipe."""
    return type(recipe.method).__name__ if isinstance(recipe, Recipe) else recipe.__name__


def find(name: str) -> Callable[..., Recipe]:
    """The function of a recipe of refprior, or of `file.py:function`, a file that the user names and so trusts."""
    file, colon, function = name.rpartition(":")
    if name.endswith(".py"):
        raise ValueError(f"say which function of {name} returns the recipe: {name}:FUNCTION")
    if not (colon and file.endswith(".py")):
        check_name(name, RECIPES, "there is no recipe")
        return RECIPES[name]
    module = _import_file(file)
    if not callable(getattr(module, function, None)):
        raise ValueError(f"{file} has no function {function!r}")
    return getattr(module, function)  # type: ignore[no-any-return]


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
    with _mistakes_in(file):
        spec.loader.exec_module(module)
    return module
