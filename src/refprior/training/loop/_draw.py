"""Everything that is drawn while training: batches, and the global generators of torch, numpy and Python.

A batch is indices from endless streams, then views, then normalization. If no view needs inputs as they are stored, all
of them are normalized once, before the first step. Networks (dropout) and custom views may draw from the global
generators.
"""

# ruff: noqa: NPY002 (numpy's legacy generator is its global one)

import math
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from refprior._process import available_memory
from refprior.data import Examples, Normalizer, Task
from refprior.information import log_likelihood
from refprior.methods import Batch, Needs, Views
from refprior.training.recipe import Recipe
from refprior.views import Learning, Unchanged, View

_BLOCK = 1024  # inputs that are normalized at a time
Normalize = Callable[[Tensor], Tensor]  # (n, *shape) -> (n, ...) what the network sees
Predict = Callable[[Tensor], Tensor]  # (n, *shape) inputs as they are stored -> (n, C) log-probabilities


class Stream:
    """Indices 0 … size - 1 in random order, forever. The generator owns the randomness.

    copies: that many of each index are shuffled together in a pass. With one, the indices of a small pool hardly repeat
    within a batch; with many they do almost as in draws with replacement.
    """

    def __init__(self, size: int, generator: torch.Generator, copies: int = 1) -> None:
        if size < 1:
            raise ValueError("cannot draw from an empty pool")
        self.size = size
        self.copies = copies
        self.generator = generator
        self.waiting = torch.empty(0, dtype=torch.int64, device=generator.device)  # the rest of the current pass

    def take(self, *shape: int) -> Tensor:
        """The next indices, in any shape; (B, N) gives B tuples of N.

        Only a tuple that lies across the end of a pass can hold an index twice.
        """
        count = torch.Size(shape).numel()
        parts, ready = [self.waiting], len(self.waiting)
        while ready < count:
            length = self.size * self.copies
            shuffled = torch.randperm(length, generator=self.generator, device=self.generator.device)
            parts.append(shuffled % self.size if self.copies > 1 else shuffled)
            ready += length
        together = torch.cat(parts)
        taken, self.waiting = together[:count], together[count:]
        return taken.reshape(shape)

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint must keep: the rest of the current pass and the generator's state.

        Streams that share a generator save its state each; restored together they agree.
        """
        return {"waiting": self.waiting.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue exactly where `state_dict` was called."""
        waiting = state["waiting"]
        if len(waiting) and not 0 <= int(waiting.min()) <= int(waiting.max()) < self.size:
            raise ValueError(f"the saved stream reaches index {int(waiting.max())}, this pool has {self.size} inputs")
        self.waiting = waiting.to(self.generator.device, copy=True)
        self.generator.set_state(state["generator"])


