"""Cells as a job array of SLURM: one `refprior train` per task. Only sbatch and squeue are called, so that a SLURM
without accounting does as well. What came of a cell is read from its folder, which this machine has to see."""

import hashlib
import logging
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from refprior._checks import whole_number
from refprior._words import counted, in_short
from refprior.recipes.sweeps._cell import Cell, Outcome, Plan, check_cell, command, is_done
from refprior.recipes.sweeps._record import forget_failure, read_failure

log = logging.getLogger("refprior")
LOGS = "slurm"  # what the tasks print, in the sweep's folder
_ARRAY = 1000  # tasks; SLURM takes no more by default
_PAUSES = (1.0, 15.0)  # seconds between looks at the queue: the first, the longest
_LAG = 3.0  # seconds until a network file system shows what another machine wrote
_TO_SAVE = 30  # seconds before the time limit at which a cell is told to save


@dataclass(frozen=True)
class Slurm:
    """SLURM, with what each cell may use; all other options of sbatch by its variables, such as SBATCH_ACCOUNT.

    jobs: at most as many cells at a time. A cell whose task ended too early (killed, out of time) is sent again, from
    its last checkpoint, up to `retries` times.

    >>> import refprior as rp
    >>> rp.recipes.Slurm(partition="gpu", time="2:00:00", memory="8G", gpus=1).options
    ['--partition=gpu', '--time=2:00:00', '--mem=8G', '--gres=gpu:1', '--cpus-per-task=1']
    """

    partition: str | None = None
    time: str | None = None
    memory: str | None = None
    gpus: int | None = None
    cpus: int = 1
    jobs: int | None = None
    retries: int = 2

    def __post_init__(self) -> None:
        for name, least in {"gpus": 0, "cpus": 1, "jobs": 1, "retries": 0}.items():
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=least)

    @property
    def options(self) -> list[str]:
        """Of sbatch."""
        gpus = f"gpu:{self.gpus}" if self.gpus else None
        given = {"partition": self.partition, "time": self.time, "mem": self.memory, "gres": gpus}
        return [*(f"--{name}={value}" for name, value in given.items() if value), f"--cpus-per-task={self.cpus}"]

    def __call__(self, cells: Sequence[Cell], plan: Plan) -> Iterator[Outcome]:
        """Train the cells; outcomes as they come."""
        plan = replace(plan, device="cuda") if self.gpus and plan.device == "cpu" else plan
        queue = f"refprior-{hashlib.sha256(str(plan.out.absolute()).encode()).hexdigest()[:8]}"
        try:
            if _listed(queue):  # a SLURM that does not answer is said at once
                log.warning("SLURM still has cells of %s: waiting for them", plan.out)
                _wait(queue)
            left = yield from _those_to_train(cells, plan)
            for _ in range(self.retries + 1):
                if left:
                    self._submit(left, plan, queue)
                    left = yield from _watch(left, plan, queue)
        except KeyboardInterrupt:
            log.warning("SLURM goes on with the rest: scancel --name %s ends it", queue)
            raise
        for cell in left:
            often = counted(self.retries + 1, "time")
            yield Outcome(cell, f"its SLURM task ended early {often}: {plan.out / LOGS} may say why")

    def _submit(self, cells: Sequence[Cell], plan: Plan, queue: str) -> None:
        """As many arrays as it takes; the script goes in by stdin, and SLURM keeps it."""
        (plan.out / LOGS).mkdir(parents=True, exist_ok=True)
        logs = str((plan.out / LOGS).absolute()).replace("%", "%%")
        for cell in cells:
            forget_failure(plan.folder(cell))
        for first in range(0, len(cells), _ARRAY):
            part = cells[first : first + _ARRAY]
            tasks = f"0-{len(part) - 1}{f'%{self.jobs}' if self.jobs else ''}"
            fixed = [f"--job-name={queue}", f"--array={tasks}", f"--output={logs}/%A-%a.log", "--requeue", "--parsable"]
            script = array_script([command(cell, plan, self._program()) for cell in part])
            job = _call(["sbatch", *fixed, f"--signal=B:TERM@{_TO_SAVE}", *self.options], script).strip()
            log.warning("SLURM job %s has %s; refprior status %s shows them", job, counted(len(part), "cell"), plan.out)

    def _program(self) -> list[str]:
        """This Python; with several GPUs, one process for each."""
        several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.gpus}"]
        return [sys.executable, *(several if (self.gpus or 0) > 1 else []), "-m", "refprior"]


def array_script(commands: Sequence[str]) -> str:
    """One command per task. `exec`: the command is what SLURM sends its signals to."""
    cases = [f"{number}) exec {line} ;;" for number, line in enumerate(commands)]
    threads = 'export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"'
    return "\n".join(["#!/bin/sh", threads, 'case "$SLURM_ARRAY_TASK_ID" in', *cases, "esac", ""])


def _those_to_train(cells: Sequence[Cell], plan: Plan) -> Generator[Outcome, None, list[Cell]]:
    """The cells that are not done; those that are, and those that are other runs, are outcomes."""
    left = []
    for cell in cells:
        try:
            check_cell(cell, plan)
        except ValueError as error:
            yield Outcome(cell, in_short(error))
            continue
        if is_done(cell, plan):
            yield Outcome(cell)
        else:
            left.append(cell)
    return left


def _watch(cells: Sequence[Cell], plan: Plan, queue: str) -> Generator[Outcome, None, list[Cell]]:
    """Outcomes as the tasks of a queue end; the cells that came to none."""
    left, busy, pause = list(cells), True, _PAUSES[0]
    while left and busy:
        time.sleep(pause)
        pause = min(1.2 * pause, _PAUSES[1])
        busy = _queued(queue)
        if not busy:
            time.sleep(_LAG)
        for cell in list(left):
            problem = read_failure(plan.folder(cell))
            if problem is not None or is_done(cell, plan):
                left.remove(cell)
                yield Outcome(cell, problem)
    return left


def _wait(queue: str) -> None:
    while _queued(queue):
        time.sleep(_PAUSES[1] / 3)


def _listed(queue: str) -> bool:
    """Whether tasks of this name wait or run."""
    return bool(_call(["squeue", "--me", f"--name={queue}", "--noheader", "--format=%i"]).strip())


def _queued(queue: str) -> bool:
    """`_listed`; a SLURM that does not answer for a while still has them."""
    try:
        return _listed(queue)
    except ValueError as error:
        log.warning("%s; trying again", error)
        return True


def _call(words: list[str], script: str = "") -> str:
    try:
        return subprocess.run(words, input=script, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise FileNotFoundError(f"{words[0]} is not here: --engine slurm needs a machine of a SLURM cluster") from None
    except subprocess.CalledProcessError as error:
        raise ValueError(f"{words[0]} fails: {in_short(error.stderr)}") from None
