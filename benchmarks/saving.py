"""What a checkpoint costs: the share of the training time at the default interval, and the memory for saving.

    python benchmarks/saving.py

Goals: below 1 % of the time, below one extra copy of the state.
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from refprior.data import digits
from refprior.methods import ReferencePrior
from refprior.networks import SmallCNN, WideResNet
from refprior.train import Recipe, checkpoint, folder
from refprior.train.checkpoint import state_tensors
from refprior.train.loop import State, begin, differentiate, draw, update
from refprior.train.run import Saver
from refprior.views import Distort, Shift

NETWORKS = {
    "SmallCNN, K = 4": Recipe(
        partial(digits, labels=5), partial(SmallCNN, (1, 8, 8), 10), ReferencePrior(), weak=Shift(), strong=Distort()
    ),
    "WRN-28-2, K = 4": Recipe(
        partial(digits, labels=5), partial(WideResNet, (1, 8, 8), 10), ReferencePrior(), labelled=8, unlabelled=8
    ),
}


def peak_memory() -> int:
    """The most that this process has used so far, in bytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def one_step(recipe: Recipe, state: State) -> None:
    task = recipe.task()
    differentiate(recipe, draw(recipe, task, state), state)
    update(recipe, state)


def main() -> None:
    for name, recipe in NETWORKS.items():
        state = begin(recipe, recipe.task(), torch.device("cpu"))
        one_step(recipe, state)  # so that the optimiser has its memory
        size = sum(t.numel() * t.element_size() for t in state_tensors(state).values())
        with tempfile.TemporaryDirectory() as place:
            path = Path(place)
            folder.sync_metrics(path)
            saver = Saver(path, None)
            before, started = peak_memory(), time.perf_counter()
            for state.step in range(1, 6):
                checkpoint.save(path, state, 0)
            seconds = (time.perf_counter() - started) / 5
            grown = max(0, peak_memory() - before)
            saver.save(state)
        share = seconds / (saver.interval + seconds)
        print(
            f"{name}: state {size / 2**20:.1f} MiB, saving {1e3 * seconds:.0f} ms, interval {saver.interval:.0f} s, "
            f"share {100 * share:.2f} % (goal 1 %), extra memory {grown / size:.2f} copies (goal 1)"
        )


if __name__ == "__main__":
    main()
