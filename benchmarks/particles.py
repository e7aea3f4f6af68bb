"""Forward and backward pass of K particles: vectorised against a loop, in one run, as a ratio.

    python benchmarks/particles.py

The default of `Particles(execution="auto")` is the faster one by kind of network, as printed here.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Execution, Particles

CASES: list[tuple[str, Callable[[], nn.Module], tuple[int, ...], int, int]] = [
    ("MLP 784-32-10", partial(MLP, (1, 28, 28), 10), (1, 28, 28), 50, 128),
    ("MLP 784-32-10", partial(MLP, (1, 28, 28), 10), (1, 28, 28), 1000, 128),
    ("SmallCNN 8×8", partial(SmallCNN, (1, 8, 8), 10), (1, 8, 8), 4, 288),
    ("SmallCNN 28×28", partial(SmallCNN, (1, 28, 28), 10), (1, 28, 28), 4, 288),
    ("WRN-28-2", partial(WideResNet, (3, 32, 32), 10), (3, 32, 32), 4, 8),
]
ROUNDS = 5


def seconds(particles: Particles, x: torch.Tensor) -> float:
    """The fastest of a few passes: the least disturbed by other work on the machine."""
    best = float("inf")
    for _ in range(ROUNDS):
        particles.zero_grad()
        started = time.perf_counter()
        particles(x).square().mean().backward()
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; milliseconds forward and backward")
    print(f"{'network':16} {'K':>5} {'batch':>6} {'vectorised':>11} {'loop':>9} {'loop / vectorised':>18}  auto")
    for name, make, shape, count, batch in CASES:
        x = torch.randn(batch, *shape)
        times: dict[Execution, float] = {}
        for execution in ("vectorised", "loop"):
            times[execution] = seconds(Particles(make, count, execution=execution), x)
        ratio = times["loop"] / times["vectorised"]
        cells = f"{1e3 * times['vectorised']:11.1f} {1e3 * times['loop']:9.1f} {ratio:18.2f}"
        print(f"{name:16} {count:5} {batch:6} {cells}  {Particles(make, 1).execution}")


if __name__ == "__main__":
    main()
