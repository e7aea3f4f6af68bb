"""Cells as a SLURM job array with one `refprior train` per task. It calls only sbatch and squeue, so SLURM needs no
accounting. Outcomes are read from the cells' folders, which this machine must be able to access."""

import hashlib
import logging
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from refprior._checks import whole_number
from refprior._words import counted, in_short
from refprior.recipes.sweeps._cell import Cell, Outcome, Plan, command, is_done
from refprior.recipes.sweeps._status import forget_failure, read_failure
from refprior.training.store import check_same_run

log = logging.getLogger("refprior")
LOGS = "slurm"  # output of the tasks, in the sweep's folder
_ARRAY = 1000  # tasks; the default limit of SLURM
_PAUSES = (1.0, 15.0)  # seconds between checks of the queue: first, longest
_LAG = 3.0  # seconds until a network file system shows changes of another machine
_TO_SAVE = 30  # seconds before the time limit at which a cell saves


@dataclass(frozen=True)
class Slurm:
    """Engine that trains cells as tasks of SLURM.

    A cell whose task ended early (killed, out of time) is retried from its last checkpoint. Set other options of sbatch
    with its environment variables, such as SBATCH_ACCOUNT.

    Parameters
    ----------
    partition : str, optional
        Partition of the tasks.
    time : str, optional
        Time limit per cell, such as ``"2:00:00"``.
    memory : str, optional
        Memory per cell, such as ``"8G"``.
    gpus : int, optional
        GPUs per cell, which then trains on cuda.
    cpus : int, default: 1
        Cores per cell.
    jobs : int, optional
        Largest number of cells at a time. Defaults to all.
    retries : int, default: 2
        Number of retries of a cell whose task ended early.

    Examples
    --------
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
        """The options of sbatch."""
        gpus = f"gpu:{self.gpus}" if self.gpus else None
        given = {"partition": self.partition, "time": self.time, "mem": self.memory, "gres": gpus}
        return [*(f"--{name}={value}" for name, value in given.items() if value), f"--cpus-per-task={self.cpus}"]

    def __call__(self, cells: Sequence[Cell], plan: Plan) -> Iterator[Outcome]:
        """Train the cells and yield outcomes as they come."""
        plan = replace(plan, device="cuda") if self.gpus and plan.device == "cpu" else plan
        queue = f"refprior-{hashlib.sha256(str(plan.out.absolute()).encode()).hexdigest()[:8]}"
        try:
            if _listed(queue):  # an unreachable SLURM is reported at once
                log.warning("SLURM still has cells of %s: waiting for them", plan.out)
                while _queued(queue):
                    time.sleep(_PAUSES[1] / 3)
            left = yield from _those_to_train(cells, plan)
            for _ in range(self.retries + 1):
                if left:
                    self._submit(left, plan, queue)
                    left = yield from _watch(left, plan, queue)
        except KeyboardInterrupt:
            log.warning("SLURM continues with the rest: scancel --name %s stops it", queue)
            raise
        for cell in left:
            often = counted(self.retries + 1, "time")
            yield Outcome(cell, f"its SLURM task ended early {often}: see {plan.out / LOGS}")

    def _submit(self, cells: Sequence[Cell], plan: Plan, queue: str) -> None:
        """Submit the cells in as many arrays as needed; sbatch reads the script from stdin and keeps it."""
        (plan.out / LOGS).mkdir(parents=True, exist_ok=True)
        logs = str((plan.out / LOGS).absolute()).replace("%", "%%")
        for cell in cells:
            forget_failure(plan.folder(cell))
        several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.gpus}"]  # one per GPU
        program = [sys.executable, *(several if (self.gpus or 0) > 1 else []), "-m", "refprior"]
        for first in range(0, len(cells), _ARRAY):
            part = cells[first : first + _ARRAY]
            tasks = f"0-{len(part) - 1}{f'%{self.jobs}' if self.jobs else ''}"
            fixed = [f"--job-name={queue}", f"--array={tasks}", f"--output={logs}/%A-%a.log", "--requeue", "--parsable"]
            script = array_script([command(cell, plan, program) for cell in part])
            job = _call(["sbatch", *fixed, f"--signal=B:TERM@{_TO_SAVE}", *self.options], script).strip()
            log.warning("SLURM job %s has %s; refprior status %s shows them", job, counted(len(part), "cell"), plan.out)


def array_script(commands: Sequence[str]) -> str:
    """Return a script with one command per task; `exec` lets the command receive the signals of SLURM."""
    cases = [f"{number}) exec {line} ;;" for number, line in enumerate(commands)]
    threads = 'export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"'
    return "\n".join(["#!/bin/sh", threads, 'case "$SLURM_ARRAY_TASK_ID" in', *cases, "esac", ""])


def _those_to_train(cells: Sequence[Cell], plan: Plan) -> Generator[Outcome, None, list[Cell]]:
    """Return the unfinished cells; yield outcomes for finished cells and for folders that hold another run."""
    left = []
    for cell in cells:
        try:
            check_same_run(plan.folder(cell), cell.named().recipe)
        except ValueError as error:
            yield Outcome(cell, in_short(error))
            continue
        if is_done(cell, plan):
            yield Outcome(cell)
        else:
            left.append(cell)
    return left


def _watch(cells: Sequence[Cell], plan: Plan, queue: str) -> Generator[Outcome, None, list[Cell]]:
    """Yield outcomes as the tasks of a queue end; return the cells without one."""
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


def _listed(queue: str) -> bool:
    """Return whether tasks of this name wait or run."""
    return bool(_call(["squeue", "--me", f"--name={queue}", "--noheader", "--format=%i"]).strip())


def _queued(queue: str) -> bool:
    """Return `_listed`, or True while SLURM does not respond."""
    try:
        return _listed(queue)
    except ValueError as error:
        log.warning("%s; trying again", error)
        return True


def _call(words: list[str], script: str = "") -> str:
    try:
        return subprocess.run(words, input=script, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise FileNotFoundError(f"{words[0]} not found: --engine slurm needs a machine of a SLURM cluster") from None
    except subprocess.CalledProcessError as error:
        raise ValueError(f"{words[0]} fails: {in_short(error.stderr)}") from None
