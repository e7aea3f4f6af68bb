"""The script of continuous integration with stand-ins for what it calls: what is missing is said, and tests run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """.ci/run in a folder of its own, where some programs are others."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    program(folder / ".venv" / "bin" / "refprior", programs.pop("refprior"))
    for name, text in programs.items():
        program(folder / "bin" / name.replace("_", "-"), text)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        [folder / ".ci" / "run"], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}
    )


def test_what_is_missing_is_said_and_the_tests_run(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        refprior='echo "no connection"; exit 2',
        make='echo "make $1" >> called; case $1 in *bench) echo "no such package"; exit 1;; esac',
        dpkg_query="exit 1",
        apt_get='echo "no network"; exit 100',
        id="echo 0",
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("missing: ")]
    assert [line.partition(":")[2].partition(",")[0].strip() for line in said] == [
        "Chromium and its driver",
        "Debian's Fashion-MNIST",
        "what exact priors are compared with",
        "the data set mnist",
        "the data set fashion-mnist",
        "the data set cifar10",
    ]
    assert said[0].endswith("no network")
    assert said[3].endswith("no connection")
    assert "make test" in (tmp_path / "called").read_text().splitlines()


@pytest.mark.parametrize("user", ["0", "1000"])
def test_packages_that_are_there_are_left_alone(tmp_path: Path, user: str) -> None:
    done = run(
        tmp_path,
        refprior='echo "$@" >> called',
        make='echo "make $1" >> called',
        dpkg_query='echo -n "install ok installed"',
        apt_get="echo apt-get >> called",
        id=f"echo {user}",
    )
    assert (done.returncode, done.stderr) == (0, "")
    called = (tmp_path / "called").read_text().splitlines()
    assert "apt-get" not in called
    assert [line for line in called if line.startswith("data")] == [
        f"data get {n}" for n in ("mnist", "fashion-mnist", "cifar10")
    ]


def test_a_failed_test_fails_the_check(tmp_path: Path) -> None:
    done = run(tmp_path, refprior="exit 0", make='[ "$1" != test ]', dpkg_query="echo -n 'ok installed'")
    assert done.returncode != 0
