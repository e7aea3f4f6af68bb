"""One training step of four WRN-28-2 on 64 + 448 images against a plain version of the same mathematics.

    OMP_NUM_THREADS=2 python benchmarks/step.py

The plain version is written here on its own: a list of K modules in single precision, channels first, one pass of 64
labeled, 448 weak and 448 strong images so that batch norm sees them together, probabilities and their logarithms, SGD
with Nesterov momentum and a moving average in loops over tensors. Both begin with the same weights and take the same
batches, in turns. Printed: that losses and gradients agree, the ratio of the times, where they go, the peak of memory,
how fast any version could be at the speed of a matrix product, and what bf16, recomputing and tcmalloc (Debian's
libtcmalloc-minimal4, if it is there) do on this machine. The full size needs 16 GB of free memory; `--fraction 8`
takes an eighth of the images.
"""

import argparse
import gc
import itertools
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from refprior.data import Task, task_from_arrays
from refprior.methods import Batch, Loss, ReferencePrior, Step
from refprior.recipes import cifar10_ssl, override
from refprior.training import Recipe
from refprior.training.loop import State, begin, differentiate, draw, has_bf16, update

GOAL = 1.0  # of the plain version's time in single precision: never slower
HALF_GOAL = 1.6  # where the processor has instructions for bf16
BOUND_GOAL = 1.1  # times the matrix products
RECOMPUTED_GOAL = 1.1  # of the loop's time
MEMORY_GOAL = 4.0  # GB of a recomputed step at full size
AGREE = 2.0**-8  # the precision of bf16
PARTS = ("views", "forward", "loss", "backward", "optimizer and EMA")
OPERATIONS = {
    "convolution": ("mkldnn_convolution", "convolution_backward"),
    "batch norm": ("native_batch_norm", "native_batch_norm_backward"),
    "activation": ("leaky_relu", "leaky_relu_", "leaky_relu_backward"),
}
Seconds = dict[str, float]


class Measured(NamedTuple):
    """One step."""

    seconds: Seconds  # by part
    loss: float
    peak: float  # GB of memory
    kernel: float  # share of the processor's time: mostly handing out fresh memory

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


