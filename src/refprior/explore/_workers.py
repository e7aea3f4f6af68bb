"""Priors are solved in separate processes, so that the page never waits for an outdated one."""

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

CACHED = 5000  # answers, of about 5 kB each
NOTHING = b"null"
PATIENT = 15  # niceness of the look-ahead process


class Solver:
    """Cached answers to queries: two processes for the user, one for drafts, which must never wait, and a low-priority
    one that looks ahead along the slider."""

    def __init__(self, solve: Callable[[str], bytes] = answer) -> None:
        self.solve = solve
        self.cache: OrderedDict[str, bytes] = OrderedDict()
        self.asked: dict[str, Query] = {}  # queries of the cached answers
        self.pool, self.quick, self.patient = _pool(2), _pool(1), _pool(1, PATIENT)
        self.warm: list[Future[int]] = []
        self.ahead: asyncio.Task[None] | None = None

    async def answer(self, query: Query) -> bytes:
        """Return a cached or new answer, then solve for its neighbors in advance."""
        check_size(query)
        try:
            found = await self._solved(query, self.pool)
        except BrokenProcessPool:  # killed, for example for lack of memory
            self.pool = _pool(2)
            found = await self._solved(query, self.pool)
        if self.ahead is not None:
            self.ahead.cancel()
        self.ahead = asyncio.create_task(self._look_ahead(query))
        return found

    async def draft(self, query: Query) -> bytes:
        """Return the answer if it is cached, or a draft from the nearest cached one; null without any."""
        check_size(query)
        if query.text in self.cache:
            return self.cache[query.text]
        near = min(self.asked.values(), key=lambda other: distance(query, other), default=query)
        if query.jeffreys or len(MODELS[query.model].axes) > 1 or not distance(query, near) < math.inf:
            return NOTHING
        known = self.cache.get(near.text)
        if known is None:
            return NOTHING
        try:
            return await asyncio.get_running_loop().run_in_executor(self.quick, draft, query.text, known)
        except BrokenProcessPool:
            self.quick = _pool(1)
            return NOTHING

    async def _solved(self, query: Query, pool: ProcessPoolExecutor) -> bytes:
        text = query.text
        if text in self.cache:
            self.cache.move_to_end(text)
            return self.cache[text]
        found = await asyncio.get_running_loop().run_in_executor(pool, self.solve, text)
        self.cache[text], self.asked[text] = found, query
        if len(self.cache) > CACHED:
            del self.asked[self.cache.popitem(last=False)[0]]
        return found

    async def _look_ahead(self, query: Query) -> None:
        for near in neighbors(query):
            try:
                check_size(near)
                await self._solved(near, self.patient)
            except ValueError:  # reported when it is requested
                continue
            except BrokenProcessPool:
                return

    def warm_up(self) -> None:
        """Start the processes, so that numpy and scipy are imported in advance."""
        if not self.warm:
            self.warm = [pool.submit(os.getpid) for pool in (self.pool, self.quick, self.pool)]

    def close(self) -> None:
        """End all processes, busy ones too."""
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
    """Ignore Ctrl-C, which the server handles, and end when the server ends."""
    os.nice(patience)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(0)
