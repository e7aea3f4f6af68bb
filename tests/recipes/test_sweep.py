"""Many runs at once: their processes end with the one that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from refprior.training import _folder as folder
from refprior.training import load


def processes_of(session: int) -> list[int]:
    """Every process of a session that still does something."""
    alive = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            alive.append(int(status.parent.name))
    return alive


def test_the_workers_of_a_killed_sweep_save_their_cells_and_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "refprior", "sweep", "digits_ssl", "--seeds", "0,1,2,3", "--out", "sweep"]
    command += ["--jobs", "2", "--set", "steps=100000", "evaluate_every=100000"]
    sweep = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True)
    while len([p for p in tmp_path.rglob("metrics.jsonl") if p.stat().st_size]) < 2:
        assert sweep.poll() is None
        time.sleep(0.1)
    assert len(processes_of(sweep.pid)) > 2
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    end = time.monotonic() + 30
    while processes_of(sweep.pid) and time.monotonic() < end:
        time.sleep(0.1)
    left = processes_of(sweep.pid)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left
    cells = sorted(path.parent for path in tmp_path.rglob("recipe.json"))
    assert [cell.name for cell in cells] == ["seed-0", "seed-1"]  # no further cell was taken
    for cell in cells:
        assert load(cell).step > 0  # saved on the way out: no checkpoint was due yet
        with folder.locked(cell):
            pass
