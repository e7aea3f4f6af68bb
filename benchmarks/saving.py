"""What saving costs: the share of a real run's time at the default interval, and the memory for it.

    python benchmarks/saving.py [--quick]

Goals: below 1 % of the time, below one extra copy of the state. Takes about two minutes.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from refprior.data import FewLabels
from refprior.methods import ReferencePrior
from refprior.networks import SmallCNN, WideResNet
from refprior.training import Recipe, estimate_cost, train
from refprior.training.loop import State
from refprior.training.store import Written, _checkpoint, save_checkpoint, state_tensors
from refprior.views import Distort, Shift

SECONDS = 50  # of training: one checkpoint at the start, one after 30 seconds, one at the end
BASE = Recipe(
    task=FewLabels("digits", labels=50, validation=300),
    network=partial(SmallCNN, (1, 8, 8), 10),
    method=ReferencePrior(),
    labeled_batch=32,
    unlabeled_batch=128,
)
NETWORKS = {
    "SmallCNN, K = 4": replace(BASE, weak=Shift(), strong=Distort()),
    "WRN-28-2, K = 4": replace(BASE, network=partial(WideResNet, (1, 8, 8), 10), labeled_batch=8, unlabeled_batch=8),
}
saves: list[tuple[float, float]] = []  # (seconds, extra copies of the state in memory)


def peak_memory() -> int:
    """The most that this process has used so far, in bytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def measured(run: Path, state: State, metrics: Written) -> Path:
    """`save_checkpoint` with a clock and a scale."""
    size = sum(t.numel() * t.element_size() for t in state_tensors(state).values())
    before, started = peak_memory(), time.perf_counter()
    path = real_save(run, state, metrics)
    saves.append((time.perf_counter() - started, (peak_memory() - before) / size))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="runs of ten seconds: saving takes a larger share")
    seconds = 10 if parser.parse_args().quick else SECONDS
    setattr(_checkpoint, "save_checkpoint", measured)  # noqa: B010 (a name that the module does not export)
    for name, recipe in NETWORKS.items():
        cost = estimate_cost(recipe, torch.device("cpu"))
        steps = int(seconds / cost.step_seconds)
        saves.clear()
        with tempfile.TemporaryDirectory() as place:
            started = time.perf_counter()
            train(replace(recipe, steps=steps, evaluate_every=steps), Path(place) / "run")
            total = time.perf_counter() - started
        share = 100 * sum(seconds for seconds, _ in saves) / total
        copies = max(extra for _, extra in saves)
        print(
            f"{name}: state {cost.state_bytes / 2**20:.1f} MiB, {steps} steps in {total:.0f} s, {len(saves)} saves: "
            f"{share:.2f} % of the time (goal 1 %), at most {copies:.2f} extra copies (goal 1)"
        )


real_save = save_checkpoint

if __name__ == "__main__":
    main()
