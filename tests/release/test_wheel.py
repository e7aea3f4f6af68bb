"""Wheel and sdist are built as for a release, and the wheel is looked at from an environment of its own."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.thorough  # a wheel is built
ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")


def run(*command: str | Path) -> str:
    # PYTHONPATH would put a developer's sources before the installed ones
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both; the wheel is made from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


DEEP = ("torch", "sklearn", "scikit_learn", "safetensors", "joblib", "plotly", "platformdirs")


@pytest.mark.parametrize(("without", "said"), [((), "both halves: as it"), (DEEP, "the exact half: as it")])
def test_the_wheel_works_where_it_is_installed(dist: Path, tmp_path: Path, without: tuple[str, ...], said: str) -> None:
    """The environment borrows the dependencies of this one; of refprior it has the wheel alone."""
    (wheel,) = dist.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--no-compile", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    borrowed = tmp_path / "borrowed"
    borrowed.mkdir()
    for path in Path(np.__file__).parents[1].iterdir():
        if not path.name.startswith(without) and path.suffix != ".pth":
            (borrowed / path.name).symlink_to(path)
    (site / "borrowed.pth").write_text(f"{borrowed}\n")
    assert said in run(python, "-I", SMOKE)


def test_the_sdist_has_what_tests_and_readers_need(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {Path(*Path(name).parts[1:]).as_posix() for name in archive.getnames()}
    for name in ("LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt", "tests/conftest.py", "docs/exact.md"):
        assert name in names
    assert not [name for name in names if name.startswith((".venv", "runs/", "dist/")) or name.endswith(".pyc")]
