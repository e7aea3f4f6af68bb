"""Before the first step: the particles of a stage, the state, and all checks that a recipe fits task and memory."""

# K particles, n inputs, C classes

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from refprior import _process
from refprior._mesh import ALONE, Mesh, free_memory
from refprior._process import check_memory
from refprior.data import Normalizer, PatchComponents, Task, fingerprints
from refprior.information import check_labelings
from refprior.particles import Execution, NotLogitsError, Particles, output_layer
from refprior.training.loop._draw import Sampler, Stream, part_sizes
from refprior.training.loop._folds import first_trust, label_weights, unlabeled_positions, why_no_folds
from refprior.training.recipe import Recipe

Precision = Literal["float32", "tf32", "bfloat16", "float16"]
FIRST_SCALE = 2.0**16  # of losses in float16
CPU = torch.device("cpu")
_LOADED = 3  # copies of the weights: themselves, their moving average, and what is read from the file


@dataclass
class State:
    """Everything that changes while training, the fitted normalizer, and fingerprints of the labeled inputs."""

    particles: Particles
    teacher: Particles
    optimizer: torch.optim.Optimizer
    normalizer: Normalizer
    sampler: Sampler
    labeled: Tensor  # (b,) fingerprints of the labeled inputs: their labels cannot weight the particles later
    memory: dict[str, Tensor] = field(default_factory=dict)
    step: int = 0
    skipped: int = 0  # steps whose loss or gradient was not finite
    overflows: int = 0  # steps whose gradient overflowed in float16: each halves the scale
    scale: float = FIRST_SCALE  # factor of the loss in the backward pass of float16
    since_scaled: int = 0  # good steps since the scale changed
    seconds: float = 0.0  # spent training, over all interruptions
    precision: Precision | None = None  # the choice of "auto", which a run keeps
    execution: Execution | None = None  # the same; on a CPU it depends on the network only
    label_weights: Tensor | None = None  # (K, n) of each label for each particle, fixed by the task; None: all count
    trust: dict[str, Tensor] | None = None  # what held-out particles say about the labels; None: all labels are trusted
    interruptible: bool = False  # an exception now would leave everything as it was before the step


def begin(
    recipe: Recipe,
    task: Task,
    device: torch.device,
    initial: Particles | None = None,
    mesh: Mesh = ALONE,
    normalizer: Normalizer | None = None,
) -> State:
    """Return the state before the first step, from new weights or those of an earlier stage, for this rank.

    normalizer: one that was fitted before, of a run that is resumed.
    """
    check_needs(recipe, task)
    if normalizer is None:  # only patches are fitted faster on a device
        parts = [part if isinstance(recipe.inputs, PatchComponents) else part.cpu() for part in task.training_inputs]
        normalizer = recipe.inputs.fit(parts).to(device)
    check_views(recipe, normalizer, task)
    particles = first_weights(recipe, initial, mesh).to(device)
    check_distinct(particles)
    check_network(recipe, particles, normalizer, task)
    check_activations(recipe, particles, normalizer(_two_inputs(task)))
    batches = torch.Generator().manual_seed(recipe.seed + 1)
    sizes, positions = part_sizes(recipe.method.needs, task), unlabeled_positions(recipe, task)
    if positions is not None and "unlabeled" in sizes:
        sizes["unlabeled"] = len(positions)
    sampler = Sampler(
        streams={
            name: Stream(size, batches, copies=recipe.labeled_copies if name == "labeled" else 1)
            for name, size in sizes.items()
        },
        generator=torch.Generator(device).manual_seed(recipe.seed + 2),
        weak=deepcopy(recipe.weak),
        strong=deepcopy(recipe.strong),
        positions=positions,
    )
    teacher = deepcopy(particles).requires_grad_(False).eval()
    optimizer, weights = recipe.optimizer.build(particles), label_weights(recipe, task)
    labeled = fingerprints(task.labeled.inputs)
    trust = first_trust(recipe, task)
    return State(particles, teacher, optimizer, normalizer, sampler, labeled, label_weights=weights, trust=trust)


def new_particles(recipe: Recipe, mesh: Mesh = ALONE) -> Particles:
    """Return the particles of a recipe with new weights, under a projection head if the method needs one."""
    outputs, make = recipe.method.needs.projection, recipe.network
    network = (lambda: projected(make(), outputs)) if outputs else make
    return Particles(network, recipe.particles, seed=recipe.seed, execution=recipe.execution, mesh=mesh)


