"""A training process to be killed: forks children that train in a folder, and kills each at a random moment.

Run as `python survivor.py FOLDER KILLS SEED`. The parent imports torch once; the children are real processes, killed by
SIGKILL, many of them while they write, since half of them save after every step. Prints how the children ended.
"""

import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from refprior.training import Recipe, train
from tests.training.recipes import DIGITS, convolutional


def recipe() -> Recipe:
    task = replace(DIGITS, seed=4)
    return convolutional(task=task, seed=4, steps=300, unlabeled_batch=16, evaluate_every=2, ema=0.95)


def child(folder: Path, save_every: float) -> int:
    """Start training in another process; its number."""
    pid = os.fork()
    if pid == 0:
        train(recipe(), folder, save_every=save_every)
        os._exit(0)
    return pid


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    chance = random.Random(seed)
    recipe().read_task()  # import scikit-learn before the forks
    killed = finished = 0
    while not finished:
        pid = child(folder, chance.choice([0.0, 0.1]))
        if killed < kills:
            time.sleep(chance.uniform(0.02, 0.3))  # all kills in less time than the steps take
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        elif os.WEXITSTATUS(status):
            sys.exit("a child failed by itself")
        else:
            finished = 1
    print(f"killed {killed}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
