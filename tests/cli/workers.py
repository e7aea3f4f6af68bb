"""Workers of joblib's pools as forks of the process that asks for them: it has imported what takes them seconds."""

import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

STARTS = "joblib.externals.loky.backend.fork_exec"  # what starts them, by a function of the same name


def fork_workers() -> None:
    """From now on, in this process."""
    vars(import_module(STARTS))["fork_exec"] = forked


def forked(command: Sequence[str], kept: Iterable[int], env: Mapping[str, str] | None = None) -> int:
    """loky's `fork_exec` of `python -m MODULE ARGUMENTS`, without a new interpreter. The process that it started."""
    copies = {file: os.dup(file) for file in kept}  # forks close some of their own accord
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12, of threads that are not forked with it
        process = os.fork()
    if process:
        for copy in copies.values():
            os.close(copy)
        return process
    code = 1
    try:
        _as_after_exec(copies, env or {})
        _run_module(command[2], command[3:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _as_after_exec(kept: Mapping[int, int], env: Mapping[str, str]) -> None:
    """No signal handlers, no files but these, more of the environment. kept: files and copies of them."""
    gc.freeze()  # what belonged to the other process closes no file here
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for file, copy in kept.items():
        os.dup2(copy, file)
    for file in map(int, os.listdir("/dev/fd")):
        if file > 2 and file not in kept:
            with suppress(OSError):  # that of the list itself
                os.close(file)
    os.environ.update(env)


def _run_module(name: str, arguments: Sequence[str]) -> None:
    sys.argv = [name, *arguments]
    spec = find_spec(name)
    assert spec is not None
    code = spec.loader.get_code(name)  # type: ignore[union-attr]
    exec(code, {"__name__": "__main__", "__package__": spec.parent})
