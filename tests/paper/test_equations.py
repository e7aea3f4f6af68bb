"""docs/equations.md is true: every function exists, and its docstring (or that of a class's module) has the label."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

TABLE = Path(__file__).parents[2] / "docs" / "equations.md"
ROWS = re.findall(r"^\| ((?:eq|fig|rem|tab|eg):[\w: ]+?) \|.*\| `(rp\.[\w.]+)` \|$", TABLE.read_text(), re.MULTILINE)


def resolve(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module.replace("rp", "refprior", 1)), name)


def documentation(thing: object) -> str:
    around = inspect.getmodule(thing) if inspect.isclass(thing) else None
    return f"{thing.__doc__}\n{around.__doc__ if around is not None else ''}"


@pytest.mark.parametrize(("label", "path"), ROWS)
def test_the_docstring_has_the_label(label: str, path: str) -> None:
    assert label in documentation(resolve(path))


def test_the_table_was_read() -> None:
    assert len(ROWS) >= 25