@dataclass
class Sampler:
    """Draws batches; holds everything about drawing that changes while training."""

    streams: dict[str, Stream]  # one per part of the task that is drawn from: labeled, unlabeled, source
    generator: torch.Generator  # for views and methods, on the device of the inputs
    weak: View
    strong: View  # copies: a view may learn
    positions: Tensor | None = None  # of the pool to draw from; None: all

    def draw(self, recipe: Recipe, data: "PreparedData", predict: Predict) -> Batch:
        """Return the next batch. predict: gives a learning view the probabilities of its probes."""
        needs = recipe.method.needs
        labeled_index, chosen = self._take(data.labeled, "labeled", recipe.labeled_batch)
        labeled = self._weak(chosen.inputs, data.normalize)
        if "unlabeled" in self.streams and isinstance(self.strong, Learning) and len(chosen):
            inputs, policy = self.strong.probe(chosen.inputs, self.generator)
            self.strong.update(policy, log_likelihood(predict(inputs), chosen.labels).exp())
        index, views = self._unlabeled(recipe, data)
        count = recipe.tuples * needs.source_tuple_size or recipe.source_batch
        _, source = self._take(data.source, "source", count)
        return Batch(
            labeled=labeled,
            labels=chosen.labels,
            labeled_index=labeled_index,
            views=views,
            index=index,
            source=self._weak(source.inputs, data.normalize),
            source_labels=source.labels,
        )

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Return everything that changes, by part."""
        views = {"weak": self.weak, "strong": self.strong}
        return {
            **{name: stream.state_dict() for name, stream in self.streams.items()},
            "drawing": {"generator": self.generator.get_state()},
            **{name: view.state_dict() if hasattr(view, "state_dict") else {} for name, view in views.items()},
        }

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Continue exactly where `state_dict` was called."""
        for name, stream in self.streams.items():
            stream.load_state_dict(state[name])
        for name, view in {"weak": self.weak, "strong": self.strong}.items():
            if hasattr(view, "load_state_dict"):
                view.load_state_dict(state[name])
        self.generator.set_state(state["drawing"]["generator"])

    def _unlabeled(self, recipe: Recipe, data: "PreparedData") -> tuple[Tensor, Views]:
        """Return places in the pool and the views that the method needs, by name: (n,), (n, ...) each."""
        needs, device = recipe.method.needs, data.unlabeled.device
        if "unlabeled" not in self.streams:
            return torch.empty(0, dtype=torch.int64, device=device), Views()
        drawn = self.streams["unlabeled"].take(recipe.tuples * needs.tuple_size)
        index = to_device(drawn if self.positions is None else self.positions[drawn], device)
        inputs = data.unlabeled.index_select(0, index)  # copies whole inputs, unlike unlabeled[index]
        kinds: dict[str, View] = {"clean": Unchanged(), "weak": self.weak, "strong": self.strong}
        pairs = zip(needs.view_names, needs.views, strict=True)
        return index, Views({name: see(kinds[kind], inputs, data.normalize, self.generator) for name, kind in pairs})

    def _weak(self, inputs: Tensor, normalizer: Normalize) -> Tensor:
        return see(self.weak, inputs, normalizer, self.generator) if len(inputs) else normalizer(inputs)

    def _take(self, part: Examples, name: str, count: int) -> tuple[Tensor, Examples]:
        """Return positions and examples of the next draw from a part; none of a part that is not drawn from."""
        stream = self.streams.get(name)
        device = part.inputs.device
        index = torch.arange(0, device=device) if stream is None else to_device(stream.take(count), device)
        return index, Examples(part.inputs.index_select(0, index), part.labels.index_select(0, index))


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device, to CUDA from pinned memory: the host need not wait for it."""
    if device.type == "cuda" and values.device.type == "cpu":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def see(view: View, inputs: Tensor, normalizer: Normalize, generator: torch.Generator) -> Tensor:
    """Apply a view and normalize, or normalize first if the view declares that it takes normalized inputs."""
    if getattr(view, "normalized", False):
        return view(normalizer(inputs), generator)
    return normalizer(view(inputs, generator))


@dataclass(frozen=True)
class PreparedData:
    """The inputs that batches are drawn from, and the normalization that each batch still needs."""

    labeled: Examples
    unlabeled: Tensor
    source: Examples  # empty if the task has none
    normalize: Normalize

    @classmethod
    def stored(cls, task: Task, normalizer: Normalizer) -> "PreparedData":
        """Take the inputs as they are stored: every batch is normalized after its views."""
        none = Examples(task.labeled.inputs[:0], task.labeled.labels[:0])
        return cls(task.labeled, task.unlabeled, none if task.source is None else task.source, normalizer)


def prepare_data(recipe: Recipe, task: Task, normalizer: Normalizer) -> PreparedData:
    """Normalize all inputs once, if that changes no batch and pays.

    Inputs stay as they are stored if a view needs them so, if a run draws fewer inputs than there are, if they do not
    fit into half of the free memory (for a moment they are there twice), or if they are on another device.
    """
    stored = PreparedData.stored(task, normalizer)
    sizes, drawn = part_sizes(recipe.method.needs, task), recipe.labeled_batch + recipe.source_batch
    pool = recipe.tuples * recipe.method.needs.tuple_size * max(1, len(recipe.method.needs.views))
    raw = any(
        type(view) is not Unchanged and (not getattr(view, "normalized", False) or isinstance(view, Learning))
        for view in (recipe.weak, recipe.strong)
    )
    if raw or task.unlabeled.device.type != "cpu" or sum(sizes.values()) > recipe.steps * (drawn + pool):
        return stored
    example = normalizer(next(part for part in task.training_inputs if len(part))[:1])
    if sum(sizes.values()) * math.prod(example.shape[1:]) * example.element_size() > available_memory() / 2:
        return stored

    def normalized(name: str, inputs: Tensor) -> Tensor:
        used = inputs if name in sizes else inputs[:0]
        return torch.cat([normalizer(block) for block in used.split(_BLOCK)])

    def examples(name: str, part: Examples) -> Examples:
        return Examples(normalized(name, part.inputs), part.labels if name in sizes else part.labels[:0])

    return PreparedData(
        labeled=examples("labeled", stored.labeled),
        unlabeled=normalized("unlabeled", stored.unlabeled),
        source=examples("source", stored.source),
        normalize=lambda inputs: inputs,
    )


def part_sizes(needs: Needs, task: Task) -> dict[str, int]:
    """Return the sizes of the parts of the task that a method draws from."""
    sizes = {
        "labeled": len(task.labeled) if needs.labels else 0,
        "unlabeled": len(task.unlabeled) if needs.views else 0,
        "source": len(task.source) if needs.source and task.source is not None else 0,
    }
    return {name: size for name, size in sizes.items() if size}


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators for a run and restore them after it."""
    restore = remember_randomness(device)
    try:
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        yield
    finally:
        restore()


