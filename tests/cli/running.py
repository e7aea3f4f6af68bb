"""The command line as real processes, with and without a terminal."""

import fcntl
import multiprocessing
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tests.cli.workers import fork_workers

MAIN = "from refprior.cli import main; main()"
COMMAND = [sys.executable, "-c", MAIN]  # a new interpreter: seconds of imports
SHORT = ("--set", "steps=4", "unlabeled_batch=8", "evaluate_every=2")

# Processes of their own, forked from one that has imported what takes seconds to import.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.cli.imported"])


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


class Program:
    """Python code as a forked process: what tests need of `subprocess.Popen`. It is killed at the end of its `with`.

    session: begin one of its own; whatever belongs to it is killed too
    variables: more of the environment
    fresh: its workers are new interpreters, as a user has them, and no forks
    """

    def __init__(
        self,
        code: str,
        *arguments: str | Path,
        cwd: Path | None = None,
        session: bool = False,
        variables: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> None:
        self._folder, self._session = TemporaryDirectory(), session
        self.input, self.out, self.err = (Path(self._folder.name, name) for name in ("in", "out", "err"))
        files = [str(file) for file in (self.input, self.out, self.err)]
        for file in files:
            Path(file).touch()
        more = environment(**(variables or {}))
        self._process = _forked(code, list(map(str, arguments)), cwd, more, files, session, fresh)
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0, stderr=self.err.read_bytes())
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it has said on standard output and on standard error when it has ended."""
        self.wait(timeout)
        return self.out.read_text(), self.err.read_text()

    def first_line(self, file: Path, seconds: float = 120) -> str:
        """Of `out` or `err`, once it is there."""
        end = time.monotonic() + seconds
        while "\n" not in (text := file.read_text()):
            assert self.poll() is None, self.err.read_text()
            assert time.monotonic() < end
            time.sleep(0.01)
        return text.partition("\n")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        if self._session:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.join()
        self._folder.cleanup()


def start(*arguments: str, cwd: Path | None = None, session: bool = False) -> Program:
    """A command of refprior."""
    return Program(MAIN, *arguments, cwd=cwd, session=session)


def refprior(
    *arguments: str, cwd: Path | None = None, timeout: float = 120, fresh: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """more: variables of the environment."""
    with Program(MAIN, *arguments, cwd=cwd, variables={"COLUMNS": "100", **more}, fresh=fresh) as process:
        out, err = process.communicate(timeout)
        return subprocess.CompletedProcess(list(arguments), process.wait(), out, err)


def _forked(
    code: str,
    arguments: Sequence[str],
    cwd: Path | None,
    variables: dict[str, str],
    files: Sequence[str],
    session: bool = False,
    fresh: bool = False,
) -> ForkServerProcess:
    process = _forks.Process(target=_run, args=(code, arguments, cwd, variables, files, session, fresh))
    process.start()
    return process


def _run(
    code: str,
    arguments: Sequence[str],
    cwd: Path | None,
    variables: dict[str, str],
    files: Sequence[str],
    session: bool,
    fresh: bool,
) -> None:
    """The code with these files, or ends of a terminal, as standard input, output and errors."""
    if session:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(os.open(file, os.O_RDWR), number)
    os.environ.clear()
    os.environ.update(variables)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["refprior", *arguments]
    if not fresh:
        fork_workers()
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


def in_terminal(columns: int, *arguments: str, cwd: Path) -> list[str]:
    """What a terminal of this width shows, frame by frame: all lines ever drawn, without colors."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {k: v for k, v in environment(TERM="xterm").items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = _forked(MAIN, arguments, cwd, plain, [os.ttyname(side)] * 3)
    seen = b""
    while main in wait([main, process.sentinel]):
        seen += os.read(main, 65536)
    process.join()
    os.close(side)
    os.close(main)
    assert process.exitcode == 0, seen.decode()
    process.close()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
