"""One run on 1, 2 and 4 processes of this machine: bytes and seconds per step, and a paper model of 8 to 64 GPUs.

    python benchmarks/scaling.py                     # measure, and print the model
    python benchmarks/scaling.py --model --bandwidth 50e9 --flops 60e12
    python benchmarks/scaling.py --against ../older/src       # one process: this version against another one

Bytes are those of the loopback device in a network namespace of their own (`unshare -n`, which needs root; without it
other programs are counted too), against the formulas: (R - 1)·4KBC on the particle axis, 2 (D - 1)·gradient on the data
axis, and 2 (P - 1)·(the sums) where the loss is divided. Small exchanges are mostly what the transport adds: the last
case shows it. Seconds: with more processes than free cores they show what the exchange costs, not how much faster many
machines are.
"""

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from refprior.data import FewLabels
from refprior.methods import InformationOnly
from refprior.networks import MLP
from refprior.recipes import digits_ssl, mnist_manifold
from refprior.training import Recipe

STEPS = 10
CASES = {
    "digits_ssl, K = 4, particles": (1.0, True),
    "digits_ssl, K = 4, inputs": (1.0, False),
    "MLP, K = 3000, gathered": (math.inf, True),
    "MLP, K = 3000, divided": (1.0, True),
    "one all-reduce of 16 numbers": (1.0, True),
}  # particles from which on the loss is divided (times 3,000); ranks share particles out, or divide the inputs


def recipe_of(case: str) -> Recipe:
    if case.startswith("digits"):
        return digits_ssl()
    return replace(
        mnist_manifold(),
        task=FewLabels("digits", labels=0, classes=(3, 5)),
        network=partial(MLP, (1, 8, 8), 2),
        method=InformationOnly(order=2),
    )


def main() -> None:
    arguments = parsed()
    if arguments.inside:
        inside(arguments.inside, arguments.out)
    elif arguments.against:
        against(arguments.against, arguments.turns)
    else:
        if not arguments.model:
            measure()
        print_model(arguments)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--model", action="store_true", help="only the model")
    parser.add_argument("--against", help="the src folder of another version, to compare one process with")
    parser.add_argument("--turns", type=int, default=6, help="of that comparison")
    parser.add_argument("--flops", type=float, default=30e12, help="that a GPU does in a second, of real networks")
    parser.add_argument("--bandwidth", type=float, default=20e9, help="bytes per second into one rank")
    parser.add_argument("--latency", type=float, default=20e-6, help="seconds of one exchange, however small")
    parser.add_argument("--repeated", type=float, default=4e-4, help="share of a WRN step that every rank repeats")
    parser.add_argument("--loss", type=float, default=0.07, help="that of 3,000 MLPs, as a share of their own step")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--out", default=".", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {STEPS} steps, one thread per process")
    print(f"{'case':30} ranks  s/step  exchange s  MB/step measured  formula")
    alone = isolates()
    for case in CASES:
        for world in (1, 2, 4):
            found = on_ranks(case, world, alone)
            seconds, exchange = (statistics.median(rank[name] for rank in found) for name in ("seconds", "exchange"))
            measured, formula = found[0]["bytes"] / 1e6, formula_bytes(case, world) / 1e6
            numbers = f"{seconds:6.3f}  {exchange:10.3f}  {measured:16.3f}  {formula:7.3f}"
            print(f"{case:30} {world:5}  {numbers}", flush=True)


def isolates() -> list[str]:
    """A command that gives programs a network of their own, if this user may."""
    command = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        return command if subprocess.run([*command, "true"], capture_output=True).returncode == 0 else []
    except OSError:
        return []


def on_ranks(case: str, world: int, alone: list[str]) -> list[dict[str, Any]]:
    """What each rank measured; all are children of one process that torchrun's own module starts."""
    with tempfile.TemporaryDirectory() as folder:
        launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}", "--master-addr=127.0.0.1"]
        command = [*alone, *launch, __file__, "--inside", case, "--out", folder]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]


def inside(case: str, out: str) -> None:
    """Steps of one rank: seconds of each, of them exchanging, and bytes over the loopback device."""
    import torch

    from refprior import _mesh, _process, particles
    from refprior.training.loop import begin, differentiate, draw, update

    torch.set_num_threads(1)
    scale, shares = CASES[case]
    particles.LARGE = int(min(scale * particles.LARGE, 1e12))
    recipe, device = recipe_of(case), torch.device("cpu")
    mesh = _mesh.joined(recipe.particles, device, None if shares or _process.world() == 1 else 1)
    task = recipe.read_task()
    state = begin(recipe, task, device, mesh=mesh)

    def step() -> None:
        if case.startswith("one"):
            mesh.largest(*range(16))  # of 8 bytes each
            return
        differentiate(recipe, task, draw(recipe, task, state), state)
        update(recipe, state)

    step()
    mesh.largest(0)
    sent, started, waited = loopback(), time.perf_counter(), mesh.traffic.seconds
    for _ in range(STEPS):
        step()
    seconds, exchange = time.perf_counter() - started, mesh.traffic.seconds - waited
    mesh.largest(0)
    found = {"seconds": seconds / STEPS, "exchange": exchange / STEPS, "bytes": (loopback() - sent) / STEPS}
    (Path(out) / f"rank-{mesh.rank}.json").write_text(json.dumps(found))


