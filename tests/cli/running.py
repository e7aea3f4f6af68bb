"""The command line as real processes, with and without a terminal."""

import fcntl
import multiprocessing
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory

COMMAND = [sys.executable, "-c", "from refprior.cli import main; main()"]
SHORT = ("--set", "steps=4", "unlabelled_batch=8", "evaluate_every=2")

# Processes of their own, forked from one that has imported what takes seconds to import.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.cli.imported"])


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def refprior(
    *arguments: str, cwd: Path | None = None, timeout: float = 120, **more: str
) -> subprocess.CompletedProcess[str]:
    """more: variables of the environment."""
    variables = environment(COLUMNS="100", **more)
    with TemporaryDirectory() as folder:
        files = [f"{folder}/{name}" for name in ("in", "out", "err")]
        for file in files:
            Path(file).touch()
        process = _forked(arguments, cwd, variables, files)
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout, *(Path(file).read_bytes() for file in files[1:]))
        out, err = (Path(file).read_text() for file in files[1:])
        code = process.exitcode
        process.close()
    return subprocess.CompletedProcess(list(arguments), code, out, err)


def _forked(
    arguments: Sequence[str], cwd: Path | None, variables: dict[str, str], files: Sequence[str]
) -> ForkServerProcess:
    process = _forks.Process(target=_command, args=(arguments, cwd, variables, files))
    process.start()
    return process


def _command(arguments: Sequence[str], cwd: Path | None, variables: dict[str, str], files: Sequence[str]) -> None:
    """The command with these files, or ends of a terminal, as standard input, output and errors."""
    for number, file in enumerate(files):
        os.dup2(os.open(file, os.O_RDWR), number)
    os.environ.clear()
    os.environ.update(variables)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["refprior", *arguments]
    from refprior.cli import main

    main()


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def in_terminal(columns: int, *arguments: str, cwd: Path) -> list[str]:
    """What a terminal of this width shows, frame by frame: all lines ever drawn, without colours."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {k: v for k, v in environment(TERM="xterm").items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = _forked(arguments, cwd, plain, [os.ttyname(side)] * 3)
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
