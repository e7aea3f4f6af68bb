"""`label_free_transfer`: the processor seconds of its 2,000 steps, where they go, and what it reaches.

    OMP_NUM_THREADS=1 python -m benchmarks.transfer             # seed 0 to its end
    OMP_NUM_THREADS=1 python -m benchmarks.transfer --quick     # 200 steps, and the seconds of 2,000 from them

The bound is the time of the step's matrix products alone, forward and backward, into memory that is there already.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch

from refprior.recipes import label_free_transfer
from refprior.training import Recipe
from refprior.training._session import _prefer_large_pages
from refprior.training.loop import begin, differentiate, draw, evaluate_all, update

T = TypeVar("T")
GOAL = 30.0
PARTS = ("views and principal components", "passes, loss and gradient", "optimizer and EMA")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 steps")
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16", "auto"])
    arguments = parser.parse_args()
    recipe = replace(label_free_transfer(), precision=arguments.precision)
    _prefer_large_pages(recipe)  # as `rp.train` does
    steps = 200 if arguments.quick else recipe.steps
    task = recipe.read_task()
    state = begin(recipe, task, torch.device("cpu"))
    spent = dict.fromkeys(PARTS, 0.0)
    for _ in range(steps):
        recipe.optimizer.set_rate(state.optimizer, state.step, recipe.steps)
        batch = timed(spent, PARTS[0], partial(draw, recipe, task, state))
        timed(spent, PARTS[1], partial(differentiate, recipe, task, batch, state))
        timed(spent, PARTS[2], partial(update, recipe, state))
        state.step += 1
    scale = recipe.steps / steps
    print(f"K = {recipe.particles}, {steps} steps, {arguments.precision}, processor seconds of {recipe.steps} steps")
    for part, seconds in spent.items():
        print(f"  {part:34} {scale * seconds:6.1f}")
    total = scale * sum(spent.values())
    print(f"  {'all':34} {total:6.1f}  {'reached' if total <= GOAL else 'MISSED'} (goal {GOAL:.0f})")
    print(f"  {'of them, bare matrix products':34} {recipe.steps * bound(recipe):6.1f}")
    if not arguments.quick:
        scores = evaluate_all(recipe, task, state.normalizer, raw=state.particles, ema=state.teacher)
        assert scores.consensus is not None
        assert scores.consensus.test is not None
        print(f"test accuracy by consensus, seed 0: {scores.consensus.test:.1%}")


def timed(spent: dict[str, float], part: str, call: Callable[[], T]) -> T:
    started = time.process_time()
    result = call()
    spent[part] += time.process_time() - started
    return result


def bound(recipe: Recipe) -> float:
    """Seconds of a step's products: of the inputs with a gradient three, of the frozen views one."""
    network = recipe.network()
    shapes = [tuple(p.shape) for p in network.parameters() if p.dim() == 2]
    graded, frozen = recipe.source_batch + recipe.unlabeled_batch, recipe.unlabeled_batch
    seconds = 0.0
    for outputs, inputs in shapes:
        weight = torch.randn(recipe.particles * outputs, inputs)
        for columns, times in ((graded, 3), (frozen, 1)):
            x = torch.randn(inputs, columns)
            out = torch.empty(recipe.particles * outputs, columns)
            seconds += times * least(partial(torch.matmul, weight, x, out=out))
    return seconds


def least(call: Callable[[], object], turns: int = 20) -> float:
    call()
    seconds = []
    for _ in range(turns):
        started = time.process_time()
        call()
        seconds.append(time.process_time() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
