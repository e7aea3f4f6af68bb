"""What is compared with one process, inside processes that share a mesh: gradients of every method."""

# K particles, n inputs, C classes

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributed.tensor.debug import CommDebugMode

import refprior as rp
from refprior import _mesh
from refprior import particles as particles_module
from refprior._mesh import ALONE, Mesh
from refprior.data import Task
from refprior.methods import (
    Batch,
    Dash,
    FixMatch,
    InformationOnly,
    LabeledSource,
    Loss,
    Method,
    Needs,
    ReferencePrior,
    Step,
    Transfer,
    UnlabeledSource,
    UnsupervisedTransfer,
)
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.recipes.sweeps._sweep import few_label_methods
from refprior.training import Recipe
from refprior.training.loop._begin import State, begin
from refprior.training.loop._evaluate import evaluate_all
from refprior.training.loop._loop import differentiate, draw, update
from refprior.views import CTAugment
from tests.training.recipes import CPU, colors, learning_view, perceptron, transferring

STEPS = 2
REMEMBERED = Path("..") / "one" / "traces.pt"  # what one process found, seen from the folder of several


@dataclass(frozen=True)
class Looks:
    """A method that looks at everything that a step has: features, parameters, and passes aside."""

    needs: ClassVar[Needs] = Needs(views=("weak",))

    def __call__(self, step: Step) -> Loss:
        assert step.features is not None
        assert step.aside is not None
        (labeled,) = step.predict(step.batch.labeled)
        features = step.features(step.batch.views["weak"]).flatten(2)
        shrink = sum((weight.square().flatten(1).mean(1) for weight in step.parameters.values()), torch.zeros(()))
        spread = (features - features.mean(0)).square().mean((1, 2))
        aside = step.aside(step.batch.views["weak"]).exp().square().mean((1, 2))
        fit = -labeled.gather(-1, step.batch.labels.expand(len(labeled), -1).unsqueeze(-1)).mean((1, 2))
        total = ((fit + shrink + spread.tanh() + aside) * step.log_prior.exp()).sum()
        return Loss.of(total, fit=fit.mean())


METHODS: dict[str, Callable[[], Method]] = {
    **{name: partial(getattr(rp.methods, name)) for name in [*few_label_methods(), "Contrastive"]},
    "Dash": partial(Dash, warmup=0.0, decay_every=0.2),
    "InformationOnly": InformationOnly,
    "AuthorsCode": ReferencePrior.authors_code,
    "Sampled": partial(ReferencePrior, samples=3),
    "TrainedPrior": partial(ReferencePrior, trainable_prior=True),
    "Balanced": partial(ReferencePrior, class_prior=(0.3, 0.7), balance=0.1),
    "Looks": Looks,
}
SOURCES: dict[str, Callable[[], Method]] = {
    "Transfer": Transfer,
    "UnsupervisedTransfer": UnsupervisedTransfer,
    "UnlabeledSource": UnlabeledSource,
    "LabeledSource": LabeledSource,
}
NETWORKS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "MLP": partial(MLP, hidden=6),
    "SmallCNN": partial(SmallCNN, width=4, hidden=8),
    "WRN": partial(WideResNet, depth=10, width=1, momentum=0.1),
    "Normalized": lambda shape, classes: nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 64, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, classes)
    ),
}


def recipe_of(method: str, network: str, particles: int = 4) -> Recipe:
    """An odd number of inputs; both a labeled and an unlabeled part."""
    if method in SOURCES:
        make = partial(NETWORKS[network], (1, 8, 8), 3)
        return transferring(method=SOURCES[method](), network=make, particles=particles, labeled_batch=5, steps=STEPS)
    make = partial(NETWORKS[network], (3, 8, 8), 2)
    views = learning_view() if method == "FixMatch" else perceptron()
    return perceptron(
        task=colors,
        network=make,
        method=METHODS[method](),
        particles=particles,
        steps=STEPS,
        labeled_batch=5,
        unlabeled_batch=6,
        weak=views.weak,
        strong=views.strong,
    )


