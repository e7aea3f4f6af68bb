"""Starting real processes: several workers of one mesh, or a launcher."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """One thread each; nothing of a launcher that may have started the tests."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**kept, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": path, **more}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def on_ranks(world: int, function: str, out: Path, timeout: float = 300) -> list[dict[str, Any]]:
    """What each of several processes wrote; their errors if one fails."""
    shared = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "tests.distributed.worker", function, str(out)]
    started = [
        subprocess.Popen(
            command,
            env=environment(**shared, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world)),
            cwd=out,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        said = [process.communicate(timeout=timeout)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert all(process.returncode == 0 for process in started), "\n".join(said)
    return [json.loads((out / f"rank-{rank}.json").read_text()) for rank in range(world)]
