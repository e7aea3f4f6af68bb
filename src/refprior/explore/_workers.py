"""Priors are solved in processes of their own, so that the page never waits for one that it no longer wants."""

import asyncio
import math
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process

from refprior.explore._play import MODELS, Query, answer, check_size, distance, draft, neighbors

KEPT = 5000  # answers, of about 5 kB each
NOTHING = b"null"
PATIENT = 15  # niceness of the process that looks ahead


class Solver:
    """Answers to questions, kept: processes for the person, one of them for drafts, which must never wait, and a
    patient one that looks ahead along the slider."""

    def __init__(self, solve: Callable[[str], bytes] = answer) -> None:
        self.solve = solve
        self.kept: OrderedDict[str, bytes] = OrderedDict()
        self.asked: dict[str, Query] = {}  # the questions of what is kept
        self.pool, self.quick, self.patient = _pool(2), _pool(1), _pool(1, PATIENT)
        self.warm: list[Future[int]] = []
        self.ahead: asyncio.Task[None] | None = None

    async def answer(self, query: Query) -> bytes:
        """From memory, or solved now; then the neighbors are solved before anybody asks."""
        check_size(query)
        try:
            found = await self._solved(query, self.pool)
        except BrokenProcessPool:  # killed, by the system for want of memory or by a person
            self.pool = _pool(2)
            found = await self._solved(query, self.pool)
        if self.ahead is not None:
            self.ahead.cancel()
        self.ahead = asyncio.create_task(self._look_ahead(query))
        return found

    async def draft(self, query: Query) -> bytes:
        """The answer if it is known, or else a draft of it after the nearest one that is; null without any."""
        check_size(query)
        if query.text in self.kept:
            return self.kept[query.text]
        near = min(self.asked.values(), key=lambda other: distance(query, other), default=query)
        if query.jeffreys or len(MODELS[query.model].axes) > 1 or not distance(query, near) < math.inf:
            return NOTHING
        known = self.kept.get(near.text)
        if known is None:
            return NOTHING
        try:
            return await asyncio.get_running_loop().run_in_executor(self.quick, draft, query.text, known)
        except BrokenProcessPool:
            self.quick = _pool(1)
            return NOTHING

    async def _solved(self, query: Query, pool: ProcessPoolExecutor) -> bytes:
        text = query.text
        if text in self.kept:
            self.kept.move_to_end(text)
            return self.kept[text]
        found = await asyncio.get_running_loop().run_in_executor(pool, self.solve, text)
        self.kept[text], self.asked[text] = found, query
        if len(self.kept) > KEPT:
            del self.asked[self.kept.popitem(last=False)[0]]
        return found

    async def _look_ahead(self, query: Query) -> None:
        for near in neighbors(query):
            try:
                check_size(near)
                await self._solved(near, self.patient)
            except ValueError:  # whoever asks for it will be told
                continue
            except BrokenProcessPool:
                return

    def warm_up(self) -> None:
        """Have the processes ready: they import numpy and scipy before they are needed."""
        if not self.warm:
            self.warm = [pool.submit(os.getpid) for pool in (self.pool, self.quick, self.pool)]

    def close(self) -> None:
        """End the processes, also those that are solving."""
        if self.ahead is not None:
            self.ahead.cancel()
        for pool in (self.pool, self.quick, self.patient):
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
