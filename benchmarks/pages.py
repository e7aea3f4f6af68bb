"""Processor seconds of `refprior embed` for 3,000 particles and of `refprior report` over 200 folders.

    OMP_NUM_THREADS=1 python -m benchmarks.pages [--quick]

The particles are those of `mnist_manifold` on 8×8 digits, trained for as many steps as it keeps snapshots; the folders
are runs of two steps with 200 different learning rates, so that each is a recipe of its own.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import refprior as rp
from refprior.data import FewLabels
from refprior.networks import MLP
from refprior.recipes import digits_ssl, mnist_manifold

EMBED_GOAL, REPORT_GOAL = 30.0, 15.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="300 particles, 20 folders")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        embed(Path(folder) / "embed", 300 if quick else 3000)
        report(Path(folder) / "report", 20 if quick else 200)


def embed(out: Path, particles: int) -> None:
    recipe = mnist_manifold()
    small = replace(
        recipe,
        task=FewLabels("digits", labels=0, classes=(3, 5)),
        network=partial(MLP, (1, 8, 8), 2),
        particles=particles,
        steps=max(recipe.snapshots, 2),
    )
    rp.train(small, out)
    seconds, memory = spent("embed", str(out))
    print(f"embed, K = {particles}, {small.snapshots} snapshots: {told(seconds, EMBED_GOAL)}, {memory:.2f} GB")


def report(out: Path, folders: int) -> None:
    short = replace(digits_ssl(), steps=2, evaluate_every=2)
    for number in range(folders):
        rate = replace(short.optimizer, learning_rate=0.01 + 0.0001 * number)
        rp.train(replace(short, optimizer=rate), out / str(number))
    seconds, memory = spent("report", str(out))
    print(f"report over {folders} folders of different recipes: {told(seconds, REPORT_GOAL)}, {memory:.2f} GB")


def told(seconds: float, goal: float) -> str:
    return f"{seconds:.1f} processor seconds (goal {goal:.0f}) {'reached' if seconds <= goal else 'MISSED'}"


def spent(*command: str) -> tuple[float, float]:
    """Processor seconds of a command, and its largest memory in GB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "refprior", *command], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, after.ru_maxrss / 2**20


if __name__ == "__main__":
    main()
