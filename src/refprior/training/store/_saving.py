"""Saving now and then while a run trains: seldom enough to cost little, and in spite of a full disk."""

import logging
import time
from pathlib import Path

from refprior.training.loop import Record, State, Trouble
from refprior.training.store._checkpoint import checkpoint_steps, save_checkpoint
from refprior.training.store._folder import Metrics, Written, write_tensors

log = logging.getLogger("refprior")


class Saver:
    """Saves every 30 seconds, or less often if saving would take more than 1 % of the time; survives a full disk."""

    def __init__(self, path: Path, metrics: Metrics | None, every: float | None) -> None:
        """metrics: None on ranks that write nothing."""
        self.path = path
        self.metrics = metrics
        self.every = every
        self.interval = 30.0 if every is None else every
        self.last = time.perf_counter()

    def due(self) -> bool:
        return time.perf_counter() - self.last >= self.interval

    def append(self, record: Record) -> None:
        if self.metrics is not None:
            self.metrics.append(record)

    def save(self, state: State) -> None:
        started = time.perf_counter()
        with state.particles.mesh.together():
            written = Written() if self.metrics is None else self.metrics.sync()
        save_checkpoint(self.path, state, written)
        self.last = time.perf_counter()
        if self.every is None:
            self.interval = max(30.0, 120 * (self.last - started))

    def try_save(self, state: State) -> None:
        """Save; if that fails, warn, keep the old checkpoint and try again later."""
        try:
            self.save(state)
        except OSError as error:
            self.last = time.perf_counter()
            log.warning("could not save step %d (%s): the old checkpoint stays, trying again later", state.step, error)

    def must_save(self, state: State, tries: int = 5, wait: float = 2.0) -> None:
        """Save, trying several times; then raise an OSError that names the checkpoint that is left."""
        for attempt in range(tries):
            try:
                return self.save(state)
            except OSError as error:
                log.warning("could not save step %d (%s), try %d of %d", state.step, error, attempt + 1, tries)
                time.sleep(wait)
        left = checkpoint_steps(self.path)[:1]
        raise OSError(
            f"could not save step {state.step} in {self.path}; the checkpoint of step {left[0] if left else 0} stays. "
            "Free some space; the same command resumes from there"
        )


def dump_batch(folder: Path, trouble: Trouble) -> Path:
    """Write the batch of a step that was not finite, for debugging; return the file."""
    path = folder / f"trouble-step-{trouble.step:08}.safetensors"
    batch = trouble.batch
    tensors = {"labeled": batch.labeled, "labels": batch.labels, "index": batch.index, **batch.views}
    tensors |= {"source": batch.source, "source_labels": batch.source_labels}
    write_tensors(path, tensors, {"trouble": str(trouble)})
    return path
