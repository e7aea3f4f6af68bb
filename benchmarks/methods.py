"""One training step of every method that learns from few labels, relative to FixMatch's in the same run.

    OMP_NUM_THREADS=1 python benchmarks/methods.py                       # digits_ssl, K = 4
    OMP_NUM_THREADS=1 python benchmarks/methods.py --recipe mnist_ssl

All methods have the recipe's network, batches and views. Steps of the methods take turns, so that a machine that is
slow for a while is slow for all. Printed: the median seconds of a step, its ratio to FixMatch's, and where it goes.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch

from refprior import methods, recipes
from refprior.methods import Contrastive, Method
from refprior.recipes.sweeps._sweep import few_label_methods
from refprior.training import Recipe
from refprior.training.loop import State, begin, differentiate, draw, update

T = TypeVar("T")
PARTS = ("views", "loss and gradient", "optimizer and EMA")


class Timed:
    """A method in the recipe's place, and the seconds of the parts of its steps."""

    def __init__(self, recipe: Recipe, method: Method) -> None:
        self.recipe = replace(recipe, method=method)
        self.task = self.recipe.read_task()
        self.state: State = begin(self.recipe, self.task, torch.device("cpu"))
        # Ramps and warm-ups are over halfway through training.
        self.state.step = self.recipe.steps // 2
        self.seconds: list[list[float]] = []

    def step(self) -> None:
        batch, drawing = _timed(lambda: draw(self.recipe, self.task, self.state))
        _, learning = _timed(lambda: differentiate(self.recipe, self.task, batch, self.state))
        _, updating = _timed(lambda: update(self.recipe, self.state))
        self.seconds.append([drawing, learning, updating])

    def medians(self) -> list[float]:
        return [statistics.median(part) for part in zip(*self.seconds, strict=True)]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="digits_ssl", choices=sorted(recipes.RECIPES))
    parser.add_argument("--steps", type=int, default=20, help="of each method")
    parser.add_argument("--quick", action="store_true", help="three steps")
    asked = parser.parse_args()
    asked.steps = 3 if asked.quick else asked.steps
    recipe = recipes.RECIPES[asked.recipe]()
    chosen: list[Method] = [getattr(methods, name)() for name in few_label_methods()]
    timed = {type(method).__name__: Timed(recipe, method) for method in (*chosen, Contrastive())}
    for count in range(asked.steps + 2):
        for method in timed.values():
            method.step()
            if count < 2:  # the first steps find memory
                method.seconds.clear()
    reference = sum(timed["FixMatch"].medians())
    print(f"{asked.recipe}, K = {recipe.particles}, {asked.steps} steps each, {torch.get_num_threads()} thread(s)")
    print(f"{'method':16} {'ms':>8} {'of FixMatch':>12}   " + "   ".join(f"{part:>18}" for part in PARTS))
    for name, method in sorted(timed.items(), key=lambda item: sum(item[1].medians())):
        parts = method.medians()
        shares = "   ".join(f"{1e3 * part:15.1f} ms" for part in parts)
        print(f"{name:16} {1e3 * sum(parts):8.1f} {sum(parts) / reference:12.2f}   {shares}")


if __name__ == "__main__":
    main()
