"""What K particles cost, against named alternatives, in one run, as ratios.

    python benchmarks/particles.py          # all tables
    python benchmarks/particles.py kinds    # vectorized against a loop, by kind of network
    python benchmarks/particles.py steps    # a training step of K = 50, 300, 3000
    python benchmarks/particles.py entropy  # the entropy of the mixture at order 2 against the same in log-space
    python benchmarks/particles.py --quick  # each with one size less and fewer rounds

The default of `Particles(execution="auto")` is the faster one by kind of network, as printed by the first table.
The second is a step of the recipe mnist_manifold: 784 inputs, 64 images in pairs, MLP of 32 hardtanh units, forward and
backward pass of the mutual information, and Adam. It is timed against a loop over K modules, against plain
`torch.func.vmap`, and against the bare matrix products that no step can avoid, into memory that is there already.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from refprior.information import entropy, joint, marginal_entropy, mixture, mutual_information, uniform
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
INPUTS, HIDDEN, CLASSES, BATCH = 784, 32, 2, 64
make_mlp = partial(MLP, (1, 28, 28), CLASSES, HIDDEN)


def fastest(functions: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of the fastest of some calls, taken in turns so that other work on the machine disturbs all alike.

    Of one thread they are processor seconds: on a busy machine others would be those of waiting.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best: dict[str, float] = dict.fromkeys(functions, float("inf"))
    for turn in range(rounds + 1):  # the first turn warms up
        for name, function in functions.items():
            started = clock()
            function()
            if turn:
                best[name] = min(best[name], clock() - started)
    return best


def pass_of(particles: Particles, x: Tensor) -> None:
    particles.zero_grad()
    particles(x).square().mean().backward()


def kinds(quick: bool) -> None:
    """Forward and backward pass by kind of network."""
    print("milliseconds forward and backward")
    print(f"{'network':16} {'K':>5} {'batch':>6} {'vectorized':>11} {'loop':>9} {'loop / vectorized':>18}  auto")
    for name, make, shape, count, batch in CASES:
        x = torch.randn(batch, *shape)
        ways: tuple[Execution, Execution] = ("vectorized", "loop")
        calls = {str(way): partial(pass_of, Particles(make, count, execution=way), x) for way in ways}
        times = fastest(calls, 1 if quick else ROUNDS)
        cells = (
            f"{1e3 * times['vectorized']:11.1f} {1e3 * times['loop']:9.1f} {times['loop'] / times['vectorized']:18.2f}"
        )
        print(f"{name:16} {count:5} {batch:6} {cells}  {Particles(make, 1).execution}")


def step(predict: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    """One step of the mutual information of pairs."""
    log_p = predict(x)
    pairs = log_p.unflatten(1, (-1, 2))
    loss = -mutual_information(pairs, uniform(len(log_p), log_p)).mean()
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def ours(count: int, x: Tensor) -> Callable[[], None]:
    particles = Particles(make_mlp, count)
    return partial(step, particles, torch.optim.Adam(particles.parameters(), lr=1e-3, fused=True), x)


def loop_of_modules(count: int, x: Tensor) -> Callable[[], None]:
    """(a) K ordinary modules, one after the other; Adam as torch has it by default."""
    modules = nn.ModuleList(make_mlp() for _ in range(count))
    optimizer = torch.optim.Adam(modules.parameters(), lr=1e-3)
    return partial(step, lambda x: torch.stack([module(x).log_softmax(-1) for module in modules]), optimizer, x)


def plain_vmap(count: int, x: Tensor) -> Callable[[], None]:
    """(b) Stacked weights and torch.func.vmap, as its documentation shows it."""
    modules: list[nn.Module] = [make_mlp() for _ in range(count)]
    parameters, _ = torch.func.stack_module_state(modules)
    skeleton = modules[0]
    call = torch.func.vmap(lambda p, x: functional_call(skeleton, p, (x,)).log_softmax(-1), in_dims=(0, None))
    return partial(step, partial(call, parameters), torch.optim.Adam(parameters.values(), lr=1e-3), x)


def bare_products(count: int, x: Tensor) -> Callable[[], None]:
    """(c) The products of both layers, forward and backward, and nothing else."""
    rows, columns = x.flatten(1), x.flatten(1).T
    first, second = torch.randn(count * HIDDEN, INPUTS), torch.randn(count, CLASSES, HIDDEN)
    hidden, logits = torch.randn(count, HIDDEN, BATCH), torch.randn(count, CLASSES, BATCH)
    gradient, flat = torch.empty_like(first), hidden.reshape(-1, BATCH)
    by_second, by_hidden, by_logits = torch.empty_like(second), torch.empty_like(hidden), torch.empty_like(logits)

    def products() -> None:
        torch.mm(first, columns, out=flat)
        torch.bmm(second, hidden, out=by_logits)
        torch.bmm(logits, hidden.transpose(1, 2), out=by_second)
        torch.bmm(second.transpose(1, 2), logits, out=by_hidden)
        torch.mm(by_hidden.reshape(-1, BATCH), rows, out=gradient)

    return products


def steps(quick: bool) -> None:
    """A training step against its alternatives."""
    print(f"milliseconds a training step: {INPUTS} inputs, {BATCH} images, order 2")
    print("    K     ours  (a) loop  (b) vmap  (c) bare   a/ours   b/ours   ours/c  goal  peak GB")
    for count, goal in ((50, 1.8), (300, 1.5), (3000, 1.3))[: 2 if quick else 3]:
        x = torch.randn(BATCH, 1, 28, 28)
        first = ours(count, x)
        first()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # before the others take memory of their own
        ways = {"ours": first, "loop": loop_of_modules(count, x), "vmap": plain_vmap(count, x)}
        best = fastest({**ways, "bare": bare_products(count, x)}, rounds=max(5, 2000 // count))
        ratios = (best["loop"] / best["ours"], best["vmap"] / best["ours"], best["ours"] / best["bare"])
        cells = " ".join(f"{1e3 * seconds:9.1f}" for seconds in best.values())
        shown = " ".join(f"{ratio:8.2f}" for ratio in ratios)
        print(f"{count:5}{cells} {shown} {goal:5} {peak:8.2f}", flush=True)


def entropies(quick: bool) -> None:
    """H(y1, y2), forward and backward: a product of probabilities against sums of K log-probabilities by labeling."""
    print("milliseconds forward and backward: the entropy of pairs")
    print("    K  pairs  classes     ours  log-space  log-space/ours  apart")
    cases = ((4, 256, 10), (32, 256, 10), (100, 256, 5), (3000, 64, 2))
    for count, pairs, classes in cases[: 3 if quick else 4]:
        log_p = torch.randn(count, pairs, 2, classes).log_softmax(-1).requires_grad_()
        prior = uniform(count, log_p)
        ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"ours": marginal_entropy, "log-space": log_space}
        best = fastest({name: partial(slope, way, log_p, prior) for name, way in ways.items()}, rounds=30)
        ours, plain = (way(log_p, prior) for way in ways.values())
        cells = f"{1e3 * best['ours']:9.2f} {1e3 * best['log-space']:10.2f} {best['log-space'] / best['ours']:15.1f}"
        print(f"{count:5}{pairs:7}{classes:9}{cells} {(ours - plain).abs().max():6.0e}")


def log_space(log_p: Tensor, log_prior: Tensor) -> Tensor:
    return entropy(mixture(joint(log_p), log_prior))


def slope(function: Callable[[Tensor, Tensor], Tensor], log_p: Tensor, log_prior: Tensor) -> Tensor:
    return torch.autograd.grad(function(log_p, log_prior).sum(), log_p)[0]


def main() -> None:
    tables = {"kinds": kinds, "steps": steps, "entropy": entropies}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *tables], help="which; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    chosen = parser.parse_args()
    if len(chosen.tables) != 1:  # each in a process of its own: torch reads once whether to use large pages
        for name in chosen.tables or tables:
            subprocess.run([sys.executable, __file__, name, *["--quick"] * chosen.quick], check=True)
        return
    if chosen.tables == ["steps"]:
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # as `rp.train` does for networks without convolutions
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    tables[chosen.tables[0]](chosen.quick)


if __name__ == "__main__":
    main()