@cache
def case(method: str, network: str, particles: int) -> tuple[Recipe, Task]:
    recipe = recipe_of(method, network, particles)
    return recipe, recipe.read_task()


def in_double(batch: Batch) -> Batch:
    floats = {name: getattr(batch, name).double() for name in ("labeled", "source")}
    return replace(batch, **floats, views={name: view.double() for name, view in batch.views.items()})


@dataclass
class Trace:
    """What a few steps left behind: of each the loss and the gradient, and the state after the last."""

    losses: list[Tensor]
    gradients: list[dict[str, Tensor]]
    state: dict[str, Tensor]
    memory: dict[str, Tensor]
    prior: list[Tensor | None]
    score: float = 0.0  # negative log-likelihood after the last step
    divides: bool = False


def trace(recipe: Recipe, task: Task, mesh: Mesh, scored: bool = False) -> Trace:
    torch.manual_seed(0)
    state = begin(recipe, task, CPU, mesh=mesh)
    for particles in (state.particles, state.teacher):
        particles.double()
        particles.prior_logits.data = 0.1 * torch.arange(recipe.particles, dtype=torch.float64)
    state.optimizer = recipe.optimizer.build(state.particles)
    found = Trace([], [], {}, {}, [])
    for _ in range(STEPS):
        loss = differentiate(recipe, task, in_double(_draw(recipe, task, state)), state)
        found.losses.append(loss.total)
        slopes = {n: p.grad.clone() for n, p in state.particles.network.named_parameters() if p.grad is not None}
        found.gradients.append(slopes)
        prior = state.particles.prior_logits.grad
        found.prior.append(None if prior is None else prior.clone())
        update(recipe, state)
        state.step += 1
    found.state = dict(state.particles.network.state_dict())
    found.memory = dict(state.memory)
    if scored:
        single = state.teacher.float()
        part = evaluate_all(recipe, task, state.normalizer, raw=single, ema=single).test
        assert part is not None
        found.score = part.ema.negative_log_likelihood + part.ema.information
    found.divides = recipe.method.needs.shardable and state.particles.worth_sharding
    return found


def _draw(recipe: Recipe, task: Task, state: State) -> Batch:
    """The batch of single-precision inputs; a view that learns asks a single-precision teacher."""
    if not isinstance(recipe.strong, CTAugment):
        return draw(recipe, task, state)
    return draw(recipe, task, replace(state, teacher=deepcopy(state.teacher).float()))


