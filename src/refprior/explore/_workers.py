"""Priors are solved in processes of their own, so that the page never waits for one that it no longer wants."""

import asyncio
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process

from refprior.explore._play import Query, answer, check_size, neighbours

KEPT = 5000  # answers, of about 5 kB each
PATIENT = 15  # niceness of the process that looks ahead


class Solver:
    """Answers to questions, kept; processes for the person, and a patient one that looks ahead along the slider."""

    def __init__(self, solve: Callable[[str], bytes] = answer) -> None:
        self.solve = solve
        self.kept: OrderedDict[str, bytes] = OrderedDict()
        self.pool, self.patient = _pool(2), _pool(1, PATIENT)
        self.warm: list[Future[int]] = []
        self.ahead: asyncio.Task[None] | None = None

    async def answer(self, query: Query) -> bytes:
        """From memory, or solved now; then the neighbours are solved before anybody asks."""
        check_size(query)
        try:
            found = await self._solved(query.text, self.pool)
        except BrokenProcessPool:  # killed, by the system for want of memory or by a person
            self.pool = _pool(2)
            found = await self._solved(query.text, self.pool)
        if self.ahead is not None:
            self.ahead.cancel()
        self.ahead = asyncio.create_task(self._look_ahead(query))
        return found

    async def _solved(self, text: str, pool: ProcessPoolExecutor) -> bytes:
        if text in self.kept:
            self.kept.move_to_end(text)
            return self.kept[text]
        found = await asyncio.get_running_loop().run_in_executor(pool, self.solve, text)
        self.kept[text] = found
        if len(self.kept) > KEPT:
            self.kept.popitem(last=False)
        return found

    async def _look_ahead(self, query: Query) -> None:
        for near in neighbours(query):
            try:
                check_size(near)
                await self._solved(near.text, self.patient)
            except ValueError:  # whoever asks for it will be told
                continue
            except BrokenProcessPool:
                return

    def warm_up(self) -> None:
        """Have the processes ready: they import numpy and scipy before they are needed."""
        if not self.warm:
            self.warm = [self.pool.submit(os.getpid) for _ in range(2)]

    def close(self) -> None:
        """End the processes, also those that are solving."""
        if self.ahead is not None:
            self.ahead.cancel()
        for pool in (self.pool, self.patient):
            running = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()


def _pool(processes: int, patience: int = 0) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin, initargs=(patience,))


def _begin(patience: int) -> None:
    """Ctrl-C is for the server, which ends this process; so does its own end, whatever its reason."""
    os.nice(patience)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(0)