class PlainBlock(nn.Module):
    """norm, LeakyReLU, convolution, twice, around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, raw: bool) -> None:
        super().__init__()
        self.raw = raw
        self.before = nn.Sequential(nn.BatchNorm2d(inputs, momentum=0.001), nn.LeakyReLU(0.1, inplace=True))
        self.inside = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs, momentum=0.001),
            nn.LeakyReLU(0.1, inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        changed = x if self.raw else self.before(x)
        around = x if isinstance(self.shortcut, nn.Identity) else self.shortcut(changed)
        return torch.add(self.inside(changed), around)


def plain_network() -> nn.Module:
    """WRN-28-2 of 10 classes with its tensors in the order of ours."""
    sizes = [(16, 32, 1), *[(32, 32, 1)] * 3, (32, 64, 2), *[(64, 64, 1)] * 3, (64, 128, 2), *[(128, 128, 1)] * 3]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        *(PlainBlock(*size, raw=size[2] == 2) for size in sizes),
        nn.BatchNorm2d(128, momentum=0.001),
        nn.LeakyReLU(0.1, inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def plain_loss(logits: Tensor, batch: Batch, method: ReferencePrior) -> Tensor:
    """The pseudo-code of the paper at order 2, in probabilities: (K, images, C) -> ()."""
    p = logits.softmax(-1)
    labeled, weak, strong = p.split([len(batch.labels), len(batch.views["weak"]), len(batch.views["strong"])], dim=1)
    weak, tau = weak.detach(), method.tau
    likelihood = -labeled.log()[:, torch.arange(len(batch.labels)), batch.labels].mean()
    f = tau * weak + (1 - tau) * strong
    h_yw = -(f * (tau * weak.log() + (1 - tau) * strong.log())).sum(-1).mean() * 2
    pairs = torch.einsum("kbc,kbd->bcd", f[:, 0::2], f[:, 1::2]) / len(f)
    h_y = -(pairs * pairs.log()).sum((1, 2)).mean()
    return torch.sub(likelihood, (method.alpha * h_y - h_yw) / (1 - tau**2))


class Clock:
    """Seconds by part of a step."""

    def __init__(self) -> None:
        self.seconds: Seconds = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[part] = time.perf_counter() - started


class Plain:
    """The plain version, from the weights of ours."""

    def __init__(self, recipe: Recipe, state: State) -> None:
        self.method = recipe.method
        self.networks = nn.ModuleList(plain_network() for _ in range(recipe.particles))
        for k, network in enumerate(self.networks):
            _copy(state.particles.particle(k), network)
        self.average = deepcopy(self.networks).requires_grad_(False)
        norms = {p for m in self.networks.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
        weights = [p for p in self.networks.parameters() if p not in norms]
        decay = recipe.optimizer.decay / recipe.particles
        groups = [{"params": weights, "weight_decay": decay}, {"params": list(norms), "weight_decay": 0.0}]
        rate = recipe.optimizer.learning_rate * recipe.particles
        self.optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9, nesterov=True)

    def step(self, clock: Clock, batch: Batch) -> Tensor:
        with clock.of("forward"):
            x = torch.cat([batch.labeled, batch.views["weak"], batch.views["strong"]])
            logits = torch.stack([network(x) for network in self.networks])
        with clock.of("loss"):
            loss = plain_loss(logits, batch, self.method)  # type: ignore[arg-type]
        with clock.of("backward"):
            self.optimizer.zero_grad()
            loss.backward()
        with clock.of("optimizer and EMA"), torch.no_grad():
            self.optimizer.step()
            for mean, weight in zip(self.average.parameters(), self.networks.parameters(), strict=True):
                mean.sub_(0.001 * (mean - weight))
            for copy, statistic in zip(self.average.buffers(), self.networks.buffers(), strict=True):
                copy.copy_(statistic)
        return loss.detach()


def _copy(source: nn.Module, target: nn.Module) -> None:
    with torch.no_grad():
        for mine, theirs in zip(target.parameters(), source.parameters(), strict=True):
            mine.copy_(theirs)


class Ours:
    """The package's own loop, with a clock."""

    def __init__(self, recipe: Recipe, task: Task, state: State) -> None:
        self.method, self.needs = recipe.method, recipe.method.needs
        self.recipe, self.task, self.state = replace(recipe, method=self), task, state
        self.clock = Clock()

    def __call__(self, step: Step) -> Loss:
        """The method, its passes through the networks timed apart from the rest of it."""

        def student(x: Tensor) -> Tensor:
            with self.clock.of("forward"):
                return step.student(x)

        with self.clock.of("loss"):
            loss = self.method(replace(step, student=student))
        self.clock.seconds["loss"] -= self.clock.seconds["forward"]
        return loss

    def step(self, clock: Clock, batch: Batch) -> Tensor:
        self.clock = clock
        with clock.of("backward"):
            loss = differentiate(self.recipe, self.task, batch, self.state).total
        clock.seconds["backward"] -= clock.seconds["forward"] + clock.seconds["loss"]
        with clock.of("optimizer and EMA"):
            update(self.recipe, self.state)
        return loss


Version = Ours | Plain


