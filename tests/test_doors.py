"""The front door: light to open, complete, and every example in a public docstring runs."""

import doctest
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest

import refprior as rp
from refprior import explore, particles
from tests.cli.running import Program
from tests.cli.workers import STARTS, forked

ROOT = Path(__file__).parents[1]
DOORS = [getattr(rp, name) for name in dir(rp) if isinstance(getattr(rp, name), types.ModuleType)] + [
    explore,
    particles,
]
PUBLIC = [
    pytest.param(door, name, id=f"{door.__name__.removeprefix('refprior.')}.{name}")
    for door in DOORS
    if door is not rp.exact  # has a test of its own
    for name in door.__all__
    if inspect.isclass(getattr(door, name)) or inspect.isfunction(getattr(door, name))
]


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run_forked(code: str) -> str:
    """In a process that has imported everything."""
    with Program(code) as process:
        said, wrong = process.communicate(timeout=300)
        assert process.returncode == 0, wrong
    return said.strip()


def test_the_door_opens_without_torch_and_without_side_effects() -> None:
    code = """
import os, sys
before = dict(os.environ)
import refprior
heavy = [m for m in ("torch", "numpy", "scipy", "sklearn", "matplotlib", "refprior.data") if m in sys.modules]
print(heavy, dict(os.environ) == before)
"""
    assert run_python(code) == "[] True"


def test_the_door_opens_fast() -> None:
    """Compared with the start of Python itself, in the same moment on the same machine."""
    code = "import time; t = time.perf_counter(); import refprior; print(time.perf_counter() - t)"
    assert min(float(run_python(code)) for _ in range(5)) < 0.1


def test_the_exact_half_needs_no_torch() -> None:
    code = "import sys, refprior as rp; rp.exact.Coin(3); print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    assert run_python(code) == "[]"


def test_using_everything_changes_no_environment_and_no_backend() -> None:
    code = """
import os
before = dict(os.environ)
import matplotlib
backend = matplotlib.rcParams._get("backend")
import refprior as rp
for name in dir(rp):
    getattr(rp, name)
import refprior.report._figures, refprior.report._film, refprior.exact.figures, refprior.cli
print(dict(os.environ) == before, matplotlib.rcParams._get("backend") is backend)
"""
    assert run_python(code) == "True True"


def test_help_is_a_short_map_of_all_names() -> None:
    text = run_forked("import pydoc, refprior; print(pydoc.plain(pydoc.render_doc(refprior)))")
    assert len(text.splitlines()) < 100
    for name in dir(rp):
        assert f"rp.{name}" in text, name


def test_the_stub_and_the_door_agree() -> None:
    stub = (ROOT / "src" / "refprior" / "__init__.pyi").read_text()
    listed = stub[stub.index("__all__") :]
    assert all(f'"{name}"' in listed for name in dir(rp))
    assert 20 <= len(dir(rp)) <= 33


@pytest.mark.parametrize(("door", "name"), PUBLIC)
def test_examples_run(door: types.ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a folder of its own: examples may write files."""
    thing = getattr(door, name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"{STARTS}.fork_exec", forked)
    examples = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    count = sum(len(example.examples) for example in examples)
    assert count, f"{name} has no example in its docstring"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    report: list[str] = []
    for example in examples:
        runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short_and_use_no_training_of_ours(script: Path) -> None:
    text = script.read_text()
    assert len(text.splitlines()) <= 60
    assert "rp.train" not in text
    assert "refprior.training" not in text


@pytest.mark.parametrize(("script", "steps", "least"), [("semi_supervised", 300, 0.93), ("transfer", 200, 0.93)])
def test_examples_learn(script: str, steps: int, least: float) -> None:
    assert accuracy_of(script, steps) > least


def test_the_label_free_example_finds_the_classes() -> None:
    assert accuracy_of("label_free_transfer", 150) > 0.7  # chance is 0.2, matched a little more


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "recipe"),
    [
        ("semi_supervised", rp.recipes.digits_ssl()),
        ("transfer", rp.recipes.digits_transfer()),
        ("label_free_transfer", rp.recipes.label_free_transfer(data="digits")),
    ],
)
def test_examples_reach_the_accuracy_of_the_recipe(script: str, recipe: rp.Recipe) -> None:
    found = rp.train(recipe).result.evaluation
    assert found is not None
    assert found.accuracy is not None
    assert accuracy_of(script, recipe.steps) > found.accuracy - 0.02


def accuracy_of(script: str, steps: int) -> float:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'examples')!r}); import {script}; print({script}.main({steps}))"
    return float(run_forked(code))
