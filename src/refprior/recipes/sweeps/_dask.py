"""Cells on a Dask cluster whose workers share the sweep's folder. Dask moves the cells of a dead worker to another.
Joblib's Dask backend is not used: it gives up all cells once Dask has given up one."""

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from typing import Any

from refprior._words import in_short
from refprior.recipes.sweeps._cell import Cell, Outcome, Plan, train_cell

log = logging.getLogger("refprior")
_PATIENCE = 30  # seconds to wait for a scheduler
_alone = threading.Lock()  # torch's generators and the working folder are global: one cell at a time per process


@dataclass(frozen=True)
class Dask:
    """Engine that trains cells on the workers of a Dask scheduler, one cell at a time on each.

    If a worker dies, another resumes its cell from the last checkpoint, up to the number of times in Dask's setting
    `distributed.scheduler.allowed-failures`, by default 3.

    Parameters
    ----------
    address : str
        Address of the scheduler, ``dask://HOST:PORT``.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.Dask("dask://node7:8786").scheduler
    'tcp://node7:8786'
    """

    address: str

    def __post_init__(self) -> None:
        kind, _, place = self.address.partition("://")
        if kind != "dask" or not place.rpartition(":")[2].isdigit():
            raise ValueError(f"the address must be dask://HOST:PORT, got {self.address!r}")

    @property
    def scheduler(self) -> str:
        """The address that Dask takes."""
        return f"tcp://{self.address.removeprefix('dask://')}"

    def __call__(self, cells: Sequence[Cell], plan: Plan) -> Iterator[Outcome]:
        """Train the cells and yield outcomes as they come."""
        try:
            from distributed import Client, as_completed
        except ImportError:
            raise ValueError("--engine dask needs Dask: pip install 'refprior[dask]'") from None
        try:
            connected = Client(self.scheduler, timeout=_PATIENCE, set_as_default=False)
        except OSError:
            said = f"no Dask scheduler responds at {self.address} within {_PATIENCE} s: start one with `dask scheduler`"
            raise ValueError(said) from None
        with connected as client:
            threads = client.nthreads()
            if not threads:
                log.warning("%s has no workers yet: start some with `dask worker --nthreads 1`", self.address)
            elif max(threads.values()) > 1:
                log.warning("each worker trains one cell at a time: start more workers, with --nthreads 1")
            sent = {client.submit(_work, cell, plan, os.getcwd(), pure=False): cell for cell in cells}
            try:
                for future in as_completed(list(sent), loop=client.loop):
                    yield _outcome(future, sent[future])
            finally:
                client.cancel(list(sent))  # a busy worker stops at its next record


def _outcome(future: Any, cell: Cell) -> Outcome:
    if future.status == "finished":
        outcome: Outcome = future.result()
        return outcome
    error = future.exception() if future.status == "error" else f"Dask reports status {future.status}"
    return Outcome(cell, in_short(error))


def _work(cell: Cell, plan: Plan, folder: str) -> Outcome:
    """Train a cell in a worker, in the working folder of the sweep; stop when it is canceled."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def look() -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise RuntimeError("canceled")

    with _alone, chdir(folder):
        return train_cell(cell, plan, look)
