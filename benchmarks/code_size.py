"""Measure the code itself: its size, its public names, and how many files a reader opens to follow a call.

    python -m benchmarks.code_size [--files]

Files to open are counted by tracing a real call: every source file of refprior in which a function ran, until
the first optimizer step of `rp.train`. Module and class bodies do not count. `--files` lists them.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import torch

import refprior as rp

SOURCE = Path(rp.__file__).parent
PACKAGES = (
    "exact",
    "exact.models",
    "data",
    "methods",
    "posterior",
    "recipes",
    "report",
    "training",
    "views",
    "explore",
)
MODULES = ("networks", "information", "losses", "geometry", "variational", "labeling", "particles")
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every module by its dotted name; a package is named `package.__init__`."""
    return {
        ".".join(("refprior", *path.relative_to(SOURCE).with_suffix("").parts)): ast.parse(path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
    }


def functions(trees: dict[str, ast.Module]) -> Iterator[tuple[str, Function]]:
    """Yield every function and method with the module that defines it."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield name, node


def lines_of_code(source: str) -> int:
    """Count the lines that are neither blank nor a comment nor part of a docstring."""
    found: set[int] = set()
    first = True  # of a statement
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _LAYOUT:
            first = first or token.type == tokenize.NEWLINE
        else:
            if not (first and token.type == tokenize.STRING):
                found.update(range(token.start[0], token.end[0] + 1))
            first = False
    return len(found)


def private_with_one_use(trees: dict[str, ast.Module]) -> int:
    """Count private functions whose name occurs exactly once besides the definition."""
    uses = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    private = [node.name for _, node in functions(trees) if re.match(r"_[^_]", node.name)]
    return sum(uses[name] == 1 for name in private)


def private_imports(trees: dict[str, ast.Module]) -> list[str]:
    """List imports of a module whose name begins with an underscore from outside its package."""
    found = []
    for name, tree in trees.items():
        package = name.rpartition(".")[0]
        for node in ast.walk(tree):
            imported: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            for module in imported:
                owner = re.match(r"(refprior(?:\.[a-z]\w*)*)\._[a-z]\w*$", module)
                if owner and not f"{package}.".startswith(f"{owner[1]}."):
                    found.append(f"{name} imports {module}")
    return found


def public_names() -> int:
    """Count the names that public packages and modules offer."""
    doors = [import_module(f"refprior.{name}") for name in PACKAGES + MODULES]
    return len(dir(rp)) + sum(len(door.__all__) for door in doors)


def channel_methods() -> int:
    """Count public methods and properties of `exact.Channel`."""
    kinds = (FunctionType, property, cached_property, staticmethod, classmethod)
    return sum(isinstance(value, kinds) for name, value in vars(rp.exact.Channel).items() if name[0] != "_")


def constants(trees: dict[str, ast.Module], package: str) -> int:
    """Count module-level names in capitals that hold a number."""
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.lstrip("_").isupper()
        and any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in ast.walk(node.value))
        for name, tree in trees.items()
        if name.startswith(package)
        for node in tree.body
    )


class FirstStepError(Exception):
    """The part of a call that is traced is over."""


def files_opened(call: Callable[[], Any]) -> str:
    """Trace a call and count the source files in which a function ran, and their lines."""
    opened: set[str] = set()

    def trace(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and code.co_flags & inspect.CO_OPTIMIZED:
            opened.add(code.co_filename)

    sys.setprofile(trace)
    try:
        call()
    except FirstStepError:
        pass
    finally:
        sys.setprofile(None)
    lines = sum(len(Path(name).read_text().splitlines()) for name in opened)
    if "--files" in sys.argv:
        print(*sorted(str(Path(name).relative_to(SOURCE)) for name in opened), "", sep="\n")
    return f"{len(opened)} ({lines:,} lines)"


def train_to_first_step(recipe: rp.Recipe) -> None:
    """Train until the optimizer is about to make its first step."""

    def stop(*_: object) -> None:
        sys.setprofile(None)
        raise FirstStepError

    step = torch.optim.SGD.step
    torch.optim.SGD.step = stop  # type: ignore[method-assign, assignment]
    try:
        rp.train(recipe)
    finally:
        torch.optim.SGD.step = step  # type: ignore[method-assign]


def main() -> None:
    """Print the table."""
    trees = modules()
    sources = [path.read_text() for path in SOURCE.rglob("*.py")]
    lengths = [(node.end_lineno or 0) - node.lineno + 1 for _, node in functions(trees)]
    uses_any = sum(
        isinstance(node, ast.Name) and node.id == "Any" for tree in trees.values() for node in ast.walk(tree)
    )
    coin = rp.exact.Coin(10)
    recipe = rp.recipes.digits_ssl(labels=50)
    rows = {
        "files in src": len(trees),
        "lines in src": f"{sum(len(source.splitlines()) for source in sources):,}",
        "lines without docstrings, comments and blank lines": f"{sum(map(lines_of_code, sources)):,}",
        "functions": f"{len(lengths):,}, median {statistics.median(lengths):.0f} lines",
        "private functions with one use": private_with_one_use(trees),
        "files opened by rp.train to the first optimizer step": files_opened(lambda: train_to_first_step(recipe)),
        "files opened by reference_prior(Coin(10))": files_opened(lambda: rp.exact.reference_prior(coin)),
        "public names": public_names(),
        "public methods of exact.Channel": channel_methods(),
        "Any in src": uses_any,
        "imports of another package's private module": len(private_imports(trees)),
        "numeric constants in exact/": constants(trees, "refprior.exact"),
    }
    for name, value in rows.items():
        print(f"{name:56} {value}")


if __name__ == "__main__":
    main()
