"""Drawing batches: indices from endless streams, then views, then normalization.

Where no view looks at inputs as they are stored, all of them are normalized once, before the first step.
"""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from refprior._process import available_memory
from refprior.data import Examples, Normalizer, Task
from refprior.data._stream import Stream
from refprior.information import log_likelihood
from refprior.methods import Batch, Needs, Views
from refprior.training.recipe import Recipe
from refprior.views import Learning, Unchanged, View

_BLOCK = 1024  # inputs that are normalized at a time
Normalize = Callable[[Tensor], Tensor]  # (n, *shape) -> (n, ...) what the network sees
Predict = Callable[[Tensor], Tensor]  # (n, *shape) inputs as they are stored -> (n, C) log-probabilities


@dataclass
class Sampler:
    """Where batches come from: everything about drawing that changes while training."""

    streams: dict[str, Stream]  # one per part of the task that is drawn from: labeled, unlabeled, source
    generator: torch.Generator  # for views and methods, on the device of the inputs
    weak: View
    strong: View  # own copies: a view may learn

    def draw(self, recipe: Recipe, task: Task, normalizer: Normalize, predict: Predict) -> Batch:
        """The next batch. predict: what a view that learns is told about."""
        needs, chosen = recipe.method.needs, self._take(task.labeled, "labeled", recipe.labeled_batch)
        labeled = self._weak(chosen.inputs, normalizer)
        if "unlabeled" in self.streams and isinstance(self.strong, Learning) and len(chosen):
            teach(self.strong, chosen, predict, self.generator)
        index, views = self._unlabeled(recipe, task, normalizer)
        count = recipe.tuples * needs.source_tuple_size or recipe.source_batch
        source = self._take(task.labeled if task.source is None else task.source, "source", count)
        return Batch(
            labeled=labeled,
            labels=chosen.labels,
            views=views,
            index=index,
            source=self._weak(source.inputs, normalizer),
            source_labels=source.labels,
        )

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """All of it that changes, by part."""
        views = {"weak": self.weak, "strong": self.strong}
        return {
            **{name: stream.state_dict() for name, stream in self.streams.items()},
            "drawing": {"generator": self.generator.get_state()},
            **{name: view.state_dict() if hasattr(view, "state_dict") else {} for name, view in views.items()},
        }

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Go on exactly where `state_dict` was called."""
        for name, stream in self.streams.items():
            stream.load_state_dict(state[name])
        for name, view in {"weak": self.weak, "strong": self.strong}.items():
            if hasattr(view, "load_state_dict"):
                view.load_state_dict(state[name])
        self.generator.set_state(state["drawing"]["generator"])

    def _unlabeled(self, recipe: Recipe, task: Task, normalizer: Normalize) -> tuple[Tensor, Views]:
        """Places in the pool, and the views that the method needs, by name: (n,), (n, ...) each."""
        needs, device = recipe.method.needs, task.unlabeled.device
        if "unlabeled" not in self.streams:
            return torch.empty(0, dtype=torch.int64, device=device), Views()
        index = self.streams["unlabeled"].take(recipe.tuples * needs.tuple_size).to(device)
        images = task.unlabeled.index_select(0, index)  # copies whole inputs, unlike unlabeled[index]
        kinds: dict[str, View] = {"clean": Unchanged(), "weak": self.weak, "strong": self.strong}
        pairs = zip(needs.view_names, needs.views, strict=True)
        return index, Views({name: see(kinds[kind], images, normalizer, self.generator) for name, kind in pairs})

    def _weak(self, images: Tensor, normalizer: Normalize) -> Tensor:
        return see(self.weak, images, normalizer, self.generator) if len(images) else normalizer(images)

    def _take(self, part: Examples, name: str, count: int) -> Examples:
        """The next examples of a part; none of a part that is not drawn from."""
        stream = self.streams.get(name)
        index = torch.arange(0) if stream is None else stream.take(count)
        index = index.to(part.inputs.device)
        return Examples(part.inputs.index_select(0, index), part.labels.index_select(0, index))


def see(view: View, images: Tensor, normalizer: Normalize, generator: torch.Generator) -> Tensor:
    """A view, normalized: of inputs as they are stored, or of what the network sees if the view declares that."""
    if getattr(view, "normalized", False):
        return view(normalizer(images), generator)
    return normalizer(view(images, generator))


def prepared(recipe: Recipe, task: Task, normalizer: Normalizer) -> tuple[Task, Normalize]:
    """The task to draw from, and what is left to do to its inputs: nothing, if they could be normalized already.

    They are not if a view needs them as they are stored, if a run draws fewer inputs than there are, or if they do not
    fit into half of the free memory (for a moment they are there twice), or if they are on another device.
    """
    sizes, drawn = part_sizes(recipe.method.needs, task), recipe.labeled_batch + recipe.source_batch
    pool = recipe.tuples * recipe.method.needs.tuple_size * max(1, len(recipe.method.needs.views))
    raw = any(not _takes_normalized(view) for view in (recipe.weak, recipe.strong))
    if raw or task.unlabeled.device.type != "cpu" or sum(sizes.values()) > recipe.steps * (drawn + pool):
        return task, normalizer
    example = normalizer(next(part for part in task.training_inputs if len(part))[:1])
    if sum(sizes.values()) * math.prod(example.shape[1:]) * example.element_size() > available_memory() / 2:
        return task, normalizer
    ready = copy(task)  # not a checked task: its other parts are as they were
    for name in ("labeled", "unlabeled", "source"):
        part = getattr(task, name)
        if part is not None:
            object.__setattr__(ready, name, _normalized(part if name in sizes else part[:0], normalizer))
    return ready, _as_it_is


def _takes_normalized(view: View) -> bool:
    return type(view) is Unchanged or (getattr(view, "normalized", False) and not isinstance(view, Learning))


def _normalized(part: Examples | Tensor, normalizer: Normalizer) -> Examples | Tensor:
    if isinstance(part, Examples):
        return Examples(_all(part.inputs, normalizer), part.labels)
    return _all(part, normalizer)


def _all(images: Tensor, normalizer: Normalizer) -> Tensor:
    return torch.cat([normalizer(block) for block in images.split(_BLOCK)])


def _as_it_is(inputs: Tensor) -> Tensor:
    return inputs


def part_sizes(needs: Needs, task: Task) -> dict[str, int]:
    """The sizes of the parts of the task that a method draws from."""
    sizes = {
        "labeled": len(task.labeled) if needs.labels else 0,
        "unlabeled": len(task.unlabeled) if needs.views else 0,
        "source": len(task.source) if needs.source and task.source is not None else 0,
    }
    return {name: size for name, size in sizes.items() if size}


def teach(view: Learning, labeled: Examples, predict: Predict, generator: torch.Generator) -> None:
    """Tell a view that learns what probability the moving average gives to the true classes of its probes."""
    images, policy = view.probe(labeled.inputs, generator)
    view.update(policy, log_likelihood(predict(images), labeled.labels).exp())
