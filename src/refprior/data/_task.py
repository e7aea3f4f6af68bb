"""A task: which images are labelled, which are not, and which are kept apart to measure with."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from refprior.data._components import principal_axes

Array = np.ndarray | Tensor
_BLOCK = 1000  # images at a time


@dataclass(frozen=True)
class Examples:
    """Images and their labels."""

    images: Tensor  # (n, *shape), uint8 or floating point
    labels: Tensor  # (n,) int64

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise ValueError(f"{len(self.images)} images but {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Tensor) -> "Examples":
        return Examples(self.images[index], self.labels[index])

    def to(self, device: torch.device) -> "Examples":
        return Examples(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Task:
    """Everything a run may know of its data. The unlabelled pool has no labels, so that nothing can peek."""

    name: str
    classes: tuple[str, ...]
    labelled: Examples
    unlabelled: Tensor  # (n, *shape)
    test: Examples
    validation: Examples | None = None
    source: Examples | None = None  # of another task, to transfer from; labels 0 … source classes - 1
    source_classes: tuple[str, ...] = ()
    centre: Literal["channel", "pixel"] = "channel"  # pixel: the mean image is taken away, not only its mean value
    scale: float = 1.0  # standard deviation of normalised images, or of the first component
    components: int = 0  # so many principal components take the place of the pixels; 0: the pixels
    whitening: float = 0.25  # of components, 0 … 1: variances go with the power 1 - whitening of what they were
    mean: Tensor = field(init=False)  # (channels,), or (*shape) by pixel, of all images to train with
    std: Tensor = field(init=False)  # (channels,)
    axes: Tensor | None = field(init=False, default=None)  # (pixels, components)

    def __post_init__(self) -> None:
        parts = {"labelled": self.labelled, "test": self.test, "validation": self.validation}
        for name, part in parts.items():
            if part is not None:
                self.check_images(name, part.images)
                check_labels(name, part.labels, len(self.classes))
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be above 0, got {self.scale}")
        if self.centre not in ("channel", "pixel"):
            raise ValueError(f"centre must be 'channel' or 'pixel', got {self.centre!r}")
        if not len(self.test):
            raise ValueError(f"task {self.name!r} has no test images to measure with")
        if not len(self.labelled) and not len(self.unlabelled):
            raise ValueError(f"task {self.name!r} has neither labelled nor unlabelled images")
        if self.source is not None:
            self.check_images("source", self.source.images)
            check_labels("source", self.source.labels, len(self.source_classes))
        missing = set(range(len(self.classes))) - set(self.labelled.labels.tolist())
        if missing and len(self.labelled):  # none at all is a task for methods that need none
            raise ValueError(f"need a label of each class, missing {sorted(missing)} of {len(self.classes)}")
        if len(self.unlabelled):
            self.check_images("unlabelled", self.unlabelled)
        seen = [self.labelled.images, self.unlabelled, *([self.source.images] if self.source is not None else [])]
        mean, std = _statistics(*seen)
        if self.centre == "pixel":
            mean = _mean_image(*seen).to(mean.dtype)
            within = std.square() - mean.flatten(1).var(1, correction=0)  # of the total, what is not between pixels
            std = torch.where(within > 1e-12, within, torch.ones_like(within)).sqrt()
        if self.components:
            mean, axes = principal_axes(seen, self.components, self.whitening)
            object.__setattr__(self, "axes", axes * self.scale)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.labelled.images.shape[1:])

    def normalise(self, images: Tensor) -> Tensor:
        """To floats with mean 0 and standard deviation `scale` a channel over the images to train with: (n, *shape).

        With `components`: to those, the first with the standard deviation `scale`, (n, components).
        """
        if self.axes is not None:
            axes, mean = self.axes.to(images.device), self.mean.to(images.device)
            return (images.to(mean.dtype) - mean).flatten(1) @ axes
        lead = (-1, *[1] * (images.dim() - 2))
        mean = self.mean if self.centre == "pixel" else self.mean.reshape(lead)
        mean, std = mean.to(images.device), self.std.to(images.device).reshape(lead)
        return (images.to(mean.dtype) - mean) / (std / self.scale)

    def to(self, device: torch.device) -> "Task":
        """The same task with its images on another device."""
        moved = copy(self)  # not made anew: that would read all images for their statistics again
        for name in ("labelled", "unlabelled", "test", "validation", "source"):
            part = getattr(self, name)
            object.__setattr__(moved, name, part.to(device) if part is not None else None)
        return moved

    def check_images(self, name: str, images: Tensor) -> None:
        """Refuse images of another shape or type than the labelled ones."""
        if tuple(images.shape[1:]) != self.shape:
            raise ValueError(f"{name} images are {tuple(images.shape[1:])}, labelled {self.shape}")
        if images.dtype != self.labelled.images.dtype:
            raise ValueError(f"{name} images are {images.dtype}, labelled {self.labelled.images.dtype}")


def task_from_arrays(
    labelled: tuple[Array, Array],
    unlabelled: Array,
    test: tuple[Array, Array],
    validation: tuple[Array, Array] | None = None,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
) -> Task:
    """A task from the user's own arrays or tensors: images (n, channels, height, width), uint8 or float, and integer
    labels."""
    known = examples("labelled", *labelled)
    return Task(
        name,
        tuple(classes) if classes is not None else numbered("labelled", known.labels.numpy()),
        known,
        _images("unlabelled", unlabelled),
        examples("test", *test),
        examples("validation", *validation) if validation is not None else None,
    )


def examples(name: str, images: Array, labels: Array) -> Examples:
    """Checked images and labels; `name` is what an error calls them."""
    values = _array(labels)
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name} labels must be integers, got {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"{name} labels must be a row of numbers, got {values.shape}")
    return Examples(_images(name, images), torch.from_numpy(values.astype(np.int64)))


def _images(name: str, images: Array) -> Tensor:
    values = _array(images)
    if values.dtype == np.uint8:
        return torch.from_numpy(values.copy())
    if not np.issubdtype(values.dtype, np.floating):
        raise ValueError(f"{name} images must be uint8 or floats, got {values.dtype}")
    finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if not finite.all():
        raise ValueError(f"{name} image {int(np.argmin(finite))} is not finite ({(~finite).sum()} such images)")
    return torch.from_numpy(values.astype(np.float32))


def _array(values: Array) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def check_labels(name: str, labels: Tensor, classes: int) -> None:
    """Raise for the first label that is not the number of a class."""
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        first = int(outside.nonzero()[0])
        raise ValueError(f"{name} label {int(labels[first])} at index {first} is outside 0 … {classes - 1}")


def numbered(name: str, labels: np.ndarray) -> tuple[str, ...]:
    """Classes named by their numbers 0 … largest label; each needs an example, so there are no more than labels."""
    largest = int(labels.max()) if len(labels) else -1
    if largest >= len(labels):
        at = int(labels.argmax())
        raise ValueError(f"{name} label {largest} at index {at} needs {largest + 1} classes, of {len(labels)} examples")
    return tuple(str(c) for c in range(largest + 1))


def _statistics(*parts: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all parts: (n, channels, ...) -> (channels,), (channels,).

    In blocks, and in double precision: CIFAR-10 as floats would take 600 MB, and long sums of floats lose digits.
    """
    count, total, square = 0, torch.zeros(()), torch.zeros(())
    for block in (block for part in parts if len(part) for block in part.split(_BLOCK)):
        flat = block.double().transpose(0, 1).flatten(1)
        count, total, square = count + flat.shape[1], total + flat.sum(1), square + flat.square().sum(1)
    mean = total / count
    std = (square / count - mean.square()).clamp(min=0).sqrt()
    dtype = torch.float64 if parts[0].dtype == torch.float64 else torch.float32
    return mean.to(dtype), torch.where(std > 1e-6, std, torch.ones_like(std)).to(dtype)


def _mean_image(*parts: Tensor) -> Tensor:
    """The mean over all images of all parts, in blocks as above: (n, *shape) -> (*shape)."""
    blocks = [block for part in parts if len(part) for block in part.split(_BLOCK)]
    total = torch.stack([block.double().sum(0) for block in blocks]).sum(0)
    return total / sum(len(block) for block in blocks)
