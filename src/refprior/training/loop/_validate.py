"""Whether a recipe fits its task: everything that can be refused before the first step, in one place."""

import math
from copy import deepcopy

import torch
from torch import Tensor, nn

from refprior._process import check_memory
from refprior.data import Normalizer, Task
from refprior.information import check_labelings
from refprior.methods import Loss, Method
from refprior.particles import NotLogitsError, Particles
from refprior.training.loop._stages import check_head
from refprior.training.recipe import Recipe


def fitting_batch(recipe: Recipe, pool: int) -> int:
    """The recipe's `unlabeled_batch`, or as much of it as a pool of so many inputs has."""
    size = recipe.method.needs.tuple_size if recipe.unlabeled_unit == "tuples" else 1
    return max(1, min(recipe.unlabeled_batch, pool // max(1, size)))


def check_needs(recipe: Recipe, task: Task) -> None:
    """Refuse a task that lacks what the method declares to need."""
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
    if needs.enumerates:
        check_labelings(needs.enumerates, len(task.classes))
    drawn = recipe.tuples * needs.tuple_size * len(needs.views) + recipe.labeled_batch + recipe.source_batch
    check_memory(
        4.0 * drawn * math.prod(task.shape), f"a step of {drawn:,} inputs", "lower labeled_batch or source_batch"
    )


def _two_inputs(task: Task) -> Tensor:
    """Two inputs to try things on, of those that training may look at; with the ends of token ids if they are such."""
    images = torch.cat([part[:2] for part in task.training_inputs])[:2]
    if images.dtype == torch.int64:
        parts = [part for part in task.training_inputs if len(part)]
        images[0] = max((part[part.amax(1).argmax()] for part in parts), key=lambda ids: int(ids.max()))
        images[-1] = min((part[part.amin(1).argmin()] for part in parts), key=lambda ids: int(ids.min()))
    return images


def check_views(recipe: Recipe, normalizer: Normalizer, task: Task) -> None:
    """Try the views on two inputs: whether they give as many of the same shape back."""
    for name, view in {"weak": recipe.weak, "strong": recipe.strong}.items():
        images = _two_inputs(task)
        if getattr(view, "normalized", False):
            images = normalizer(images)
        generator = torch.Generator(images.device).manual_seed(0)
        try:
            seen = deepcopy(view)(images.clone(), generator)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"the {name} view does not take inputs of {tuple(images.shape[1:])}: {error}") from error
        if not isinstance(seen, Tensor) or seen.shape != images.shape:
            got = tuple(seen.shape) if isinstance(seen, Tensor) else type(seen).__name__
            raise ValueError(f"the {name} view makes {got} of {tuple(images.shape)}: it must keep number and shape")


def check_network(recipe: Recipe, particles: Particles, normalizer: Normalizer, task: Task) -> None:
    """Try the networks on two inputs: whether they take them, and give as many outputs as there are classes."""
    inputs = normalizer(_two_inputs(task))
    try:
        with torch.no_grad():
            outputs = particles.eval()(inputs).shape  # in evaluation: batch norm's statistics stay as they are
    except NotLogitsError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        remedy = _remedy(particles, inputs)
        raise ValueError(f"the network does not take inputs of {tuple(inputs.shape[1:])}{remedy}: {error}") from None
    _check_outputs(recipe, task, outputs[-1])
    if len(outputs) != 3:
        raise ValueError(f"the network gives {tuple(outputs[1:])} for {len(inputs)} inputs, not (inputs, classes)")
    if recipe.head != "same":
        check_head(particles, inputs)


def check_distinct(particles: Particles) -> None:
    """Refuse particles with the same weights: they would see the same gradients and stay the same."""
    weights = [p.detach() for p in particles.network.parameters()]
    if particles.count == 1 or not weights:
        return
    first = [particles.mesh.of_first(w[:1]) for w in weights]
    same = torch.stack([(w == f).flatten(1).all(1) for w, f in zip(weights, first, strict=True)]).all(0)
    count = int(particles.mesh.whole(same.reshape(-1, 1), 1).sum())  # as the first, which is one of them
    if count > 1:
        raise ValueError(
            f"{count} of {particles.count} particles begin with the same weights and stay equal: "
            "network must draw new ones each time, as refprior.networks.Pretrained does on a body; or say particles=1"
        )


def _remedy(particles: Particles, inputs: Tensor) -> str:
    """What may help a network that does not take its inputs: token ids are whole numbers, all else are floats."""
    embeds = any(isinstance(module, nn.Embedding) for module in particles.modules())
    if embeds and inputs.is_floating_point():
        return ", which are floats: an embedding takes token ids, so give integers (int64) and say inputs=Identity()"
    if not embeds and not inputs.is_floating_point():
        return ", which are whole numbers: say inputs=Standardize(), or give floats"
    return ""


def _check_outputs(recipe: Recipe, task: Task, outputs: int) -> None:
    """As many as classes, shared with the source if that has as many; or as many as target and source have together."""
    if recipe.method.needs.projection:
        return  # outputs are no classes
    classes, source = len(task.classes), len(task.source_classes) if recipe.method.needs.source else 0
    if outputs == classes and source in (0, classes):
        return
    if not source or outputs != classes + source:
        own = f", its source {source}: {classes + source} outputs give each its own" if source else ""
        raise ValueError(f"the network gives {outputs} outputs, task {task.name!r} has {classes} classes{own}")


def check_result(method: Method, loss: Loss, memory: dict[str, Tensor]) -> None:
    """Refuse what a method may not return or remember; cheap enough for every step."""
    name = type(method).__name__
    if not isinstance(loss, Loss):
        raise ValueError(f"{name} must return a Loss, got a {type(loss).__name__}: return rp.Loss.of(total, …)")
    sizes = {"total": loss.total, **loss.terms}
    wrong = next((n for n, value in sizes.items() if not isinstance(value, Tensor) or value.numel() != 1), None)
    if wrong is not None:
        raise ValueError(f"{name}: {wrong} of the loss must be a single number; take its mean")
    for key, value in memory.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"a method remembers tensors only: memory[{key!r}] is a {type(value).__name__}")
