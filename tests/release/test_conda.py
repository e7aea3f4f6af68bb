"""The conda recipe is valid and asks for what pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import refprior

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "conda" / "recipe.yaml"
NAMES = {"lazy_loader": "lazy-loader", "matplotlib": "matplotlib-base", "torch": "pytorch"}  # other names there


def test_requirements_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["deep"]]
    pairs = [re.fullmatch(r"([\w-]+)(.*)", line) for line in wanted]
    expected = {f"{NAMES.get(pair[1], pair[1])} {pair[2]}" for pair in pairs if pair}
    found = YAML(typ="safe").load(RECIPE)
    assert {line for line in found["requirements"]["run"] if not line.startswith("python ")} == expected
    assert project["requires-python"] == f">={found['context']['python_min']}"


def test_the_version_is_that_of_the_package() -> None:
    found = YAML(typ="safe").load(RECIPE)
    assert found["context"]["version"] == refprior.__version__


def test_the_recipe_renders() -> None:
    builder = pytest.importorskip("rattler_build", reason="needs py-rattler-build")
    (variant,) = builder.Stage0Recipe.from_file(str(RECIPE)).render()
    assert variant.recipe.package.name == "refprior"
