"""Whole runs on several ranks, started inside processes that share a mesh. One process trains the same recipes."""

import logging
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from refprior import _mesh
from refprior.data import Task
from refprior.networks import MLP, WideResNet
from refprior.particles import Particles
from refprior.training import NotFiniteError, Recipe, Record, Run, Stopped, train
from refprior.training.loop._begin import begin, new_particles
from refprior.training.store._checkpoint import Saver, read_checkpoint, save_checkpoint
from refprior.training.store._folder import Written
from tests.training.recipes import (
    CPU,
    colors,
    convolutional,
    first_stage,
    learning_view,
    perceptron,
    second_stage,
)

GOES_ON = "../goes on"  # the folder of a run that four ranks begin, and two, one and eight go on with
Watch = Callable[[Record], None]


class Double(nn.Module):
    """A network that computes in double precision."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.inner = make().double()

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.inner(x.double())
        return outputs


def wide(**changes: Any) -> Recipe:
    """Small wide residual networks with batch norm on the colors."""
    network = partial(WideResNet, (3, 8, 8), 2, depth=10, width=1, momentum=0.1)
    return learning_view(**{"network": network, "particles": 4, "steps": 4, "evaluate_every": 2, **changes})


def in_double(recipe: Recipe) -> Recipe:
    return replace(recipe, network=partial(Double, recipe.network))


EXACT: dict[str, Callable[[], Recipe]] = {
    "perceptron": partial(perceptron, particles=8, snapshots=2),
    "learning view": partial(learning_view, particles=8),
    "wide": wide,
    "stages": partial(second_stage, particles=4, start=first_stage(particles=4)),
    "adam": partial(convolutional, steps=3),
    "folds": partial(perceptron, particles=8, folds=4, doubt_labels=True),
}  # bit for bit on the particle axis
CLOSE: dict[str, Callable[[], Recipe]] = {
    "perceptron": lambda: in_double(perceptron(particles=4)),
    "wide": lambda: in_double(wide(steps=2)),
    "convolutional": lambda: in_double(convolutional(steps=4)),
}  # to 1e-12 on the data axis
SHAPES = {2: (2, 1), 4: (4, 2, 1)}  # ranks of the particle axis


def going_on() -> Recipe:
    """The run that goes from four ranks to two, one and eight; a record at each evaluation."""
    return in_double(perceptron(particles=4, snapshots=3, evaluate_every=1))


def stop_at(step: int) -> Watch:
    """A signal to this process at the record of a step; the others hear of it."""

    def watch(record: Record) -> None:
        if record.step >= step:
            os.kill(os.getpid(), signal.SIGTERM)

    return watch


def alone(world: int, rank: int) -> dict[str, Any]:
    """One process trains everything that several are compared with."""
    for name, make in EXACT.items():
        train(make(), f"exact {name}")
    for name, make in CLOSE.items():
        train(make(), f"close {name}")
    train(going_on(), "goes on")
    train(poisoned(skip_not_finite=1), "skipped")
    train(convolutional(steps=6), "full")
    return {}


def run_all(world: int, rank: int) -> dict[str, Any]:
    """All of them in folders of the working directory."""
    found: dict[str, Any] = {}
    for name, make in EXACT.items():
        run = train(make(), f"exact {name}", particle_ranks=world)
        found[f"predicts {name}"] = predicts(run, rank)
    for particle in SHAPES[world][1:]:
        for name, make in CLOSE.items():
            train(make(), f"close {name} {particle}x{world // particle}", particle_ranks=particle)
    found["memory"] = in_memory(world)
    found["dropout"] = dropout(world, rank)
    found["stopped"] = stopped(world)
    return found


def predicts(run: Run, rank: int) -> bool:
    """A run may be asked on one rank alone: it reads its weights from the folder."""
    if rank > 0:
        return True
    images = run.task.unlabeled[:5] if len(run.task.unlabeled) else run.task.labeled.inputs[:5]
    return bool(run.log_probabilities(images).isfinite().all()) and len(run.particles.network.state_dict()) > 0


def in_memory(world: int) -> float:
    """How far the weights of a run without a folder are from those of the same run with one."""
    run = train(EXACT["perceptron"](), particle_ranks=world)
    saved = read_checkpoint(Path("exact perceptron"), run.step).tensors
    pairs = [(saved[f"particles.{name}"], tensor) for name, tensor in run.particles.state_dict().items()]
    return max(float((one - other).abs().max()) for one, other in pairs)


def dropout(world: int, rank: int) -> dict[str, Any]:
    """Outputs of equal particles for equal inputs under dropout, and the global generator after them."""

    def ones() -> nn.Module:
        layer = nn.Linear(16, 16)
        nn.init.ones_(layer.weight)
        return nn.Sequential(nn.Dropout(0.5), layer, nn.Dropout(0.5))

    mesh = _mesh.made(world, rank, 4, "cpu", 2)
    particles = Particles(ones, 4, mesh=mesh)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    log_p = particles(torch.ones(4, 16))
    drawn = torch.get_rng_state()
    again = particles(torch.ones(4, 16))
    plain = Particles(partial(nn.Linear, 16, 16), 4, mesh=mesh)
    left = torch.get_rng_state()
    plain(torch.ones(4, 16))
    return {
        "log_p": log_p.tolist(),
        "other mask": not bool(log_p.equal(again)),
        "moved": not bool(before.equal(drawn)),
        "left": bool(left.equal(torch.get_rng_state())),
        "state": drawn[-64:].tolist() + before[:64].tolist(),
    }


def stopped(world: int) -> str:
    """The run that goes on with other numbers of ranks: this one's share of it."""
    last = {4: 5, 2: 10, 1: 11, 8: None}[world]
    folder = Path(GOES_ON)
    try:
        train(going_on(), folder, watch=None if last is None else stop_at(last), save_every=3600)
    except Stopped as stop:
        return str(stop).replace(str(folder), "FOLDER")
    return "done"


