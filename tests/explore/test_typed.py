"""A typed likelihood runs apart: its mistakes are told with their line, and its greed is stopped."""

import asyncio
import sys
from typing import Any

import pytest

from refprior.exact import Coin, Solution, reference_prior
from refprior.explore import _typed
from refprior.explore._typed import EXAMPLE, typed_prior


def run(code: str, **given: Any) -> dict[str, Any]:
    return asyncio.run(typed_prior(code, **given))


def test_the_example_is_a_coin_and_its_script_gives_the_same() -> None:
    shown = run(EXAMPLE, n=2)
    assert shown["information"] == pytest.approx(reference_prior(Coin(10)).information, abs=1e-8)
    assert shown["count"] == 5
    names: dict[str, Any] = {"print": lambda prior: None}
    exec(shown["code"], names)
    assert isinstance(names["prior"], Solution)
    assert names["prior"].information == shown["information"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = (", "line 1: SyntaxError: '\\(' was never closed"),
        ("bounds = (0, 1)\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("bounds, outcomes = (0, 1), [0, 1]", "log_likelihood is missing"),
        (EXAMPLE.replace("(0, 1)", "(1, 0)"), "bounds must be \\(low, high\\)"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os; os._exit(0)", "ended without an answer"),
    ],
)
def test_mistakes_are_told_in_words(code: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(code)


def test_memory_has_a_limit() -> None:
    with pytest.raises(ValueError, match=r"MemoryError|memory"):
        run("import numpy as np\nx = np.ones(2 ** 29)")


def test_time_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_typed, "SECONDS", 5)  # enough to begin
    with pytest.raises(ValueError, match="stopped after 5 seconds"):
        run("import time\ntime.sleep(60)")


def test_no_file_is_written() -> None:
    with pytest.raises(ValueError, match=r"OSError.*File too large"):
        run("with open('file', 'w') as file:\n    file.write('x')")


@pytest.mark.skipif(sys.platform != "linux", reason="root's processes are counted for another user on Linux only")
@pytest.mark.parametrize("code", ["import os\nos.fork()", "import subprocess\nsubprocess.Popen(['sleep', '60'])"])
def test_no_process_is_started(code: str) -> None:
    """One that calls setsid would outlive the answer. Root is bound too."""
    with pytest.raises(ValueError, match=r"line 2: BlockingIOError: .*unavailable"):
        run(code)


def test_what_it_prints_is_no_answer() -> None:
    assert run("print('{}')\n" + EXAMPLE)["count"] == len(reference_prior(Coin(5)).weights)
