"""Recipes by name, with settings changed as the user says."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from refprior.recipes._images import cifar10_ssl, cifar10_ssl_small, digits_ssl, fashion_ssl, mnist_ssl
from refprior.recipes._manifold import mnist_manifold
from refprior.recipes._settings import check_name, override, parse, signature_hints
from refprior.recipes._transfer import cifar100_transfer, cifar100_transfer_small, fine_tuning, label_free_transfer
from refprior.training import Recipe

RECIPES: dict[str, Callable[..., Recipe]] = {
    f.__name__: f
    for f in (
        digits_ssl,
        mnist_ssl,
        fashion_ssl,
        cifar10_ssl_small,
        cifar10_ssl,
        mnist_manifold,
        label_free_transfer,
        fine_tuning,
        cifar100_transfer_small,
        cifar100_transfer,
    )
}
OF_ONE_STAGE = ("task", "method", "head", "readout", "start")  # settings that other stages do not take over


class Named(NamedTuple):
    """A recipe and how to make it again."""

    recipe: Recipe
    origin: dict[str, Any]


def named(name: str, settings: dict[str, str], **arguments: Any) -> Named:
    """The recipe of that name, with arguments of its function and other settings changed as the user says.

    A setting without a dot that the recipe's function takes, such as `labels`, is an argument of it; all others are
    dotted names inside the recipe, such as `method.alpha`.
    """
    check_name(name, RECIPES, "there is no recipe")
    hints = signature_hints(RECIPES[name])
    inner = {path: text for path, text in settings.items() if path not in hints}
    own = {path: parse(text, hints[path], path) for path, text in settings.items() if path in hints}
    if both := set(own) & set(arguments):
        raise ValueError(f"{', '.join(sorted(both))} has an option of its own: give --{min(both)} instead of --set")
    arguments = {**arguments, **own}
    check_arguments(name, hints, arguments)
    recipe = RECIPES[name](**arguments)
    for path, text in inner.items():
        recipe = override_stages(recipe, path, text)
    return Named(recipe, {"recipe": name, "arguments": arguments, "settings": inner})


def override_stages(recipe: Recipe, path: str, text: str) -> Recipe:
    """Change a setting in all stages of a recipe, so that they still fit each other; `start.steps` and the like, and
    what a stage has of its own, in one of them."""
    if recipe.start is None or path.partition(".")[0] in OF_ONE_STAGE:
        return override(recipe, path, text)
    start = override_stages(recipe.start, path, text)
    alone = override(replace(recipe, start=None, head="same"), path, text)
    return replace(alone, start=start, head=recipe.head)


def check_arguments(name: str, hints: dict[str, Any], arguments: dict[str, Any]) -> None:
    for argument in arguments:
        check_name(argument, hints, f"recipe {name} has no argument")


def again(origin: dict[str, Any] | None) -> Recipe:
    """The recipe that a run folder was made with."""
    if origin is None:
        raise ValueError("the run was made from Python, not from a named recipe: use refprior.training.load there")
    return named(origin["recipe"], origin["settings"], **origin["arguments"]).recipe
