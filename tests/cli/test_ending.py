"""How commands end that do not end well: real processes and signals, one line, the right exit code."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, environment

SCRIPT = """
import sys, time
from refprior import cli
from refprior.__main__ import main

@cli.app.command
def wrong(kind: str):
    if kind == "deaf":
        import hashlib
        print("ready", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # minutes in C, which hear no signal
    if kind == "swallow":
        print("ready", flush=True)
        for _ in range(100):
            try:
                time.sleep(30)
            except BaseException:
                pass
    if kind == "translate":
        try:
            print("ready", flush=True)
            time.sleep(30)
        except BaseException as error:
            raise ImportError("numpy could not be imported") from error
    raise {"memory": MemoryError(), "deep": RecursionError("too deep"), "bug": KeyError("a\\nb"),
           "torch": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 7 bytes"),
           "silent": TypeError()}[kind]

main()
"""


def wrong(kind: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, "wrong", kind]
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("memory", "refprior: not enough memory: lower particles or the batch sizes"),
        ("torch", "refprior: not enough memory ([enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        ("deep", "refprior: the recursion is too deep (too deep): please report"),
        ("bug", r"refprior: KeyError: 'a\nb': please report; REFPRIOR_DEBUG=1 shows where it happened"),
        ("silent", "refprior: TypeError: please report; REFPRIOR_DEBUG=1 shows where it happened"),
    ],
)
def test_what_nobody_foresaw_is_one_line(kind: str, line: str) -> None:
    done = wrong(kind)
    assert done.returncode == 1
    assert done.stderr.startswith(line)
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_while_the_parser_is_imported_is_one_line() -> None:
    script = """
import os, signal, sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupted())
from refprior.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "refprior: stopped\n")


def test_the_interpreter_ends_without_searching_all_objects() -> None:
    """That takes a second of a processor once torch is imported, after Ctrl-C too."""
    script = """
import atexit, gc, sys
from refprior.__main__ import main
atexit.register(lambda: print(gc.get_freeze_count() > 10_000))
sys.argv = ["refprior", "no-such-command"]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "True\n")


def test_the_traceback_is_there_for_who_wants_it() -> None:
    done = wrong("bug", REFPRIOR_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "in wrong" in done.stderr


@pytest.mark.parametrize("kind", ["deaf", "swallow", "translate"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_heard_within_a_second(kind: str, number: int) -> None:
    """Even in a call that hears none, and in libraries that drop the exception or make another of it."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "wrong", kind],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    sent = time.monotonic()
    process.send_signal(number)
    try:
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert time.monotonic() - sent < 1.5  # one second, and a busy machine
    assert (process.returncode, said) == (128 + number, "refprior: stopped\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("wait", [0.4, 1.0, 2.0, 3.0])
def test_a_command_ends_at_once_while_it_starts(number: int, wait: float, tmp_path: Path) -> None:
    """Most of this time goes into imports."""
    (tmp_path / "run").mkdir()
    command = [sys.executable, "-m", "refprior", "sweep", "digits_ssl", "--out", "run", "--set", "steps=100000"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True)
    time.sleep(wait)
    if process.poll() is None:
        process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode in (128 + number, -number)
    assert len(said.splitlines()) <= 1 or "<frozen runpy>" in said, said  # Python's own words before refprior begins


def test_characters_that_the_locale_lacks_are_escaped() -> None:
    poor = environment(LC_ALL="POSIX", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    done = subprocess.run([*COMMAND, "recipes"], env=poor, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"8\xd78 digits" in done.stdout


def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    done = subprocess.run(
        f"{sys.executable} -c '{COMMAND[2]}' recipes | head -n 0", shell=True, env=environment(), capture_output=True
    )
    assert done.stderr == b""