def distance(one: Tensor, other: Tensor) -> float:
    """Largest difference, relative to the largest number; infinite if shapes or kinds differ."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if one.equal(other):
        return 0.0
    scale = max(1.0, float(one.double().abs().max()))
    return float((one.double() - other.double()).abs().max()) / scale


def gradient_case(alone: Trace, shared: Trace, mesh: Mesh) -> float:
    """How far the steps of all ranks are from those of one process: 0 if they are the same bits."""
    block, far = mesh.block(len(next(iter(alone.state.values())))), [0.0]
    for one, other in zip(alone.losses, shared.losses, strict=True):
        far.append(distance(one, other))
    for first, second in zip(alone.gradients, shared.gradients, strict=True):
        assert first.keys() == second.keys()
        assert any(slope.abs().max() > 1e-9 for slope in first.values())
        far += [distance(slope[block], second[name]) for name, slope in first.items()]
    far += [distance(tensor[block], shared.state[name]) for name, tensor in alone.state.items()]
    assert alone.memory.keys() == shared.memory.keys()
    far += [distance(tensor, shared.memory[name]) for name, tensor in alone.memory.items()]
    for slope, other_slope in zip(alone.prior, shared.prior, strict=True):
        assert (slope is None) == (other_slope is None)
        if slope is not None and other_slope is not None:
            far.append(distance(slope, other_slope))
    return max(far)


DIVIDED: dict[str, Callable[[], Method]] = {
    "InformationOnly": InformationOnly,
    "OrderOne": partial(InformationOnly, order=1),
    "ReferencePrior": ReferencePrior,
    "TrainedPrior": partial(ReferencePrior, trainable_prior=True),
    "Balanced": partial(ReferencePrior, class_prior=(0.3, 0.7), balance=0.1),
    "FixMatch": FixMatch,
    "Folds": ReferencePrior,
}


def run_divided(world: int, rank: int) -> dict[str, Any]:
    """How far steps and scores are from those of one process where the loss is divided, as that of thousands is."""
    mesh, large, found = mesh_of(world, rank, world), particles_module.LARGE, {}
    for name, make in DIVIDED.items():
        recipe = replace(recipe_of("InformationOnly", "MLP"), method=make())
        recipe = replace(recipe, folds=4, doubt_labels=True) if name == "Folds" else recipe
        task = recipe.read_task()
        alone = trace(recipe, task, ALONE, scored=True)
        try:
            particles_module.LARGE = 4
            shared = trace(recipe, task, mesh, scored=True)
            assert shared.divides
        finally:
            particles_module.LARGE = large
        found[f"divided {name}"] = [gradient_case(alone, shared, mesh), abs(alone.score - shared.score)]
    return {**found, "sent": sent(mesh)}


def sent(mesh: Mesh) -> dict[str, Any]:
    """What ranks exchange for the loss of 3,000 particles, by kind and shape: sums over labelings, no predictions."""
    recipe = replace(recipe_of("InformationOnly", "MLP"), particles=3000)
    task = recipe.read_task()
    state = begin(recipe, task, CPU, mesh=mesh)
    batch, before = draw(recipe, task, state), mesh.traffic.received
    with CommDebugMode() as seen:
        differentiate(recipe, task, batch, state)
    kinds = {str(kind).rpartition(".")[2]: count for kind, count in seen.get_comm_counts().items()}
    return {"kinds": kinds, "gathered": mesh.traffic.received - before}


def mesh_of(world: int, rank: int, particle: int) -> Mesh:
    return _mesh.made(world, rank, 4, "cpu", particle)


FEW = ("ReferencePrior", "VAT", "Looks")
EVERYTHING = [
    *((method, "MLP") for method in [*METHODS, *SOURCES]),
    *((method, network) for method in FEW for network in ("SmallCNN", "WRN")),
    *((method, "Normalized") for method in ("MeanTeacher", "VAT", "MixMatch", "Looks")),
]


def gradient_cases(world: int) -> list[tuple[str, str, int]]:
    """Method, network, ranks of the particle axis: everything on 2×1 and 1×2 or 2×2, a few on 4×1 and 1×4."""
    if world == 2:
        return [(*pair, particle) for pair in EVERYTHING for particle in (2, 1)]
    return [(*pair, 2) for pair in EVERYTHING] + [
        (*pair, particle) for pair in EVERYTHING if pair[0] in FEW for particle in (4, 1)
    ]


def particles_of(particle: int) -> int:
    """Four, or two where every rank has all of them: only the inputs are divided then."""
    return 4 if particle > 1 else 2


def prepare() -> None:
    """Make all recipes and read their data: once, for the processes that are forked from this one."""
    for method, network in EVERYTHING:
        for particles in (2, 4):
            case(method, network, particles)


def remember(world: int, rank: int) -> dict[str, Any]:
    """What one process finds in all cases, for the others to compare with."""
    found = {}
    for method, network in EVERYTHING:
        for particles in (2, 4):
            found[f"{method} {network} {particles}"] = vars(trace(*case(method, network, particles), ALONE))
    torch.save(found, "traces.pt")
    return {}


def run_gradients(world: int, rank: int) -> dict[str, Any]:
    meshes = {particle: mesh_of(world, rank, particle) for particle in (1, 2, 4) if world % particle == 0}
    alone = torch.load(REMEMBERED, weights_only=False)  # ours, and the other way takes seconds
    found: dict[str, Any] = {}
    for method, network, particle in gradient_cases(world):
        particles = particles_of(particle)
        shared = trace(*case(method, network, particles), meshes[particle])
        far = gradient_case(Trace(**alone[f"{method} {network} {particles}"]), shared, meshes[particle])
        found[f"{method} {network} {particle}x{world // particle}"] = far
    return found