def random_task() -> Task:
    """Noise in the shape of CIFAR-10: times do not depend on what is in the images."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (1500, 3, 32, 32), dtype=torch.uint8, generator=generator).numpy()
    labels = torch.arange(1500).numpy() % 10
    return task_from_arrays((images[:250], labels[:250]), images[500:], (images[250:500], labels[250:500]))


def timed(version: Version, batch: Batch, views: Seconds) -> Measured:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    clock, before = Clock(), os.times()
    loss = version.step(clock, batch).item()
    after = os.times()
    kernel = after.system - before.system
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
    return Measured(views | clock.seconds, loss, peak, kernel / (kernel + after.user - before.user))


def gradient(version: Version) -> Tensor:
    """Of all weights of all particles, particle after particle."""
    if isinstance(version, Plain):
        return torch.cat([_or_zero(p).flatten() for p in version.networks.parameters()])
    stacked = list(version.state.particles.network.parameters())
    return torch.cat([_or_zero(p)[k].flatten() for k in range(version.recipe.particles) for p in stacked])


def _or_zero(parameter: Tensor) -> Tensor:
    # The plain version has no gradient at all for norms that are not used, where ours may have zeros.
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def compare(versions: dict[str, Version], recipe: Recipe, task: Task, state: State, rounds: int) -> dict[str, Measured]:
    """Steps in turns; prints whether they agree, the ratio, where the time goes. Returns the fastest step of each."""
    results: dict[str, list[Measured]] = {name: [] for name in versions}
    gradients = {}
    for number in range(rounds):
        views = Clock()
        with views.of("views"):
            batch = draw(recipe, task, state)  # the same for both
        for name, version in versions.items():
            results[name].append(timed(version, batch, views.seconds))
            if number == 0:
                gradients[name] = gradient(version)
    report_agreement({name: [step.loss for step in steps] for name, steps in results.items()}, gradients)
    best = {name: min(steps, key=lambda step: step.total) for name, steps in results.items()}
    report_times(best["ours"], best["plain"])
    return best


def report_agreement(losses: dict[str, list[float]], gradients: dict[str, Tensor]) -> None:
    worst = max(abs(a / b - 1) for a, b in zip(losses["ours"], losses["plain"], strict=True))
    apart = (gradients["ours"] - gradients["plain"]).norm() / gradients["plain"].norm()
    for name, values in losses.items():
        print(f"loss of {name:5} " + " ".join(f"{value:.6f}" for value in values))
    print(f"losses differ by {worst:.1e} of their size (goal below {AGREE:.1e}) {verdict(worst < AGREE)}")
    print(f"gradients of the first step differ by {apart:.1e} of their norm")


def report_times(ours: Measured, plain: Measured) -> None:
    print(f"{'seconds, fastest step':22} {'ours':>8} {'plain':>8} {'plain/ours':>11} {'share of ours':>14}")
    for part in PARTS:
        mine, theirs = ours.seconds[part], plain.seconds[part]
        print(f"  {part:20} {mine:8.2f} {theirs:8.2f} {theirs / mine:11.2f} {mine / ours.total:14.1%}")
    ratio = plain.total / ours.total
    print(f"  {'all':20} {ours.total:8.2f} {plain.total:8.2f} {ratio:11.2f} (goal {GOAL}) {verdict(ratio >= GOAL)}")
    print(f"  {'peak of memory, GB':20} {ours.peak:8.1f} {plain.peak:8.1f}")
    print(f"  {'time in the kernel':20} {ours.kernel:8.1%} {plain.kernel:8.1%}")


def report_operations(versions: dict[str, Version], batch: Batch) -> None:
    """What the networks' passes consist of, by the profiler."""
    print(f"{'share of a step':22} " + " ".join(f"{name:>12}" for name in OPERATIONS))
    for name, version in versions.items():
        version.step(Clock(), batch)  # takes the memory that it needs
        with profile() as profiler:
            version.step(Clock(), batch)
        events = profiler.key_averages()
        whole = sum(event.self_cpu_time_total for event in events)
        parts = [
            sum(event.self_cpu_time_total for event in events if event.key.removeprefix("aten::") in kinds)
            for kinds in OPERATIONS.values()
        ]
        print(f"  {name:20} " + " ".join(f"{part / whole:12.1%}" for part in parts))


def report_bound(ours: Ours, batch: Batch, fraction: float, seconds: Seconds) -> None:
    """How long the step's multiplications take at the speed of a large matrix product."""
    with FlopCounterMode(display=False) as counter:
        ours.step(Clock(), batch)
    a = torch.randn(2048, 2048)
    speed = 2 * 2048**3 / fastest(lambda: a @ a, 10)
    floor = counter.get_total_flops() * fraction / speed
    networks = seconds["forward"] + seconds["backward"]
    print(
        f"multiplications and additions of a step: {counter.get_total_flops() * fraction / 1e12:.2f}e12, at the "
        f"{speed / 1e9:.0f}e9 a second of a matrix product {floor:.2f} s; forward and backward take {networks:.2f} s, "
        f"{networks / floor:.2f} times as long (goal {BOUND_GOAL}) {verdict(networks <= BOUND_GOAL * floor)}"
    )


