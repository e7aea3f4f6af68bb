"""`refprior recipes`: read from the source of the recipes, because importing them takes seconds."""

import ast
from importlib.resources import files


def recipe_lines() -> dict[str, str]:
    """The first line of the docstring of every recipe, by name, in the order of `refprior.recipes.RECIPES`."""
    lines = {}
    for file in ("_images.py", "_cifar10.py", "_manifold.py", "_transfer.py"):
        source = files("refprior").joinpath("recipes", file).read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and _is_recipe(node):
                lines[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return lines


def _is_recipe(function: ast.FunctionDef) -> bool:
    """A public function that returns a recipe, and can be called without arguments."""
    returned, arguments = function.returns, function.args
    makes = isinstance(returned, ast.Name) and returned.id == "Recipe"
    return makes and not function.name.startswith("_") and len(arguments.args) == len(arguments.defaults)
