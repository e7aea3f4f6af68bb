"""The command line as real processes, with and without a terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

COMMAND = [sys.executable, "-c", "from refprior.cli import main; main()"]
SHORT = ("--set", "steps=4", "unlabelled_batch=8", "evaluate_every=2")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def refprior(
    *arguments: str, cwd: Path | None = None, timeout: float = 120, **more: str
) -> subprocess.CompletedProcess[str]:
    """more: variables of the environment."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(COLUMNS="100", **more),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def in_terminal(columns: int, *arguments: str, cwd: Path) -> list[str]:
    """What a terminal of this width shows, frame by frame: all lines ever drawn, without colours."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {k: v for k, v in environment(TERM="xterm").items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen([*COMMAND, *arguments], cwd=cwd, env=plain, stdin=side, stdout=side, stderr=side)
    os.close(side)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(main)
    assert process.wait(timeout=60) == 0, seen.decode()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
