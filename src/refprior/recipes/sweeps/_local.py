"""Cells in processes of this machine: if one dies, the others continue and its cell is retried."""

import logging
import os
import re
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from refprior._checks import whole_number
from refprior._process import handling
from refprior._words import in_short
from refprior.recipes.sweeps._cell import Cell, Outcome, Plan, train_cell

log = logging.getLogger("refprior")
_TO_SAVE = 10.0  # seconds for a process to save its last checkpoint when it is terminated
Pool = Any  # the executor of joblib, which has no types
_UNTRACKED = "ignore:resource_tracker:UserWarning"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Local:
    """Engine that trains cells in processes of this machine, which share its cores.

    A cell whose process died is retried from its last checkpoint.

    Parameters
    ----------
    jobs : int, default: 1
        Number of processes.
    retries : int, default: 2
        Number of retries of a cell whose process died.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.Local(jobs=4).retries
    2
    """

    jobs: int = 1
    retries: int = 2

    def __post_init__(self) -> None:
        whole_number("jobs", self.jobs, at_least=1)
        whole_number("retries", self.retries, at_least=0)

    def __call__(self, cells: Sequence[Cell], plan: Plan) -> Iterator[Outcome]:
        """Train the cells and yield outcomes as they come."""
        import torch

        threads = max(1, torch.get_num_threads() // self.jobs)
        waiting, deaths = deque(cells), Counter[str]()
        free: list[Pool] = []  # pools of one process each, so that a dead process breaks no other
        busy: dict[Future[Outcome], tuple[Pool, Cell]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.jobs:
                    with _signals_deferred():
                        cell = waiting.popleft()
                        future, pool = _send(free, threads, cell, plan)
                        busy[future] = pool, cell
                for future in wait(busy, return_when=FIRST_COMPLETED).done:
                    pool, cell = busy.pop(future)
                    outcome = _outcome(future, cell)
                    if outcome is not None:
                        free.append(pool)
                        yield outcome
                        continue
                    pool.shutdown(kill_workers=True)
                    deaths[cell.name] += 1
                    if deaths[cell.name] > self.retries:
                        yield Outcome(cell, _died(deaths[cell.name], future))
                    else:
                        log.warning("%s: %s; another process resumes it", cell.name, _died(1, future))
                        waiting.append(cell)
        finally:
            _end([*free, *(pool for pool, _ in busy.values())], busy)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Deliver signals at the end of the block: a pool that is interrupted while it starts leaks its semaphores."""
    received: list[int] = []
    with handling(lambda number, frame: received.append(number), signal.SIGINT, signal.SIGTERM):
        yield
    for number in received[:1]:
        signal.raise_signal(number)


def _pool(threads: int) -> Pool:
    """Return a pool of one process, which ignores Ctrl-C: its parent handles it."""
    from joblib.externals.loky import ProcessPoolExecutor

    limits = dict.fromkeys(_THREADS, str(threads))
    # The first pool starts a tracker of semaphores, which removes those of terminated processes and would report them.
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = f"{before},{_UNTRACKED}" if before else _UNTRACKED
    try:
        return ProcessPoolExecutor(1, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN), env=limits)
    finally:
        os.environ.pop("PYTHONWARNINGS") if before is None else os.environ.update(PYTHONWARNINGS=before)


def _send(free: list[Pool], threads: int, cell: Cell, plan: Plan) -> tuple[Future[Outcome], Pool]:
    """Give a cell to a free process, or to a new one if the free ones have died."""
    while free:
        pool = free.pop()
        try:
            return pool.submit(_work, cell, plan, threads, os.getpid()), pool
        except RuntimeError:  # the pool is broken
            pool.shutdown(kill_workers=True)
    pool = _pool(threads)
    return pool.submit(_work, cell, plan, threads, os.getpid()), pool


def _outcome(future: Future[Outcome], cell: Cell) -> Outcome | None:
    """Return the outcome of a cell; None if its process died."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        return future.result()
    except TerminatedWorkerError:
        return None
    except Exception as error:  # it could not be pickled
        return Outcome(cell, in_short(error))


def _died(times: int, future: Future[Outcome]) -> str:
    """Describe the death of a process, with its signal if known."""
    signals = re.search(r"exit codes of the workers are \{(SIG[A-Z]+)", str(future.exception()))
    often = "" if times == 1 else f" {times} times"
    said = f"its process died{f' of {signals[1]}' if signals else ''}{often}"
    return f"{said}: if memory ran out, lower --jobs, particles or the batch sizes"


def _end(pools: Sequence[Pool], busy: Collection[Future[Outcome]]) -> None:
    """End all processes; busy ones save their cells first."""
    for pool in pools if busy else ():
        for process in list(pool._processes or ()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
    wait(busy, timeout=_TO_SAVE)
    for pool in pools:
        pool.shutdown(kill_workers=True)


def _work(cell: Cell, plan: Plan, threads: int, parent: int) -> Outcome:
    """Train a cell in a separate process, as long as the parent lives."""
    import torch

    _end_with(parent)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGTERM)
    torch.set_num_threads(threads)
    try:
        return train_cell(cell, plan)
    except KeyboardInterrupt:  # terminated, after saving
        os._exit(128 + signal.SIGTERM)


@cache  # once in each process
def _end_with(parent: int) -> None:
    """End this process after saving its cell once its parent is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_TO_SAVE)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
