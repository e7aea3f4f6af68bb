"""Processes are started once for each number of ranks, and run many cases; the tests look at what they found."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.distributed.processes import environment

Found = dict[str, Any]


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of `stem`; test processes that run in parallel share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "ranks"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            command = [sys.executable, "-m", "tests.distributed.stem", str(folder)]
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=500)
            (folder / "said.txt").write_text(done.stderr)
    said = (folder / "said.txt").read_text()
    assert (folder / "eight" / "rank-7.json").exists(), said
    return folder


def _found(folder: Path) -> list[Found]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


@pytest.fixture(scope="session")
def two(ranks: Path) -> list[Found]:
    """What each of two ranks found."""
    return _found(ranks / "two")


@pytest.fixture(scope="session")
def four(ranks: Path) -> list[Found]:
    """What each of four ranks found."""
    return _found(ranks / "four")
