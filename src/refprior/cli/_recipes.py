"""`refprior recipes`: read from the source of the recipes, because importing them takes seconds."""

import ast
from importlib.resources import files


def recipe_lines() -> dict[str, str]:
    """The first line of the docstring of every recipe, by name, in the order of `refprior.recipes.RECIPES`."""
    lines = {}
    for file in ("_images.py", "_manifold.py", "_transfer.py"):
        source = files("refprior").joinpath("recipes", file).read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and _is_recipe(node):
                lines[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return lines


def _is_recipe(function: ast.FunctionDef) -> bool:
    returned = function.returns
    return not function.name.startswith("_") and isinstance(returned, ast.Name) and returned.id == "Recipe"
