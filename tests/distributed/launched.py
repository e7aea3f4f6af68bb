"""What a launcher starts: trains in a folder, and one of its processes comes to harm.

python -m tests.distributed.launched FOLDER HARM, under torchrun. HARM: "kill" kills rank 1 once, "pause" stops it.
"""

import os
import signal
import sys
from pathlib import Path

import torch

from refprior._process import rank
from refprior.cli._ending import in_one_line
from refprior.training import Recipe, Record, train
from tests.training.recipes import perceptron


def recipe() -> Recipe:
    return perceptron(particles=4, steps=12, evaluate_every=1)


def main(folder: Path, harm: str) -> None:
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    (folder.parent / f"pid-{rank()}").write_text(str(os.getpid()))

    def watch(record: Record) -> None:
        if record.step == 5 and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
            number = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP}[harm]
            os.kill(int((folder.parent / "pid-1").read_text()), number)

    with in_one_line():
        train(recipe(), folder, watch=watch, save_every=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