def gathered(recipe: Recipe, particles: Particles) -> Particles:
    """Return the particles of all ranks, on each of them."""
    whole = new_particles(recipe).to(particles.prior_logits.device)
    with torch.no_grad():
        parts = zip(whole.network.state_dict().values(), particles.network.state_dict().values(), strict=True)
        for all_of_it, own in parts:
            all_of_it.copy_(particles.mesh.gather(own.unsqueeze(1), 1).squeeze(1))
    whole.prior_logits.data.copy_(particles.prior_logits)
    return whole.requires_grad_(particles.prior_logits.requires_grad).train(particles.training)


def projected(network: nn.Module, outputs: int) -> nn.Module:
    """Replace the output layer of a network by a head of two layers, which a later stage draws anew."""
    name = output_layer(network)
    features = cast(nn.Linear, network.get_submodule(name)).in_features
    head = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, outputs))
    parent, _, last = name.rpartition(".")
    setattr(network.get_submodule(parent), last, head)
    return network


def first_weights(recipe: Recipe, initial: Particles | None, mesh: Mesh = ALONE) -> Particles:
    """Return the particles of a new stage: new ones, or those of the stage before, with their head or a new one."""
    particles = new_particles(recipe, mesh)
    if initial is not None and recipe.head == "same":
        particles.load_state_dict(initial.state_dict())
    elif initial is not None:
        transplant(initial, particles)
    if recipe.head == "probe":
        head = output_layer(particles.network)
        for name, parameter in particles.network.named_parameters():
            parameter.requires_grad_(name.startswith(f"{head}."))
    return particles


def check_stages(recipe: Recipe) -> None:
    """Raise a ValueError for stages whose networks do not fit each other, before the first is trained."""
    if recipe.start is None:
        return
    old, new = (new_particles(replace(stage, particles=1, start=None, head="same")) for stage in (recipe.start, recipe))
    if recipe.head != "same":
        transplant(old, new)
        return
    mine, before = ({n: tuple(t.shape) for n, t in p.state_dict().items()} for p in (new, old))
    wrong = next((name for name in mine | before if mine.get(name) != before.get(name)), None)
    if wrong is not None:
        raise ValueError(
            f"the two stages have different networks: {wrong} is {before.get(wrong)} and then {mine.get(wrong)}; "
            "head='new' draws a new output layer"
        )


def transplant(old: Particles, new: Particles) -> None:
    """Copy all weights of the old particles except those of the output layer."""
    head = f"network.{output_layer(new.network)}."
    kept = {name: tensor for name, tensor in old.state_dict().items() if not name.startswith(head)}
    body = {name: tensor for name, tensor in new.state_dict().items() if not name.startswith(head)}
    wrong = [n for n in (kept | body) if n not in kept or n not in body or kept[n].shape != body[n].shape]
    if wrong:
        raise ValueError(f"the two stages have different networks: {wrong[0]} is not the same in both")
    new.load_state_dict({**new.state_dict(), **kept})


def check_head(particles: Particles, inputs: Tensor) -> None:
    """Raise a ValueError if the last linear layer does not give the outputs: (n, *shape) normalized inputs."""
    network = particles.particle(0).eval()
    name = output_layer(network)
    seen: list[Tensor] = []
    network.get_submodule(name).register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        outputs = network(inputs)
    if not seen or seen[-1].shape != outputs.shape or not torch.equal(seen[-1], outputs):
        raise ValueError(f"the outputs are not those of the network's last linear layer, {name}: define its head last")


