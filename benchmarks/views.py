"""Batched views against a Pillow pipeline of the same operations, and against the training step that they feed.

    python benchmarks/views.py

Prints images a second on one core, their ratio in this run (median of paired rounds), and the share of an unlabeled
batch (448 weak and 448 strong views) in a step of four WRN-28-2. The Pillow pipeline is the one of the tests, which
show that both give the same bytes.
"""

import argparse
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from refprior.networks import WideResNet
from refprior.particles import Particles
from refprior.views import CTAugment, FlipCrop, RandAugment

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.views.pillow_randaugment import OPERATIONS

UNLABELED, LABELED, PARTICLES = 448, 64, 4
WEAK_GOAL, STRONG_GOAL, SHARE_GOAL = 20.0, 4.0, 0.03
_NAMES = list(OPERATIONS)


def pillow_weak(picture: Image.Image) -> Image.Image:
    """Mirrored with probability 1/2, padded by reflection, cropped: Pillow cannot reflect, numpy does."""
    if random.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    padded = Image.fromarray(np.pad(np.asarray(picture), ((4, 4), (4, 4), (0, 0)), mode="reflect"))
    left, top = random.randint(0, 8), random.randint(0, 8)
    return padded.crop((left, top, left + 32, top + 32))


def pillow_strong(picture: Image.Image) -> Image.Image:
    """The weak view, two operations with probability 1/2 each, a gray square."""
    picture = pillow_weak(picture)
    for name in random.choices(_NAMES, k=2):
        level = random.randint(1, 9)
        if random.random() < 0.5:
            picture = OPERATIONS[name](picture, level, random.choice((-1, 1)))
    left, top = random.randrange(32) - 8, random.randrange(32) - 8
    picture = picture.copy()
    picture.paste((127, 127, 127), (max(left, 0), max(top, 0), min(left + 16, 32), min(top + 16, 32)))
    return picture


def pillow_batch(view: Callable[[Image.Image], Image.Image], pixels: np.ndarray) -> np.ndarray:
    """From arrays to arrays, one after the other: (n, 32, 32, 3) -> (n, 32, 32, 3)."""
    return np.stack([np.asarray(view(Image.fromarray(image))) for image in pixels])


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Of one call, over `times` calls."""
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def compare(name: str, goal: float, ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> None:
    """Images a second of both, and the median of their ratios, taken in turns so that both meet the same noise."""
    ours(), theirs()
    times = [(seconds(ours, 10), seconds(theirs)) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in times)
    print(
        f"{name:<22} {UNLABELED / mine:>9,.0f} images/s, Pillow {UNLABELED / other:>7,.0f}: "
        f"{ratio:5.1f} times (goal {goal:.0f}) {verdict(ratio >= goal)}"
    )


def step_seconds(images: Tensor) -> float:
    """Forward and backward of 64 + 448 + 448 images through four WRN-28-2, single precision, channels last.

    The particles go one after the other, so that 8 GB of memory suffice; optimizer and EMA are left out. Both make
    the step look shorter than it is.
    """
    particles = Particles(lambda: WideResNet((3, 32, 32), 10), PARTICLES)
    networks = [particles.particle(k) for k in range(PARTICLES)]
    labels = torch.arange(LABELED) % 10
    x = (images.float() / 64 - 2).contiguous(memory_format=torch.channels_last)

    def step() -> None:
        for network in networks:
            logits = network(x)
            log_p = logits[LABELED:].log_softmax(-1)
            loss = F.cross_entropy(logits[:LABELED], labels) - (log_p.exp() * log_p).sum(-1).mean()
            loss.backward()

    return seconds(step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="paired rounds of the views")
    parser.add_argument("--quick", action="store_true", help="three rounds, and no training step")
    arguments = parser.parse_args()
    rounds = 3 if arguments.quick else arguments.rounds
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, Pillow {PIL.__version__}, {platform.machine()}, {os.cpu_count()} cores")
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (LABELED + 2 * UNLABELED, 3, 32, 32), dtype=torch.uint8, generator=generator)
    pool = images[:UNLABELED]
    pixels = pool.permute(0, 2, 3, 1).contiguous().numpy()
    weak, strong, learned = FlipCrop(), RandAugment(), CTAugment()

    torch.set_num_threads(1)
    compare("weak", WEAK_GOAL, lambda: weak(pool, generator), lambda: pillow_batch(pillow_weak, pixels), rounds)
    compare(
        "strong (RandAugment)",
        STRONG_GOAL,
        lambda: strong(pool, generator),
        lambda: pillow_batch(pillow_strong, pixels),
        rounds,
    )
    bank = statistics.median(seconds(lambda: learned(pool, generator)) for _ in range(rounds))
    print(f"{'strong (CTAugment)':<22} {UNLABELED / bank:>9,.0f} images/s")
    batch = statistics.median(seconds(lambda: (weak(pool, generator), strong(pool, generator))) for _ in range(rounds))

    if arguments.quick:
        return
    torch.set_num_threads(threads)
    step = step_seconds(images)
    share = batch / step
    print(
        f"an unlabeled batch takes {batch * 1e3:.1f} ms on one core, a step of {PARTICLES} WRN-28-2 (fp32) "
        f"{step:.1f} s on {threads} threads: {share:.2%} (goal below {SHARE_GOAL:.0%}) {verdict(share < SHARE_GOAL)}"
    )


def verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


if __name__ == "__main__":
    main()