@contextmanager
def arithmetic(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Set what CUDA may give up for speed: the digits that TF32 drops, and the same sums in each run."""
    if device.type != "cuda":
        yield
        return
    cudnn, matmul, exact = torch.backends.cudnn, torch.backends.cuda.matmul, recipe.deterministic
    flags = [(cudnn, "benchmark"), (cudnn, "deterministic"), (cudnn, "allow_tf32"), (matmul, "allow_tf32")]
    before = [getattr(place, name) for place, name in flags]
    enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if exact:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without which cuBLAS may add in any order
    tf32 = recipe.precision == "tf32"
    try:
        for (place, name), value in zip(flags, (not exact, exact, tf32, tf32), strict=True):
            setattr(place, name, value)
        torch.use_deterministic_algorithms(exact)
        yield
    finally:
        for (place, name), value in zip(flags, before, strict=True):
            setattr(place, name, value)
        torch.use_deterministic_algorithms(enabled, warn_only=warns)


def remember_randomness(device: torch.device) -> Callable[[], None]:
    """Return a function that restores all global generators to their state now; cheap enough for every step."""
    ours, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore() -> None:
        torch.set_rng_state(ours)
        np.random.set_state(numpys)
        random.setstate(pythons)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda, device)

    return restore


def randomness_state(device: torch.device) -> dict[str, Tensor]:
    """Return the states of all global generators; those of numpy and Python as numbers, which float64 holds exactly."""
    _, keys, *rest = cast(tuple[Any, ...], np.random.get_state(legacy=True))
    version, twister, normal = random.getstate()
    states = {
        "torch": torch.get_rng_state(),
        "numpy": torch.tensor([*keys.tolist(), *rest], dtype=torch.float64),
        "python": torch.tensor([version, *twister, normal is not None, normal or 0.0], dtype=torch.float64),
    }
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def load_randomness(states: dict[str, Tensor], device: torch.device) -> None:
    """Continue exactly where `randomness_state` was called."""
    *keys, position, has_normal, normal = states["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), int(position), int(has_normal), normal))
    version, *twister, has_normal, normal = states["python"].tolist()
    random.setstate((int(version), tuple(map(int, twister)), normal if has_normal else None))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
