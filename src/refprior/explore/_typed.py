"""Likelihoods typed into the page, run in a separate process with limits of time and memory.

The limits protect the machine against mistakes. They are not a sandbox: the code runs with the user's permissions,
which is why the page offers it only with `--allow-code`.
"""

import asyncio
import ctypes
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress

from refprior._files import Json

SECONDS = 20  # for the whole answer
BYTES = 2 << 30  # of memory
MOST_CODE, MOST_ANSWER = 20_000, 8 << 20  # bytes
MOST_SAMPLES = 50
_NOBODY = 65534  # the user without rights
EXAMPLE = """\
import numpy as np
from scipy.stats import binom

outcomes = np.arange(6)  # all possible outcomes
bounds = (0, 1)  # of the parameter; two pairs for two parameters


def log_likelihood(w):  # (K,) parameters -> (K, outcomes)
    return binom.logpmf(outcomes, 5, w[:, None])
"""


async def typed_prior(code: str, n: int = 1, m: int = 0, beta: float = 1.0) -> Json:
    """Solve for the prior of typed code; raise ValueError if it fails or exceeds a limit."""
    if len(code.encode(errors="replace")) > MOST_CODE:
        raise ValueError(f"the code has more than {MOST_CODE:,} bytes")
    if not (1 <= n <= MOST_SAMPLES and 0 <= m <= MOST_SAMPLES and 0 <= beta <= 1):
        raise ValueError(f"n must be 1 to {MOST_SAMPLES}, m 0 to {MOST_SAMPLES} and beta 0 to 1")
    asked = json.dumps({"code": code, "n": n, "m": m, "beta": beta}).encode()
    with tempfile.TemporaryDirectory() as folder:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "refprior.explore._typed"),
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # its children end with it
        )
        try:
            written = await asyncio.wait_for(_answer(child, asked), SECONDS)
        except TimeoutError:
            raise ValueError(f"the code was stopped after {SECONDS} seconds") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            ended = await child.wait()
    try:
        found = json.loads(written)
    except ValueError:
        raise ValueError(f"the code ended without an answer (exit code {ended}): out of time or memory") from None
    if "error" in found:
        raise ValueError(str(found["error"]))
    return dict(found)


async def _answer(child: asyncio.subprocess.Process, asked: bytes) -> bytes:
    """Write the request to a process and return what it writes, up to a limit."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(asked)
    child.stdin.close()
    try:
        return await child.stdout.readexactly(MOST_ANSWER)
    except asyncio.IncompleteReadError as all_of_it:
        return all_of_it.partial


def solve_typed(code: str, n: int, m: int, beta: float) -> Json:
    """Run the code and solve for the model that it defines, in the process with the limits."""
    names: Json = {}
    exec(compile(code, "your code", "exec"), names)  # the user's code, allowed by --allow-code
    missing = [name for name in ("log_likelihood", "bounds", "outcomes") if name not in names]
    if missing:
        raise ValueError(f"the code must define log_likelihood, bounds and outcomes; {missing[0]} is missing")
    from refprior.exact import Channel
    from refprior.explore._play import solved

    one = Channel.from_function(names["log_likelihood"], bounds=names["bounds"], outcomes=names["outcomes"])
    axes = ["w"] if one.dimension == 1 else ["w₁", "w₂"]
    return {**solved(one.repeat, n, m, beta, tolerance=1e-9), "axes": axes, "code": _as_script(code, n, m, beta)}


def _as_script(code: str, n: int, m: int, beta: float) -> str:
    call = (
        f"two_stage_prior(model.repeat, m={m}, n={n}, beta={beta!r}, tolerance=1e-09)"
        if m
        else f"reference_prior(model.repeat({n}), tolerance=1e-09)"
    )
    name = call.partition("(")[0]
    model = "model = Channel.from_function(log_likelihood, bounds=bounds, outcomes=outcomes)"
    return f"from refprior.exact import Channel, {name}\n\n{code.rstrip()}\n\n\n{model}\nprior = {call}\nprint(prior)\n"


def _in_words(error: BaseException) -> str:
    """Describe an error with its line in the code."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "your code"]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    words = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split()) or type(error).__name__
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{f'line {line}: ' if line else ''}{kind}{words}"[:500]


def _count_as_ordinary_user() -> None:
    """Let the limit of processes apply to root too: count them for another user, without the exempting capabilities."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    with suppress(OSError):  # a container may have no other user
        os.setresuid(_NOBODY, 0, 0)
    kernel = ctypes.CDLL(None)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # version 3; this process
    kernel.capget(header, sets)
    sets[0] &= ~(1 << 21 | 1 << 24)  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE of the effective set
    kernel.capset(header, sets)


def main(solve: Callable[..., Json] = solve_typed) -> None:
    """Read the code from stdin and write the answer to stdout; discard what the code prints."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked = json.load(sys.stdin)
    _count_as_ordinary_user()
    # No file and no process: what the code leaves behind would outlive its answer.
    limits = {"AS": BYTES, "CPU": SECONDS, "FSIZE": 0, "NPROC": 0, "CORE": 0}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    try:
        answer = solve(**asked)
    except BaseException as error:
        answer = {"error": _in_words(error)}
    out.write(json.dumps(answer).encode())
    out.flush()
    os._exit(0)  # without waiting for threads of the code


if __name__ == "__main__":
    main()