def report_variants(fraction: int, rounds: int, plain: Measured) -> None:
    """bf16, recomputing, another allocator, all against the plain version; each in its own process, for its memory."""
    print(f"{'variant':32} {'s':>8} {'plain/ours':>11} {'of loop':>8} {'kernel':>7} {'peak, GB':>9}")
    allocators: dict[str, dict[str, str]] = {"": {}}
    if found := find_library("tcmalloc_minimal"):
        allocators[", tcmalloc"] = {"LD_PRELOAD": found}
    for precision, (allocator, variables) in itertools.product(("float32", "bfloat16"), allocators.items()):
        loop = 0.0
        for execution in ("loop", "recomputed"):
            options = ["--fraction", str(fraction), "--rounds", str(rounds), "--variant", precision, execution]
            command = [sys.executable, "-m", "benchmarks.step", *options]
            environment = {**os.environ, **variables}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            seconds, peak, kernel = map(float, done.stdout.split())
            ratio, loop = plain.total / seconds, loop or seconds
            name = f"{precision}, {execution}{allocator}"
            row = f"  {name:30} {seconds:8.2f} {ratio:11.2f} {seconds / loop:8.2f} {kernel:7.1%} {peak:9.1f}"
            print(row + goals(precision, execution, ratio, seconds / loop, peak if fraction == 1 else None), flush=True)
    print(f"bf16 instructions: {'yes' if has_bf16(torch.device('cpu')) else 'no'}")


def goals(precision: str, execution: str, ratio: float, of_loop: float, peak: float | None) -> str:
    """Those that a variant has: the speed of bf16, and the price and memory of recomputing at full size."""
    half = f" (goal {HALF_GOAL}) {verdict(ratio >= HALF_GOAL)}" if precision == "bfloat16" else ""
    if execution == "loop":
        return half
    within = of_loop <= RECOMPUTED_GOAL and (peak or 0.0) <= MEMORY_GOAL
    size = "" if peak is None else f", {MEMORY_GOAL} GB"
    return f"{half} (goal {RECOMPUTED_GOAL} of the loop{size}) {verdict(within)}"


def print_variant(recipe: Recipe, task: Task, rounds: int) -> None:
    """Seconds of the fastest step, the peak of memory in GB, and the kernel's share."""
    state = begin(recipe, task, torch.device("cpu"))
    version, batch = Ours(recipe, task, state), draw(recipe, task, state)
    steps = [timed(version, batch, {"views": 0.0}) for _ in range(rounds)]
    best = min(steps, key=lambda step: step.total)
    print(best.total, max(step.peak for step in steps), best.kernel)


def fastest(call: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of some calls, after one to warm up."""
    call()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fraction", type=int, default=1, help="take only one in so many images of the batch")
    parser.add_argument("--rounds", type=int, default=2, help="paired steps")
    parser.add_argument("--variant", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    task = random_task()
    single = replace(cifar10_ssl(), precision="float32", method=ReferencePrior())
    paper = replace(single, task=lambda: task, unlabeled_unit="images")
    recipe = replace(paper, labeled_batch=64 // arguments.fraction, unlabeled_batch=448 // arguments.fraction)
    if arguments.variant:
        precision, execution = arguments.variant
        print_variant(override(recipe, {"precision": precision, "execution": execution}), task, arguments.rounds)
        return
    state = begin(recipe, task, torch.device("cpu"))
    versions: dict[str, Version] = {"ours": (ours := Ours(recipe, task, state)), "plain": Plain(recipe, state)}
    print(f"torch {torch.__version__}, {platform.machine()}, {torch.get_num_threads()} threads")
    images = f"{recipe.labeled_batch} + {recipe.unlabeled_batch} images"
    print(f"K = {recipe.particles}, {images}, WRN-28-2, single precision")
    best = compare(versions, recipe, task, state, arguments.rounds)
    part = replace(recipe, labeled_batch=8, unlabeled_batch=56)
    batch = draw(part, task, state)
    report_operations(versions, batch)
    report_bound(ours, batch, recipe.labeled_batch / part.labeled_batch, best["ours"].seconds)
    report_variants(arguments.fraction, arguments.rounds, best["plain"])


if __name__ == "__main__":
    main()
