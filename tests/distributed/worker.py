"""One of several processes on a mesh: runs what it is told and writes what came of it.

python -m tests.distributed.worker FUNCTION OUT, with the environment that torchrun gives.
"""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    started, rank, world = time.perf_counter(), dist.get_rank(), dist.get_world_size()
    module, _, name = sys.argv[1].partition(":")
    try:
        found = getattr(importlib.import_module(module), name)(world, rank)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    found["seconds"] = time.perf_counter() - started
    (Path(sys.argv[2]) / f"rank-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


main()
