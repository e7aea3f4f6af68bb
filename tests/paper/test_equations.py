"""docs/equations.md is true: every function exists, and its docstring (or its module's) carries the label."""

import importlib
import re
from pathlib import Path

import pytest

TABLE = Path(__file__).parents[2] / "docs" / "equations.md"
ROWS = re.findall(r"^\| ((?:eq|fig|rem|tab|eg):[\w: ]+?) \|.*\| `([\w.]+)` \|$", TABLE.read_text(), re.MULTILINE)


def resolve(path: str) -> object:
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("label", "path"), ROWS)
def test_the_docstring_carries_the_label(label: str, path: str) -> None:
    assert label in (resolve(path).__doc__ or "")


def test_the_table_was_read() -> None:
    assert len(ROWS) >= 11