class Poisoned(nn.Module):
    """The last particle has a gradient that is not a number, once, in its third training pass."""

    bad: float = -1.0  # what marks that particle
    passes = 0  # of it, in this process

    def __init__(self) -> None:
        super().__init__()
        self.body = MLP((1, 8, 8), 10, hidden=4)
        self.register_buffer("mark", torch.rand(()))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.body(x)
        if self.training and outputs.requires_grad and float(self.mark) == Poisoned.bad:  # type: ignore[arg-type]
            Poisoned.passes += 1
            if Poisoned.passes == 3:
                outputs.register_hook(lambda slope: slope * torch.nan)
        return outputs


def poisoned(**changes: Any) -> Recipe:
    recipe = perceptron(network=Poisoned, particles=4, steps=6, execution="loop", evaluate_every=2, **changes)
    Poisoned.bad = new_particles(recipe).network.mark[-1].item()  # type: ignore[index]
    Poisoned.passes = 0
    return recipe


def faults(world: int, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    run = train(poisoned(skip_not_finite=1), "skipped")
    found["skipped"] = run.result.skipped
    try:
        train(poisoned(), "refused")
    except NotFiniteError as error:
        found["refused"] = str(error)
    found["full disk"] = full_disk()
    found["no disk"] = no_disk()
    found["elsewhere"] = elsewhere()
    found["peak"] = peak()
    return found


def full_disk() -> list[str]:
    """The first rank may write nothing for some steps; the run goes on and ends as it would have."""
    free = resource.getrlimit(resource.RLIMIT_FSIZE)

    def watch(record: Record) -> None:
        limit = 2000 if record.step in (2, 3) else free[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free[1]))

    warned: list[str] = []
    handler = _Listener(warned)
    with handler:
        train(convolutional(steps=6), "full", watch=watch, save_every=0)
    return warned


def no_disk() -> str:
    """The last checkpoint cannot be written at all."""
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    Saver.must_save.__defaults__ = (2, 0.1)

    def watch(record: Record) -> None:
        if record.step == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, free[1]))

    try:
        train(convolutional(steps=3), "no disk", watch=watch, save_every=3600)
    except OSError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, free)
    return "saved"


def elsewhere() -> list[str]:
    """Data that one rank cannot read, and data that are others on one rank."""
    said = []
    for task in (missing, other):
        try:
            train(learning_view(task=task, particles=4))
        except (ValueError, OSError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def missing() -> Task:
    if dist.get_rank() == 1:
        raise ValueError("photos is not there")
    return colors()


def other() -> Task:
    task = colors()
    task.unlabeled[0, 0, 0, 0] += dist.get_rank()
    return task


def peak() -> dict[str, float]:
    """How much the memory of this process grows at most while a checkpoint is written, and the size of that."""
    recipe = perceptron(network=partial(MLP, (1, 8, 8), 10, hidden=100_000), particles=4)
    state = begin(recipe, recipe.read_task(), CPU, mesh=_mesh.joined(4, CPU))
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _peak()
    Path("large").mkdir(exist_ok=True)
    dist.barrier()
    path = save_checkpoint(Path("large"), state, Written())
    return {"grown": _peak() - before, "size": path.stat().st_size}


def _peak() -> float:
    return float(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


class _Listener:
    """The warnings of the library."""

    def __init__(self, said: list[str]) -> None:
        self.handler, self.log = logging.Handler(), logging.getLogger("refprior")
        self.handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]

    def __enter__(self) -> None:
        self.log.addHandler(self.handler)

    def __exit__(self, *_: object) -> None:
        self.log.removeHandler(self.handler)


def going_on_alone(world: int, rank: int) -> dict[str, Any]:
    return {"stopped": stopped(world)}


def only_going_on(world: int, rank: int) -> dict[str, Any]:
    return {"stopped": stopped(world)}