def fitting_batch(recipe: Recipe, pool: int) -> int:
    """Return the recipe's `unlabeled_batch`, or as much of it as a pool of this size allows."""
    size = recipe.method.needs.tuple_size if recipe.unlabeled_unit == "tuples" else 1
    return max(1, min(recipe.unlabeled_batch, pool // max(1, size)))


def check_needs(recipe: Recipe, task: Task) -> None:
    """Raise a ValueError for a task that lacks what the method needs."""
    name, needs, has = type(recipe.method).__name__, recipe.method.needs, f"task {task.name!r} has"
    if needs.labels and not len(task.labeled):
        raise ValueError(f"{name} needs labeled inputs, {has} none")
    if needs.views and not len(task.unlabeled):
        raise ValueError(f"{name} needs unlabeled inputs, {has} none")
    if recipe.tuples * needs.tuple_size > len(task.unlabeled):
        wanted = recipe.tuples * needs.tuple_size
        raise ValueError(f"a step takes {wanted} unlabeled inputs, {has} {len(task.unlabeled)}: lower unlabeled_batch")
    if needs.source and (task.source is None or not len(task.source)):
        raise ValueError(f"{name} needs inputs of a source task, {has} none: see refprior.data.Pair")
    if recipe.readout == "consensus" and len(task.unlabeled) < len(task.classes):
        raise ValueError(f"a consensus needs unlabeled inputs, {has} {len(task.unlabeled)}")
    if needs.classes not in (None, 0, len(task.classes)):
        raise ValueError(
            f"class_prior has {needs.classes} numbers, {has} {len(task.classes)} classes: give one for each"
        )
    problem = why_no_folds(recipe, task) if isinstance(recipe.folds, int) else None
    if problem is not None:
        raise ValueError(f"the labels cannot be divided into {recipe.folds} folds: {problem}; set folds=off")
    if needs.enumerates:
        check_labelings(needs.enumerates, len(task.classes))
    drawn = recipe.tuples * needs.tuple_size * len(needs.views) + recipe.labeled_batch + recipe.source_batch
    check_memory(
        4.0 * drawn * math.prod(task.shape),
        f"a step of {drawn:,} inputs",
        "lower labeled_batch or source_batch",
        available=free_memory(task.unlabeled.device),
    )


def _two_inputs(task: Task) -> Tensor:
    """Return two training inputs to try things on, with the smallest and largest token ids if they are tokens."""
    inputs = torch.cat([part[:2] for part in task.training_inputs])[:2]
    if inputs.dtype == torch.int64:
        parts = [part for part in task.training_inputs if len(part)]
        inputs[0] = max((part[part.amax(1).argmax()] for part in parts), key=lambda ids: int(ids.max()))
        inputs[-1] = min((part[part.amin(1).argmin()] for part in parts), key=lambda ids: int(ids.min()))
    return inputs


def check_views(recipe: Recipe, normalizer: Normalizer, task: Task) -> None:
    """Try the views on two inputs: they must keep number and shape."""
    for name, view in {"weak": recipe.weak, "strong": recipe.strong}.items():
        inputs = _two_inputs(task)
        if getattr(view, "normalized", False):
            inputs = normalizer(inputs)
        generator = torch.Generator(inputs.device).manual_seed(0)
        try:
            seen = deepcopy(view)(inputs.clone(), generator)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"the {name} view does not take inputs of {tuple(inputs.shape[1:])}: {error}") from error
        if not isinstance(seen, Tensor) or seen.shape != inputs.shape:
            got = tuple(seen.shape) if isinstance(seen, Tensor) else type(seen).__name__
            raise ValueError(f"the {name} view makes {got} of {tuple(inputs.shape)}: it must keep number and shape")


def check_network(recipe: Recipe, particles: Particles, normalizer: Normalizer, task: Task) -> None:
    """Try the networks on two inputs: they must accept them and give one output per class."""
    inputs = normalizer(_two_inputs(task))
    try:
        with torch.no_grad():
            outputs = particles.eval()(inputs).shape  # in evaluation: batch norm's statistics stay as they are
    except NotLogitsError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        remedy = _remedy(particles, inputs)
        raise ValueError(f"the network does not take inputs of {tuple(inputs.shape[1:])}{remedy}: {error}") from None
    if not recipe.method.needs.projection:  # whose outputs are no classes
        given, classes = outputs[-1], len(task.classes)
        source = len(task.source_classes) if recipe.method.needs.source else 0
        shared = given == classes == source  # by target and source, which otherwise have separate outputs
        if given != classes + source and not shared:
            own = f", its source {source}: {classes + source} outputs give each its own" if source else ""
            raise ValueError(f"the network gives {given} outputs, task {task.name!r} has {classes} classes{own}")
    if len(outputs) != 3:
        raise ValueError(f"the network gives {tuple(outputs[1:])} for {len(inputs)} inputs, not (inputs, classes)")
    if recipe.head != "same":
        check_head(particles, inputs)


def check_activations(recipe: Recipe, particles: Particles, inputs: Tensor) -> None:
    """Raise a ValueError if what a step must store for its backward pass cannot fit: (2, ...) normalized inputs."""
    needs, mesh = recipe.method.needs, particles.mesh
    rows = recipe.labeled_batch * needs.labels + recipe.tuples * max(needs.tuple_size, needs.source_tuple_size)
    network, stored = particles.particle(0).eval(), []
    for count in (1, 2):
        saved = dict[int, int]()  # bytes by place in memory

        def keep(tensor: Tensor, saved: dict[int, int] = saved) -> Tensor:
            saved[tensor.data_ptr() or id(tensor)] = tensor.nbytes
            return tensor

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = network(inputs.repeat(count, *[1] * (inputs.dim() - 1)))
        stored.append(sum(saved.values()))
        del output
    each = (stored[1] - stored[0]) / len(inputs) * (1 if recipe.precision in ("float32", "tf32") else 0.5)
    networks = 1 if recipe.execution == "recomputed" else particles.count // mesh.particle
    here = _process.local_world() if inputs.device.type == "cpu" else 1  # ranks of one machine share its memory
    check_memory(
        each * rows * networks * here / mesh.data,
        f"a step stores the activations of {rows:,} inputs in each of {particles.count:,} particles and",
        "lower labeled_batch or unlabeled_batch, or set execution=recomputed",
        available=free_memory(inputs.device),
    )


def check_distinct(particles: Particles) -> None:
    """Raise a ValueError for particles with the same weights: their gradients would be the same forever."""
    weights = [p.detach() for p in particles.network.parameters()]
    if particles.count == 1 or not weights:
        return
    first = [particles.mesh.broadcast_tensor(w[:1]) for w in weights]
    same = torch.stack([(w == f).flatten(1).all(1) for w, f in zip(weights, first, strict=True)]).all(0)
    count = int(particles.mesh.whole(same.reshape(-1, 1), 1).sum())  # as the first, which is one of them
    if count > 1:
        raise ValueError(
            f"{count} of {particles.count} particles begin with the same weights and stay equal: "
            "network must draw new ones each time, as refprior.networks.Pretrained does on a body; or set particles=1"
        )


def _remedy(particles: Particles, inputs: Tensor) -> str:
    """Suggest what may help a network that rejects its inputs: token ids are integers, all else are floats."""
    embeds = any(isinstance(module, nn.Embedding) for module in particles.modules())
    if embeds and inputs.is_floating_point():
        return ", which are floats: an embedding takes token ids, so give integers (int64) and set inputs=Identity()"
    if not embeds and not inputs.is_floating_point():
        return ", which are whole numbers: set inputs=Standardize(), or give floats"
    return ""


def check_training_fits(recipe: Recipe, mesh: Mesh = ALONE, device: torch.device = CPU) -> None:
    """Raise a ValueError if weights, gradient, moving average and optimizer cannot fit into memory.

    Other devices than the CPU hold a second copy of all but the gradient, to which a block of steps can return.
    """
    stage: Recipe | None = recipe
    while stage is not None:
        here = stage.particles // mesh.particle * (_process.local_world() if device.type == "cpu" else 1)
        copies = 4 + (stage.optimizer.kind != "sgd")
        _check(stage.network, here, copies if device.type == "cpu" else 2 * copies - 1, device)
        stage = stage.start


def check_loading_fits(network: Callable[[], nn.Module], particles: int) -> None:
    """Raise a ValueError if networks that only predict cannot fit into memory."""
    _check(network, particles, _LOADED)


def _check(network: Callable[[], nn.Module], particles: int, copies: int, device: torch.device = CPU) -> None:
    numbers, size = network_size(network)
    check_memory(
        float(copies) * particles * size,
        f"particles={particles:,}, each a network of {numbers:,} numbers,",
        "lower particles, or make the network smaller",
        available=free_memory(device),
    )


def network_size(make: Callable[[], nn.Module]) -> tuple[int, int]:
    """Return how many numbers and bytes one network has, without allocating it if its code allows that."""
    try:
        with torch.device("meta"), _WithoutNormal():
            network = make()
    except (TypeError, RuntimeError, NotImplementedError):
        with torch.random.fork_rng(devices=[]):
            network = Particles(make, 1).network
    if not isinstance(network, nn.Module):
        raise ValueError(f"the function must make a network, an nn.Module; it made a {type(network).__name__}")
    tensors = list(network.state_dict().values())
    return sum(t.numel() for t in tensors), sum(t.numel() * t.element_size() for t in tensors)


class _WithoutNormal(TorchFunctionMode):
    """Initial weights are not drawn: on tensors without memory, the first normal one takes seconds of imports."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if function is Tensor.normal_ or getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else named["tensor"]
        return function(*args, **named)