def loopback() -> int:
    """Bytes that the loopback device has received."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.partition(":")[2].split()[0])


def formula_bytes(case: str, world: int) -> float:
    """What all ranks receive in a step, without what the transport adds to it."""
    if case.startswith("one"):
        return 2 * (world - 1) * 128.0
    recipe = recipe_of(case)
    particles = recipe.particles
    if case.startswith("digits"):
        inputs = recipe.labeled_batch + 2 * recipe.tuples * recipe.method.needs.tuple_size
        gathered = (world - 1) * 4.0 * particles * inputs * 10
        gradient = 4.0 * particles * sum(p.numel() for p in recipe.network().parameters())
        return gathered + (0 if CASES[case][1] else 2 * (world - 1) * gradient)
    tuples, order, classes = recipe.tuples, recipe.method.needs.tuple_size, 2
    if case.endswith("gathered"):
        return (world - 1) * 4.0 * particles * tuples * order * classes
    # The mixture, and twice again in the backward pass; its entropy, and that of each particle.
    return 8.0 * (world - 1) * (3 * tuples * float(classes) ** order + 2 * tuples)


def print_model(settings: argparse.Namespace) -> None:
    """T(R) = computing / R + repeated + bytes into a rank / bandwidth + exchanges · latency; efficiency T(1) / R T(R).

    A WRN-28-2 step of an image takes 3 · 2 · 0.21 GFLOP, of a particle 960 images; an MLP of 784 inputs and 32 units
    3 · 2 · 25,152 FLOP, of a particle 128 images.
    """
    print(f"\npaper model: {settings.flops:.3g} FLOP/s, {settings.bandwidth:.3g} bytes/s, {settings.latency:.3g} s")
    print("ranks  a WRN per rank  4 WRN, one batch  3000 MLP per rank, gathered  3000 MLP per rank, divided")
    for ranks in (8, 16, 32, 64):
        values = (wrn(settings, ranks, ranks), wrn(settings, ranks, 4), *(mlp(settings, ranks, d) for d in (0, 1)))
        print(f"{ranks:5}  {values[0]:14.0%}  {values[1]:16.0%}  {values[2]:27.0%}  {values[3]:26.0%}")


def wrn(settings: argparse.Namespace, ranks: int, particles: int, images: int = 960) -> float:
    """Of K WRN-28-2 on P = gcd(R, K) × D ranks, 25 batch norms whose statistics D ranks exchange."""
    alone = particles * images * 3 * 2 * 0.21e9 / settings.flops
    data = ranks // math.gcd(ranks, particles)
    outputs = 4.0 * particles * images * 10 * (1 - 1 / ranks)
    gradient = 2 * (data - 1) / data * 4.0 * 1_467_610 * particles * data / ranks
    exchanges = 3 + (4 * 25 * particles * data // ranks if data > 1 else 0)
    together = alone / ranks + settings.repeated * alone
    together += (outputs + gradient) / settings.bandwidth + exchanges * settings.latency
    return float(alone / (ranks * together))


def mlp(settings: argparse.Namespace, ranks: int, divided: int, own: int = 3000, images: int = 128) -> float:
    """Of 3,000 perceptrons per rank; gathered, each rank computes the loss of all."""
    each = own * images * 3 * 2 * 25_152 / settings.flops
    loss = settings.loss * each
    if divided:
        together = each + loss + 2 * 4.0 * 64 * 5 / settings.bandwidth + 8 * settings.latency
    else:
        together = each + loss * ranks + 4.0 * own * ranks * images * 2 / settings.bandwidth + 4 * settings.latency
    return float((each + loss) / together)


def against(other: str, turns: int) -> None:
    """CPU time of a step, this version and another one in turns in one process, so that both see the same machine."""
    import torch

    torch.set_num_threads(1)
    print(f"CPU ms per step of one process, {turns} turns of 40 and of 4 steps, load {os.getloadavg()[0]:.1f}")
    here = str(Path(__file__).parents[1] / "src")
    for name, count in {"digits_ssl": 40, "mnist_manifold": 4}.items():
        steps = {source: step_of(source, name) for source in (here, other)}
        found: dict[str, list[float]] = {source: [] for source in steps}
        for turn in range(turns * count):
            for source in (here, other) if turn % 2 else (other, here):
                started = time.process_time()
                steps[source]()
                found[source].append(1000 * (time.process_time() - started))
        this, that = (min(found[source]) for source in (here, other))
        paired = statistics.median(a / b for a, b in zip(found[here], found[other], strict=True))
        least = f"least: this {this:8.2f}  other {that:8.2f}  ratio {this / that:.3f}"
        print(f"{name:16} {least};  median of the ratios of neighbors {paired:.3f}", flush=True)


def step_of(source: str, name: str) -> Callable[[], None]:
    """A step of the version in a folder."""
    import torch

    for module in [module for module in sys.modules if module.partition(".")[0] == "refprior"]:
        del sys.modules[module]
    sys.path.insert(0, source)
    loop, recipes = (importlib.import_module(f"refprior.{place}") for place in ("training.loop", "recipes"))
    recipe = getattr(recipes, name)()
    task = recipe.read_task()
    state = loop.begin(recipe, task, torch.device("cpu"))
    sys.path.remove(source)

    def step() -> None:
        loop.differentiate(recipe, task, loop.draw(recipe, task, state), state).total.item()
        loop.update(recipe, state)

    return step


if __name__ == "__main__":
    main()
