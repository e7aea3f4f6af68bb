"""A process that imports torch once and then forks: one rank, four, two, one again and eight, each a real process.

python -m tests.distributed.stem FOLDER. Every rank works in FOLDER/NAME, and writes what it found as rank-N.json and
what it said as rank-N.txt.
"""

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.distributed import cases, runs
from tests.distributed.processes import free_port

Function = Callable[[int, int], dict[str, Any]]
PLAN: list[tuple[str, int, list[Function]]] = [
    ("one", 1, [cases.remember, runs.alone]),
    ("four", 4, [cases.run_gradients, runs.run_all]),
    ("two", 2, [cases.run_gradients, cases.run_divided, runs.run_all, runs.faults]),
    ("one more", 1, [runs.going_on_alone]),
    ("eight", 8, [runs.only_going_on]),
]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    cases.prepare()  # what that imports is imported once
    gc.freeze()  # what is shared with the ranks is not copied because it is looked at
    for name, world, functions in PLAN:
        (folder / name).mkdir()
        port, children = free_port(), []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                _child(folder / name, rank, world, port, functions)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if any(codes):
            said = [path.read_text() for path in sorted((folder / name).glob("rank-*.txt"))]
            sys.exit(f"{name}: the ranks ended with {codes}\n" + "\n".join(said))


def _child(folder: Path, rank: int, world: int, port: int, functions: list[Function]) -> None:
    code = 1
    with (folder / f"rank-{rank}.txt").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            _run(folder, rank, world, port, functions)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _run(folder: Path, rank: int, world: int, port: int, functions: list[Function]) -> None:
    os.chdir(folder)
    if world > 1:
        launcher = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
        os.environ.update({name: str(number) for name, number in launcher.items()})
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo")
    found: dict[str, Any] = {}
    for function in functions:
        started = time.perf_counter()
        found |= function(world, rank)
        found[f"seconds of {function.__name__}"] = [time.perf_counter() - started, time.process_time()]
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
